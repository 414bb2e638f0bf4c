//! Bounded text, and the formatting of names and signatures.

use bstr::{BStr, ByteSlice};
use gix_date::time::format::ISO8601_STRICT;
use gix_object::bstr::BStr as GixBStr;
use std::fmt::Write;

/// A text builder with a size limit.
///
/// A part that does not fit is omitted as a whole, with all later parts, so the text never ends within a line or a
/// hunk.
pub(crate) struct BoundedText {
    text: String,
    max_len: usize,
    omitted: usize,
}

impl BoundedText {
    /// Creates a builder for at most `max_len` bytes.
    pub(crate) fn new(max_len: usize) -> Self {
        Self { text: String::new(), max_len, omitted: 0 }
    }

    /// Appends a part, if it fits.
    pub(crate) fn push(&mut self, part: &str) {
        if self.omitted == 0 && self.text.len().saturating_add(part.len()) <= self.max_len {
            self.text.push_str(part);
        } else {
            self.omitted = self.omitted.saturating_add(1);
        }
    }

    /// Returns the number of omitted parts.
    pub(crate) fn omitted(&self) -> usize {
        self.omitted
    }

    /// Returns the text.
    pub(crate) fn into_string(self) -> String {
        self.text
    }
}

/// Quotes a path as git does with `core.quotePath = false`: as a C string if it contains a quote, a backslash or a
/// control character; letters of all scripts are unchanged. Bytes that are not UTF-8 appear as octal escapes.
pub(crate) fn quote(before: &str, path: &BStr) -> String {
    let mut quoted = String::with_capacity(path.len().saturating_add(before.len()));
    let mut odd = false;
    for (start, end, char) in path.char_indices() {
        let bytes = path.get(start..end).unwrap_or_default();
        let is_no_text = char == char::REPLACEMENT_CHARACTER && bytes != "\u{fffd}".as_bytes();
        let escape = match char {
            '"' => "\\\"",
            '\\' => "\\\\",
            '\u{7}' => "\\a",
            '\u{8}' => "\\b",
            '\t' => "\\t",
            '\n' => "\\n",
            '\u{b}' => "\\v",
            '\u{c}' => "\\f",
            '\r' => "\\r",
            char if char.is_ascii_control() || is_no_text => {
                // Writing to a string does not fail.
                for byte in bytes {
                    let _ = write!(quoted, "\\{byte:03o}");
                }
                odd = true;
                continue;
            }
            char => {
                quoted.push(char);
                continue;
            }
        };
        quoted.push_str(escape);
        odd = true;
    }
    if odd { format!("\"{before}{quoted}\"") } else { format!("{before}{quoted}") }
}

/// The maximum length of a text on one line in bytes, so that a subject of a megabyte does not displace others.
const MAX_LINE: usize = 1400;

/// Formats text of a repository on one line: bytes that are not UTF-8 become replacement characters, control characters
/// become spaces. Text longer than any path is truncated.
pub(crate) fn single_line(text: &[u8]) -> String {
    let shown = text.get(..MAX_LINE).unwrap_or(text);
    let is_cut = shown.len() < text.len();
    // The cut may split a character.
    let whole = if is_cut {
        shown.get(..shown.len().saturating_sub(incomplete_utf8_len(shown))).unwrap_or(shown)
    } else {
        shown
    };
    let mut line: String =
        whole.to_str_lossy().chars().map(|char| if char.is_control() { ' ' } else { char }).collect();
    if is_cut {
        line.push('…');
    }
    line
}

/// Returns the number of trailing bytes that are the start of an incomplete character.
fn incomplete_utf8_len(text: &[u8]) -> usize {
    let last = text.utf8_chunks().last().map(|chunk| chunk.invalid().len()).unwrap_or_default();
    if last < 4 { last } else { 0 }
}

/// The maximum length of a signature that is parsed, in bytes.
const MAX_SIGNATURE: usize = 4096;

/// A signature: name, email address and time.
pub(crate) struct Signature {
    /// The name.
    pub(crate) name: String,
    /// The email address.
    pub(crate) email: String,
    /// The time, if it can be parsed.
    pub(crate) time: Option<gix_date::Time>,
}

impl Signature {
    /// Parses the raw text of a signature.
    pub(crate) fn parse(raw: &GixBStr) -> Self {
        if raw.len() > MAX_SIGNATURE {
            return Self { name: single_line(raw), email: String::new(), time: None };
        }
        match gix_actor::SignatureRef::from_bytes(raw) {
            Ok(signature) => {
                let signature = signature.trim();
                let time = signature.time().ok();
                Self { name: single_line(signature.name), email: single_line(signature.email), time }
            }
            Err(_) => Self { name: single_line(raw), email: String::new(), time: None },
        }
    }

    /// Formats the time with its offset, as in `git log --date=iso-strict`.
    pub(crate) fn date(&self) -> String {
        self.time.map_or_else(|| "unknown".to_owned(), iso8601)
    }
}

/// Formats a time as an ISO 8601 timestamp with its offset, which is `Z` for UTC.
pub(crate) fn iso8601(time: gix_date::Time) -> String {
    let text = time.format_or_unix(ISO8601_STRICT);
    text.strip_suffix("+00:00").map_or(text.clone(), |utc| format!("{utc}Z"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_where_the_first_part_does_not_fit() {
        let mut text = BoundedText::new(5);
        ["abc", "def", "g"].into_iter().for_each(|part| text.push(part));
        assert_eq!((text.omitted(), text.into_string()), (2, "abc".to_owned()));
    }

    #[test]
    fn only_odd_names_are_quoted() {
        assert_eq!(quote("a/", "日本 x.md".into()), "a/日本 x.md");
        assert_eq!(quote("a/", "say \"hi\"\n\\".into()), r#""a/say \"hi\"\n\\""#);
        assert_eq!(quote("", b"\x01\xff\xef\xbf\xbd\x7f".as_bstr()), "\"\\001\\377\u{fffd}\\177\"");
    }

    #[test]
    fn a_line_without_end_is_cut_between_two_characters() {
        let long = "a".to_owned() + &"日".repeat(100_000);
        let shown = single_line(long.as_bytes());
        assert!(shown.len() <= MAX_LINE + 3 && shown.ends_with("日…"), "{shown}");
        let person = Signature::parse(long.as_bytes().as_bstr());
        assert!(person.name.len() <= MAX_LINE + 3);
    }

    #[test]
    fn a_signature_that_is_none_is_shown_as_a_name() {
        let person = Signature::parse("Ada Lovelace".into());
        assert_eq!((person.name.as_str(), person.email.as_str()), ("Ada Lovelace", ""));
        assert_eq!(person.date(), "unknown");
        let person = Signature::parse("Ada <ada@example.com> 0 +0000".into());
        assert_eq!((person.email.as_str(), person.date().as_str()), ("ada@example.com", "1970-01-01T00:00:00Z"));
    }

    #[test]
    fn a_time_that_no_calendar_has_is_shown_as_a_number() {
        assert_eq!(iso8601(gix_date::Time::new(i64::MAX, 0)), i64::MAX.to_string());
    }
}
