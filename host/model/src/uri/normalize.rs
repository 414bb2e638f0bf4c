//! Parsing of URIs by RFC 3986, and normalization in separate steps.
//!
//! `iri-string` validates and splits URIs. Normalization is implemented here, for three reasons: routing needs it in
//! two steps, before and after removal of dot segments; an excess `..`, which RFC 3986 ignores, must be an error; and
//! `iri-string` does not convert hosts with percent-encoded non-ASCII letters to lower case. Property tests compare
//! both implementations.

use std::borrow::Cow;

use iri_string::spec::UriSpec;
use iri_string::types::UriAbsoluteStr;
use iri_string::validate;

use super::MAX_URI_LEN;
use super::error::{CharacterError, UriError, excerpt};

/// A valid URI in its components (RFC 3986, section 3), as written. It has no fragment and no NUL.
#[derive(Debug)]
pub(super) struct Parts<'a> {
    /// The URI without an empty query.
    text: &'a str,
    scheme: &'a str,
    pub(super) authority: Option<&'a str>,
    path: &'a str,
    pub(super) query: Option<&'a str>,
}

/// A URI with normalized case and percent-encoding, before removal of dot segments.
#[derive(Debug)]
pub(super) struct Normalized<'a> {
    text: Cow<'a, str>,
    /// The length of `scheme://authority` in bytes, or of `scheme:` without an authority.
    root: usize,
    has_authority: bool,
}

impl<'a> Parts<'a> {
    /// Parses a URI without user information.
    pub(super) fn parse(text: &'a str) -> Result<Self, UriError> {
        Self::parse_any(text).and_then(|parts| if parts.has_user_info() { Err(UriError::UserInfo) } else { Ok(parts) })
    }

    /// Parses a URI, which may have user information.
    pub(super) fn parse_any(text: &'a str) -> Result<Self, UriError> {
        if text.len() > MAX_URI_LEN {
            return Err(UriError::TooLong { len: text.len() });
        }
        check_characters(text)?;
        let uri = UriAbsoluteStr::new(text).map_err(|_| explain(text))?;
        let authority = uri.authority_str();
        let query = uri.query_str();
        let text = text.strip_suffix('?').filter(|_| query == Some("")).unwrap_or(text);
        Ok(Self { text, scheme: uri.scheme_str(), authority, path: uri.path_str(), query })
    }

    /// Returns whether the authority has user information.
    pub(super) fn has_user_info(&self) -> bool {
        self.authority.is_some_and(|authority| authority.contains('@'))
    }

    /// Returns the scheme, as written.
    pub(super) fn scheme(&self) -> &'a str {
        self.scheme
    }

    /// Normalizes case and percent-encoding (RFC 3986, sections 6.2.2.1 and 6.2.2.2), and removes an empty query (the
    /// [module](super#normal-form)).
    pub(super) fn normalized(&self) -> Normalized<'a> {
        let has_capital = |text: &str| text.bytes().any(|byte| byte.is_ascii_uppercase());
        let has_authority = self.authority.is_some();
        let authority = self.authority.unwrap_or_default();
        let colon = if has_authority { "://" } else { ":" };
        let is_normal = !self.text.contains('%') && !has_capital(self.scheme) && !has_capital(authority);
        if is_normal && !authority.ends_with(':') {
            let root = [self.scheme.len(), colon.len(), authority.len()].iter().sum();
            return Normalized { text: Cow::Borrowed(self.text), root, has_authority };
        }
        let mut text = String::with_capacity(self.text.len());
        text.push_str(&self.scheme.to_ascii_lowercase());
        text.push_str(colon);
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                push_normalized(&mut text, user, Component::UserInfo);
                text.push('@');
                host
            }
            None => authority,
        };
        push_normalized(&mut text, host.strip_suffix(':').unwrap_or(host), Component::Authority);
        let root = text.len();
        push_normalized(&mut text, self.path, Component::Path);
        if let Some(query) = self.query.filter(|query| !query.is_empty()) {
            text.push('?');
            push_normalized(&mut text, query, Component::Query);
        }
        Normalized { text: Cow::Owned(text), root, has_authority }
    }
}

impl<'a> Normalized<'a> {
    /// Returns the URI.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns `scheme://authority`, or `scheme:`.
    pub(super) fn root(&self) -> &str {
        self.parts().0
    }

    /// Returns the path, with its leading slash if it has one, and without the query.
    pub(super) fn path(&self) -> &str {
        split_query(self.parts().1).0
    }

    /// Returns the URI without dot segments (RFC 3986, section 6.2.2.3). They are an error if the RFC's algorithm could
    /// result in another kind of URI: in an opaque URI, and if two slashes would follow the scheme.
    pub(super) fn without_dot_segments(&self) -> Result<Cow<'_, str>, UriError> {
        let (root, below) = self.parts();
        let (path, query) = split_query(below);
        let Some(segments) = path.strip_prefix('/') else {
            return match path.split('/').any(is_dot_segment) {
                true => Err(UriError::OpaqueDots),
                false => Ok(Cow::Borrowed(&self.text)),
            };
        };
        match remove_dot_segments(segments) {
            Some(Cow::Borrowed(_)) => Ok(Cow::Borrowed(&self.text)),
            Some(Cow::Owned(path)) if !self.has_authority && path.starts_with('/') => Err(UriError::OpaqueDots),
            Some(Cow::Owned(path)) => Ok(Cow::Owned([root, "/", &path, query].concat())),
            None => Err(UriError::AboveRoot),
        }
    }

    /// Returns `scheme://authority` or `scheme:`, and the rest.
    fn parts(&self) -> (&str, &str) {
        self.text.split_at_checked(self.root).unwrap_or((&self.text, ""))
    }
}

/// Splits off the query, which keeps its `?`.
pub(super) fn split_query(text: &str) -> (&str, &str) {
    let path = text.find('?').unwrap_or(text.len());
    text.split_at_checked(path).unwrap_or((text, ""))
}

/// Returns whether a path is in normal form below any mount with a host or an empty one, by a quick check of its bytes:
/// it has only slashes and characters of `pchar` that need no percent-encoding (RFC 3986, section 3.3), and no segment
/// begins with a dot.
///
/// False negatives are possible; such a path is parsed.
pub(super) fn is_plain_path(path: &str) -> bool {
    let mut previous = b'/';
    let is_plain = path.bytes().all(|byte| {
        let starts_segment = std::mem::replace(&mut previous, byte) == b'/';
        is_plain_byte(byte) && !(starts_segment && byte == b'.')
    });
    is_plain && !path.starts_with('/')
}

/// Returns whether a URI with an authority is in normal form, by a quick check of its bytes: its scheme and host have
/// no capitals, the host is a name or empty, and its path is [plain](is_plain_path).
///
/// False negatives are possible; such a URI is parsed.
pub(super) fn is_plain_uri(uri: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'.';
    let Some((scheme, rest)) = uri.split_once("://").filter(|(_, rest)| !rest.is_empty()) else { return false };
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme.bytes().all(|byte| is_plain(byte) || byte == b'+')
        && host.bytes().all(is_plain)
        && is_plain_path(path)
}

/// Returns whether a byte is a slash, or a character of `pchar` other than `%`.
fn is_plain_byte(byte: u8) -> bool {
    let c = char::from(byte);
    is_unreserved(c) || is_path_delimiter(c) || c == '/'
}

/// Returns whether a segment with normalized percent-encoding is `.` or `..`.
pub(super) fn is_dot_segment(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

/// Removes the dot segments of a path that has no leading slash and no query (RFC 3986, section 5.2.4).
///
/// Returns `None` if a `..` has no segment left to remove. The result begins with a slash if its first segment is
/// empty.
pub(super) fn remove_dot_segments(path: &str) -> Option<Cow<'_, str>> {
    if !path.split('/').any(is_dot_segment) {
        return Some(Cow::Borrowed(path));
    }
    let mut output = Vec::new();
    let mut segments = path.split('/').peekable();
    while let Some(segment) = segments.next() {
        if segment == ".." {
            output.pop()?;
        }
        if !is_dot_segment(segment) {
            output.push(segment);
        } else if segments.peek().is_none() {
            // A dot segment at the end leaves its preceding slash.
            output.push("");
        }
    }
    Some(Cow::Owned(output.join("/")))
}

/// The component of a URI that a text belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Component {
    /// The user information, in front of the host.
    UserInfo,
    /// The host and the port, or text with their rules. Letters are converted to lower case.
    Authority,
    /// The host and the port, or the path: unknown in a template.
    AuthorityOrPath,
    /// The path.
    Path,
    /// The query.
    Query,
}

impl Component {
    /// Returns whether the percent-encoding of a character is decoded in the normal form of the component.
    fn decodes(self, c: char) -> bool {
        is_unreserved(c)
            || match self {
                Self::UserInfo | Self::Authority | Self::AuthorityOrPath => false,
                Self::Path => is_path_delimiter(c),
                Self::Query => is_query_delimiter(c),
            }
    }
}

/// Appends a text with valid percent-encoding in the normal form of its component: characters without a special meaning
/// there are decoded, other encodings converted to upper case (RFC 3986, sections 2.3 and 6.2.2, and the
/// [module](super#percent-encoding)).
pub(super) fn push_normalized(out: &mut String, text: &str, component: Component) {
    let push = |out: &mut String, text: &str| match component {
        Component::UserInfo | Component::AuthorityOrPath | Component::Path | Component::Query => out.push_str(text),
        Component::Authority => out.extend(text.chars().map(|c| c.to_ascii_lowercase())),
    };
    let mut pieces = text.split('%');
    push(out, pieces.next().unwrap_or_default());
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).unwrap_or((piece, ""));
        match u8::from_str_radix(digits, 16).map(char::from) {
            Ok(c) if component.decodes(c) => push(out, c.encode_utf8(&mut [0; 4])),
            _ => {
                out.push('%');
                out.push_str(&digits.to_ascii_uppercase());
            }
        }
        push(out, rest);
    }
}

/// Returns whether a reserved character has no special meaning in a path: `pchar` of RFC 3986, section 3.3.
pub fn is_path_delimiter(c: char) -> bool {
    matches!(c, '@' | ':' | '!' | '$' | '&' | '\'' | '(' | ')' | '*' | '+' | ',' | ';' | '=')
}

/// Returns whether a reserved character has no special meaning in a query: the characters of [`is_path_delimiter`],
/// except the separators of pairs, of names and values, and of list values, and except `+`, a space in forms.
fn is_query_delimiter(c: char) -> bool {
    is_path_delimiter(c) && !matches!(c, '&' | '=' | '+' | ',' | ';')
}

/// Returns whether this is `unreserved` of RFC 3986, section 2.3.
fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~')
}

/// Returns whether a character is allowed in some part of a URI: `unreserved`, `reserved` or `%` (RFC 3986, section 2).
fn is_uri_char(c: char) -> bool {
    is_unreserved(c) || is_path_delimiter(c) || matches!(c, '/' | '?' | '#' | '[' | ']' | '%')
}

/// Finds the first character that is not allowed in a URI, the first `%` without two digits, or the first NUL.
pub(super) fn check_characters(text: &str) -> Result<(), CharacterError> {
    let mut chars = text.char_indices();
    while let Some((at, found)) = chars.next() {
        if !is_uri_char(found) {
            return Err(CharacterError::Character { found, at });
        }
        if found == '%' {
            check_encoding(chars.as_str(), at)?;
        }
    }
    Ok(())
}

/// Checks the two digits after a `%`.
fn check_encoding(behind: &str, at: usize) -> Result<(), CharacterError> {
    let mut digits = behind.chars().map(|c| c.to_digit(16));
    match (digits.next().flatten(), digits.next().flatten()) {
        (Some(0), Some(0)) => Err(CharacterError::Nul { at }),
        (Some(_), Some(_)) => Ok(()),
        _ => Err(CharacterError::PercentEncoding { at }),
    }
}

/// Returns the reason why `iri-string` rejects a text whose characters are all allowed.
fn explain(text: &str) -> UriError {
    let Some((_, behind_scheme)) = text.split_once(':').filter(|(scheme, _)| validate::scheme(scheme).is_ok()) else {
        return UriError::NoScheme;
    };
    if let Some(at) = text.find('#') {
        return UriError::Fragment { at };
    }
    let behind_slashes = behind_scheme.strip_prefix("//").unwrap_or_default();
    let authority = behind_slashes.split(['/', '?']).next().unwrap_or_default();
    if validate::authority::<UriSpec>(authority).is_err() {
        return UriError::Host { found: excerpt(authority) };
    }
    // Only brackets are left, which may only enclose an IP address. Brackets of a valid address come first.
    let bracket = text.char_indices().rfind(|(_, c)| matches!(c, '[' | ']'));
    bracket.map_or(UriError::NoScheme, |(at, found)| UriError::Characters(CharacterError::Character { found, at }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn what_is_plain_is_in_normal_form(uri in "[a-bX][a-b0+-]{0,2}://([a-bX0.-]|:0|@){0,3}(/|[a-bX~@:,=._-]|%61|\\.\\.|\\?){0,8}") {
            if is_plain_uri(&uri) {
                let parts = Parts::parse_any(&uri);
                let normal = parts.map(|parts| parts.normalized().without_dot_segments().map(Cow::into_owned));
                prop_assert_eq!(normal, Ok(Ok(uri.clone())));
            }
        }
    }

    #[test]
    fn common_uris_are_plain() {
        for uri in ["file:///srv/a.md", "repo://owner/name/x@y,z", "git+ssh://h", "x://h/a/"] {
            assert!(is_plain_uri(uri), "{uri}");
        }
        for uri in
            ["x:a", "x://", "X://h", "x://H", "x://h:1/a", "x://h//a", "x://h/.a", "x://h/%61", "x://h/a?b", "1://h"]
        {
            assert!(!is_plain_uri(uri), "{uri}");
        }
    }
}
