//! How long an instance of a plugin lives: `instances`.
//!
//! Without the key each call gets a fresh instance, so that nothing is left from one call to the next. With it, instances
//! are kept and used again, by one call at a time: for guests that are costly to start, such as those in Python, and for
//! the last microseconds. A provider must not care: an instance may be gone with any call.
//!
//! | key | default | from | to | means |
//! |---|---|---|---|---|
//! | `reuse` | `128` | 1 | 1000000 | calls that one instance may serve |
//! | `idle` | `"30s"` | 10 ms | 1 h | how long it is kept while no call needs it |
//! | `keep` | `4` | 1 | 64 | instances that are kept while no call needs them |
//!
//! An empty table means all of the defaults. An instance is given up earlier than that
//!
//! - after a call that ended in anything but an answer or a failure that the contract has: a trap, a limit, a caller that went
//!   away, a reply that breaks the contract;
//! - when it holds more than its share of the plugin's memory: `limits.memory` divided by `keep`;
//! - while it is idle, when another call needs its memory, or its place among the instances of all plugins.
//!
//! An instance sees its grants as they were when it was made: a directory that is replaced by another of the same name is
//! seen by later instances only.
//!
//! ```
//! use mcp_resource_host::config::{Instances, Plugin};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert_eq!(notes.instances, None, "each call gets a fresh instance");
//!
//! let mut instances = Instances::default();
//! assert_eq!(instances.reuse.get(), 128);
//! instances.idle = "5m".parse()?;
//! notes.instances = Some(instances);
//! # Ok(())
//! # }
//! ```

use super::count::Count;
use super::reader::{FromNode, Node};
use super::time::{MINUTE, SECOND, Time};

/// How many calls one instance may serve.
pub type Reuse = Count<1, 128, 1_000_000>;
/// How long an instance is kept while no call needs it.
pub type Idle = Time<10, { 30 * SECOND }, { 60 * MINUTE }>;
/// How many instances are kept while no call needs them.
pub type Keep = Count<1, 4, 64>;

/// Instances that serve more than one call: `instances` of a `[[plugin]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instances {
    /// The calls that one instance may serve. 128 unless set; 1 to 1000000.
    pub reuse: Reuse,
    /// How long an instance is kept while no call needs it. 30 s unless set; 10 ms to 1 h.
    pub idle: Idle,
    /// The instances that are kept while no call needs them. 4 unless set; 1 to 64.
    pub keep: Keep,
}

impl FromNode for Instances {
    const WHAT: &'static str = "a table about instances";

    fn example() -> String {
        "{ reuse = 128, idle = \"30s\", keep = 4 }".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            Some(Self {
                reuse: table.or_default("reuse"),
                idle: table.or_default("idle"),
                keep: table.or_default("keep"),
            })
        })
    }
}
