//! The limits of the plugin, as the host tells them.

use std::time::Duration;

/// The limits that an administrator has set for the plugin (`limits` in `mcp-host.toml`).
///
/// A call that exceeds one ends without a result. A provider that can return a part of one, such as the beginning of a search,
/// ends before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The CPU time of one call, including the validation of what it returns.
    pub cpu: Duration,
    /// The time of one call.
    pub deadline: Duration,
}

/// The limits of a plugin that sets none.
impl Default for Limits {
    fn default() -> Self {
        Self { cpu: Duration::from_secs(1), deadline: Duration::from_secs(5) }
    }
}

impl Limits {
    /// Returns the limits of this plugin: the defaults on native targets, and if the host is older than this.
    ///
    /// In a component they are the keys `mcp-host/limits.cpu-ms` and `mcp-host/limits.deadline-ms` of `wasi:config`.
    pub fn current() -> Self {
        let default = Self::default();
        Self {
            cpu: read("mcp-host/limits.cpu-ms").unwrap_or(default.cpu),
            deadline: read("mcp-host/limits.deadline-ms").unwrap_or(default.deadline),
        }
    }
}

#[cfg(target_family = "wasm")]
fn read(key: &str) -> Option<Duration> {
    crate::component::reserved(key)?.parse().ok().map(Duration::from_millis)
}

#[cfg(not(target_family = "wasm"))]
fn read(_: &str) -> Option<Duration> {
    None
}
