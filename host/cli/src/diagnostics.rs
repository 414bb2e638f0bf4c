//! What providers' calls did, for their authors: the times of a call (`--timing`), and where it failed.
//!
//! All commands but `serve` have a [`CallRecorder`], which the engine tells of each call. Nothing of it reaches clients: it goes to standard
//! error, escaped.
//!
//! | module | subject |
//! |---|---|
//! | [`host_calls`] | the names and times of host calls |
//! | [`timing`] | what a call cost, as a table, on a line, and as JSON |
//! | [`failure`] | what is known of a call that failed: its stack with lines of the source, what it had used, its last host calls |
//!
//! Bounded: the last [`MAX_CALLS`] calls, and [`MAX_FAILURES`] failures that differ in their place; others are counted.

mod failure;
pub(crate) mod host_calls;
pub(crate) mod timing;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mcp_host_devkit::profile::Profile;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::diagnostics::{CallObserver, CallReport, Sample};
use parking_lot::Mutex;

pub(crate) use self::failure::{JsonFailure, show as show_failure};
use super::messages::Messages;

/// The last calls that are kept.
const MAX_CALLS: usize = 256;
/// The failures that are kept, of those that differ in their place.
const MAX_FAILURES: usize = 8;

/// Records what providers' calls did.
#[derive(Debug, Default)]
pub(crate) struct CallRecorder {
    recorded: Mutex<Recorded>,
    /// Where each call is printed when it ends, instead of being kept.
    live: OnceLock<Messages>,
    /// Where guests compute, if that is wanted.
    pub(crate) profile: OnceLock<ProfileFile>,
}

/// A profile, and the file that it is written to; `-` for standard error, as a tree.
#[derive(Debug)]
pub(crate) struct ProfileFile {
    pub(crate) file: PathBuf,
    pub(crate) profile: Mutex<Profile>,
}

#[derive(Debug, Default)]
struct Recorded {
    calls: VecDeque<CallReport>,
    /// The calls that are not kept any more.
    more_calls: usize,
    failures: Vec<Failures>,
    /// The failures at other places.
    more_failures: usize,
}

/// Calls that failed at the same place, in the same way.
#[derive(Debug)]
pub(crate) struct Failures {
    /// The first one.
    pub(crate) first: Box<CallReport>,
    /// How many there were.
    pub(crate) count: usize,
}

/// The calls that were made since they were taken last.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// The last ones, oldest first.
    pub(crate) last: Vec<CallReport>,
    /// The number of those before.
    pub(crate) earlier: usize,
}

impl CallRecorder {
    /// Prints each call when it ends.
    pub(crate) fn print_to(&self, messages: &Messages) {
        // The first caller decides: there is one.
        let _ = self.live.set(messages.clone());
    }

    /// Collects a profile from now on, for [`Context::finish_profile`](super::context::Context::finish_profile).
    pub(crate) fn profile_to(&self, file: &Path) {
        let _ = self.profile.set(ProfileFile { file: file.to_owned(), profile: Mutex::default() });
    }

    /// Takes the calls.
    pub(crate) fn take_calls(&self) -> Calls {
        let mut recorded = self.recorded.lock();
        Calls { last: std::mem::take(&mut recorded.calls).into(), earlier: std::mem::take(&mut recorded.more_calls) }
    }

    /// Takes the failures, with the number of those at other places.
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
        // Not of what the host does for itself: loading other plugins, polls.
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

/// Prints a call on one line, and what is known of it if it failed. Polls of the host itself that went well are not worth a line.
fn print_live(call: CallReport, messages: &Messages) {
    if call.is_failure() {
        let messages = messages.clone();
        // It reads the component file for the lines of the source.
        let print = move || messages.print_lines(&failure::show(&call, 1));
        drop(tokio::task::spawn_blocking(print));
    } else if call.origin == CallOrigin::Client {
        messages.print_line(&timing::line(&call));
    }
}
