//! What was dropped from one answer: all of it is counted, and one log line reports it.
//!
//! The line has the first example of each kind, truncated before it is formatted, so its cost does not depend on the
//! number or the length of what was dropped.

use std::fmt::{Display, Write};

use mcp_host_base::text::Excerpt;

use super::super::fault_recorder::FaultRecorder;

/// What was dropped from one answer.
#[derive(Debug, Default)]
pub(super) struct DroppedItems {
    /// At most as many kinds as calls of [`record`](Self::record) in the code.
    kinds: Vec<DroppedKind>,
}

#[derive(Debug)]
struct DroppedKind {
    what: &'static str,
    count: u64,
    /// The message about the first.
    example: String,
}

impl DroppedItems {
    /// Records a dropped hint of that entry or template.
    pub(super) fn record_hint(&mut self, what: &'static str, path: &str, found: &dyn Display, expected: &str) {
        self.record(what, || {
            let path = Excerpt(path);
            format!("{what} of `{path}` dropped: expected {expected}, found `{found}`")
        });
    }

    /// Records a dropped part of that kind; `example` makes the message about the first.
    pub(super) fn record(&mut self, what: &'static str, example: impl FnOnce() -> String) {
        match self.kinds.iter_mut().find(|kind| kind.what == what) {
            Some(kind) => kind.count = kind.count.saturating_add(1),
            None => self.kinds.push(DroppedKind { what, count: 1, example: example() }),
        }
    }

    /// Logs and counts it, if there is anything.
    pub(super) fn log(&mut self, faults: &FaultRecorder) {
        let kinds = std::mem::take(&mut self.kinds);
        if kinds.is_empty() {
            return;
        }
        let mut line = String::new();
        for kind in &kinds {
            let separator = if line.is_empty() { "" } else { "; " };
            line.extend([separator, &kind.example]);
            if let Some(more) = kind.count.checked_sub(1).filter(|more| *more > 0) {
                // Writing to a string does not fail.
                let _ = write!(line, ", and {more} more");
            }
        }
        faults.record_partial(kinds.iter().fold(0, |sum, kind| sum.saturating_add(kind.count)), &line);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::plugin::FaultKind;

    #[test]
    fn each_is_counted_and_only_the_first_of_its_kind_is_formatted() {
        let mut dropped = DroppedItems::default();
        let long = "x".repeat(1_000_000);
        for _ in 0..1000 {
            dropped.record_hint("icon size", &long, &Excerpt(&long), "a size");
        }
        let mut formatted = 0;
        for _ in 0..1000 {
            dropped.record("entry", || {
                formatted += 1;
                String::new()
            });
        }
        assert_eq!(formatted, 1);
        assert!(dropped.kinds.iter().all(|kind| kind.count == 1000 && kind.example.len() < 400), "{dropped:?}");
        let faults = FaultRecorder::new("a".into(), 1024);
        dropped.log(&faults);
        dropped.log(&faults);
        assert_eq!(faults.counts(), BTreeMap::from([(FaultKind::Contract, 2000)]));
    }
}
