//! Lines that are kept in memory, in the form of the log.
//!
//! | lines | for | bound |
//! |---|---|---|
//! | the most recently logged ones ([`RecentLines`]) | administrators | [`MAX_LINES`], of at most [`MAX_BYTES`] in total |
//! | the last ones of standard error ([`LastErrors`]) | the author of the provider: the message of a panic precedes its trap | [`MAX_ERRORS`] |
//!
//! A recent line that repeats is kept once, at its last position, with the number of occurrences, so that repeated
//! failures of polls do not displace other lines.

use std::collections::VecDeque;
use std::time::SystemTime;

use mcp_host_base::text::prefix;
use parking_lot::Mutex;

use super::{MAX_LINE, MAX_MESSAGE, sanitize};

/// The maximum number of recent lines.
const MAX_LINES: usize = 64;
/// The maximum total size of recent lines in bytes.
const MAX_BYTES: usize = 16 << 10;
/// The maximum number of lines of standard error.
const MAX_ERRORS: usize = 4;

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

/// The most recently logged lines, oldest first.
#[derive(Debug, Default)]
pub(super) struct RecentLines(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<RecentLine>,
    bytes: usize,
}

impl RecentLines {
    /// Adds a line that occurred this number of times. A line that is longer than the total limit is not kept.
    pub(super) fn push(&self, level: &'static str, text: String, times: u64) {
        let mut kept = self.0.lock();
        let same = kept.lines.iter().position(|line| line.level == level && line.text == text);
        let repeated = same.and_then(|at| kept.lines.remove(at));
        let times = repeated.as_ref().map_or(0, |line| line.times).saturating_add(times);
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

/// The last lines of standard error, oldest first, each truncated and escaped as in the log.
#[derive(Debug, Default)]
pub(super) struct LastErrors(Mutex<VecDeque<String>>);

impl LastErrors {
    /// Adds the lines of a message, without empty ones.
    pub(super) fn push(&self, message: &str) {
        let mut kept = self.0.lock();
        for line in prefix(message, MAX_MESSAGE).lines().filter(|line| !line.trim().is_empty()) {
            if kept.len() == MAX_ERRORS {
                kept.pop_front();
            }
            kept.push_back(sanitize(line, MAX_LINE));
        }
    }

    /// Takes all lines.
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_repeats_is_kept_once_with_the_number_of_times() {
        let recent = RecentLines::default();
        for _ in 0..1000 {
            recent.push("warn", "changes: no folder".to_owned(), 1);
            recent.push("warn", "list-entries: no folder".to_owned(), 2);
        }
        recent.push("info", "list-entries: no folder".to_owned(), 1);
        let lines: Vec<_> = recent.lines().into_iter().map(|line| (line.level, line.text, line.times)).collect();
        let expected = [("warn", "changes", 1000), ("warn", "list-entries", 2000), ("info", "list-entries", 1)];
        assert_eq!(lines, expected.map(|(level, function, times)| (level, format!("{function}: no folder"), times)));
    }

    #[test]
    fn the_last_lines_are_kept_within_both_bounds() {
        let recent = RecentLines::default();
        (0..100).for_each(|n| recent.push("info", n.to_string(), 1));
        let texts = || recent.lines().into_iter().map(|line| line.text).collect::<Vec<_>>();
        assert_eq!((texts().len(), texts().first().map(String::as_str)), (MAX_LINES, Some("36")));
        recent.push("warn", "x".repeat(MAX_BYTES - 2), 1);
        assert_eq!(texts().len(), 2);
        assert_eq!(recent.lines()[1].level, "warn");
        recent.push("error", "x".repeat(MAX_BYTES + 1), 1);
        assert_eq!(texts(), [""; 0]);
    }

    #[test]
    fn the_last_errors_are_kept_bounded_and_escaped() {
        let lines = LastErrors::default();
        lines.push("1\n\n2\n3\n");
        lines.push("4\u{1b}[2J\r\n");
        lines.push(&"x".repeat(10_000));
        let kept = lines.take();
        assert_eq!(kept[..3], ["2", "3", "4\\u{1b}[2J"]);
        assert_eq!(kept[3].chars().count(), MAX_LINE + 1);
        assert!(lines.take().is_empty());
    }
}
