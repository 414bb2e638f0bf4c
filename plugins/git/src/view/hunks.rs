//! Hunks of a unified diff of two texts, as in `git diff`: three lines of context, and after `@@` the heading of the
//! enclosing section.

use bstr::ByteSlice;
use imara_diff::{Algorithm, Diff, Hunk, InternedInput, Token};
use std::fmt::Write;
use std::ops::Range;

/// The number of context lines around a change.
const CONTEXT: u32 = 3;

/// The maximum length of a heading in bytes.
const MAX_HEADING: usize = 80;

/// Returns the hunks of the diff of two texts; empty if they are equal. Bytes that are not UTF-8 become replacement
/// characters.
pub(crate) fn hunks(before: &[u8], after: &[u8]) -> String {
    let lines = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Myers, &lines);
    diff.postprocess_lines(&lines);
    let changes: Vec<Hunk> = diff.hunks().collect();
    let mut text = String::new();
    let mut headings = Headings { lines: &lines, searched: 0, last: String::new() };
    for group in changes.chunk_by(|a, b| b.before.start.saturating_sub(a.before.end) <= CONTEXT.saturating_mul(2)) {
        hunk(&mut text, &lines, &mut headings, group);
    }
    text
}

/// Writes a group of adjacent changes as one hunk.
fn hunk(text: &mut String, lines: &InternedInput<&[u8]>, headings: &mut Headings<'_>, group: &[Hunk]) {
    let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
    let lead = first.before.start.min(CONTEXT);
    let all = u32::try_from(lines.before.len()).unwrap_or(u32::MAX);
    let trail = all.saturating_sub(last.before.end).min(CONTEXT);
    let around = |start: u32, end: u32| start.saturating_sub(lead)..end.saturating_add(trail);
    let before = around(first.before.start, last.before.end);
    let after = around(first.after.start, last.after.end);
    let heading = headings.above(before.start);
    // Writing to a string does not fail.
    let _ = writeln!(text, "@@ -{} +{} @@{heading}", range(&before), range(&after));
    let mut at = before.start;
    for change in group {
        write_lines(text, lines, ' ', &lines.before, at..change.before.start);
        write_lines(text, lines, '-', &lines.before, change.before.clone());
        write_lines(text, lines, '+', &lines.after, change.after.clone());
        at = change.before.end;
    }
    write_lines(text, lines, ' ', &lines.before, at..before.end);
}

/// Formats a line range, counted from one: the start, and the length unless it is one. An empty range starts at the
/// line before it.
fn range(lines: &Range<u32>) -> String {
    let first = lines.start.saturating_add(1);
    match lines.end.saturating_sub(lines.start) {
        0 => format!("{},0", lines.start),
        1 => first.to_string(),
        count => format!("{first},{count}"),
    }
}

fn write_lines(text: &mut String, lines: &InternedInput<&[u8]>, sign: char, side: &[Token], range: Range<u32>) {
    for token in side.get(range.start as usize..range.end as usize).unwrap_or_default() {
        let line = line_of(lines, *token);
        text.push(sign);
        text.push_str(&line.to_str_lossy());
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn line_of<'l>(lines: &InternedInput<&'l [u8]>, token: Token) -> &'l [u8] {
    // A token is looked up in the interner that created it.
    lines.interner[token]
}

/// Finds headings for `@@` lines: the last line above the hunk that starts with a letter, `_` or `$`.
struct Headings<'l> {
    lines: &'l InternedInput<&'l [u8]>,
    /// The number of lines searched, and the last heading found.
    searched: u32,
    last: String,
}

impl Headings<'_> {
    fn above(&mut self, start: u32) -> &str {
        let range = self.searched as usize..start as usize;
        self.searched = start.max(self.searched);
        let above = self.lines.before.get(range).unwrap_or_default();
        let begins =
            |line: &&[u8]| line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'$'));
        if let Some(line) = above.iter().rev().map(|token| line_of(self.lines, *token)).find(begins) {
            let line = line.get(..MAX_HEADING).unwrap_or(line).trim_ascii_end();
            // The cut may split a character. The incomplete character is dropped.
            let whole = line.utf8_chunks().next().map(|chunk| chunk.valid()).unwrap_or_default();
            self.last = format!(" {whole}");
        }
        &self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_has_no_hunks() {
        assert_eq!(hunks(b"a\n", b"a\n"), "");
        assert_eq!(hunks(b"", b""), "");
    }

    #[test]
    fn a_new_text_begins_at_no_line() {
        assert_eq!(hunks(b"", b"a\nb"), "@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file\n");
        assert_eq!(hunks(b"a\n", b""), "@@ -1 +0,0 @@\n-a\n");
    }

    #[test]
    fn a_newline_at_the_end_that_comes_or_goes_is_shown() {
        assert_eq!(hunks(b"a", b"a\n"), "@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }

    #[test]
    fn changes_six_lines_apart_are_one_hunk_and_seven_apart_are_two() {
        let text = |gap: usize, mark: &str| format!("{mark}\n{}{mark}\n", "x\n".repeat(gap));
        let count = |gap| hunks(text(gap, "a").as_bytes(), text(gap, "b").as_bytes()).matches("@@ -").count();
        assert_eq!((count(6), count(7)), (1, 2));
    }

    #[test]
    fn a_heading_is_the_last_line_above_that_looks_like_one() {
        let body = " 1\n 2\n 3\n 4\n";
        let before = format!("fn first() {{\n{body}}}\nfn second() {{   \n{body} old\n}}\n");
        let diff = hunks(before.as_bytes(), before.replace("old", "new").as_bytes());
        assert!(diff.starts_with("@@ -9,5 +9,5 @@ fn second() {\n"), "{diff}");
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(hunks(b"", b"\xff\n"), "@@ -0,0 +1 @@\n+\u{fffd}\n");
    }
}
