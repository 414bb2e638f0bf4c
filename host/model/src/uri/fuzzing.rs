//! Assertions of the fuzz target for URIs.

#![allow(clippy::expect_used, reason = "a test that cannot be set up fails")]

use std::sync::LazyLock;

use super::{MAX_URI_LEN, Mount, Router};

/// Mounts of every kind: a host, a path prefix, no host, all hosts.
static ROUTER: LazyLock<Router<()>> = LazyLock::new(|| {
    let mounts = ["git://linux/", "files://h/a/", "notes:///", "web://"];
    Router::new(mounts.map(|mount| (mount.parse().expect("a mount"), ()))).expect("they do not overlap")
});

/// Asserts that a text, as the URI of a client, the path of a provider, a mount or a template, keeps what the module promises.
pub fn uri(text: &str) {
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
}
