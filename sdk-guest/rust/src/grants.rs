//! The grants of the plugin, as the host tells them.

/// The grants that an administrator has given the plugin (`grants` in `mcp-host.toml`).
///
/// A request, a file or a bucket that is not granted fails, so most providers need not know their grants. One that
/// serves what it stored does: a bucket still has the data of an origin after its grant was taken away. So does one
/// that can do without a bucket: each attempt to open one that is not granted is a line in the host's log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grants;

impl Grants {
    /// Returns the grants of this plugin.
    pub fn current() -> Self {
        Self
    }

    /// Returns whether requests to an origin, such as `https://docs.rs` or `http://127.0.0.1:8080`, are granted. The
    /// answer is the host's, which knows wildcards and default ports. `None` on native targets, and if the host is
    /// older than this.
    ///
    /// In a component it is the key `mcp-host/grants.http/ORIGIN` of `wasi:config`.
    pub fn allows_http(&self, origin: &str) -> Option<bool> {
        read(&format!("mcp-host/grants.http/{origin}"))?.parse().ok()
    }

    /// Returns whether a bucket is granted. `None` on native targets, and if the host is older than this.
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
