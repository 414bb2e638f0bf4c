//! The last lines that a guest wrote to standard error: a panic's message precedes its trap.
//!
//! Bounded: the last [`MAX_LINES`], each truncated and escaped as in the log.

use std::collections::VecDeque;

use mcp_host_base::text::prefix;
use parking_lot::Mutex;

use super::{MAX_LINE, MAX_MESSAGE, sanitize};

/// The maximum number of kept lines.
const MAX_LINES: usize = 4;

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub(super) struct LastLines(Mutex<VecDeque<String>>);

impl LastLines {
    /// Adds the lines of a message, without empty ones.
    pub(super) fn push(&self, message: &str) {
        let mut kept = self.0.lock();
        for line in prefix(message, MAX_MESSAGE).lines().filter(|line| !line.trim().is_empty()) {
            if kept.len() == MAX_LINES {
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
    fn the_last_lines_are_kept_bounded_and_escaped() {
        let lines = LastLines::default();
        lines.push("1\n\n2\n3\n");
        lines.push("4\u{1b}[2J\r\n");
        lines.push(&"x".repeat(10_000));
        let kept = lines.take();
        assert_eq!(kept[..3], ["2", "3", "4\\u{1b}[2J"]);
        assert_eq!(kept[3].chars().count(), MAX_LINE + 1);
        assert!(lines.take().is_empty());
    }
}
