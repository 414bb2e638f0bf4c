//! Faults: why a call has no answer, and which part of the reason a client may see.

mod kind;

use std::time::Duration;

use mcp_host_base::text::truncate;
use mcp_host_base::time::saturating_millis;
use mcp_host_config::limits::Limits;
use mcp_host_model::provider::Failure;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::Mount;
use mcp_host_sandbox::memory::Denial;

use crate::trap::CallEnd;

pub use self::kind::FaultKind;

/// Why a call has no answer. `Display` is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// From the provider: there is no such resource.
    #[error("not found")]
    NotFound,
    /// From the provider: the request is invalid.
    #[error("invalid request: {0}")]
    InvalidRequest(String),
    /// From the provider: the owner of the data denies access.
    #[error("denied: {0}")]
    Denied(String),
    /// From the provider: it is temporarily unavailable.
    #[error("unavailable: {reason}")]
    Unavailable {
        /// The reason and the remedy.
        reason: String,
        /// The time after which a retry makes sense.
        retry_after: Option<Duration>,
    },
    /// From the provider: it has failed, or its data is corrupt.
    #[error("failed: {0}")]
    Internal(String),
    /// The circuit breaker suspends the plugin for this time.
    #[error("circuit breaker open for another {}", format_millis(*.0))]
    Suspended(Duration),
    /// The call exceeds the rate limit (`limits.rate`). A token is available after this time.
    #[error("rate limit exceeded (`limits.rate`)")]
    RateLimited(Duration),
    /// The queue for permits is full (`limits.queue`).
    #[error("queue full: `limits.queue` ({0}) calls wait for a permit")]
    QueueFull(usize),
    /// This number of one client's calls is waiting for a permit: the client's share of `limits.queue`.
    #[error("queue share used up: {0} calls of one client wait for a permit, its share of `limits.queue`")]
    QueueShare(usize),
    /// The provider failed several times with this input of the client, which is refused to the client for this
    /// time.
    #[error("refused to one client for another {}: the provider failed with this request several times", format_millis(*.0))]
    FaultyInput(Duration),
    /// The provider failed with many inputs of the client, which is refused for this time.
    #[error("one client refused for another {}: the provider failed with many of its requests", format_millis(*.0))]
    FaultyInputs(Duration),
    /// No permit within the queue timeout (`limits.concurrency`, `limits.queue-timeout`).
    #[error("queue timeout: no permit within `limits.queue-timeout` ({})", humantime::format_duration(*.0))]
    QueueTimeout(Duration),
    /// The call exceeded `limits.deadline`.
    #[error("deadline exceeded: no response within `limits.deadline` ({})", humantime::format_duration(*.0))]
    Deadline(Duration),
    /// The call exceeded `limits.cpu`.
    #[error("CPU time exceeded: it ran for longer than `limits.cpu` ({})", humantime::format_duration(*.0))]
    Cpu(Duration),
    /// The guest requested more memory than `limits.memory` leaves, and trapped when it was denied.
    #[error("out of memory: it requested more than `limits.memory` ({}) leaves", bytesize::ByteSize(*.0))]
    Memory(u64),
    /// The call was denied memory because other calls of this or other clients hold it.
    #[error("out of memory: other calls hold the memory that it needed of `limits.memory` ({})", bytesize::ByteSize(*.0))]
    MemoryInUse(u64),
    /// The call exceeded `limits.deadline`, mostly because other calls had the processor or another resource that
    /// it waited for.
    #[error(
        "deadline exceeded beside other calls: no response within `limits.deadline` ({})",
        humantime::format_duration(*.0)
    )]
    Delayed(Duration),
    /// The response exceeds `limits.response-size`.
    #[error("the response is larger than `limits.response-size` ({})", bytesize::ByteSize(*.0))]
    ResponseSize(u64),
    /// One response has more items than `limits.response-items`.
    #[error("the response has {found} {what}, more than `limits.response-items` ({limit})")]
    ResponseItems {
        /// The kind of items: entries, contents.
        what: &'static str,
        /// The number of items that were counted.
        found: usize,
        /// The maximum number.
        limit: usize,
    },
    /// A listing exceeds `limits.listing-items`, over all its pages.
    #[error("its listing exceeds `limits.listing-items` ({0})")]
    ListingItems(usize),
    /// A listing has too many consecutive empty pages.
    #[error("{0} consecutive pages of its listing are empty")]
    EmptyPages(usize),
    /// The guest exceeded `limits.handles`.
    #[error("out of handles: it requested more than `limits.handles` ({0})")]
    Handles(usize),
    /// The guest requested more random bytes at once than `limits.random-bytes`.
    #[error("it requested more random bytes at once than `limits.random-bytes` ({}) allows", bytesize::ByteSize(*.0))]
    RandomBytes(u64),
    /// The guest trapped.
    #[error("trapped: {0}")]
    Trap(String),
    /// A native provider panicked.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The response violates the contract.
    #[error("contract violated: {0}")]
    Contract(String),
    /// A granted directory cannot be opened.
    #[error("{0}")]
    Grant(String),
    /// The host itself failed during the call. It continues to serve.
    #[error("the host failed during the call: {0}")]
    Host(String),
}

impl Fault {
    /// Returns the error for the client that requested `uri`. No other code decides what a client may see of a
    /// fault.
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
                let reason =
                    format!("its circuit breaker is open after repeated failures; retry in {}", format_seconds(left));
                unavailable(&reason, Some(left))
            }
            Self::RateLimited(wait) => unavailable("its rate limit is exceeded; try again later", Some(wait)),
            Self::QueueFull(_) => unavailable("its queue is full; try again later", Some(DEFAULT_RETRY_AFTER)),
            Self::QueueShare(_) => {
                unavailable("too many of your requests wait for it; try again later", Some(DEFAULT_RETRY_AFTER))
            }
            Self::FaultyInput(left) => {
                let reason = format!(
                    "it failed with this request several times, and would probably fail again; such requests are refused for {}",
                    format_seconds(left)
                );
                unavailable(&reason, Some(left))
            }
            Self::FaultyInputs(left) => {
                let reason = format!("it failed with many of your requests; retry in {}", format_seconds(left));
                unavailable(&reason, Some(left))
            }
            Self::QueueTimeout(_) | Self::Delayed(_) => {
                unavailable("it is busy; try again later", Some(DEFAULT_RETRY_AFTER))
            }
            Self::MemoryInUse(_) => {
                unavailable("other requests hold its memory; try again later", Some(DEFAULT_RETRY_AFTER))
            }
            Self::Deadline(_) => unavailable("it took too long", None),
            Self::Cpu(_) => unavailable("it used up its CPU time", None),
            Self::Memory(_) => unavailable("it ran out of memory", None),
            Self::ResponseSize(limit) => {
                unavailable(&format!("its response is larger than the {} allowed", bytesize::ByteSize(limit)), None)
            }
            Self::ResponseItems { what, limit, .. } => {
                unavailable(&format!("its response has more than the {limit} {what} allowed"), None)
            }
            Self::ListingItems(most) => {
                unavailable(&format!("its listing has more than the {most} entries allowed; the rest is omitted"), None)
            }
            Self::EmptyPages(_) => unavailable("too many consecutive pages of its listing are empty", None),
            Self::Handles(_) => unavailable("it has too many handles open at once", None),
            Self::RandomBytes(_) => unavailable("it requested too many random bytes at once", None),
            Self::Grant(_) => unavailable("a directory that it needs cannot be opened", None),
            Self::Internal(_) | Self::Trap(_) | Self::Panicked(_) | Self::Contract(_) | Self::Host(_) => {
                Error::Internal { plugin: plugin.to_owned() }
            }
        }
    }

    /// Replaces [`MOUNT`] in a message of the provider by the mount: clients know URIs, not paths.
    pub(crate) fn with_mount(self, mount: &Mount) -> Self {
        let text = |text: String| match text.contains(MOUNT) {
            true => truncate_message(text.replace(MOUNT, mount.as_str())),
            false => text,
        };
        match self {
            Self::InvalidRequest(message) => Self::InvalidRequest(text(message)),
            Self::Denied(message) => Self::Denied(text(message)),
            Self::Unavailable { reason, retry_after } => Self::Unavailable { reason: text(reason), retry_after },
            Self::Internal(message) => Self::Internal(text(message)),
            other => other,
        }
    }

    /// Returns the fault of a call that was denied memory, for a plugin with this limit.
    pub(crate) fn out_of_memory(limit: u64, denial: Denial) -> Self {
        match denial {
            Denial::Input => Self::Memory(limit),
            Denial::Others => Self::MemoryInUse(limit),
        }
    }

    /// Returns the fault of a guest's call with this end, after this denial of memory.
    pub(crate) fn from_call_end(end: CallEnd, limits: &Limits, denial: Option<Denial>) -> Self {
        match end {
            CallEnd::Cpu => Self::Cpu(limits.cpu.duration()),
            CallEnd::Memory => Self::out_of_memory(limits.memory.bytes(), denial.unwrap_or(Denial::Input)),
            CallEnd::Handles => Self::Handles(limits.handles.get()),
            CallEnd::ResponseSize => Self::ResponseSize(limits.response_size.bytes()),
            CallEnd::RandomBytes => Self::RandomBytes(limits.random_bytes.bytes()),
            CallEnd::Trap(message) => Self::Trap(message),
        }
    }

    /// Returns whether the same request may get another response later, without a reload.
    pub fn is_transient(&self) -> bool {
        !matches!(self, Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_))
    }

    /// Returns whether it is the provider's own response, which says nothing about the plugin's health.
    pub(crate) fn is_provider_response(&self) -> bool {
        matches!(
            self,
            Self::NotFound | Self::InvalidRequest(_) | Self::Denied(_) | Self::Unavailable { .. } | Self::Internal(_)
        )
    }

    /// Returns whether a recording of the call can be its cause: the recording takes memory, copies the values of host
    /// calls, and has handles of its own.
    pub(crate) fn may_be_of_recording(&self) -> bool {
        matches!(self, Self::Memory(_) | Self::MemoryInUse(_) | Self::ResponseSize(_) | Self::Handles(_))
    }

    /// Returns whether it counts against the input of the call: the input causes it, whatever other calls do.
    pub(crate) fn is_of_input(&self) -> bool {
        self.trips_breaker() && !matches!(self, Self::Host(_))
    }

    /// Returns whether the provider caused it in a way that may recur: a failure for the circuit breaker.
    pub(crate) fn trips_breaker(&self) -> bool {
        match self {
            Self::Deadline(_)
            | Self::Cpu(_)
            | Self::Memory(_)
            | Self::Handles(_)
            | Self::RandomBytes(_)
            | Self::ResponseSize(_)
            | Self::ResponseItems { .. }
            | Self::Trap(_)
            | Self::Panicked(_)
            | Self::Contract(_)
            | Self::Host(_) => true,
            Self::NotFound
            | Self::InvalidRequest(_)
            | Self::Denied(_)
            | Self::Unavailable { .. }
            | Self::Internal(_)
            | Self::Suspended(_)
            | Self::RateLimited(_)
            | Self::QueueFull(_)
            | Self::QueueShare(_)
            | Self::FaultyInput(_)
            | Self::FaultyInputs(_)
            | Self::QueueTimeout(_)
            | Self::MemoryInUse(_)
            | Self::Delayed(_)
            | Self::ListingItems(_)
            | Self::EmptyPages(_)
            | Self::Grant(_) => false,
        }
    }
}

/// The retry delay if none is known.
const DEFAULT_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Formats a duration for people, in whole milliseconds.
fn format_millis(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(saturating_millis(time)))
}

/// Formats a duration for people, in whole seconds, at least one.
fn format_seconds(time: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(time.as_secs_f64().ceil().max(1.0) as u64))
}

/// The maximum length of a provider's failure message, in bytes.
const MAX_MESSAGE: usize = 1024;
/// The placeholder for the plugin's mount in a provider's failure message.
const MOUNT: &str = "{mount}";

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::NotFound => Self::NotFound,
            Failure::InvalidRequest(message) => Self::InvalidRequest(truncate_message(message)),
            Failure::Denied(message) => Self::Denied(truncate_message(message)),
            Failure::Unavailable { reason, retry_after } => {
                Self::Unavailable { reason: truncate_message(reason), retry_after }
            }
            Failure::Internal(message) => Self::Internal(truncate_message(message)),
        }
    }
}

fn truncate_message(message: String) -> String {
    truncate(message, MAX_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_failure_that_passes_is_said_to_be_for_now() {
        let message = |fault: Fault| fault.into_client_error("a", "a:///b").to_string();
        let second = Duration::from_secs(1);
        for lasting in [Fault::Cpu(second), Fault::Memory(1), Fault::ResponseSize(1), Fault::Handles(1)] {
            let text = message(lasting);
            assert!(text.contains("cannot answer: ") && !text.contains("later") && !text.contains("retry"), "{text}");
        }
        for passing in [
            Fault::QueueFull(1),
            Fault::RateLimited(second),
            Fault::Suspended(second),
            Fault::Delayed(second),
            Fault::MemoryInUse(1),
        ] {
            let text = message(passing);
            assert!(text.contains("cannot answer now: "), "{text}");
        }
        let refused = message(Fault::FaultyInput(second));
        assert!(refused.contains("would probably fail again") && !refused.contains("retry"), "{refused}");
    }

    #[test]
    fn a_message_names_uris_where_the_provider_has_the_place_of_the_mount() {
        let mount: Mount = "web:///".parse().unwrap();
        let message = |text: &str| Fault::from(Failure::InvalidRequest(text.to_owned())).with_mount(&mount);
        let expected = |text: &str| Fault::InvalidRequest(text.to_owned());
        assert_eq!(
            message("expected `{mount}a/`, found `{mount}a`"),
            expected("expected `web:///a/`, found `web:///a`")
        );
        assert_eq!(message("expected `{rev}`"), expected("expected `{rev}`"));
        let Fault::InvalidRequest(long) = message(&"{mount}".repeat(1000)) else { panic!("it stays what it is") };
        assert!(long.len() < MAX_MESSAGE + 10 && long.starts_with("web:///web:///"));
    }

    #[test]
    fn a_limit_on_what_a_recording_takes_may_be_exhausted_by_it() {
        let second = Duration::from_secs(1);
        for fault in [Fault::Memory(1), Fault::MemoryInUse(1), Fault::ResponseSize(1), Fault::Handles(1)] {
            assert!(fault.may_be_of_recording(), "{fault}");
        }
        for fault in [Fault::NotFound, Fault::Cpu(second), Fault::Trap("unreachable".to_owned())] {
            assert!(!fault.may_be_of_recording(), "{fault}");
        }
    }

    #[test]
    fn what_other_calls_caused_counts_against_no_input_nor_the_plugin() {
        let second = Duration::from_secs(1);
        for (fault, is_of_input, trips_breaker) in [
            (Fault::Memory(1), true, true),
            (Fault::out_of_memory(1, Denial::Input), true, true),
            (Fault::out_of_memory(1, Denial::Others), false, false),
            (Fault::Deadline(second), true, true),
            (Fault::Delayed(second), false, false),
            (Fault::Host("stopped".to_owned()), false, true),
            (Fault::QueueFull(1), false, false),
            (Fault::NotFound, false, false),
        ] {
            assert_eq!((fault.is_of_input(), fault.trips_breaker()), (is_of_input, trips_breaker), "{fault}");
        }
    }
}
