//! The faults of one plugin: counted by kind, and logged under the target `mcp_host::plugin`. The fields are `plugin`,
//! `function` (none for a dropped part of a response), `path` (if the call has one), `kind`, `stack` (where a guest
//! trapped or used up a limit: its functions, innermost first) and `suppressed` (if the line represents several
//! faults).
//!
//! Faults with varying texts (a trap, a broken contract, the provider's failure message) are logged each time, within
//! an allowance of bytes per minute. The allowance is as large as the guest's own, but separate: a guest that floods
//! its log hides nothing. Faults of a limit, and of a granted directory that cannot be opened, repeat the same text: each
//! kind is logged once per [`LOG_INTERVAL`], with the number of suppressed lines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcp_host_base::escape;
use mcp_host_base::text::{prefix, truncate};
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_sandbox::guest_log::{GuestLog, RecentLine};

use crate::diagnostics::Backtrace;
use crate::fault::{Fault, FaultKind};

use mcp_host_base::log_target;

/// The throttle interval of each kind of fault with a constant text.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The maximum length of a path in a line, in bytes.
const MAX_PATH: usize = 256;

/// The maximum length of a stack in a line, in bytes.
const MAX_STACK: usize = 1024;

/// A failed call.
#[derive(Clone, Copy)]
struct Call<'a> {
    function: &'a str,
    /// The path that the call is about.
    path: Option<&'a str>,
    /// The stack of the guest at the failure.
    stack: Option<&'a Backtrace>,
}

impl Call<'_> {
    fn shown_path(self) -> Option<String> {
        self.path.map(|path| escape::line(prefix(path, MAX_PATH)).into_owned())
    }

    /// Formats the functions of the stack on one line.
    fn shown_stack(self) -> Option<String> {
        self.stack.map(|stack| truncate(stack.to_string(), MAX_STACK))
    }

    fn line(self, message: &str) -> String {
        match self.shown_path() {
            Some(path) => format!("{} {path}: {message}", self.function),
            None => format!("{}: {message}", self.function),
        }
    }
}

/// The faults of one plugin.
pub(super) struct FaultRecorder {
    plugin: Arc<str>,
    log: Arc<GuestLog>,
    counts: [AtomicU64; FaultKind::ALL.len()],
    throttle: ThrottlePerReason,
}

impl FaultRecorder {
    /// Creates a recorder without faults, with this log allowance per minute.
    pub(super) fn new(plugin: Arc<str>, bytes_per_minute: u64) -> Self {
        let log = GuestLog::new(plugin.clone(), bytes_per_minute);
        Self { plugin, log, counts: Default::default(), throttle: ThrottlePerReason::new(LOG_INTERVAL) }
    }

    /// Records a failed call, unless the failure is a negative answer.
    pub(super) fn record(&self, function: &str, path: Option<&str>, fault: &Fault) {
        self.record_at(function, path, fault, None);
    }

    /// Records a failed call of a guest, with its stack.
    pub(super) fn record_at(&self, function: &str, path: Option<&str>, fault: &Fault, stack: Option<&Backtrace>) {
        let Some(kind) = fault.kind() else { return };
        let call = Call { function, path, stack };
        if !kind.is_throttled() {
            return self.log_many(1, kind, Some(call), &fault.to_string());
        }
        self.count(kind, 1);
        let kind = kind.name();
        if let Some(suppressed) = self.throttle.record(kind) {
            let (plugin, path, stack) = (&*self.plugin, call.shown_path(), call.shown_stack());
            let suppressed = Some(suppressed).filter(|suppressed| *suppressed > 0);
            tracing::warn!(target: log_target::PLUGIN, plugin, function, path, kind, suppressed, stack, "{fault}");
            self.log.keep_recent("warn", call.line(&fault.to_string()));
        }
    }

    /// Records a number of defects of an otherwise valid answer, in one line.
    pub(super) fn record_partial(&self, count: u64, message: &str) {
        self.log_many(count, FaultKind::Contract, None, message);
    }

    /// Returns the number of faults by kind. Kinds with no faults are left out.
    pub(super) fn counts(&self) -> BTreeMap<FaultKind, u64> {
        let counted = FaultKind::ALL.into_iter().zip(&self.counts);
        let counted = counted.map(|(kind, count)| (kind, count.load(Ordering::Relaxed)));
        counted.filter(|(_, count)| *count > 0).collect()
    }

    /// Returns the last logged lines about faults.
    pub(super) fn recent(&self) -> Vec<RecentLine> {
        self.log.recent()
    }

    fn log_many(&self, count: u64, kind: FaultKind, call: Option<Call<'_>>, message: &str) {
        self.count(kind, count);
        if !tracing::enabled!(target: log_target::PLUGIN, tracing::Level::WARN) {
            return;
        }
        if let Some(line) = self.log.admit_line(message) {
            let (plugin, kind) = (&*self.plugin, kind.name());
            let (function, path) = call.map(|call| (call.function, call.shown_path())).unzip();
            // The stack uses the same allowance.
            let stack = call.and_then(Call::shown_stack).filter(|stack| self.log.admit_line(stack).is_some());
            tracing::warn!(target: log_target::PLUGIN, plugin, function, path = path.flatten(), kind, stack, "{line}");
            self.log.keep_recent("warn", call.map_or_else(|| line.clone(), |call| call.line(&line)));
        }
    }

    fn count(&self, kind: FaultKind, faults: u64) {
        if let Some(count) = self.counts.get(kind as usize) {
            count.fetch_add(faults, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_counted_by_kind_and_answers_are_none() {
        let faults = FaultRecorder::new("a".into(), 1024);
        for fault in [Fault::NotFound, Fault::Trap("x".into()), Fault::QueueFull(1), Fault::QueueFull(1)] {
            faults.record("read", Some("a"), &fault);
        }
        faults.record_partial(3, "bad hints");
        let expected = [(FaultKind::Trap, 1), (FaultKind::Contract, 3), (FaultKind::Queue, 2)];
        assert_eq!(faults.counts(), BTreeMap::from(expected));
    }

    #[test]
    fn a_directory_that_is_gone_is_logged_once_in_the_interval() {
        let faults = FaultRecorder::new("a".into(), 1024);
        let gone = Fault::Grant("cannot open the granted directory /srv/notes: No such file or directory".into());
        for _ in 0..1000 {
            faults.record("read", Some("a"), &gone);
        }
        let logged: Vec<_> = faults.recent().into_iter().map(|line| line.times).collect();
        assert_eq!(logged, [1]);
        assert_eq!(faults.log.dropped(), 0, "the allowance is left to other faults");
        assert_eq!(faults.counts(), BTreeMap::from([(FaultKind::Grant, 1000)]));
    }
}
