//! Path encoding and decoding.
//!
//! A path is the relative part of a URI (RFC 3986, section 3.3): segments separated by `/`, with everything outside
//! the unreserved and sub-delimiter characters, `:` and `@` percent-encoded. Names may contain any bytes except NUL,
//! in any script; encoding and decoding round-trip. Decoded paths are validated, because a path that the host and a
//! file system interpret differently bypasses access rules: no encoded slash, no NUL, no `.` or `..` and no empty
//! segment.
//!
//! ```
//! use mcp_provider::path;
//!
//! let encoded = path::encode("日本/50% off?.md");
//! assert_eq!(encoded, "%E6%97%A5%E6%9C%AC/50%25%20off%3F.md");
//! assert_eq!(path::decode(&encoded)?, "日本/50% off?.md");
//! # Ok::<(), mcp_provider::Failure>(())
//! ```

use crate::{Failure, Result};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};

/// All characters except `pchar` of RFC 3986 (without percent-encoded forms).
const NOT_IN_A_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// [`NOT_IN_A_SEGMENT`] without the segment separator.
const NOT_IN_A_PATH: &AsciiSet = &NOT_IN_A_SEGMENT.remove(b'/');

/// All characters except the unreserved ones, and the reserved ones that separate nothing in a query.
const NOT_IN_A_QUERY: &AsciiSet = &NOT_IN_A_SEGMENT.add(b'&').add(b'=').add(b'+').add(b',').add(b';');

/// Encodes one name as one segment. A slash in it is encoded.
pub fn encode_segment(name: impl AsRef<[u8]>) -> String {
    percent_encode(name.as_ref(), NOT_IN_A_SEGMENT).to_string()
}

/// Encodes names separated by `/`, each as a segment.
pub fn encode(names: impl AsRef<[u8]>) -> String {
    percent_encode(names.as_ref(), NOT_IN_A_PATH).to_string()
}

/// Encodes one value of a query, like a client that expands `{?name}` (RFC 6570, section 3.2.8). Exceptions are
/// the characters that the host's normal form does not encode: `! $ ' ( ) * : @`.
///
/// ```
/// assert_eq!(mcp_provider::path::encode_query("R&D @ 50%"), "R%26D%20@%2050%25");
/// ```
pub fn encode_query(value: impl AsRef<[u8]>) -> String {
    percent_encode(value.as_ref(), NOT_IN_A_QUERY).to_string()
}

/// Decodes the characters that need no encoding in a segment or in the query, as the host does in its normal form of
/// paths.
pub(crate) fn normalize(path: &str) -> String {
    let (path, query) = split_query(path);
    let query = query.map(|query| ["?", &decode_some(query, NOT_IN_A_QUERY)].concat());
    decode_some(path, NOT_IN_A_SEGMENT) + &query.unwrap_or_default()
}

/// Decodes the characters that need no encoding.
fn decode_some(text: &str, encoded: &'static AsciiSet) -> String {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2).unwrap_or((piece, ""));
        match u8::from_str_radix(digits, 16).map(|byte| percent_encode(&[byte], encoded).to_string()) {
            Ok(plain) if plain.len() == 1 => decoded.push_str(&plain),
            _ => decoded.extend(["%", digits]),
        }
        decoded.push_str(rest);
    }
    decoded
}

/// Decodes one segment to a name.
///
/// # Errors
///
/// The errors of [`decode_segment_bytes`], and a name that is not UTF-8.
pub fn decode_segment(segment: &str) -> Result<String> {
    utf8(decode_segment_bytes(segment)?)
}

/// Decodes one segment to the bytes of a name.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if it contains a slash, a query, a malformed percent-encoding or an encoded NUL.
pub fn decode_segment_bytes(segment: &str) -> Result<Vec<u8>> {
    if segment.contains('/') {
        return Err(Failure::invalid("expected a single path segment, found several"));
    }
    decode_part(segment)
}

/// Decodes a path to names separated by `/`. The empty path decodes to the empty name.
///
/// # Errors
///
/// The errors of [`decode_bytes`], and a name that is not UTF-8.
pub fn decode(path: &str) -> Result<String> {
    utf8(decode_bytes(path)?)
}

/// Decodes a path to the bytes of names separated by `/`.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if the path starts or ends with a slash, or contains an empty, `.` or `..` segment, an
/// encoded slash, a query, a malformed percent-encoding or an encoded NUL.
pub fn decode_bytes(path: &str) -> Result<Vec<u8>> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let mut names = Vec::with_capacity(path.len());
    for segment in path.split('/') {
        let name = decode_part(segment)?;
        match name.as_slice() {
            b"" => return Err(Failure::invalid("expected a path without empty segments")),
            b"." | b".." => {
                return Err(Failure::invalid("expected a path without `.` and `..` segments"));
            }
            name if name.contains(&b'/') => {
                return Err(Failure::invalid("expected no encoded slash in this path"));
            }
            name => {
                if !names.is_empty() {
                    names.push(b'/');
                }
                names.extend_from_slice(name);
            }
        }
    }
    Ok(names)
}

/// Splits a path from its query, if it has one.
///
/// ```
/// assert_eq!(mcp_provider::path::split_query("log/main?limit=3"), ("log/main", Some("limit=3")));
/// ```
pub fn split_query(path: &str) -> (&str, Option<&str>) {
    path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)))
}

/// Percent-decodes a part of a path or query; an encoded slash is allowed.
pub(crate) fn decode_part(part: &str) -> Result<Vec<u8>> {
    if part.contains(['?', '#']) {
        return Err(Failure::invalid("expected a path without a query or fragment"));
    }
    let malformed = |rest: &str| !rest.bytes().take(2).eq(rest.bytes().take(2).filter(u8::is_ascii_hexdigit));
    if part.split('%').skip(1).any(|rest| rest.len() < 2 || malformed(rest)) {
        return Err(Failure::invalid("expected two hexadecimal digits after each `%`"));
    }
    let bytes: Vec<u8> = percent_decode_str(part).collect();
    if bytes.contains(&0) {
        return Err(Failure::invalid("expected a path without NUL"));
    }
    Ok(bytes)
}

fn utf8(bytes: Vec<u8>) -> Result<String> {
    String::from_utf8(bytes).map_err(|_| Failure::invalid("expected a path that is UTF-8 once decoded"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_segment_keeps_what_a_uri_allows_and_encodes_the_rest() {
        assert_eq!(encode_segment("a-b._~!$&'()*+,;=:@"), "a-b._~!$&'()*+,;=:@");
        assert_eq!(encode_segment("a/b"), "a%2Fb");
        assert_eq!(encode_segment("日"), "%E6%97%A5");
        assert_eq!(encode_segment(b"\xff\n\""), "%FF%0A%22");
    }

    #[test]
    fn a_path_keeps_its_slashes() {
        assert_eq!(encode("a b/c#d"), "a%20b/c%23d");
    }

    #[test]
    fn delimiters_are_decoded_where_they_stand_for_themselves() {
        assert_eq!(normalize("%40%2C%2f%25%zz/a?q=%40%28%26%3D"), "@,%2f%25%zz/a?q=@(%26%3D");
        assert_eq!(encode_query("a-b._~!$'()*:@&=+,;/? "), "a-b._~!$'()*:@%26%3D%2B%2C%3B%2F%3F%20");
    }

    #[test]
    fn a_path_with_dots_is_refused_encoded_or_not() {
        for path in ["..", "a/../b", "./a", "%2e%2E/a", "a/%2e"] {
            assert!(matches!(decode(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
    }

    #[test]
    fn a_path_that_a_file_system_would_read_as_another_is_refused() {
        for path in ["/a", "a/", "a//b", "a%2Fb", "a%2fb", "a%00", "a?b", "a#b"] {
            assert!(matches!(decode(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
    }

    #[test]
    fn a_malformed_percent_encoding_is_refused() {
        for path in ["%", "a%2", "%zz", "%%41", "%2", "%é"] {
            assert!(matches!(decode(path), Err(Failure::InvalidRequest(_))), "{path}");
        }
    }

    #[test]
    fn a_segment_may_stand_for_a_name_with_a_slash_but_not_hold_one() {
        assert_eq!(decode_segment("feature%2Fx"), Ok("feature/x".to_owned()));
        assert!(decode_segment("feature/x").is_err());
    }

    #[test]
    fn a_name_that_is_no_text_comes_back_as_bytes_only() {
        assert_eq!(decode_bytes("a/%FF"), Ok(b"a/\xff".to_vec()));
        assert!(matches!(decode("a/%FF"), Err(Failure::InvalidRequest(_))));
    }

    #[test]
    fn the_empty_path_is_the_empty_name() {
        assert_eq!(decode(""), Ok(String::new()));
    }

    proptest! {
        #[test]
        fn a_name_comes_back_as_it_went(name in proptest::collection::vec(1..=u8::MAX, 0..40)) {
            prop_assert_eq!(decode_segment_bytes(&encode_segment(&name)), Ok(name));
        }

        #[test]
        fn names_come_back_as_they_went(names in proptest::collection::vec("[^/\0.][^/\0]{0,8}", 1..5)) {
            let path = names.join("/");
            prop_assert_eq!(decode(&encode(&path)), Ok(path));
        }

        #[test]
        fn what_is_encoded_has_only_characters_of_a_path(name in ".*") {
            let encoded = encode(&name);
            prop_assert!(encoded.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte)));
        }

        #[test]
        fn decoding_never_panics_and_never_yields_dots(path in ".*") {
            if let Ok(names) = decode(&path) {
                prop_assert!(names.is_empty() || names.split('/').all(|name| !matches!(name, "" | "." | "..")));
            }
        }
    }
}
