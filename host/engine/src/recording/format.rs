//! The lines of a recording.

use mcp_host_sandbox::recording::RecordedHostCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format.
pub const VERSION: u32 = 1;

/// A line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The first one, with the version of the format.
    McpHostRecording(u32),
    /// A plugin, before its calls.
    Plugin(RecordedPlugin),
    /// A call.
    Call(RecordedCall),
    /// The last one. A recording without it was interrupted.
    End(RecordingEnd),
}

/// A plugin in a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordedPlugin {
    /// Its name.
    pub name: String,
    /// The file of its component.
    pub component: String,
    /// The digest of the component.
    pub digest: String,
    /// `limits.memory`, in bytes.
    pub memory: u64,
}

/// A call in a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RecordedCall {
    /// The plugin.
    pub plugin: String,
    /// When it began, in milliseconds since 1970.
    #[serde(default)]
    pub began_ms: u64,
    /// The function of the contract.
    pub function: String,
    /// Its arguments.
    pub arguments: Value,
    /// The host calls that it made.
    pub host_calls: Vec<RecordedHostCall>,
    /// Whether all of its host calls are there.
    pub complete: bool,
    /// Its end.
    pub outcome: Outcome,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The provider answered.
    Answer(Value),
    /// The provider answered with a failure of the contract.
    Failure(Value),
    /// The guest trapped, with this message.
    Trap(String),
    /// A limit ended it. That depends on the machine, and is not compared.
    Limit(String),
    /// The caller went away, or `limits.deadline` passed.
    Cancelled,
}

impl Outcome {
    /// Whether a replay has to end in the same way.
    pub fn is_comparable(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Failure(_) | Self::Trap(_))
    }
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingEnd {
    /// The calls that it has.
    pub calls: u64,
    /// The calls that were made meanwhile and that it does not have.
    pub skipped: u64,
}

/// A line of a recording as text.
pub fn to_line(line: &impl Serialize) -> String {
    // Neither maps with keys that are no strings nor floats that are no numbers are in it.
    serde_json::to_string(line).unwrap_or_default()
}
