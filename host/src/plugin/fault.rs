//! Why a call to a provider gave no answer, and what of that a client may know.

use std::time::Duration;

use super::bindings::contract;
use crate::resource::Error;

/// Why a call gave no answer. Displayed, it is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The provider: there is no such resource.
    #[error("not found")]
    NotFound,
    /// The provider: the request makes no sense.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// The provider: whoever runs the data refuses.
    #[error("denied: {0}")]
    Denied(String),
    /// The provider: it cannot be had now.
    #[error("unavailable: {reason}")]
    Unavailable {
        /// Why, and what would help.
        reason: String,
        /// When another try makes sense.
        retry_after: Option<Duration>,
    },
    /// The provider: it is at fault itself, or its data are broken.
    #[error("failed: {0}")]
    Internal(String),
    /// All places for calls stayed taken for as long as a call may wait (`limits.concurrency`, `limits.wait`).
    #[error("no place for another call within {}", humantime::format_duration(*.0))]
    Busy(Duration),
    /// The call took longer than `limits.deadline`.
    #[error("no answer within `limits.deadline` ({})", humantime::format_duration(*.0))]
    Deadline(Duration),
    /// The guest ran for longer than `limits.cpu`.
    #[error("ran for longer than `limits.cpu` ({})", humantime::format_duration(*.0))]
    Cpu(Duration),
    /// The guest wanted more memory than `limits.memory` leaves, and did not survive being refused.
    #[error("wanted more memory than `limits.memory` ({}) leaves", bytesize::ByteSize(*.0))]
    Memory(u64),
    /// The reply is larger than `limits.reply`.
    #[error("the reply is larger than `limits.reply` ({})", bytesize::ByteSize(*.0))]
    Reply(u64),
    /// The guest trapped.
    #[error("trapped: {0}")]
    Trap(String),
    /// The reply breaks the contract.
    #[error("broke the contract: {0}")]
    Contract(String),
    /// A granted directory cannot be opened.
    #[error("{0}")]
    Grant(String),
    /// The host itself failed in the call. It goes on.
    #[error("the host failed during the call: {0}")]
    Host(String),
}

impl Fault {
    /// What the one who asked for `uri` may know of it. This is the one place that decides it.
    pub fn answer(self, plugin: &str, uri: &str) -> Error {
        let unavailable = |reason: &str, retry_after| Error::Unavailable {
            plugin: plugin.to_owned(),
            reason: reason.to_owned(),
            retry_after,
        };
        match self {
            Self::NotFound => Error::NotFound { uri: uri.to_owned() },
            Self::InvalidRequest(message) => Error::InvalidRequest { message },
            Self::Denied(message) => Error::Denied { message },
            Self::Unavailable { reason, retry_after } => unavailable(&reason, retry_after),
            Self::Busy(_) => unavailable("it is busy; try again later", Some(Duration::from_secs(1))),
            Self::Deadline(_) => unavailable("it took too long", None),
            Self::Cpu(_) => unavailable("it used up its CPU time", None),
            Self::Memory(_) => unavailable("it ran out of memory", None),
            Self::Reply(limit) => {
                unavailable(&format!("its answer is larger than the {} allowed", bytesize::ByteSize(limit)), None)
            }
            Self::Grant(_) => unavailable("a directory that it needs cannot be opened", None),
            Self::Internal(_) | Self::Trap(_) | Self::Contract(_) | Self::Host(_) => {
                Error::Internal { plugin: plugin.to_owned() }
            }
        }
    }

    /// Whether it says that something is wrong, rather than that the answer is no.
    pub(super) fn is_worth_logging(&self) -> bool {
        !matches!(self, Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_))
    }
}

/// How much of what a provider says of a failure is passed on.
const MAX_MESSAGE: usize = 1024;

impl From<contract::Failure> for Fault {
    fn from(failure: contract::Failure) -> Self {
        match failure {
            contract::Failure::NotFound => Self::NotFound,
            contract::Failure::InvalidRequest(message) => Self::InvalidRequest(clip(message)),
            contract::Failure::Denied(message) => Self::Denied(clip(message)),
            contract::Failure::Unavailable(retry) => {
                Self::Unavailable { reason: clip(retry.reason), retry_after: retry.after_ms.map(Duration::from_millis) }
            }
            contract::Failure::Internal(message) => Self::Internal(clip(message)),
        }
    }
}

fn clip(mut message: String) -> String {
    if message.len() > MAX_MESSAGE {
        message.truncate(message.floor_char_boundary(MAX_MESSAGE));
        message.push('…');
    }
    message
}
