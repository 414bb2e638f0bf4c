//! What a call of a provider did, for the provider's author: how long each part took, which functions of the host it called, how much
//! memory it had, and where it failed.
//!
//! An observer is told of each call when it ends ([`CallObserver::called`]), and of the stacks that were seen while the guest computed
//! ([`CallObserver::sampled`]). Without one ([`PluginRuntime::observe_calls`](crate::plugin::PluginRuntime::observe_calls)), which is how
//! `serve` runs, a call has one branch more and allocates nothing for it.
//!
//! | part of a call | from, until |
//! |---|---|
//! | wait | the request; a permit of `limits.concurrency` and an instance slot |
//! | instantiation | the instance's context is made; the component is instantiated. None for an instance that is reused |
//! | guest | the function is called; its answer is copied out of the guest |
//! | validation | the answer is there; it is validated, composed and filtered |
//!
//! The processor time is that of all parts but the wait. Names of functions come from the component's `name` section, which has them
//! mangled; the lines of the source are looked up by who has the component file ([`StackFrame::offset`]).
//!
//! Nothing of it goes to clients.

mod backtrace;
mod call_trace;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::digest::Digest;
pub use mcp_host_sandbox::host_calls::{HostCall, HostCallTotal, HostCalls, OpenHostCall};

pub use self::backtrace::{Backtrace, StackFrame};
pub(crate) use self::call_trace::{CallTrace, ObservedPlugin};
use crate::CallOrigin;
use crate::plugin::fault::Fault;

/// Is told of calls. It is called on the threads of the calls and must not block.
pub trait CallObserver: fmt::Debug + Send + Sync {
    /// A call has ended.
    fn called(&self, call: CallReport);

    /// Whether stacks are wanted while guests compute.
    fn wants_samples(&self) -> bool {
        false
    }

    /// The guest of a plugin computes there. It has used that processor time since it was seen last.
    fn sampled(&self, _sample: Sample<'_>) {}
}

/// A stack of a guest that computes, at a tick of the epoch.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Sample<'a> {
    /// The plugin.
    pub plugin: &'a str,
    /// The function of the contract.
    pub function: &'static str,
    /// Who called.
    pub origin: CallOrigin,
    /// The number of the call among those of the plugin.
    pub call: u64,
    /// The processor time since the last sample of the call, or since its beginning.
    pub cpu: Duration,
    /// Where it computes.
    pub stack: &'a Backtrace,
}

/// What a call did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CallReport {
    /// The plugin.
    pub plugin: Arc<str>,
    /// The file of its component, and the digest of what was loaded; none for a native provider.
    pub component: Option<(Arc<Path>, Digest)>,
    /// The function of the contract.
    pub function: &'static str,
    /// The path that it is about.
    pub path: Option<Arc<str>>,
    /// Who called.
    pub origin: CallOrigin,
    /// Why there is no answer. None if there is one.
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
    /// The most memory that the instance had at once, and `limits.memory`; none before there is an instance.
    pub memory: Option<(u64, u64)>,
    /// The host calls by function.
    pub host_calls: Vec<HostCallTotal>,
    /// The last host calls, oldest first.
    pub last_host_calls: Vec<HostCall>,
    /// What it wrote on standard error and logged as errors, the last lines.
    pub error_lines: Vec<String>,
    /// Where the guest was when it failed; of one that was waiting, where it computed last.
    pub stack: Option<Backtrace>,
}

impl CallReport {
    /// Whether the provider failed, or a limit ended the call. A resource that does not exist is an answer, and a call that was not made
    /// is none.
    pub fn is_failure(&self) -> bool {
        self.fault
            .as_ref()
            .is_some_and(|fault| fault.trips_breaker() || matches!(fault, Fault::Internal(_) | Fault::Delayed(_)))
    }
}
