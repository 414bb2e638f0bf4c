//! Counters of the programs of one upstream, which all of its connections share.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_host_model::provider::{Program, ProgramEnd, ProgramEndReason, Programs};
use parking_lot::Mutex;

use super::ProgramState;

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
        tokio::spawn(async move { ledger.ended(state.ended().await) });
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
