//! How long an instance of a plugin lives: `instances`.
//!
//! Without the key each call gets a fresh instance, so that nothing is left from one call to the next. With it, instances
//! are kept and used again, by one call at a time: for guests that are costly to start, such as those in Python, and for
//! the last microseconds. A provider must not care: an instance may be gone with any call.
//!
//! | key | default | from | to | means |
//! |---|---|---|---|---|
//! | `max-calls` | `128` | 1 | 1000000 | calls that one instance may serve |
//! | `idle-timeout` | `"30s"` | 10 ms | 1 h | how long it is kept while no call needs it |
//! | `max-idle` | `4` | 1 | 64 | instances that are kept while no call needs them |
//!
//! An empty table means all of the defaults. An instance is given up earlier than that
//!
//! - after a call that ended in anything but an answer or a failure that the contract has: a trap, a limit, a caller that went
//!   away, a reply that breaks the contract;
//! - when it holds more than its share of the plugin's memory: `limits.memory` divided by `max-idle`;
//! - while it is idle, when another call needs its memory, or its place among the instances of all plugins.
//!
//! An instance sees its grants as they were when it was made: a directory that is replaced by another of the same name is
//! seen by later instances only.
//!
//! ```
//! use mcp_resource_host::config::{InstanceReuse, Plugin};
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
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::reader::{FromTable, Table, documented};

/// How many calls one instance may serve.
pub type MaxCalls = Count<1, 128, 1_000_000>;
/// How long an instance is kept while no call needs it.
pub type IdleTimeout = BoundedDuration<10, { 30 * SECOND }, { 60 * MINUTE }>;
/// How many instances are kept while no call needs them.
pub type MaxIdle = Count<1, 4, 64>;

documented! {
    /// Instances that serve more than one call: `instances` of a `[[plugin]]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct InstanceReuse {
        /// The calls that one instance may serve. 128 unless set; 1 to 1000000.
        pub max_calls: MaxCalls,
        /// How long an instance is kept while no call needs it. 30 s unless set; 10 ms to 1 h.
        pub idle_timeout: IdleTimeout,
        /// The instances that are kept while no call needs them. 4 unless set; 1 to 64.
        pub max_idle: MaxIdle,
    }
}

impl FromTable for InstanceReuse {
    const TYPE_NAME: &'static str = "a table about instances";

    fn example() -> String {
        "{ max-calls = 128, idle-timeout = \"30s\", max-idle = 4 }".into()
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        Some(Self {
            max_calls: table.or_default("max-calls"),
            idle_timeout: table.or_default("idle-timeout"),
            max_idle: table.or_default("max-idle"),
        })
    }
}
