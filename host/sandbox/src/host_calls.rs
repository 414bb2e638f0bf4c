//! The host calls of one call of a provider, for its author: the number of calls, the time and the bytes of each
//! function, and the last calls.
//!
//! The recorder is a task-local variable of the call. It is set only where calls are [observed](HostCalls::scope):
//! `serve` has none. A caller that knows the functions by name begins a host call ([`HostCalls::begin`]); the command
//! line does so from the `tracing` spans of the generated bindings. Functions that carry data add its bytes
//! (`transferred`); without a recorder this is one read of a thread-local variable.
//!
//! Bounded: [`MAX_FUNCTIONS`] functions, [`MAX_LAST`] last calls, [`MAX_ERROR_LINES`] lines of standard error and of
//! errors in the log, of [`MAX_ERROR_LINE`] bytes.
//!
//! The contract is synchronous, so one host call is open at a time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcp_host_base::text::truncate;
use parking_lot::Mutex;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    /// The recorder of the current call.
    static CURRENT: Arc<HostCalls>;
}

/// The maximum number of distinct functions. The linker has about 200.
const MAX_FUNCTIONS: usize = 512;
/// The maximum number of kept host calls.
const MAX_LAST: usize = 10;
/// The maximum number of kept lines of standard error.
const MAX_ERROR_LINES: usize = 64;
/// The maximum number of kept bytes of a line of standard error.
const MAX_ERROR_LINE: usize = 1024;

/// The calls of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCallTotal {
    /// The interface and the function, such as `wasi:filesystem/types descriptor.open-at`.
    pub function: Arc<str>,
    /// The number of calls.
    pub count: u64,
    /// The time of all calls.
    pub time: Duration,
    /// The bytes of contents that were passed to or from the guest.
    pub bytes: u64,
}

/// A host call, or several consecutive calls of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostCall {
    /// The interface and the function.
    pub function: Arc<str>,
    /// The number of consecutive calls.
    pub count: u64,
    /// The time, until now if the call has not returned.
    pub time: Duration,
    /// The bytes of contents that were passed to or from the guest.
    pub bytes: u64,
    /// Whether the call has returned.
    pub has_returned: bool,
}

/// Records the host calls of one call.
#[derive(Debug, Default)]
pub struct HostCalls(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    totals: Vec<HostCallTotal>,
    last: VecDeque<HostCall>,
    open: Option<OpenCall>,
    error_lines: VecDeque<String>,
    /// Whether the call is about to be cancelled.
    is_interrupted: bool,
}

#[derive(Debug)]
struct OpenCall {
    function: Arc<str>,
    began: Instant,
    bytes: u64,
}

impl OpenCall {
    fn seen(&self, has_returned: bool) -> HostCall {
        HostCall {
            function: self.function.clone(),
            count: 1,
            time: self.began.elapsed(),
            bytes: self.bytes,
            has_returned,
        }
    }
}

/// A host call that has not returned. Dropping this marks its return.
#[derive(Debug)]
pub struct OpenHostCall(Arc<HostCalls>);

impl Drop for OpenHostCall {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl HostCalls {
    /// Records the host calls of this call.
    pub fn scope<F: Future>(self: Arc<Self>, call: F) -> TaskLocalFuture<Arc<Self>, F> {
        CURRENT.scope(self, call)
    }

    /// The recorder of the current call, if it is observed.
    pub fn current() -> Option<Arc<Self>> {
        CURRENT.try_with(Arc::clone).ok()
    }

    /// Whether the current call is observed.
    pub(crate) fn is_observed() -> bool {
        CURRENT.try_with(|_| ()).is_ok()
    }

    /// Begins a host call.
    pub fn begin(self: Arc<Self>, function: Arc<str>) -> OpenHostCall {
        self.end();
        self.0.lock().open = Some(OpenCall { function, began: Instant::now(), bytes: 0 });
        OpenHostCall(self)
    }

    /// Marks the call as about to be cancelled: an open host call then does not return.
    pub fn interrupt(&self) {
        self.0.lock().is_interrupted = true;
    }

    /// Ends the open host call, if there is one.
    fn end(&self) {
        let mut state = self.0.lock();
        if state.is_interrupted {
            return;
        }
        let Some(open) = state.open.take() else { return };
        let call = open.seen(true);
        state.count(&call);
        state.keep_last(call);
    }

    /// The calls of each function, in the order of the first calls. A call that has not returned counts with its time
    /// until now.
    pub fn totals(&self) -> Vec<HostCallTotal> {
        let state = self.0.lock();
        let mut all = State { totals: state.totals.clone(), ..State::default() };
        if let Some(open) = &state.open {
            all.count(&open.seen(false));
        }
        all.totals
    }

    /// The last host calls, oldest first, including one that has not returned.
    pub fn last(&self) -> Vec<HostCall> {
        let state = self.0.lock();
        let mut last: Vec<_> =
            state.last.iter().cloned().chain(state.open.as_ref().map(|open| open.seen(false))).collect();
        let more = last.len().saturating_sub(MAX_LAST);
        last.drain(..more);
        last
    }

    /// The last lines of standard error and of logged errors, oldest first, in their original form.
    pub fn error_lines(&self) -> Vec<String> {
        self.0.lock().error_lines.iter().cloned().collect()
    }
}

impl State {
    /// Adds a call to the last ones, and merges it with the previous one if both are of the same function. Log calls
    /// are left out, because their lines are [kept](Self::error_lines).
    fn keep_last(&mut self, call: HostCall) {
        if call.function.starts_with("wasi:logging/") {
            return;
        }
        if let Some(before) = self.last.back_mut().filter(|before| before.function == call.function) {
            before.count = before.count.saturating_add(1);
            before.time = before.time.saturating_add(call.time);
            before.bytes = before.bytes.saturating_add(call.bytes);
            return;
        }
        if self.last.len() >= MAX_LAST {
            self.last.pop_front();
        }
        self.last.push_back(call);
    }

    fn count(&mut self, call: &HostCall) {
        if !self.totals.iter().any(|total| total.function == call.function) && self.totals.len() < MAX_FUNCTIONS {
            let function = call.function.clone();
            self.totals.push(HostCallTotal { function, count: 0, time: Duration::ZERO, bytes: 0 });
        }
        if let Some(total) = self.totals.iter_mut().find(|total| total.function == call.function) {
            total.count = total.count.saturating_add(1);
            total.time = total.time.saturating_add(call.time);
            total.bytes = total.bytes.saturating_add(call.bytes);
        }
    }
}

/// Records that `bytes` bytes of contents pass to or from the guest in the current host call.
pub(crate) fn transferred(bytes: usize) {
    // Without a recorder, the call is not observed.
    let _ = CURRENT.try_with(|calls| {
        if let Some(open) = &mut calls.0.lock().open {
            open.bytes = open.bytes.saturating_add(bytes as u64);
        }
    });
}

/// Records lines that the guest writes to standard error, or logs as an error.
pub(crate) fn wrote_errors(lines: &str) {
    let _ = CURRENT.try_with(|calls| {
        let mut state = calls.0.lock();
        for line in lines.lines().filter(|line| !line.trim().is_empty()) {
            if state.error_lines.len() >= MAX_ERROR_LINES {
                state.error_lines.pop_front();
            }
            state.error_lines.push_back(truncate(line.to_owned(), MAX_ERROR_LINE));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn host_calls_are_counted_by_function_and_the_last_are_kept() {
        let calls = Arc::new(HostCalls::default());
        let observed = async {
            for number in 0..12 {
                let function: Arc<str> = if number % 2 == 0 { "a read".into() } else { "b write".into() };
                let open = HostCalls::current().unwrap().begin(function);
                transferred(10);
                drop(open);
                // Bytes between host calls are not counted.
                transferred(1000);
            }
            wrote_errors("one\n\ntwo\n");
            (0..3).for_each(|_| drop(HostCalls::current().unwrap().begin("wasi:logging/logging log".into())));
            std::mem::forget(HostCalls::current().unwrap().begin("c poll".into()));
        };
        calls.clone().scope(observed).await;
        let totals: Vec<_> =
            calls.totals().iter().map(|total| (total.function.to_string(), total.count, total.bytes)).collect();
        let expected = [("a read", 6, 60), ("b write", 6, 60), ("wasi:logging/logging log", 3, 0), ("c poll", 1, 0)];
        assert_eq!(totals, expected.map(|(name, count, bytes)| (name.to_owned(), count, bytes)));
        let last = calls.last();
        assert_eq!(
            (last.len(), &*last[9].function, last[9].has_returned, last[8].has_returned),
            (10, "c poll", false, true)
        );
        assert_eq!(calls.error_lines(), ["one", "two"]);
    }

    #[tokio::test]
    async fn calls_of_one_function_in_a_row_are_one_of_the_last() {
        let calls = Arc::new(HostCalls::default());
        for function in ["a read", "a read", "b write", "a read"] {
            drop(calls.clone().begin(function.into()));
        }
        assert_eq!(calls.last().iter().map(|last| last.count).collect::<Vec<_>>(), [2, 1, 1]);
    }

    #[tokio::test]
    async fn a_host_call_that_is_cancelled_with_its_call_has_not_returned() {
        let calls = Arc::new(HostCalls::default());
        let open = calls.clone().begin("a poll".into());
        calls.interrupt();
        drop(open);
        assert_eq!(calls.last().iter().map(|last| last.has_returned).collect::<Vec<_>>(), [false]);
    }

    #[tokio::test]
    async fn without_an_observer_nothing_is_recorded() {
        transferred(1);
        wrote_errors("x");
        assert!(HostCalls::current().is_none());
    }
}
