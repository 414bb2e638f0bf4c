//! Replays of recorded calls.

use std::sync::Arc;

use mcp_host_model::resource::Argument;
use mcp_host_sandbox::recording::{InstanceRecording, linker};
use mcp_host_sandbox::state::GuestState;
use parking_lot::Mutex;
use serde::Deserialize;
use wasmtime::Store;
use wasmtime::component::Component;

use super::{Difference, Outcome, RecordedCall, RecordedHostCall};
use crate::Engine;
use crate::bindings::{Exports, ProviderPre};
use crate::function::{Changes, Complete, Describe, Function, ListEntries, ListTemplates, Prepare, Read, Stat};
use crate::plugin::{Fault, Plugin};

/// Why a call cannot be replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The plugin was not loaded for replays.
    #[error("the plugin was not loaded for a replay")]
    NotForReplays,
    /// The contract has no such function.
    #[error("the record has a call of `{0}`, which is no function of the contract")]
    UnknownFunction(String),
    /// The arguments do not match the function.
    #[error("the record has other arguments than `{function}` has: {reason}")]
    Arguments {
        /// The function.
        function: String,
        /// The reason.
        reason: String,
    },
    /// No instance was created: the host has no room for it.
    #[error("the call was not made: {0}")]
    NotMade(Fault),
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// Its end.
    pub outcome: Outcome,
    /// The first host call that differs from the record.
    pub difference: Option<Difference>,
}

impl Replayed {
    /// Returns whether the call matches the record. If the end of the call depends on the machine, or was not
    /// recorded, only the recorded host calls count.
    pub fn is_same(&self, recorded: &RecordedCall) -> bool {
        let is_whole = recorded.complete && recorded.outcome.is_comparable();
        match (&self.difference, is_whole) {
            (None, true) => self.outcome == recorded.outcome,
            (Some(_), true) => false,
            // The call went on after the end of the record.
            (difference, false) => difference.as_ref().is_none_or(|difference| difference.expected.is_none()),
        }
    }
}

/// A component that is linked for replays, one at a time.
pub(crate) struct Replays {
    pre: ProviderPre<GuestState>,
    next: Mutex<Vec<RecordedHostCall>>,
    replayed: Mutex<Option<Replayed>>,
}

impl Replays {
    pub(crate) fn new(engine: &Engine, component: &Component) -> wasmtime::Result<Self> {
        let linker = linker(engine.wasmtime(), &component.component_type(), None)?;
        let pre = linker.instantiate_pre(component).and_then(ProviderPre::new)?;
        Ok(Self { pre, next: Mutex::default(), replayed: Mutex::default() })
    }

    /// Makes an instance answer its host calls from the record of the next call.
    pub(crate) fn begin(&self, state: &mut GuestState) {
        let host_calls = std::mem::take(&mut *self.next.lock());
        state.recording = Some(Box::new(InstanceRecording::replay(host_calls)));
    }

    /// Instantiates the component.
    pub(crate) async fn instantiate(
        &self,
        store: &mut Store<GuestState>,
        is_for_preparation: bool,
    ) -> wasmtime::Result<Exports> {
        Exports::instantiate(&self.pre, store, is_for_preparation).await
    }

    /// Records the end of the call.
    pub(crate) fn end(&self, state: &GuestState, outcome: Outcome) {
        let difference = state.recording.as_ref().and_then(|recording| recording.difference());
        *self.replayed.lock() = Some(Replayed { outcome, difference });
    }
}

/// The union of all functions' arguments.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Arguments {
    parent: Option<Arc<str>>,
    cursor: Option<Arc<str>>,
    limit: Option<u32>,
    path: Option<Arc<str>>,
    template: Option<String>,
    argument: Option<(String, String)>,
    known: Option<Vec<(String, String)>>,
    watched: Option<Vec<String>>,
    since: Option<String>,
    token: Option<String>,
}

impl Plugin {
    /// Repeats a recorded call, with the recorded results of host calls. One at a time.
    pub async fn replay(&self, call: &RecordedCall) -> Result<Replayed, ReplayError> {
        let function = call.function.as_str();
        let invalid = |reason: String| ReplayError::Arguments { function: function.to_owned(), reason };
        let arguments: Arguments =
            serde_json::from_value(call.arguments.clone()).map_err(|e| invalid(e.to_string()))?;
        let missing = |name: &str| invalid(format!("`{name}` is missing"));
        let argument = |(name, value): (String, String)| Argument::new(name, value);
        let Arguments { parent, cursor, limit, path, template, argument: completed, known, watched, since, token } =
            arguments;
        let host_calls = call.host_calls.clone();
        match function {
            "describe" => self.replay_function(host_calls, Describe).await,
            "list-entries" => {
                let limit = limit.ok_or_else(|| missing("limit"))?;
                self.replay_function(host_calls, ListEntries { parent, cursor, limit }).await
            }
            "list-templates" => self.replay_function(host_calls, ListTemplates { cursor }).await,
            "read" => self.replay_function(host_calls, Read { path: path.ok_or_else(|| missing("path"))? }).await,
            "stat" => self.replay_function(host_calls, Stat { path: path.ok_or_else(|| missing("path"))? }).await,
            "complete" => {
                let complete = Complete {
                    template: template.ok_or_else(|| missing("template"))?,
                    argument: completed.map(argument).ok_or_else(|| missing("argument"))?,
                    context: known.unwrap_or_default().into_iter().map(argument).collect(),
                };
                self.replay_function(host_calls, complete).await
            }
            "changes" => {
                let watched = watched.ok_or_else(|| missing("watched"))?.into();
                self.replay_function(host_calls, Changes { watched, since }).await
            }
            "prepare" => self.replay_function(host_calls, Prepare { token }).await,
            _ => Err(ReplayError::UnknownFunction(function.to_owned())),
        }
    }

    async fn replay_function<F: Function>(
        &self,
        host_calls: Vec<RecordedHostCall>,
        function: F,
    ) -> Result<Replayed, ReplayError> {
        let replays = self.replays().ok_or(ReplayError::NotForReplays)?;
        *replays.next.lock() = host_calls;
        *replays.replayed.lock() = None;
        let answer = self.call_unvalidated(function).await;
        let replayed = replays.replayed.lock().take();
        match (replayed, answer) {
            (Some(replayed), _) => Ok(replayed),
            // The call was cancelled at its deadline, with its instance.
            (None, Err(Fault::Deadline(_) | Fault::Delayed(_))) => {
                Ok(Replayed { outcome: Outcome::Cancelled, difference: None })
            }
            (None, Err(fault)) => Err(ReplayError::NotMade(fault)),
            (None, Ok(_)) => Err(ReplayError::NotForReplays),
        }
    }
}
