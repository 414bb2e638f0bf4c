//! Recordings of calls, and replays.
//!
//! A recording is JSON Lines. The first line has the version of the format. A plugin's line precedes its calls.
//! Each call is one line:
//!
//! ```json
//! {"mcp-host-recording":1}
//! {"plugin":{"name":"notes","component":"/srv/notes.wasm","digest":"sha256:…","memory":67108864}}
//! {"call":{"plugin":"notes","function":"read","arguments":{"path":"a.md"},"host-calls":[…],"complete":true,"outcome":{"answer":[…]}}}
//! {"end":{"calls":1,"skipped":0}}
//! ```
//!
//! [`sandbox::recording`](mcp_host_sandbox::recording) documents which host calls are recorded, and how. Secret
//! values of the plugin's config are replaced everywhere ([`Redaction`]).
//!
//! A recorded call gets a fresh instance, whatever `instances` says, so its record has everything that it depends
//! on. It has the limits of other calls, which include the cost of recording: the time counts as the call's, and
//! the memory is charged to the plugin. A call that fails at a limit which the recording itself may have exhausted is
//! made again without being recorded, so that no client gets a failure of the recording. If it succeeds then, it
//! counts as skipped; otherwise the record is kept. A recorded instance takes a second slot of the pool, for the
//! passthrough. At most [`MAX_RECORDED`](crate::config::MAX_RECORDED) instances are recorded concurrently; further
//! calls are served but not recorded ("skipped").
//!
//! A replay calls the same function with the same arguments in an instance whose imports return the recorded
//! results, and compares the host calls and the outcome. A call that was cancelled, or ended by a limit on time or
//! memory, has no outcome to compare; its recorded host calls are compared.

pub(crate) mod answer;
mod format;
mod replay;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mcp_host_config as config;
use mcp_host_model::provider::Failure;
pub use mcp_host_sandbox::recording::{Difference, HostCallOutcome, Passthrough, RecordedHostCall, Redaction};
use mcp_host_sandbox::recording::{HostCallRecord, InstanceRecording, LinkedPassthrough, linker};
use mcp_host_sandbox::state::GuestState;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use wasmtime::Store;
use wasmtime::component::Component;

pub use self::format::{Line, Outcome, RecordedCall, RecordedPlugin, RecordingEnd, VERSION, to_line};
pub use self::replay::Replayed;
pub(crate) use self::replay::Replays;

use self::answer::failure;
use crate::Engine;
use crate::bindings::{Exports, ProviderPre};
use crate::fault::{Fault, FaultKind};

/// The maximum length of a line of a recording, in bytes. A call that has more is skipped.
pub const MAX_LINE: usize = 64 << 20;

/// Receives the lines of a recording, and counts its calls. It is called on the threads of the calls.
pub trait RecordingSink: Send + Sync {
    /// Writes a line, without a line break. Returns whether there was room for it; if not, a call counts as skipped.
    fn write(&self, line: String) -> bool;

    /// Counts a call that is served and not recorded.
    fn skip(&self) {}
}

/// Creates the passthrough of a component from the content of its file.
#[derive(Clone)]
pub struct MakePassthrough(Arc<MakeFn>);

type MakeFn = dyn Fn(&[u8]) -> Result<Passthrough, String> + Send + Sync;

impl MakePassthrough {
    /// Creates passthroughs with this function.
    pub fn new(make: impl Fn(&[u8]) -> Result<Passthrough, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(make))
    }

    pub(crate) fn make(&self, component: &[u8]) -> Result<Passthrough, String> {
        (self.0)(component)
    }
}

impl fmt::Debug for MakePassthrough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakePassthrough").finish_non_exhaustive()
    }
}

/// The sink of a recording, and the creator of its passthroughs.
#[derive(Clone)]
pub struct Recorder {
    /// The sink of lines.
    pub sink: Arc<dyn RecordingSink>,
    /// The creator of passthroughs.
    pub passthrough: MakePassthrough,
    /// The name of the only plugin that is recorded from its loading on; if none, all are.
    pub only: Option<String>,
}

impl Recorder {
    /// Returns whether this plugin is recorded from its loading on.
    pub(crate) fn includes(&self, plugin: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == plugin)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

/// Why a plugin cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// It is not a component.
    #[error("plugin `{0}` has no component: an existing server is not recorded")]
    Native(String),
    /// Its file cannot be read, or differs from the loaded component.
    #[error("the component {file} cannot be read as it was loaded: {reason}")]
    File {
        /// The file.
        file: String,
        /// The reason.
        reason: String,
    },
    /// Its imports cannot be recorded.
    #[error("{0}")]
    Imports(String),
    /// It is being recorded.
    #[error("plugin `{0}` is being recorded; one recording of a plugin can be made at a time")]
    Busy(String),
}

/// The recording of one plugin.
pub(crate) struct Recording {
    plugin: RecordedPlugin,
    sink: Arc<dyn RecordingSink>,
    pre: ProviderPre<GuestState>,
    passthrough: LinkedPassthrough,
    redaction: Arc<Redaction>,
    permits: Arc<Semaphore>,
}

impl Recording {
    /// Prepares the recording of a component: compiles its passthrough, and writes the line of the plugin. Blocks.
    pub(crate) fn new(
        engine: &Engine,
        component: &Component,
        passthrough: &Passthrough,
        plugin: RecordedPlugin,
        redaction: Arc<Redaction>,
        sink: Arc<dyn RecordingSink>,
    ) -> Result<Self, RecordingError> {
        let imports =
            |error: wasmtime::Error| RecordingError::Imports(format!("its imports cannot be recorded: {error:#}"));
        let linked = LinkedPassthrough::new(engine.linker_for(component), passthrough).map_err(imports)?;
        let linker = linker(component.engine(), &component.component_type(), Some(passthrough)).map_err(imports)?;
        let pre = linker.instantiate_pre(component).and_then(ProviderPre::new).map_err(imports)?;
        sink.write(to_line(&Line::Plugin(plugin.clone())));
        Ok(Self { plugin, sink, pre, passthrough: linked, redaction, permits: engine.recorded.clone() })
    }

    /// Returns a permit to record a call; none if too many calls are being recorded. Then the call is counted as
    /// skipped.
    pub(crate) fn try_permit(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.permits.clone().try_acquire_owned().ok();
        if permit.is_none() {
            self.sink.skip();
        }
        permit
    }

    /// Instantiates the component in a store whose state [`OpenRecord::begin`] has prepared.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<GuestState>,
        is_for_preparation: bool,
    ) -> wasmtime::Result<Exports> {
        self.passthrough.instantiate(store).await?;
        Exports::instantiate(&self.pre, store, is_for_preparation).await
    }
}

/// The record of a call in progress. Dropping it records a cancelled call.
pub(crate) struct OpenRecord {
    recording: Arc<Recording>,
    began_ms: u64,
    function: &'static str,
    arguments: Value,
    host_calls: Arc<HostCallRecord>,
    /// The host calls after the end, and whether they are complete. They are not charged to the plugin.
    ended: Option<(Vec<Box<RawValue>>, bool)>,
    outcome: Outcome,
    is_discarded: bool,
    _permit: OwnedSemaphorePermit,
}

/// A line of a call whose host calls are JSON already.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct CallLine<'a> {
    plugin: &'a str,
    began_ms: u64,
    function: &'a str,
    arguments: &'a Value,
    host_calls: Vec<Box<RawValue>>,
    complete: bool,
    outcome: &'a Outcome,
}

impl OpenRecord {
    /// Begins the record of a call in an instance with this state.
    pub(crate) fn begin(
        recording: Arc<Recording>,
        permit: OwnedSemaphorePermit,
        state: &mut GuestState,
        function: &'static str,
        mut arguments: Value,
    ) -> Self {
        let charge = state.memory.account().reservation();
        let (recorder, host_calls) = InstanceRecording::recorder(recording.redaction.clone(), charge);
        state.recording = Some(Box::new(recorder));
        recording.redaction.apply(&mut arguments);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let began_ms = mcp_host_base::time::saturating_millis(since);
        Self {
            recording,
            began_ms,
            function,
            arguments,
            host_calls,
            ended: None,
            outcome: Outcome::Cancelled,
            is_discarded: false,
            _permit: permit,
        }
    }

    /// The recording.
    pub(crate) fn recording(&self) -> &Arc<Recording> {
        &self.recording
    }

    /// Records the end of the call, and releases the memory of its host calls.
    pub(crate) fn end(&mut self, mut outcome: Outcome) {
        if let Outcome::Answer(value) | Outcome::Failure(value) = &mut outcome {
            self.recording.redaction.apply(value);
        }
        self.outcome = outcome;
        self.ended = Some(self.host_calls.take());
    }

    /// Drops the record of a call that was made again without being recorded. It counts as skipped.
    pub(crate) fn discard(mut self) {
        self.is_discarded = true;
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        if self.is_discarded {
            self.recording.sink.skip();
            return;
        }
        let (host_calls, complete) = self.ended.take().unwrap_or_else(|| self.host_calls.take());
        let line = CallLine {
            plugin: &self.recording.plugin.name,
            began_ms: self.began_ms,
            function: self.function,
            arguments: &self.arguments,
            host_calls,
            complete,
            outcome: &self.outcome,
        };
        let line = to_line(&json_call(&line));
        if line.len() > MAX_LINE {
            self.recording.sink.skip();
            return;
        }
        self.recording.sink.write(line);
    }
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum CallLineOnly<'a> {
    Call(&'a CallLine<'a>),
}

fn json_call<'a>(line: &'a CallLine<'a>) -> CallLineOnly<'a> {
    CallLineOnly::Call(line)
}

/// Returns the outcome of a call in an instance from its result.
pub(crate) fn outcome<T>(
    ended: &wasmtime::Result<Result<T, Failure>>,
    fault: impl FnOnce(&wasmtime::Error) -> Fault,
    to_json: impl FnOnce(&T) -> Value,
) -> Outcome {
    match ended {
        Ok(Ok(answer)) => Outcome::Answer(to_json(answer)),
        Ok(Err(failed)) => Outcome::Failure(failure(failed)),
        Err(error) => match fault(error) {
            Fault::Trap(message) => Outcome::Trap(message),
            other => Outcome::Limit(other.kind().map_or("host", FaultKind::name).to_owned()),
        },
    }
}

/// The secret values of a plugin: in its grants, and in its config if they come from a variable or a file.
pub(crate) fn redaction(plugin: &config::Plugin) -> Redaction {
    Redaction::new(plugin.grants.confidential())
}

/// Returns the data of a plugin in a recording.
pub(crate) fn recorded_plugin(name: &str, file: &Path, digest: &impl ToString, memory: u64) -> RecordedPlugin {
    let component = file.display().to_string();
    RecordedPlugin { name: name.to_owned(), component, digest: digest.to_string(), memory }
}
