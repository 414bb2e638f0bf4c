//! What is left to chance in a test, the same in every run.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// So many cases of one seed, with nothing kept of those that fail: they come again.
pub(crate) fn with_cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}
