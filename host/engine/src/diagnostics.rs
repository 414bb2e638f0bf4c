//! Reports about calls of a provider, for its author: the time of each part, the host functions that it called, its
//! memory, and where it failed.
//!
//! An observer is notified of each call when it ends ([`CallObserver::called`]), and of stack samples while the guest
//! computes ([`CallObserver::sampled`]). Without an observer
//! ([`PluginRuntime::observe_calls`](crate::plugin::PluginRuntime::observe_calls)), as in `serve`, a call has one more
//! branch and no allocation.
//!
//! | part of a call | from | until |
//! |---|---|---|
//! | wait | the request | a permit of `limits.concurrency` and an instance slot are acquired |
//! | instantiation | the instance's context is created | the component is instantiated. None for a reused instance |
//! | guest | the function is called | its answer is copied out of the guest |
//! | validation | the answer is copied | the answer is validated, composed and filtered |
//!
//! The processor time covers all parts except the wait. Names of functions come from the component's `name` section,
//! which has them mangled. A tool with the component file can look up the lines of the source ([`StackFrame::offset`]).
//!
//! Reports are never sent to clients.

mod backtrace;
mod call_trace;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::digest::Digest;
pub use mcp_host_sandbox::host_calls::{HostCall, HostCallTotal, HostCalls, OpenHostCall};

pub use self::backtrace::{Backtrace, StackFrame, demangle};
pub(crate) use self::call_trace::{CallTrace, ObservedPlugin};
use crate::CallOrigin;
use crate::fault::Fault;

/// Receives reports about calls. It is called on the threads of the calls and must not block.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// A call has ended.
    fn called(&self, call: CallReport);

    /// Returns whether stacks are sampled while guests compute.
    fn wants_samples(&self) -> bool {
        false
    }

    /// Reports that a plugin's guest is computing. The sample has the processor time since the last sample.
    fn sampled(&self, _sample: Sample<'_>) {}
}

/// A stack of a computing guest, at a tick of the epoch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// The function of the contract.
    pub function: &'static str,
    /// The origin of the call.
    pub origin: CallOrigin,
    /// The number of the call among the plugin's calls.
    pub call: u64,
    /// The processor time since the last sample of the call, or since its beginning.
    pub cpu: Duration,
    /// The stack of the guest.
    pub stack: &'a Backtrace,
}

/// A report about a call.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The plugin.
    pub plugin: Arc<str>,
    /// The file of its component, and the digest of the loaded component; none for a native provider.
    pub component: Option<(Arc<Path>, Digest)>,
    /// The function of the contract.
    pub function: &'static str,
    /// The path that the call is about.
    pub path: Option<Arc<str>>,
    /// The origin of the call.
    pub origin: CallOrigin,
    /// Why the call has no answer; none if it has one.
    pub fault: Option<Fault>,
    /// The time from the request to the answer.
    pub total: Duration,
    /// The wait for permits.
    pub wait: Duration,
    /// The time to make the instance; none if it was reused.
    pub instantiation: Option<Duration>,
    /// The time in the guest and in the host calls that it made.
    pub guest: Duration,
    /// The time to validate the answer.
    pub validation: Duration,
    /// The processor time, and `limits.cpu`.
    pub cpu: (Duration, Duration),
    /// `limits.deadline`.
    pub deadline: Duration,
    /// The peak memory of the instance, and `limits.memory`; none before there is an instance.
    pub memory: Option<(u64, u64)>,
    /// The host calls by function.
    pub host_calls: Vec<HostCallTotal>,
    /// The last host calls, oldest first.
    pub last_host_calls: Vec<HostCall>,
    /// The last lines that it wrote to standard error and logged as errors.
    pub error_lines: Vec<String>,
    /// The stack of the guest when it failed. For a guest that was waiting, the stack when it last computed.
    pub stack: Option<Backtrace>,
}

impl CallReport {
    /// Returns whether the provider failed, or a limit ended the call. "Not found" is an answer, and a call that was
    /// not made is not a failure.
    pub fn is_failure(&self) -> bool {
        self.fault
            .as_ref()
            .is_some_and(|fault| fault.trips_breaker() || matches!(fault, Fault::Internal(_) | Fault::Delayed(_)))
    }
}
