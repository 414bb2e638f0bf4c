//! The drops from one answer: all are counted, and one log line reports them.
//!
//! The line has the first example of each kind, truncated before it is formatted, so its cost depends neither
//! on the number nor on the length of the dropped parts.

use std::fmt::{Display, Write};

use mcp_host_base::text::Excerpt;

use super::super::fault_recorder::FaultRecorder;

/// The drops from one answer.
#[derive(Debug, Default)]
pub(super) struct DroppedItems {
    /// There are at most as many kinds as calls of [`record`](Self::record) in the code.
    kinds: Vec<DroppedKind>,
}

#[derive(Debug)]
struct DroppedKind {
    what: &'static str,
    count: u64,
    /// The message about the first drop.
    example: String,
}

impl DroppedItems {
    /// Records a dropped hint of this entry or template.
    pub(super) fn record_hint(&mut self, what: &'static str, path: &str, found: &dyn Display, expected: &str) {
        self.record(what, || {
            let path = Excerpt(path);
            format!("{what} of `{path}` dropped: expected {expected}, found `{found}`")
        });
    }

    /// Records a dropped part of this kind. `example` creates the message about the first drop.
    pub(super) fn record(&mut self, what: &'static str, example: impl FnOnce() -> String) {
        match self.kinds.iter_mut().find(|kind| kind.what == what) {
            Some(kind) => kind.count = kind.count.saturating_add(1),
            None => self.kinds.push(DroppedKind { what, count: 1, example: example() }),
        }
    }

    /// Logs and counts the drops, if there are any.
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
