//! Truncated and wrapped texts, and errors with their causes, for messages and for the host's storage.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::{self, Write as _};

use textwrap::core::{Fragment as _, Word, display_width};
use textwrap::wrap_algorithms::wrap_first_fit;

/// The maximum length of the text in an [`Excerpt`], in bytes.
const EXCERPT_LEN: usize = 80;

/// The beginning of an untrusted text for a message: at most 80 bytes, escaped, and an ellipsis if there is more.
pub struct Excerpt<'a>(pub &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = prefix(self.0, EXCERPT_LEN);
        write!(f, "{}", shown.escape_debug())?;
        if shown.len() < self.0.len() { f.write_str("…") } else { Ok(()) }
    }
}

/// Truncates a text to `max_bytes` and an ellipsis. The memory of the rest is freed.
pub fn truncate(text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes { text } else { [prefix(&text, max_bytes), "…"].concat() }
}

/// Returns at most `max_bytes` of the beginning of a text, in whole characters.
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    text.split_at_checked(text.floor_char_boundary(max_bytes)).map_or(text, |(shown, _)| shown)
}

/// Returns the beginning of what a value writes: at most `max_bytes`, in whole characters. The value does not write
/// more.
pub fn formatted_prefix(value: impl fmt::Display, max_bytes: usize) -> String {
    let mut written = Prefix { text: String::new(), max_bytes };
    // It fails at the bound.
    let _ = write!(written, "{value}");
    written.text
}

/// The beginning of a text that is being written. Writing more than `max_bytes` fails.
struct Prefix {
    text: String,
    max_bytes: usize,
}

impl fmt::Write for Prefix {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let part = prefix(text, self.max_bytes.saturating_sub(self.text.len()));
        self.text.push_str(part);
        if part.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

/// Returns at most `max_bytes` of the end of a text, in whole characters.
pub fn suffix(text: &str, max_bytes: usize) -> &str {
    let start = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    text.split_at_checked(start).map_or(text, |(_, shown)| shown)
}

/// Returns the estimated number of tokens of a text: a quarter of the ASCII bytes, and one for each other character.
pub fn estimate_tokens(text: &str) -> usize {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let others = text.chars().filter(|character| !character.is_ascii()).count();
    ascii.div_ceil(4).saturating_add(others)
}

/// Breaks a line into lines of at most `columns` columns. Each line except the first is indented by `indent` blanks;
/// `used` columns of the first are taken. Breaks are at blanks. Text between backticks is broken only if it is longer
/// than a line, because users copy a command or a value as a whole. The indentation is at most half of the columns.
pub fn wrap(line: &str, columns: usize, used: usize, indent: usize) -> String {
    let indent = indent.min(columns.div_euclid(2));
    let room = |taken: usize| u32::try_from(columns.saturating_sub(taken)).map_or(f64::MAX, f64::from);
    let mut is_quoted = false;
    let pieces = line.split_inclusive(|c| {
        is_quoted ^= c == '`';
        c == ' ' && !is_quoted
    });
    let mut words = Vec::new();
    for piece in pieces {
        let word = Word::from(piece);
        match word.width() > room(indent) {
            true => words.extend(piece.split_inclusive(' ').map(Word::from)),
            false => words.push(word),
        }
    }
    let mut wrapped = String::with_capacity(line.len());
    for (index, words) in wrap_first_fit(&words, &[room(used), room(indent)]).into_iter().enumerate() {
        if index > 0 {
            wrapped.truncate(wrapped.trim_end_matches(' ').len());
            wrapped.push('\n');
            wrapped.extend(std::iter::repeat_n(' ', indent));
        }
        words.iter().for_each(|word| wrapped.extend([word.word, word.whitespace]));
    }
    wrapped
}

/// Returns the number of columns that a line takes on a terminal: a character of an East Asian script takes two.
pub fn columns(line: &str) -> usize {
    display_width(line)
}

/// Returns a line in at most `columns` columns: the line, or its beginning and an ellipsis.
pub fn fit(line: &str, columns: usize) -> Cow<'_, str> {
    if display_width(line) <= columns {
        return Cow::Borrowed(line);
    }
    let Some(mut room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let mut fitting = String::new();
    for character in line.chars() {
        let Some(left) = room.checked_sub(display_width(character.encode_utf8(&mut [0; 4]))) else { break };
        room = left;
        fitting.push(character);
    }
    fitting.push('…');
    Cow::Owned(fitting)
}

/// Returns the text of an error with its causes, in one line. A cause whose text is already contained is left out,
/// because many errors include the text of their cause.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let next_text = next.to_string();
        if !text.contains(&next_text) {
            text = format!("{text}: {next_text}");
        }
        cause = next.source();
    }
    text
}

/// The maximum number of characters of a quoted value in a message.
const MAX_QUOTED_CHARS: usize = 60;

/// Returns text for a message: in backticks, on one line, and truncated.
pub fn quote(text: &str) -> String {
    format!("`{}`", truncated(text))
}

/// Returns text for a message: on one line, and truncated.
pub fn truncated(text: &str) -> String {
    let mut short: String = text.lines().next().unwrap_or_default().chars().take(MAX_QUOTED_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error with a text and a cause.
    #[derive(Debug)]
    struct Caused(&'static str, Option<Box<Caused>>);

    impl fmt::Display for Caused {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Caused {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &(dyn Error + 'static))
        }
    }

    #[test]
    fn an_error_has_its_causes_and_no_text_twice() {
        let root = Caused("refused", None);
        let middle = Caused("cannot connect: refused", Some(Box::new(root)));
        assert_eq!(with_causes(&middle), "cannot connect: refused");
        let error = Caused("the request failed", Some(Box::new(middle)));
        assert_eq!(with_causes(&error), "the request failed: cannot connect: refused");
    }

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

    #[test]
    fn a_line_is_cut_to_the_columns_of_a_terminal() {
        for (line, columns, fitting) in [
            ("notes", 5, "notes"),
            ("notes", 4, "not…"),
            ("notes", 1, "…"),
            ("notes", 0, ""),
            ("", 0, ""),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("日本語", 2, "…"),
            // A combining accent takes no column.
            ("e\u{301}a", 2, "e\u{301}a"),
        ] {
            assert_eq!(fit(line, columns), fitting, "{line} in {columns}");
            assert!(super::columns(fitting) <= columns);
        }
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

    /// Writes without an end.
    struct Endless(&'static str);

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str(self.0)?;
            }
        }
    }

    #[test]
    fn no_more_of_a_value_is_written_than_is_wanted() {
        assert_eq!(formatted_prefix(Endless("abc"), 8), "abcabcab");
        assert_eq!(formatted_prefix(Endless("ä"), 3), "ä");
        assert_eq!(formatted_prefix("short", 5), "short");
    }

    #[test]
    fn what_is_cut_off_is_freed() {
        assert_eq!(truncate("short".into(), 5), "short");
        let kept = truncate("x".repeat(1_000_000), 5);
        assert_eq!(kept, "xxxxx…");
        assert!(kept.capacity() < 100, "{}", kept.capacity());
    }
}
