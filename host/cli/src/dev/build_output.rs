//! The output of a build, filtered for a terminal that also shows a status line.
//!
//! Of control sequences only colors are kept, if messages are colored; each line ends with a reset. Other sequences are
//! removed: a build that draws progress over several lines would overwrite other lines. Of a line that overwrites
//! itself (`\r`) the last state is shown. Other control characters are escaped.
//!
//! Bounded: a line is cut at [`MAX_LINE`] bytes.

use std::fmt::Write as _;

use crate::escape;

/// The maximum length of a shown line, in bytes.
const MAX_LINE: usize = 16 << 10;
/// Ends all colors.
const RESET: &str = "\u{1b}[0m";

/// Splits output into lines.
#[derive(Debug)]
pub(super) struct BuildOutput {
    is_colored: bool,
    /// The line that is still incomplete.
    line: Vec<u8>,
    is_cut: bool,
}

impl BuildOutput {
    /// Keeps or removes colors.
    pub(super) fn new(is_colored: bool) -> Self {
        Self { is_colored, line: Vec::new(), is_cut: false }
    }

    /// Adds output, and returns the complete lines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> String {
        let mut lines = String::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.strip_suffix(b"\n") {
                Some(text) => (text, true),
                None => (piece, false),
            };
            let room = MAX_LINE.saturating_sub(self.line.len());
            self.is_cut |= text.len() > room;
            self.line.extend(text.iter().take(room));
            if ends {
                self.end_line(&mut lines);
            }
        }
        lines
    }

    /// Returns the last line, if it had no line end.
    pub(super) fn finish(mut self) -> String {
        let mut lines = String::new();
        if !self.line.is_empty() {
            self.end_line(&mut lines);
        }
        lines
    }

    fn end_line(&mut self, lines: &mut String) {
        let line = std::mem::take(&mut self.line);
        show(&String::from_utf8_lossy(&line), self.is_colored, lines);
        lines.push_str(if std::mem::take(&mut self.is_cut) { "…\n" } else { "\n" });
    }
}

/// Appends a line in its filtered form.
fn show(line: &str, is_colored: bool, shown: &mut String) {
    let line = line.strip_suffix('\r').unwrap_or(line);
    let line = line.rsplit('\r').next().unwrap_or(line);
    let (mut rest, mut has_color) = (line, false);
    while let Some((text, sequence)) = rest.split_once("\u{1b}[") {
        push_escaped(text, shown);
        let length = sequence.find(|c: char| !matches!(c, ' '..='?')).unwrap_or(sequence.len());
        let (parameters, end) = sequence.split_at_checked(length).unwrap_or((sequence, ""));
        if is_colored
            && end.starts_with('m')
            && parameters.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'))
        {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\u{1b}[{parameters}m");
            has_color = true;
        }
        let mut end = end.chars();
        // The last character of a sequence; any other is text.
        rest = match end.clone().next() {
            Some('@'..='~') => {
                end.next();
                end.as_str()
            }
            _ => end.as_str(),
        };
    }
    push_escaped(rest, shown);
    if has_color {
        shown.push_str(RESET);
    }
}

fn push_escaped(text: &str, shown: &mut String) {
    // A tab is harmless within a line.
    for (index, part) in text.split('\t').enumerate() {
        if index > 0 {
            shown.push('\t');
        }
        shown.push_str(&escape::line(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(is_colored: bool, output: &str) -> String {
        let mut lines = BuildOutput::new(is_colored);
        let mut shown = lines.push(output.as_bytes());
        shown.push_str(&lines.finish());
        shown
    }

    #[test]
    fn lines_are_the_same_however_they_arrive() {
        let mut lines = BuildOutput::new(false);
        let pushed: String = "añb\nc".bytes().map(|byte| lines.push(&[byte])).collect();
        assert_eq!(pushed + &lines.finish(), "añb\nc\n");
        assert_eq!(shown(false, ""), "");
        assert_eq!(shown(false, "a\n\nb\n"), "a\n\nb\n");
    }

    #[test]
    fn colors_stay_on_their_line_and_are_removed_where_nothing_is_colored() {
        let error = "\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: no\n\u{1b}[31mred\n";
        assert_eq!(shown(true, error), "\u{1b}[1m\u{1b}[38;5;9merror\u{1b}[0m: no\u{1b}[0m\n\u{1b}[31mred\u{1b}[0m\n");
        assert_eq!(shown(false, error), "error: no\nred\n");
    }

    #[test]
    fn a_build_does_not_drive_the_terminal() {
        assert_eq!(shown(true, "a\u{1b}[2Jb\u{1b}[?25lc\u{1b}]0;title\u{7}"), "abc\\u{1b}]0;title\\u{7}\n");
        assert_eq!(shown(true, "\u{1b}[\u{1b}[1\u{202e}\u{9b}2J"), "\\u{202e}\\u{9b}2J\n");
    }

    #[test]
    fn of_a_line_that_overwrites_itself_the_last_state_is_shown() {
        assert_eq!(shown(false, "10 %\r50 %\r100 %\r\ndone\r\n"), "100 %\ndone\n");
    }

    #[test]
    fn a_line_without_an_end_takes_no_more_memory_than_it_is_shown() {
        let mut lines = BuildOutput::new(false);
        for _ in 0..100 {
            assert_eq!(lines.push(&[b'x'; 4096]), "");
        }
        assert_eq!(lines.line.len(), MAX_LINE);
        assert_eq!(lines.push(b"\nnext\n"), format!("{}…\nnext\n", "x".repeat(MAX_LINE)));
    }
}
