//! What of foreign text may stand in a log or on a terminal.
//!
//! Text of providers and of clients is not trusted, and a terminal obeys what it is shown: it can be made to rename its
//! window, to overwrite what stands above, to type. Logs are read on terminals in the end. So these are shown as what they
//! are, `\u{1b}`:
//!
//! - control characters (C0, DEL and C1), NEL (U+0085) among them;
//! - line and paragraph separators (U+2028, U+2029), which end a line for some readers of logs;
//! - the characters that turn the reading direction of what follows (Unicode UAX #9, explicit formatting: U+202A to U+202E,
//!   U+2066 to U+2069; implicit marks: U+061C, U+200E, U+200F), with which a name can be made to look like another;
//! - what is never seen: the byte order mark (U+FEFF), the deprecated format characters (U+206A to U+206F), interlinear
//!   annotation (U+FFF9 to U+FFFB) and tags (U+E0000 to U+E007F), which carry hidden text.
//!
//! All other text, in whatever script, stays as it is, joiners of emoji and of Persian included.

use std::borrow::Cow;

/// Text for one line, such as a name: line breaks and tabs are escaped as well.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Escapes the characters that `is_unsafe` names. What has none of them is not copied.
pub(crate) fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            escaped.extend(c.escape_default());
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Whether a character must not be shown as it is.
pub(crate) fn is_unsafe(c: char) -> bool {
    c.is_control() || is_deceptive(c)
}

/// Whether a character that is no control character deceives whoever reads it.
pub(crate) fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_driven() {
        assert_eq!(line("\u{1b}]0;owned\u{7}"), r"\u{1b}]0;owned\u{7}");
    }

    #[test]
    fn a_name_stays_on_its_line_and_in_its_column() {
        assert_eq!(line("a\nb\tc\r"), r"a\nb\tc\r");
        assert_eq!(line("a\u{85}b\u{2028}c\u{2029}"), r"a\u{85}b\u{2028}c\u{2029}");
    }

    #[test]
    fn a_name_cannot_be_made_to_read_backwards() {
        assert_eq!(line("a\u{202e}txt.exe"), r"a\u{202e}txt.exe");
        assert_eq!(line("a\u{2066}b\u{2069}\u{200f}"), r"a\u{2066}b\u{2069}\u{200f}");
    }

    #[test]
    fn text_in_any_script_stays_as_it_is() {
        for text in ["日本語", "שלום", "مرحبا", "می\u{200c}خواهم", "👩\u{200d}🚀", "e\u{301}", "\u{1f1ef}\u{1f1f5}"]
        {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }
}
