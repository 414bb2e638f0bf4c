//! The limits of the plugin, as the host reports them.

use std::time::Duration;

/// The limits that an administrator has set for the plugin (`limits` in `mcp-host.toml`).
///
/// A call that exceeds a limit ends without a result. A provider that can return a partial result, such as the first
/// matches of a search, should return it before the limit is reached.
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
    /// Returns the limits of this plugin.
    ///
    /// In a component they are the keys `mcp-host/limits.cpu-ms` and `mcp-host/limits.deadline-ms` of `wasi:config`, or
    /// the defaults if the host is older than these keys. On native targets both are [`Duration::MAX`]: no host ends a
    /// call there, and the result of a unit test does not depend on the load of the machine.
    pub fn current() -> Self {
        #[cfg(target_family = "wasm")]
        {
            let default = Self::default();
            let read = |key| crate::component::reserved(key)?.parse().ok().map(Duration::from_millis);
            Self {
                cpu: read("mcp-host/limits.cpu-ms").unwrap_or(default.cpu),
                deadline: read("mcp-host/limits.deadline-ms").unwrap_or(default.deadline),
            }
        }
        #[cfg(not(target_family = "wasm"))]
        Self { cpu: Duration::MAX, deadline: Duration::MAX }
    }
}
