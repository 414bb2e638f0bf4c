//! The media type of a page, from its origin (RFC 9110, section 8.3) or guessed.

use crate::cache::head::Kind;
use mcp_provider::mime;

const HTML: &str = "text/html";
const PLAIN: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

/// A media type in lower case, with its charset parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MediaType {
    /// The type and subtype: `text/html`.
    pub(crate) essence: String,
    /// The label of the encoding.
    pub(crate) charset: Option<String>,
}

impl MediaType {
    /// Parses a `Content-Type`; `None` if it is malformed.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let essence = parts.next()?.trim().to_ascii_lowercase();
        let (kind, subtype) = essence.split_once('/')?;
        if !is_token(kind) || !is_token(subtype) {
            return None;
        }
        let charset = parts.find_map(|parameter| {
            let (name, value) = parameter.split_once('=')?;
            name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
        });
        Some(Self { essence, charset })
    }

    /// Guesses the type of a page without a declared type: HTML by its first bytes, else by its name, else text if it
    /// is UTF-8.
    pub(crate) fn guess(name: &str, body: &[u8]) -> Self {
        let beginning = body.get(..body.len().min(512)).unwrap_or_default();
        let beginning = String::from_utf8_lossy(beginning).trim_start().to_ascii_lowercase();
        let essence = if beginning.starts_with("<!doctype html") || beginning.starts_with("<html") {
            HTML
        } else if let Some(essence) = mime::from_name(name) {
            essence
        } else if std::str::from_utf8(body).is_ok() {
            PLAIN
        } else {
            BYTES
        };
        Self { essence: essence.to_owned(), charset: None }
    }

    /// Returns the kind of a page of this type.
    pub(crate) fn kind(&self) -> Kind {
        match self.essence.as_str() {
            HTML | "application/xhtml+xml" => Kind::Html,
            essence if mime::is_text(essence) => Kind::Text,
            _ => Kind::Blob,
        }
    }
}

/// Returns whether a text is a token (RFC 9110, section 5.6.2).
fn is_token(text: &str) -> bool {
    let is_token_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.len() <= 127 && text.bytes().all(is_token_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_cleaned_and_its_charset_kept() {
        let parsed = MediaType::parse(" Text/HTML ; x=y; Charset=\"Shift_JIS\"").unwrap();
        assert_eq!((parsed.essence.as_str(), parsed.charset.as_deref()), ("text/html", Some("Shift_JIS")));
        assert_eq!(MediaType::parse("image/png").unwrap().charset, None);
        for none in ["", "text", "text/", "/html", "text/ht ml", "a/b/c", "é/b"] {
            assert_eq!(MediaType::parse(none), None, "{none}");
        }
    }

    #[test]
    fn a_page_without_a_type_is_what_it_looks_like() {
        for (name, body, essence) in [
            ("x", &b"\n <!DOCTYPE HTML><p>"[..], "text/html"),
            ("x.png", b"\x89PNG", "image/png"),
            ("x", "日本".as_bytes(), "text/plain"),
            ("x", b"\xff\xfe", "application/octet-stream"),
        ] {
            assert_eq!(MediaType::guess(name, body).essence, essence);
        }
    }

    #[test]
    fn text_is_told_from_bytes() {
        for (text, kind) in [
            ("text/html", Kind::Html),
            ("application/xhtml+xml", Kind::Html),
            ("text/markdown", Kind::Text),
            ("application/json", Kind::Text),
            ("application/atom+xml", Kind::Text),
            ("image/svg+xml", Kind::Text),
            ("image/png", Kind::Blob),
            ("application/pdf", Kind::Blob),
        ] {
            assert_eq!(MediaType::parse(text).unwrap().kind(), kind, "{text}");
        }
    }
}
