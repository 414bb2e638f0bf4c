//! What of a provider's text a terminal may see.
//!
//! Providers are not trusted, and a terminal obeys what it is shown: it can be made to rename its window, to overwrite
//! what stands above, to type. So control characters (C0, DEL and C1) are shown as what they are, `\u{1b}`, and so are
//! the characters that turn the reading direction of what follows (Unicode UAX #9, explicit formatting), with which a
//! name can be made to look like another. All other text, in whatever script, stays as it is.

use std::borrow::Cow;
use std::fmt::Write;

/// Text for one line, such as a name: line breaks and tabs are escaped as well.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Text of several lines. A line may end with CR LF; a CR elsewhere would let the line be overwritten.
pub(super) fn lines(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix("\r\n") {
            Some(line) => (line, "\r\n"),
            None => (line, ""),
        };
        escaped.push_str(&escape(line, |c| is_unsafe(c) && !matches!(c, '\n' | '\t')));
        escaped.push_str(end);
    }
    Cow::Owned(escaped)
}

/// A JSON text, which stays one and means the same: such characters are in its strings only, and escaped there as JSON
/// has it.
pub(super) fn json(text: &str) -> Cow<'_, str> {
    // Between strings there is white space; in them, JSON has no control character below U+0020 anyway.
    let is_unsafe = |c| is_unsafe(c) && !matches!(c, '\n' | '\t' | '\r');
    if !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                // Writing to a string cannot fail.
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
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

fn is_unsafe(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_never_driven() {
        assert_eq!(line("\u{1b}]0;owned\u{7}"), r"\u{1b}]0;owned\u{7}");
        assert_eq!(lines("a\u{9b}2Jb\u{7f}"), r"a\u{9b}2Jb\u{7f}");
    }

    #[test]
    fn a_name_stays_on_its_line_and_in_its_column() {
        assert_eq!(line("a\nb\tc\r"), r"a\nb\tc\r");
    }

    #[test]
    fn lines_and_tabs_of_a_text_stay() {
        assert_eq!(lines("a\n\tb\r\nc\u{1b}\n"), "a\n\tb\r\nc\\u{1b}\n");
    }

    #[test]
    fn a_carriage_return_within_a_line_does_not_overwrite_it() {
        assert_eq!(lines("rm -rf\rls\r\r\n"), "rm -rf\\rls\\r\r\n");
    }

    #[test]
    fn a_name_cannot_be_made_to_read_backwards() {
        assert_eq!(line("a\u{202e}txt.exe"), r"a\u{202e}txt.exe");
        assert_eq!(line("a\u{2066}b\u{2069}"), r"a\u{2066}b\u{2069}");
    }

    #[test]
    fn text_in_any_script_stays_as_it_is() {
        for text in ["日本語", "שלום", "مرحبا", "👩\u{200d}🚀", "e\u{301}", "\u{1f1ef}\u{1f1f5}"] {
            assert!(matches!(line(text), Cow::Borrowed(same) if same == text), "{text}");
            assert!(matches!(lines(text), Cow::Borrowed(same) if same == text), "{text}");
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({ "a\u{9b}": "\u{7f}\u{202e}\u{1b}\n日本" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = json(&text);
        assert!(!escaped.contains(|c| is_unsafe(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
