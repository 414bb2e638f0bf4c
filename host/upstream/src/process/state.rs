//! The state of one start of a program, and the counters of the programs of one upstream, which all of its connections
//! share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use mcp_host_base::task;
use mcp_host_model::provider::{Program, ProgramEnd, ProgramEndReason, ProgramLimits, ProgramUsage, Programs};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The state of a program while it runs, and its end.
#[derive(Debug)]
pub struct ProgramState {
    process: Option<u32>,
    started: SystemTime,
    limits: ProgramLimits,
    ended: watch::Sender<Option<ProgramEnd>>,
    usage: Mutex<Option<ProgramUsage>>,
}

impl Default for ProgramState {
    fn default() -> Self {
        Self::new(None, ProgramLimits::default())
    }
}

impl ProgramState {
    /// Creates the state of a program that starts now, with its process id and its limits.
    pub fn new(process: Option<u32>, limits: ProgramLimits) -> Self {
        let started = SystemTime::now();
        Self { process, started, limits, ended: watch::Sender::default(), usage: Mutex::default() }
    }

    /// Records that all processes of the program have ended, with the reason.
    pub fn set_ended(&self, reason: ProgramEndReason, text: String) {
        self.ended.send_replace(Some(ProgramEnd { at: SystemTime::now(), reason, text }));
    }

    /// Records the usage of the program's processes.
    pub fn set_usage(&self, usage: ProgramUsage) {
        *self.usage.lock() = Some(usage);
    }

    /// Returns the process id.
    pub(crate) fn process(&self) -> Option<u32> {
        self.process
    }

    pub(crate) fn started(&self) -> SystemTime {
        self.started
    }

    pub(crate) fn limits(&self) -> ProgramLimits {
        self.limits
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.borrow().is_some()
    }

    /// Returns the last measured usage of the program's processes; none before the first measurement, and after their
    /// end.
    pub(crate) fn usage(&self) -> Option<ProgramUsage> {
        if self.has_ended() { None } else { *self.usage.lock() }
    }

    /// Returns the last measured memory of the program's processes; 0 after their end.
    pub(crate) fn memory(&self) -> u64 {
        self.usage().map_or(0, |usage| usage.memory)
    }

    /// Waits until the program has ended, and returns how.
    pub(crate) async fn ended(&self) -> ProgramEnd {
        let mut ended = self.ended.subscribe();
        // This fails only without a sender, and `self` has it.
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or_else(|| ProgramEnd {
            at: SystemTime::now(),
            reason: ProgramEndReason::Unknown,
            text: String::new(),
        })
    }
}

/// Counts the programs of one upstream since it was loaded.
#[derive(Debug, Default)]
pub(crate) struct Ledger(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    starts: u64,
    ends: BTreeMap<ProgramEndReason, u64>,
    last_end: Option<ProgramEnd>,
}

impl Ledger {
    /// Counts a started program, and its end once that is recorded.
    pub(crate) fn started(self: &Arc<Self>, state: Arc<ProgramState>) {
        let starts = &mut self.0.lock().starts;
        *starts = starts.saturating_add(1);
        let ledger = self.clone();
        // The task that started the program always records its end.
        task::spawn(async move { ledger.ended(state.ended().await) });
    }

    fn ended(&self, end: ProgramEnd) {
        let mut counts = self.0.lock();
        let count = counts.ends.entry(end.reason).or_default();
        *count = count.saturating_add(1);
        counts.last_end = Some(end);
    }

    /// Returns the counters, with these programs.
    pub(crate) fn programs(&self, programs: Vec<Program>) -> Programs {
        let counts = self.0.lock();
        let mut all = Programs::default();
        all.programs = programs;
        all.starts = counts.starts;
        all.ends = counts.ends.iter().map(|(reason, count)| (*reason, *count)).collect();
        all.last_end = counts.last_end.clone();
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ends_are_counted_by_reason_and_the_last_one_is_kept() {
        let ledger = Arc::<Ledger>::default();
        for (reason, text) in [(ProgramEndReason::Exit, "one"), (ProgramEndReason::Memory, "two")] {
            let state = Arc::<ProgramState>::default();
            ledger.started(state.clone());
            state.set_ended(reason, text.to_owned());
            while ledger.programs(Vec::new()).last_end.is_none_or(|end| end.text != text) {
                tokio::task::yield_now().await;
            }
        }
        let counts = ledger.programs(Vec::new());
        assert_eq!(counts.starts, 2);
        assert_eq!(counts.ends, [(ProgramEndReason::Exit, 1), (ProgramEndReason::Memory, 1)]);
        assert_eq!(counts.last_end.unwrap().reason, ProgramEndReason::Memory);
    }
}
