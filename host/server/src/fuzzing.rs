//! Entry points of fuzz targets: one function per source of untrusted bytes.
//!
//! Each accepts any bytes, and must return: a panic or a failed assertion is a bug. The fuzz targets of the
//! repository's `fuzz/` call them with generated input, and the tests below with their seeds and random bytes. The
//! module is compiled for these two only. The assertions are next to the tested code, in modules `fuzzing` of the
//! crates.

use mcp_host_config::Extension;
use mcp_host_engine::plugin::{Needs, fuzzing as plugin};

use crate::jsonrpc;
use crate::revision::Revision;

/// Parses a client's URI, a provider's path, a mount, a template, a glob.
pub fn uri(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    mcp_host_model::uri::fuzzing::uri(text);
    mcp_host_config::fuzzing::glob(text);
}

/// Parses a config file. The files that it names do not exist, and there are no environment variables.
pub fn config(data: &[u8]) {
    mcp_host_config::fuzzing::config(&String::from_utf8_lossy(data));
}

/// Parses a lock of components from registries.
pub fn lock(data: &[u8]) {
    mcp_host_config::fuzzing::lock(&String::from_utf8_lossy(data));
}

/// Parses a provider's declaration of its needs.
pub fn needs(data: &[u8]) {
    match Needs::parse(data) {
        Ok(needs) => {
            let written = serde_json::to_vec(&needs).unwrap_or_default();
            assert!(Needs::parse(&written).is_ok(), "they are read as they are published: {needs:?}");
        }
        Err(error) => assert!(!error.warning().contains(['\u{1b}', '\u{202e}', '\0']), "{}", error.warning()),
    }
}

/// Opens a client's cursor, which must be rejected because the host did not seal it, and seals and opens a provider's
/// cursor.
pub fn cursor(data: &[u8]) {
    mcp_resource_host::fuzzing::cursor(&String::from_utf8_lossy(data));
}

/// The bound in bytes on the host memory taken by an answer of [`reply`] and its validated form: `limits.memory` of its
/// plugin.
pub const REPLY_MEMORY: u64 = plugin::MEMORY_LIMIT;

/// Validates a guest's answer that is derived from these bytes.
pub fn reply(data: &[u8]) {
    plugin::reply(data);
}

/// Parses a client's message, in every revision, with all extensions and with none.
pub fn message(data: &[u8]) {
    for (revision, on) in
        [(None, &[][..]), (Some(Revision::V2025_03_26), &Extension::ALL), (Some(Revision::LATEST), &[])]
    {
        if let Err(rejection) = jsonrpc::parse(data, revision, on) {
            assert!(rejection.into_response().to_json().len() < 16 << 10, "what is refused is not repeated");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    type Target = fn(&[u8]);

    const TARGETS: [(&str, Target); 7] = [
        ("config", config),
        ("cursor", cursor),
        ("lock", lock),
        ("message", message),
        ("needs", needs),
        ("reply", reply),
        ("uri", uri),
    ];

    #[test]
    fn no_seed_does_harm() {
        for (name, target) in TARGETS {
            let seeds = fs::read_dir(Path::new("../../fuzz/seeds").join(name)).unwrap();
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
