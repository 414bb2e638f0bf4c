//! Replays of recorded calls of a plugin, with the results of host calls from the record.

use std::sync::Arc;

use mcp_host_model::resource::Argument;
use serde::Deserialize;

use super::{Fault, Plugin};
use crate::function::{Changes, Complete, Describe, Function, ListEntries, ListTemplates, Prepare, Read, Stat};
use crate::recording::{Outcome, RecordedCall, RecordedHostCall, Replayed};

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
        let arguments = Arguments::deserialize(&call.arguments).map_err(|e| invalid(e.to_string()))?;
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
        host_calls: Arc<[RecordedHostCall]>,
        function: F,
    ) -> Result<Replayed, ReplayError> {
        let replays = self.replays().ok_or(ReplayError::NotForReplays)?;
        replays.set_next(host_calls);
        let answer = self.call_unvalidated(function).await;
        let replayed = replays.take();
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
