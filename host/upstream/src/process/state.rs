//! The state of one start of a program.

use std::time::SystemTime;

use mcp_host_model::provider::{ProgramEnd, ProgramEndReason, ProgramLimits, ProgramUsage};
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

    /// Returns the last measured usage of the program's processes; none before the first measurement, and after their end.
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
