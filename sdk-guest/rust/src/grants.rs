//! The grants of the plugin, as the host reports them.

/// The grants that an administrator has given the plugin (`grants` in `mcp-host.toml`).
///
/// Access to an origin, a file or a bucket that is not granted fails, so most providers need not know their grants. A
/// provider that serves stored data does: a bucket still has the data of an origin after the grant of the origin was
/// revoked. A provider for which a bucket is optional does, too: the host logs each attempt to open a bucket that is
/// not granted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grants;

impl Grants {
    /// Returns the grants of this plugin.
    pub fn current() -> Self {
        Self
    }

    /// Returns whether requests to an origin, such as `https://docs.rs` or `http://127.0.0.1:8080`, are granted. The
    /// host decides this by its rules for wildcards and default ports. `None` on native targets, and with hosts that
    /// are older than this function.
    ///
    /// In a component it is the key `mcp-host/grants.http/ORIGIN` of `wasi:config`.
    pub fn allows_http(&self, origin: &str) -> Option<bool> {
        read(&format!("mcp-host/grants.http/{origin}"))?.parse().ok()
    }

    /// Returns whether a bucket is granted. `None` on native targets, and with hosts that are older than this function.
    ///
    /// In a component it is the key `mcp-host/grants.keyvalue/NAME` of `wasi:config`.
    pub fn allows_keyvalue(&self, bucket: &str) -> Option<bool> {
        read(&format!("mcp-host/grants.keyvalue/{bucket}"))?.parse().ok()
    }
}

#[cfg(target_family = "wasm")]
fn read(key: &str) -> Option<String> {
    crate::component::reserved(key)
}

#[cfg(not(target_family = "wasm"))]
fn read(_: &str) -> Option<String> {
    None
}
