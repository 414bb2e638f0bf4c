//! Instance reuse: `instances` of a `[[plugin]]`.
//!
//! Without the key each call gets a fresh instance, so no state remains between calls. With the key, instances are
//! pooled and reused, by one call at a time: for guests with a costly start, such as Python, and to save the last
//! microseconds. A provider must not rely on reuse: an instance may end after any call.
//!
//! | key | default | min | max | meaning |
//! |---|---|---|---|---|
//! | `max-calls` | `128` | 1 | 1000000 | the maximum number of calls of one instance |
//! | `idle-timeout` | `"30s"` | 10 ms | 1 h | the maximum time that an instance is idle |
//! | `max-idle` | `4` | 1 | 64 | the maximum number of idle instances |
//!
//! An empty table selects all defaults. An instance ends earlier
//!
//! - after a call that ended in anything but a response or a failure defined in the contract: a trap, a limit,
//!   cancellation by the caller, a response that violates the contract;
//! - when it uses more than its share of the plugin's memory: `limits.memory` divided by `max-idle`;
//! - while it is idle, by eviction, when another call needs its memory or its slot among the instances of all plugins.
//!
//! The grants of an instance are resolved when it is created: if a directory is replaced by another with the same name,
//! only later instances see the new one.
//!
//! ```
//! use mcp_host_config::instances::InstanceReuse;
//! use mcp_host_config::Plugin;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert_eq!(notes.instances, None, "each call gets a fresh instance");
//!
//! let mut instances = InstanceReuse::default();
//! assert_eq!(instances.max_calls.get(), 128);
//! instances.idle_timeout = "5m".parse()?;
//! notes.instances = Some(instances);
//! # Ok(())
//! # }
//! ```

use super::count::Count;
use super::declare::table;
use super::duration::{BoundedDuration, MINUTE, SECOND};

/// The maximum number of calls of one instance.
pub type MaxCalls = Count<1, 128, 1_000_000>;
/// The maximum time that an instance is idle.
pub type InstanceIdleTimeout = BoundedDuration<10, { 30 * SECOND }, { 60 * MINUTE }>;
/// The maximum number of idle instances.
pub type MaxIdle = Count<1, 4, 64>;

table! {
    /// Instance reuse: `instances` of a `[[plugin]]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct InstanceReuse as "a table about instances", such as "{ max-calls = 128, idle-timeout = \"30s\", max-idle = 4 }" {
        /// The maximum number of calls of one instance. 128 unless set; 1 to 1000000.
        pub max_calls: MaxCalls,
        /// The maximum time that an instance is idle. 30 s unless set; 10 ms to 1 h.
        pub idle_timeout: InstanceIdleTimeout,
        /// The maximum number of idle instances. 4 unless set; 1 to 64.
        pub max_idle: MaxIdle,
    }
}
