//! The most recently logged lines of a plugin, for administrators, in the form of the log. A repeated line is kept once, at its last
//! position, with the number of occurrences, so that repeated failures of polls do not displace other lines.
//!
//! Bounded: the last [`MAX_LINES`] lines, of at most [`MAX_BYTES`] in total.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;

/// The maximum number of kept lines.
const MAX_LINES: usize = 64;
/// The maximum total size of kept lines in bytes.
const MAX_BYTES: usize = 16 << 10;

/// A line of the log about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentLine {
    /// The time of the last occurrence.
    pub time: SystemTime,
    /// The level: `trace`, `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// The line, escaped as in the log.
    pub text: String,
    /// The number of occurrences while the line was kept. `time` is the last one.
    pub times: u64,
}

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentLines(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<RecentLine>,
    bytes: usize,
}

impl RecentLines {
    /// Adds a line. A line that is longer than the total limit is not kept.
    pub(super) fn push(&self, level: &'static str, text: String) {
        let mut kept = self.0.lock();
        let same = kept.lines.iter().position(|line| line.level == level && line.text == text);
        let repeated = same.and_then(|at| kept.lines.remove(at));
        let times = repeated.as_ref().map_or(0, |line| line.times).saturating_add(1);
        if repeated.is_none() {
            kept.bytes = kept.bytes.saturating_add(text.len());
        }
        kept.lines.push_back(RecentLine { time: SystemTime::now(), level, text, times });
        while kept.lines.len() > MAX_LINES || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.text.len());
        }
    }

    /// Returns all lines.
    pub(super) fn lines(&self) -> Vec<RecentLine> {
        self.0.lock().lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_repeats_is_kept_once_with_the_number_of_times() {
        let recent = RecentLines::default();
        for _ in 0..1000 {
            recent.push("warn", "changes: no folder".to_owned());
            recent.push("warn", "list-entries: no folder".to_owned());
        }
        recent.push("info", "list-entries: no folder".to_owned());
        let lines: Vec<_> = recent.lines().into_iter().map(|line| (line.level, line.text, line.times)).collect();
        let expected = [("warn", "changes", 1000), ("warn", "list-entries", 1000), ("info", "list-entries", 1)];
        assert_eq!(lines, expected.map(|(level, function, times)| (level, format!("{function}: no folder"), times)));
    }

    #[test]
    fn the_last_lines_are_kept_within_both_bounds() {
        let recent = RecentLines::default();
        (0..100).for_each(|n| recent.push("info", n.to_string()));
        let texts = || recent.lines().into_iter().map(|line| line.text).collect::<Vec<_>>();
        assert_eq!((texts().len(), texts().first().map(String::as_str)), (MAX_LINES, Some("36")));
        recent.push("warn", "x".repeat(MAX_BYTES - 2));
        assert_eq!(texts().len(), 2);
        assert_eq!(recent.lines()[1].level, "warn");
        recent.push("error", "x".repeat(MAX_BYTES + 1));
        assert_eq!(texts(), [""; 0]);
    }
}
