//! Why a call to a provider gave no answer, and what of that a client may know.

mod kind;

use std::time::Duration;

use crate::engine::bindings::contract;
use crate::resource::Error;
use crate::text::truncate;

pub use self::kind::FaultKind;

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
    /// The plugin kept failing and is left alone for so long.
    #[error("suspended for another {}", humantime::format_duration(*.0))]
    Suspended(Duration),
    /// Calls come faster than `limits.rate`; there is room for another one in so long.
    #[error("more calls than `limits.rate` allows")]
    RateLimited(Duration),
    /// As many calls wait for a place already as may (`limits.queue`).
    #[error("`limits.queue` calls ({0}) wait already")]
    QueueFull(usize),
    /// All places for calls stayed taken for as long as a call may wait (`limits.concurrency`, `limits.queue-timeout`).
    #[error("no place for another call within `limits.queue-timeout` ({})", humantime::format_duration(*.0))]
    QueueTimeout(Duration),
    /// The call took longer than `limits.deadline`.
    #[error("no answer within `limits.deadline` ({})", humantime::format_duration(*.0))]
    Deadline(Duration),
    /// The guest ran for longer than `limits.cpu`.
    #[error("ran for longer than `limits.cpu` ({})", humantime::format_duration(*.0))]
    Cpu(Duration),
    /// The guest wanted more memory than `limits.memory` leaves, and did not survive being refused.
    #[error("wanted more memory than `limits.memory` ({}) leaves", bytesize::ByteSize(*.0))]
    Memory(u64),
    /// The reply is larger than `limits.response-size`.
    #[error("the reply is larger than `limits.response-size` ({})", bytesize::ByteSize(*.0))]
    Reply(u64),
    /// One answer has more items than `limits.response-items`.
    #[error("the reply has {found} {what}, more than `limits.response-items` ({limit})")]
    Items {
        /// What they are: entries, contents.
        what: &'static str,
        /// How many there are, as far as they were counted.
        found: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// A listing goes on beyond `limits.listing-items`, over all its pages.
    #[error("its listing goes on beyond `limits.listing-items` ({0})")]
    Listing(usize),
    /// A listing leads from page to page with nothing on them.
    #[error("{0} pages of its listing in a row had nothing on them")]
    EmptyPages(usize),
    /// The guest held more handles than `limits.handles`.
    #[error("wanted to hold more handles at once than `limits.handles` ({0}) allows")]
    Handles(usize),
    /// The guest asked for more random bytes at once than `limits.random-bytes`.
    #[error("asked for more random bytes at once than `limits.random-bytes` ({}) allows", bytesize::ByteSize(*.0))]
    Random(u64),
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
    pub fn into_client_error(self, plugin: &str, uri: &str) -> Error {
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
            Self::Suspended(left) => {
                let reason = format!("it kept failing and is suspended; it is tried again in {}", format_seconds(left));
                unavailable(&reason, Some(left))
            }
            Self::RateLimited(wait) => unavailable("it is asked too often; try again later", Some(wait)),
            Self::QueueFull(_) => {
                unavailable("too many requests wait for it; try again later", Some(DEFAULT_RETRY_AFTER))
            }
            Self::QueueTimeout(_) => unavailable("it is busy; try again later", Some(DEFAULT_RETRY_AFTER)),
            Self::Deadline(_) => unavailable("it took too long", None),
            Self::Cpu(_) => unavailable("it used up its CPU time", None),
            Self::Memory(_) => unavailable("it ran out of memory", None),
            Self::Reply(limit) => {
                unavailable(&format!("its answer is larger than the {} allowed", bytesize::ByteSize(limit)), None)
            }
            Self::Items { what, limit, .. } => {
                unavailable(&format!("its answer has more than the {limit} {what} allowed"), None)
            }
            Self::Listing(most) => unavailable(
                &format!("its listing goes on beyond the {most} entries allowed; the rest is left out"),
                None,
            ),
            Self::EmptyPages(_) => unavailable("its listing leads on and on with nothing in it", None),
            Self::Handles(_) => unavailable("it holds too much open at once", None),
            Self::Random(_) => unavailable("it asked for too many random bytes at once", None),
            Self::Grant(_) => unavailable("a directory that it needs cannot be opened", None),
            Self::Internal(_) | Self::Trap(_) | Self::Contract(_) | Self::Host(_) => {
                Error::Internal { plugin: plugin.to_owned() }
            }
        }
    }

    /// Whether the same question may get another answer later, without a reload.
    pub(crate) fn is_transient(&self) -> bool {
        !matches!(self, Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_))
    }

    /// Whether it is an answer: the provider's own word, which says nothing of how the plugin is.
    pub(super) fn is_provider_response(&self) -> bool {
        matches!(
            self,
            Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_) | Self::Unavailable { .. } | Self::Internal(_)
        )
    }

    /// Whether the provider brought it about in a way that may be the same with the next call.
    pub(super) fn trips_breaker(&self) -> bool {
        matches!(
            self,
            Self::Deadline(_)
                | Self::Cpu(_)
                | Self::Memory(_)
                | Self::Handles(_)
                | Self::Random(_)
                | Self::Reply(_)
                | Self::Items { .. }
                | Self::Trap(_)
                | Self::Contract(_)
                | Self::Host(_)
        )
    }
}

/// When another try makes sense where nobody knows better.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// A time as people read it: whole seconds, at least one.
fn format_seconds(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().ceil().max(1.0) as u64))
}

/// How much of what a provider says of a failure is passed on.
const MAX_MESSAGE: usize = 1024;

impl From<contract::Failure> for Fault {
    fn from(failure: contract::Failure) -> Self {
        match failure {
            contract::Failure::NotFound => Self::NotFound,
            contract::Failure::InvalidRequest(message) => Self::InvalidRequest(truncate_message(message)),
            contract::Failure::Denied(message) => Self::Denied(truncate_message(message)),
            contract::Failure::Unavailable(retry) => Self::Unavailable {
                reason: truncate_message(retry.reason),
                retry_after: retry.after_ms.map(Duration::from_millis),
            },
            contract::Failure::Internal(message) => Self::Internal(truncate_message(message)),
        }
    }
}

fn truncate_message(message: String) -> String {
    truncate(message, MAX_MESSAGE)
}
