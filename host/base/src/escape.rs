//! Escaping of untrusted text for logs and terminals.
//!
//! Text of providers and clients is not trusted, and a terminal interprets control sequences, which can rename its
//! window, overwrite earlier output, or inject input. Logs are read on terminals as well. So these characters are
//! escaped, for example as `\u{1b}`:
//!
//! - control characters (C0, DEL and C1), including NEL (U+0085);
//! - line and paragraph separators (U+2028, U+2029), which end a line for some readers of logs;
//! - bidirectional formatting characters, which change the reading direction of the following text (Unicode UAX #9,
//!   explicit formatting: U+202A to U+202E, U+2066 to U+2069; implicit marks: U+061C, U+200E, U+200F), so that a name
//!   can imitate another;
//! - invisible characters: the byte order mark (U+FEFF), the deprecated format characters (U+206A to U+206F),
//!   interlinear annotation (U+FFF9 to U+FFFB) and tags (U+E0000 to U+E007F), which carry hidden text.
//!
//! All other text, in any script, is unchanged, including the joiners of emoji and Persian.

use std::borrow::Cow;
use std::fmt::Write;

/// Escapes text for a single line, such as a name: line breaks and tabs are escaped as well.
pub fn line(text: &str) -> Cow<'_, str> {
    escape(text, is_unsafe)
}

/// Escapes a JSON text, which stays valid with the same meaning: unsafe characters occur only in its strings, and are
/// escaped there as JSON requires.
pub fn json(text: &str) -> Cow<'_, str> {
    // White space occurs between strings. In strings, JSON has no control characters below U+0020.
    let is_unsafe = |c| is_unsafe(c) && !matches!(c, '\n' | '\t' | '\r');
    if is_plain_json(text.as_bytes()) || !text.contains(is_unsafe) {
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

/// Escapes a JSON text in UTF-8, as [`json`] does.
pub fn json_bytes(text: Vec<u8>) -> Vec<u8> {
    if is_plain_json(&text) {
        return text;
    }
    json(&String::from_utf8_lossy(&text)).into_owned().into_bytes()
}

/// Returns whether JSON contains only printable ASCII and line breaks, as most texts do. This check is much faster.
fn is_plain_json(text: &[u8]) -> bool {
    let is_plain = |byte: u8| (byte < 0x7f) & ((byte >= b' ') | matches!(byte, b'\n' | b'\t' | b'\r'));
    // No branch per byte, so that the compiler generates a few instructions for many bytes.
    text.chunks(64).all(|bytes| bytes.iter().fold(true, |all, &byte| all & is_plain(byte)))
}

/// Escapes the characters for which `is_unsafe` returns true. Text without any is not copied.
pub fn escape(text: &str, is_unsafe: impl Fn(char) -> bool) -> Cow<'_, str> {
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

/// Returns whether a character must be escaped.
pub fn is_unsafe(c: char) -> bool {
    c.is_control() || is_deceptive(c)
}

/// Returns whether a character, other than a control character, can mislead a reader: bidirectional controls, line
/// separators, and characters without a glyph (`Default_Ignorable_Code_Point` of Unicode), except joiners and variation
/// selectors, which scripts and emoji need.
pub fn is_deceptive(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff0}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e00ff}'
            | '\u{e01f0}'..='\u{e0fff}'
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

    #[test]
    fn escaped_json_means_the_same() {
        let value = serde_json::json!({ "a\u{9b}": "\u{7f}\u{202e}\u{1b}\n日本" });
        let text = serde_json::to_string_pretty(&value).unwrap();
        let escaped = json(&text);
        assert!(!escaped.contains(|c| is_unsafe(c) && c != '\n'), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }
}
