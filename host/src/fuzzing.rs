//! Entry points of fuzz targets: one function per source of untrusted bytes.
//!
//! Each accepts any bytes, and must return: a panic or a failed assertion is a bug. The fuzz targets of the
//! repository's `fuzz/` call them with generated input, and the tests below with their seeds and random bytes. The
//! module is compiled for these two only.

#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::path::Path;
use std::sync::LazyLock;

use crate::catalog;
use crate::config::diagnostics::RenderStyle;
use crate::config::{Config, Environment, UriGlob};
use crate::plugin;
use crate::uri::{MAX_URI_LEN, Mount, Router};

/// Mounts of every kind: a host, a path prefix, no host, all hosts.
static ROUTER: LazyLock<Router<()>> = LazyLock::new(|| {
    let mounts = ["git://linux/", "files://h/a/", "notes:///", "web://"];
    Router::new(mounts.map(|mount| (mount.parse().expect("a mount"), ()))).expect("they do not overlap")
});

/// Parses a client's URI, a provider's path, a mount, a template, a glob.
pub fn uri(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    if let Ok(routed) = ROUTER.route(text) {
        assert!(routed.uri.as_str().starts_with(routed.mount.as_str()), "a URI begins with its mount");
        assert_eq!(ROUTER.route(routed.uri.as_str()), Ok(routed), "a routed URI is in its normal form");
    }
    for (mount, ()) in ROUTER.iter() {
        if let Ok(located) = mount.compose(text) {
            assert!(located.uri.as_str().starts_with(mount.as_str()), "no path leaves its mount");
            let routed = ROUTER.route(located.uri.as_str()).map(|routed| (routed.mount, routed.path));
            assert_eq!(routed, Ok((mount, located.path)), "composing and routing are inverse");
        }
        if let Ok(template) = mount.compose_template(text) {
            let expanded = template.expand([("a", text), ("path", "ü/%2e%2e")]);
            assert!(expanded.is_none_or(|expanded| expanded.len() <= MAX_URI_LEN), "an expansion is bounded");
            assert_eq!(mount.compose_template(template.path_template()), Ok(template), "a template stays one");
        }
    }
    if let Ok(mount) = text.parse::<Mount>() {
        assert_eq!(mount.as_str().parse::<Mount>(), Ok(mount), "a mount is its own normal form");
    }
    if let Ok(glob) = text.parse::<UriGlob>() {
        glob.matches(text);
    }
}

/// Parses a config file. The files that it names do not exist, and there are no environment variables.
pub fn config(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let nowhere = Path::new("/nonexistent/mcp-host.toml");
    let Err(error) = Config::parse_in(&text, nowhere, &Environment::empty()) else { return };
    assert!(!error.diagnostics().is_empty(), "an error says what is wrong");
    let shown = error.render(RenderStyle::Plain);
    assert!(!shown.contains(['\u{1b}', '\u{202e}', '\0']), "what is shown is harmless to a terminal: {shown:?}");
}

/// Opens a client's cursor, which must be rejected as nobody sealed it, and seals and opens a provider's cursor.
pub fn cursor(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    catalog::fuzzing::cursor(&text);
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
