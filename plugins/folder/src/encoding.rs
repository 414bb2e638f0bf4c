//! The encoding of text: detection and conversion to UTF-8.
//!
//! The order of detection: a byte order mark, the escape sequences of ISO-2022-JP, valid UTF-8, UTF-16 by its pattern
//! of zeros, the encoding of the config, the guess of `chardetng` (which browsers use). Bytes with control characters
//! are not text.

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, ISO_2022_JP, UTF_8, UTF_16BE, UTF_16LE};

/// The number of bytes, from the first one that is not ASCII, from which an encoding is guessed.
const GUESSED: usize = 16 * 1024;

/// The encoding of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextEncoding(pub &'static Encoding);

impl TextEncoding {
    /// UTF-8.
    pub const UTF_8: Self = Self(UTF_8);

    /// Returns the name of an encoding other than UTF-8.
    pub fn name(self) -> Option<&'static str> {
        (self.0 != UTF_8).then(|| self.0.name())
    }

    /// Returns whether a line feed is a single byte.
    pub fn has_line_feeds(self) -> bool {
        self.0.is_ascii_compatible() || self.0 == ISO_2022_JP
    }

    /// Returns whether a part of a text can be decoded without the preceding text.
    fn is_stateless(self) -> bool {
        self.0 != ISO_2022_JP
    }

    /// Decodes a whole text, without its byte order mark. Malformed sequences become U+FFFD. Also returns whether there
    /// were any.
    pub fn decode(self, bytes: Vec<u8>) -> (String, bool) {
        let mark = Encoding::for_bom(&bytes).filter(|(encoding, _)| *encoding == self.0).map_or(0, |(_, len)| len);
        if self.0 == UTF_8 && mark == 0 {
            return match String::from_utf8(bytes) {
                Ok(text) => (text, false),
                Err(error) => (String::from_utf8_lossy(error.as_bytes()).into_owned(), true),
            };
        }
        let (text, had_errors) = self.0.decode_without_bom_handling(bytes.get(mark..).unwrap_or_default());
        (text.into_owned(), had_errors)
    }

    /// Decodes a part of a text; `None` if it does not start and end between characters.
    pub fn decode_part(self, bytes: &[u8], is_beginning: bool) -> Option<String> {
        if self.0 == UTF_8 {
            let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").filter(|_| is_beginning).unwrap_or(bytes);
            return std::str::from_utf8(bytes).ok().map(str::to_owned);
        }
        if !self.is_stateless() && !is_beginning {
            return None;
        }
        let mark = Encoding::for_bom(bytes).filter(|(encoding, _)| is_beginning && *encoding == self.0);
        let bytes = bytes.get(mark.map_or(0, |(_, len)| len)..).unwrap_or_default();
        Some(self.0.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned())
    }

    /// Returns the length of the longest prefix that ends between characters. At most three bytes are cut off.
    pub fn whole_characters(self, bytes: &[u8]) -> usize {
        let len = bytes.len();
        (0..4)
            .map(|cut| len.saturating_sub(cut))
            .find(|len| bytes.get(..*len).is_some_and(|bytes| self.decode_part(bytes, true).is_some()))
            .unwrap_or(len)
    }
}

/// Detects the encoding of a whole file, or of its beginning. Returns `None` if the bytes are not text.
pub fn detect(bytes: &[u8], is_whole: bool, fallback: Option<&'static Encoding>) -> Option<TextEncoding> {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return Some(TextEncoding(encoding));
    }
    if memchr::memmem::find(bytes, b"\x1b$").is_some() && bytes.is_ascii() && decodes(ISO_2022_JP, bytes, is_whole) {
        return Some(TextEncoding(ISO_2022_JP));
    }
    if memchr::memchr(0, bytes).is_some() {
        return utf_16(bytes).map(TextEncoding);
    }
    if bytes.iter().any(|byte| is_control(*byte)) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(_) => return Some(TextEncoding::UTF_8),
        Err(error) if error.error_len().is_none() && !is_whole => return Some(TextEncoding::UTF_8),
        Err(_) if is_mostly_utf_8(bytes) => return Some(TextEncoding::UTF_8),
        Err(_) => {}
    }
    if let Some(encoding) = fallback.filter(|encoding| decodes(encoding, bytes, is_whole)) {
        return Some(TextEncoding(encoding));
    }
    // ASCII contains no information about the encoding, and a few paragraphs of other bytes are sufficient.
    let start = bytes.iter().position(|byte| !byte.is_ascii()).unwrap_or_default();
    let end = start.saturating_add(GUESSED).min(bytes.len());
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes.get(start..end).unwrap_or_default(), is_whole && end == bytes.len());
    Some(TextEncoding(detector.guess(None, Utf8Detection::Deny)))
}

/// Returns whether a byte is a control character that does not occur in text. Form feed, backspace (in manuals) and
/// escape (of terminals) occur.
fn is_control(byte: u8) -> bool {
    byte < 0x20 && !matches!(byte, b'\t' | b'\n' | b'\r' | 0x08 | 0x0c | 0x1b)
}

/// Returns whether bytes decode without errors. The beginning of a file may end within a character.
fn decodes(encoding: &'static Encoding, bytes: &[u8], is_whole: bool) -> bool {
    let most_cut = if is_whole { 0 } else { 3 };
    (0..=most_cut).any(|cut| {
        let bytes = bytes.get(..bytes.len().saturating_sub(cut)).unwrap_or_default();
        encoding.decode_without_bom_handling_and_without_replacement(bytes).is_some()
    })
}

/// Returns UTF-16 if one byte of most pairs is zero, always at the same place, and the text has no control characters.
fn utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    let pairs = bytes.len().checked_div(2).unwrap_or_default();
    let zeros = |parity: usize| bytes.iter().skip(parity).step_by(2).filter(|byte| **byte == 0).count();
    let is_most = |zeros: usize| zeros.saturating_mul(2) > pairs && pairs > 0;
    let encoding = match (zeros(0), zeros(1)) {
        (high, 0) if is_most(high) => UTF_16BE,
        (0, high) if is_most(high) => UTF_16LE,
        _ => return None,
    };
    let text = encoding.decode_without_bom_handling(bytes).0;
    let is_text = !text.chars().any(|c| u8::try_from(c).is_ok_and(is_control));
    is_text.then_some(encoding)
}

/// Returns whether malformed sequences are rare compared with valid multi-byte sequences, as in UTF-8 with a few
/// faults.
fn is_mostly_utf_8(bytes: &[u8]) -> bool {
    let (mut valid, mut malformed) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        valid = valid.saturating_add(chunk.valid().chars().filter(|c| !c.is_ascii()).count());
        malformed = malformed.saturating_add(usize::from(!chunk.invalid().is_empty()));
    }
    valid > malformed.saturating_mul(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use encoding_rs::{EUC_JP, SHIFT_JIS};

    const JAPANESE: &str = "吾輩は猫である。名前はまだ無い。\nどこで生れたかとんと見当がつかぬ。\n";

    fn encoded(encoding: &'static Encoding) -> Vec<u8> {
        encoding.encode(JAPANESE).0.into_owned()
    }

    #[test]
    fn japanese_text_is_detected_in_each_of_its_encodings() {
        for encoding in [UTF_8, EUC_JP, SHIFT_JIS, ISO_2022_JP] {
            let bytes = encoded(encoding);
            assert_eq!(detect(&bytes, true, None), Some(TextEncoding(encoding)), "{}", encoding.name());
            assert_eq!(TextEncoding(encoding).decode(bytes), (JAPANESE.to_owned(), false));
        }
    }

    #[test]
    fn the_beginning_of_a_text_has_the_encoding_of_the_whole() {
        for encoding in [UTF_8, EUC_JP, SHIFT_JIS] {
            let bytes = encoded(encoding);
            for len in 40..bytes.len() {
                assert_eq!(
                    detect(&bytes[..len], false, None),
                    Some(TextEncoding(encoding)),
                    "{} {len}",
                    encoding.name()
                );
            }
        }
    }

    #[test]
    fn utf_16_is_detected_with_a_mark_and_in_latin_script_without_one() {
        let little: Vec<u8> = "\u{feff}日本\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let encoding = detect(&little, true, None).unwrap();
        assert_eq!((encoding, encoding.decode(little).0.as_str()), (TextEncoding(UTF_16LE), "日本\n"));
        let big: Vec<u8> = "plain text\n".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(detect(&big, true, None), Some(TextEncoding(UTF_16BE)));
    }

    #[test]
    fn a_mark_of_utf_8_is_no_part_of_the_text() {
        let bytes = "\u{feff}text".as_bytes().to_vec();
        assert_eq!(detect(&bytes, true, None).unwrap().decode(bytes), ("text".to_owned(), false));
    }

    #[test]
    fn bytes_that_are_no_text_have_no_encoding() {
        for bytes in [&b"\x89PNG\r\n\x1a\n\0\0"[..], b"\x7fELF\x02\x01\x01\0", b"a\x01b", b"\0", b"\0\x01\0\x02"] {
            assert_eq!(detect(bytes, true, None), None, "{bytes:?}");
        }
    }

    #[test]
    fn utf_8_with_a_fault_stays_utf_8() {
        let mut bytes = JAPANESE.as_bytes().to_vec();
        bytes.push(0xff);
        assert_eq!(detect(&bytes, true, None), Some(TextEncoding::UTF_8));
        assert!(TextEncoding::UTF_8.decode(bytes).1);
    }

    #[test]
    fn the_configured_encoding_counts_where_it_can_be() {
        let short = SHIFT_JIS.encode("ﾃｽﾄ").0.into_owned();
        assert_eq!(detect(&short, true, Some(SHIFT_JIS)), Some(TextEncoding(SHIFT_JIS)));
        assert_eq!(detect("é".as_bytes(), true, Some(SHIFT_JIS)), Some(TextEncoding::UTF_8));
    }

    #[test]
    fn a_part_is_decoded_only_between_characters() {
        let bytes = encoded(EUC_JP);
        let encoding = TextEncoding(EUC_JP);
        assert_eq!(encoding.decode_part(&bytes[..2], true).as_deref(), Some("吾"));
        assert_eq!(encoding.decode_part(&bytes[..3], true), None);
        assert_eq!(encoding.whole_characters(&bytes[..5]), 4);
    }
}
