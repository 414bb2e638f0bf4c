//! What is known of one start of a program.

use std::time::SystemTime;

use mcp_host_model::provider::{ProgramEnd, ProgramEndReason, ProgramLimits, ProgramUsage};
use parking_lot::Mutex;
use tokio::sync::watch;

/// What is known of a program while it runs, and when it has ended.
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
    /// The state of a program that was started now, with the number of its process and what it may use.
    pub fn new(process: Option<u32>, limits: ProgramLimits) -> Self {
        let started = SystemTime::now();
        Self { process, started, limits, ended: watch::Sender::default(), usage: Mutex::default() }
    }

    /// Says that all of its processes have ended, and how.
    pub fn set_ended(&self, reason: ProgramEndReason, text: String) {
        self.ended.send_replace(Some(ProgramEnd { at: SystemTime::now(), reason, text }));
    }

    /// Says what its processes use.
    pub fn set_usage(&self, usage: ProgramUsage) {
        *self.usage.lock() = Some(usage);
    }

    /// The number of its process.
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

    /// What its processes used when they were measured last; none before, and once they have ended.
    pub(crate) fn usage(&self) -> Option<ProgramUsage> {
        if self.has_ended() { None } else { *self.usage.lock() }
    }

    /// The memory of its processes when it was measured last; 0 once they have ended.
    pub(crate) fn memory(&self) -> u64 {
        self.usage().map_or(0, |usage| usage.memory)
    }

    /// Waits until it has ended, and returns how.
    pub(crate) async fn ended(&self) -> ProgramEnd {
        let mut ended = self.ended.subscribe();
        // It fails only without a sender, which this is.
        let end = ended.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        end.unwrap_or_else(|| ProgramEnd {
            at: SystemTime::now(),
            reason: ProgramEndReason::Unknown,
            text: String::new(),
        })
    }
}
