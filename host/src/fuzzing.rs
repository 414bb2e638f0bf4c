//! Entry points of fuzz targets: one function per source of untrusted bytes.
//!
//! Each accepts any bytes, and must return: a panic or a failed assertion is a bug. The fuzz targets of the
//! repository's `fuzz/` call them with generated input, and the tests below with their seeds and random bytes. The
//! module is compiled for these two only. The assertions are beside what they are about, in modules `fuzzing`.

use crate::{catalog, config, plugin, uri};

/// Parses a client's URI, a provider's path, a mount, a template, a glob.
pub fn uri(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    uri::fuzzing::uri(text);
    config::fuzzing::glob(text);
}

/// Parses a config file. The files that it names do not exist, and there are no environment variables.
pub fn config(data: &[u8]) {
    config::fuzzing::config(&String::from_utf8_lossy(data));
}

/// Opens a client's cursor, which must be rejected as nobody sealed it, and seals and opens a provider's cursor.
pub fn cursor(data: &[u8]) {
    catalog::fuzzing::cursor(&String::from_utf8_lossy(data));
}

/// The bound in bytes on the host memory taken by an answer of [`reply`] and its validated form: `limits.memory` of its
/// plugin.
pub const REPLY_MEMORY: u64 = plugin::fuzzing::MEMORY_LIMIT;

/// Validates a guest's answer that is derived from the bytes.
pub fn reply(data: &[u8]) {
    plugin::fuzzing::reply(data);
}

/// Parses a client's message, in every revision, with all extensions and with none.
#[cfg(any(feature = "http", feature = "stdio"))]
pub fn message(data: &[u8]) {
    crate::server::fuzzing::message(data);
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 5] =
        [("config", config), ("cursor", cursor), ("message", message), ("reply", reply), ("uri", uri)];

    #[test]
    fn no_seed_does_harm() {
        for (name, target) in TARGETS {
            let seeds = fs::read_dir(Path::new("../fuzz/seeds").join(name)).unwrap();
            let seeds: Vec<_> = seeds.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
            assert!(!seeds.is_empty(), "{name}");
            seeds.iter().for_each(|seed| target(seed));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn no_bytes_do_harm(data in prop::collection::vec(any::<u8>(), 0..400)) {
            TARGETS.iter().for_each(|(_, target)| target(&data));
        }
    }
}
