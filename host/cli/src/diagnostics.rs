//! Diagnostics of providers' calls for their authors: the times of a call (`--timing`), and the place of a failure.
//!
//! All commands but `serve` have a [`CallRecorder`], to which the engine reports each call. The reports are not sent to
//! clients: they go to standard error, escaped.
//!
//! | module | subject |
//! |---|---|
//! | [`host_calls`] | the names and times of host calls |
//! | [`timing`] | the cost of a call, as a table, on a line, and as JSON |
//! | [`failure`] | a failed call: its stack with source lines, its use of limits, its last host calls |
//!
//! Bounded: the last [`MAX_CALLS`] calls, and [`MAX_FAILURES`] failures at different places; others are only counted.

mod failure;
pub(crate) mod host_calls;
pub(crate) mod timing;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcp_host_base::task;
use mcp_host_devkit::profile::Profile;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::diagnostics::{CallObserver, CallReport, Sample};
use parking_lot::Mutex;

pub(crate) use self::failure::{JsonFailure, show as show_failure};
use super::messages::Messages;

/// The maximum number of calls that are kept; the newest are.
const MAX_CALLS: usize = 256;
/// The maximum number of failures that are kept, one per place.
const MAX_FAILURES: usize = 8;

/// Records providers' calls.
#[derive(Debug, Default)]
pub(crate) struct CallRecorder {
    recorded: Mutex<Recorded>,
    /// The destination of a line per call as soon as the call ends, in place of keeping it.
    live: OnceLock<Messages>,
    /// The CPU profile of guests, if one was requested.
    pub(crate) profile: OnceLock<ProfileFile>,
}

/// A profile and its output file; `-` for a flame graph and a call tree on standard error.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    pub(crate) file: PathBuf,
    pub(crate) profile: Mutex<Profile>,
}

#[derive(Debug, Default)]
struct Recorded {
    calls: VecDeque<CallReport>,
    /// The number of older calls that were dropped.
    more_calls: usize,
    failures: Vec<Failures>,
    /// The number of failures at further places.
    more_failures: usize,
}

/// Calls that failed at the same place, in the same way.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The first failed call.
    pub(crate) first: Box<CallReport>,
    /// The number of failures.
    pub(crate) count: usize,
}

/// The calls since the last [`CallRecorder::take_calls`].
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The last calls, oldest first.
    pub(crate) last: Vec<CallReport>,
    /// The number of earlier calls.
    pub(crate) earlier: usize,
}

impl CallRecorder {
    /// Prints each call when it ends.
    pub(crate) fn print_to(&self, messages: &Messages) {
        // The first caller wins: there is only one.
        let _ = self.live.set(messages.clone());
    }

    /// Starts to collect a profile for [`Context::finish_profile`](super::context::Context::finish_profile).
    pub(crate) fn profile_to(&self, file: &Path) {
        let _ = self.profile.set(ProfileFile { file: file.to_owned(), profile: Mutex::default() });
    }

    /// Takes the recorded calls.
    pub(crate) fn take_calls(&self) -> Calls {
        let mut recorded = self.recorded.lock();
        Calls { last: std::mem::take(&mut recorded.calls).into(), earlier: std::mem::take(&mut recorded.more_calls) }
    }

    /// Takes the failures, with the number of failures at further places.
    pub(crate) fn take_failures(&self) -> (Vec<Failures>, usize) {
        let mut recorded = self.recorded.lock();
        (std::mem::take(&mut recorded.failures), std::mem::take(&mut recorded.more_failures))
    }
}

impl CallObserver for CallRecorder {
    fn called(&self, call: CallReport) {
        if let Some(messages) = self.live.get() {
            return print_live(call, messages);
        }
        let mut recorded = self.recorded.lock();
        if call.is_failure() {
            recorded.record_failure(&call);
        }
        if recorded.calls.len() >= MAX_CALLS {
            recorded.calls.pop_front();
            recorded.more_calls = recorded.more_calls.saturating_add(1);
        }
        recorded.calls.push_back(call);
    }

    fn wants_samples(&self) -> bool {
        self.profile.get().is_some()
    }

    fn sampled(&self, sample: Sample<'_>) {
        // Calls of the host itself are excluded: loading other plugins, polls.
        if let Some(ProfileFile { profile, .. }) = self.profile.get().filter(|_| sample.origin == CallOrigin::Client) {
            profile.lock().add(&sample);
        }
    }
}

impl Recorded {
    fn record_failure(&mut self, call: &CallReport) {
        if let Some(known) = self.failures.iter_mut().find(|known| failure::is_same(&known.first, call)) {
            known.count = known.count.saturating_add(1);
        } else if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failures { first: Box::new(call.clone()), count: 1 });
        } else {
            self.more_failures = self.more_failures.saturating_add(1);
        }
    }
}

/// Prints a call on one line, and details if it failed. Successful polls of the host itself are not printed.
fn print_live(call: CallReport, messages: &Messages) {
    if call.is_failure() {
        let messages = messages.clone();
        // The blocking part: the source lines come from the component file.
        let print = move || messages.print_lines(&failure::show(&call, 1));
        drop(task::spawn_blocking(print));
    } else if call.origin == CallOrigin::Client {
        messages.print_line(&timing::line(&call));
    }
}
