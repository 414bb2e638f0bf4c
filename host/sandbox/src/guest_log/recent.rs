//! What was logged of a plugin last, for administrators: the lines as the log has them.
//!
//! Bounded: the last [`MAX_LINES`] of at most [`MAX_BYTES`] together.

use std::collections::VecDeque;
use std::time::SystemTime;

use parking_lot::Mutex;

/// The number of lines that are kept.
const MAX_LINES: usize = 64;
/// The bytes of lines that are kept.
const MAX_BYTES: usize = 16 << 10;

/// A line of the log about a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecentLine {
    /// When it was logged.
    pub time: SystemTime,
    /// Its level: `trace`, `debug`, `info`, `warn` or `error`.
    pub level: &'static str,
    /// The line, escaped as in the log.
    pub text: String,
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
    /// Adds a line. Of a longer one than all may have, nothing is kept.
    pub(super) fn push(&self, level: &'static str, text: String) {
        let mut kept = self.0.lock();
        kept.bytes = kept.bytes.saturating_add(text.len());
        kept.lines.push_back(RecentLine { time: SystemTime::now(), level, text });
        while kept.lines.len() > MAX_LINES || kept.bytes > MAX_BYTES {
            let Some(oldest) = kept.lines.pop_front() else { break };
            kept.bytes = kept.bytes.saturating_sub(oldest.text.len());
        }
    }

    /// Returns all of them.
    pub(super) fn lines(&self) -> Vec<RecentLine> {
        self.0.lock().lines.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
