//! The lines of a recording.

use std::sync::Arc;

use mcp_host_sandbox::recording::RecordedHostCall;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of the format.
pub const VERSION: u32 = 1;

/// A line of a recording.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Line {
    /// The first line, with the version of the format.
    McpHostRecording(u32),
    /// A plugin, before its calls.
    Plugin(RecordedPlugin),
    /// A call.
    Call(RecordedCall),
    /// The last line. A recording without it was interrupted.
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
    /// Its host calls, which replays share.
    pub host_calls: Arc<[RecordedHostCall]>,
    /// Whether all of its host calls were recorded.
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
    /// A limit ended it. This depends on the machine, and is not compared.
    Limit(String),
    /// The caller went away, or `limits.deadline` passed.
    Cancelled,
}

impl Outcome {
    /// Returns whether a replay must have the same outcome.
    pub fn is_comparable(&self) -> bool {
        matches!(self, Self::Answer(_) | Self::Failure(_) | Self::Trap(_))
    }
}

/// The end of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingEnd {
    /// The number of recorded calls.
    pub calls: u64,
    /// The number of calls during the recording that were not recorded.
    pub skipped: u64,
}

/// Encodes a line of a recording.
pub fn to_line(line: &impl Serialize) -> String {
    // It contains neither maps with keys that are not strings, nor floats that are not numbers.
    serde_json::to_string(line).unwrap_or_default()
}
