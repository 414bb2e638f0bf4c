//! The canonical composition (NFC) of the text of a URI.
//!
//! `Ä` has two spellings: one character, or `A` and a combining mark. They are different URIs (RFC 3986 compares
//! bytes), but some file systems and providers treat them as the same. So rules that deny one deny both (`access`).

use icu_normalizer::ComposingNormalizer;
use percent_encoding::percent_decode_str;

/// The length of the percent-encoding of one byte.
const ENCODED_LEN: usize = 3;

/// Returns a normalized URI or glob with its non-ASCII characters in canonical composition; none if they are composed
/// already. Percent-encoded ASCII characters stay encoded, and so do bytes that are not UTF-8.
pub fn composed(normalized: &str) -> Option<String> {
    if !normalized.as_bytes().windows(2).any(|pair| matches!(pair, [b'%', b'8' | b'9' | b'A'..=b'F'])) {
        return None;
    }
    let mut decoded = String::with_capacity(normalized.len());
    let mut rest = normalized;
    while let Some(at) = rest.find('%') {
        let (before, encoded) = rest.split_at(at);
        decoded.push_str(before);
        let len = encoded.bytes().step_by(ENCODED_LEN).take_while(|byte| *byte == b'%').count();
        let (encoded, behind) = encoded.split_at_checked(len.saturating_mul(ENCODED_LEN)).unwrap_or((encoded, ""));
        push_decoded(&mut decoded, encoded);
        rest = behind;
    }
    decoded.push_str(rest);
    let mut composed = String::with_capacity(normalized.len());
    for character in ComposingNormalizer::new_nfc().normalize(&decoded).chars() {
        match character.is_ascii() {
            true => composed.push(character),
            false => {
                let mut buffer = [0; 4];
                let bytes = character.encode_utf8(&mut buffer).bytes();
                composed.extend(bytes.map(percent_encoding::percent_encode_byte));
            }
        }
    }
    (composed != normalized).then_some(composed)
}

/// Appends the non-ASCII characters of percent-encoded bytes decoded, and all other bytes encoded.
fn push_decoded(decoded: &mut String, encoded: &str) {
    let bytes: Vec<u8> = percent_decode_str(encoded).collect();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match u8::try_from(character).ok().filter(u8::is_ascii) {
                Some(byte) => decoded.push_str(percent_encoding::percent_encode_byte(byte)),
                None => decoded.push(character),
            }
        }
        decoded.extend(chunk.invalid().iter().map(|byte| percent_encoding::percent_encode_byte(*byte)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_composed_and_everything_else_stays() {
        for (text, expected) in [
            ("a://x/A%CC%88.env", Some("a://x/%C3%84.env")),
            ("a://x/%E3%81%8B%E3%82%99", Some("a://x/%E3%81%8C")),
            ("a://x/A%CC%88%2F%20*?", Some("a://x/%C3%84%2F%20*?")),
            ("a://x/%C3%84", None),
            ("a://x/%2F%20a", None),
            ("a://x/%FF%C3", None),
            ("a://x/%FFA%CC%88", Some("a://x/%FF%C3%84")),
            ("a://x/A/%CC%88", None),
            ("a", None),
        ] {
            assert_eq!(composed(text).as_deref(), expected, "{text}");
        }
    }
}
