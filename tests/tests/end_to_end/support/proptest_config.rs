//! Configuration of property tests: random, and the same in every run.

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Returns a config with `cases` cases of one fixed seed, without a file of failures, because they are reproducible
/// anyway.
pub(crate) fn with_cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..ProptestConfig::default() }
}
