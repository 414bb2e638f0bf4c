//! Truncated and wrapped texts for messages and for what the host stores.

use std::fmt;

/// Bytes of a text that [`Excerpt`] shows.
const EXCERPT_LEN: usize = 80;

/// The beginning of an untrusted text for a message: at most 80 bytes of it, escaped, and an ellipsis if there is more.
pub(crate) struct Excerpt<'a>(pub(crate) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = prefix(self.0, EXCERPT_LEN);
        write!(f, "{}", shown.escape_debug())?;
        if shown.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// Truncates a text to so many bytes and an ellipsis. The memory of the rest is freed.
pub(crate) fn truncate(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes { text } else { [prefix(&text, max_bytes), "…"].concat() }
}

/// Returns at most so many bytes of a text, in whole characters.
pub(crate) fn prefix(text: &str, max_bytes: usize) -> &str {
    text.split_at_checked(text.floor_char_boundary(max_bytes)).map_or(text, |(shown, _)| shown)
}

/// Returns at most so many bytes of the end of a text, in whole characters.
pub(crate) fn suffix(text: &str, max_bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    text.split_at_checked(start).map_or(text, |(_, shown)| shown)
}

/// Breaks a line into lines of at most `columns` characters, each but the first after `indent` blanks; `used` columns of the first are
/// taken. It is broken at blanks, and in text between backticks only if that is longer than a line: a command or a value is copied as
/// a whole.
pub(crate) fn wrap(line: &str, columns: usize, used: usize, indent: usize) -> String {
    let mut wrapped = String::with_capacity(line.len());
    let mut column = used;
    let mut is_first = true;
    for piece in unbroken_pieces(line, columns.saturating_sub(indent)) {
        let width = piece.chars().count();
        let is_too_wide = column.saturating_add(width).saturating_add(1) > columns;
        if is_first {
            is_first = false;
        } else if is_too_wide && column > indent {
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
            column = indent;
        } else {
            wrapped.push(' ');
            column = column.saturating_add(1);
        }
        wrapped.push_str(piece);
        column = column.saturating_add(width);
    }
    wrapped
}

/// The pieces of a line between its blanks, without those in backticks, unless what is in them is wider than that.
fn unbroken_pieces(line: &str, max_width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while !rest.is_empty() {
        let mut is_quoted = false;
        let is_end = |c: char| {
            is_quoted ^= c == '`';
            c == ' ' && !is_quoted
        };
        let quoted = rest.find(is_end).unwrap_or(rest.len());
        let first = rest.find(' ').unwrap_or(rest.len());
        let is_wider = rest.get(..quoted).is_none_or(|piece| piece.chars().count() > max_width);
        let (piece, behind) = rest.split_at_checked(if is_wider { first } else { quoted }).unwrap_or((rest, ""));
        pieces.push(piece);
        rest = match behind.strip_prefix(' ') {
            // A blank at the end is kept.
            Some("") => {
                pieces.push("");
                ""
            }
            Some(behind) => behind,
            None => behind,
        };
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_broken_at_blanks_and_not_in_commands() {
        assert_eq!(wrap("one two three", 80, 6, 6), "one two three");
        assert_eq!(wrap("one two three", 9, 0, 2), "one two\n  three");
        assert_eq!(wrap("one two three", 13, 6, 6), "one two\n      three");
        assert_eq!(wrap("run `mcp-host list --all`, then", 24, 0, 0), "run\n`mcp-host list --all`,\nthen");
        assert_eq!(wrap("run `mcp-host list --all`", 12, 0, 0), "run\n`mcp-host\nlist --all`");
        assert_eq!(wrap("wide-without-blanks and", 5, 0, 0), "wide-without-blanks\nand");
        assert_eq!(wrap("a  b ", 80, 0, 0), "a  b ");
        assert_eq!(wrap("", 80, 0, 0), "");
    }

    proptest::proptest! {
        #[test]
        fn wrapping_changes_blanks_only(line in "[a-z `é]{0,60}", columns in 0..20_usize, indent in 0..5_usize) {
            let joined = |text: &str| text.replace([' ', '\n'], "");
            proptest::prop_assert_eq!(joined(&wrap(&line, columns, 0, indent)), joined(&line));
        }
    }

    #[test]
    fn an_excerpt_is_short_and_escaped() {
        assert_eq!(Excerpt("a\nb").to_string(), "a\\nb");
        assert_eq!(Excerpt(&"ä".repeat(1000)).to_string(), "ä".repeat(EXCERPT_LEN / 2) + "…");
        assert!(Excerpt(&"\u{1}".repeat(1_000_000)).to_string().len() < EXCERPT_LEN * 8);
    }

    #[test]
    fn what_is_cut_off_is_freed() {
        assert_eq!(truncate("short".into(), 5), "short");
        let kept = truncate("x".repeat(1_000_000), 5);
        assert_eq!(kept, "xxxxx…");
        assert!(kept.capacity() < 100, "{}", kept.capacity());
    }
}
