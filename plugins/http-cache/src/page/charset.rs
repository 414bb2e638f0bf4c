//! Character encoding detection, in the order of browsers: a byte order mark, the origin's declaration, the page's
//! declaration, heuristics.

use super::html;
use crate::cache::head::Kind;
use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The number of leading bytes of a page that may declare its encoding.
const PRESCAN_LEN: usize = 1024;

/// Decodes bytes to text. Malformed sequences become U+FFFD. Returns the bytes if they are not text.
pub(crate) fn decode(bytes: Vec<u8>, declared_charset: Option<&str>, kind: Kind) -> Result<String, Vec<u8>> {
    let encoding = encoding(&bytes, declared_charset, kind);
    match encoding {
        Some(encoding) if encoding == UTF_8 => {
            let bytes = match bytes.strip_prefix(b"\xef\xbb\xbf") {
                Some(rest) => rest.to_vec(),
                None => bytes,
            };
            Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
        }
        Some(encoding) => Ok(encoding.decode(&bytes).0.into_owned()),
        None => Err(bytes),
    }
}

fn encoding(bytes: &[u8], declared_charset: Option<&str>, kind: Kind) -> Option<&'static Encoding> {
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        return Some(encoding);
    }
    let by_label = |label: &str| Encoding::for_label(label.as_bytes());
    if let Some(encoding) =
        declared_charset.and_then(by_label).or_else(|| by_label(&meta_charset(bytes, kind)?).map(ascii_like))
    {
        return Some(encoding);
    }
    if std::str::from_utf8(bytes).is_ok() {
        Some(UTF_8)
    } else if bytes.contains(&0) {
        None
    } else {
        Some(WINDOWS_1252)
    }
}

/// Returns the encoding that a page declares in its content, if the declaration is readable before the encoding is
/// known.
fn meta_charset(bytes: &[u8], kind: Kind) -> Option<String> {
    let beginning = bytes.get(..bytes.len().min(PRESCAN_LEN)).unwrap_or_default();
    let beginning = WINDOWS_1252.decode_without_bom_handling(beginning).0;
    let declared = || {
        let declaration = beginning.strip_prefix("<?xml")?.split_once("?>")?.0;
        let value = declaration.split_once("encoding")?.1.trim_start().strip_prefix('=')?.trim_start();
        let quote = value.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
        value.split(quote).nth(1).map(str::to_owned)
    };
    match kind {
        Kind::Html => html::encoding_label(&beginning).or_else(declared),
        Kind::Text => declared(),
        Kind::Blob => None,
    }
}

/// Replaces a two-byte encoding by UTF-8: a declaration that is readable as ASCII cannot be in a two-byte encoding.
fn ascii_like(encoding: &'static Encoding) -> &'static Encoding {
    if encoding.is_ascii_compatible() { encoding } else { UTF_8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(bytes: &[u8], said: Option<&str>) -> String {
        decode(bytes.to_vec(), said, Kind::Html).unwrap()
    }

    #[test]
    fn a_byte_order_mark_counts_before_all_and_is_no_part_of_the_text() {
        assert_eq!(html(b"\xef\xbb\xbf\xe6\x97\xa5", Some("shift_jis")), "日");
        assert_eq!(html(b"\xff\xfe\xe5\x65", None), "日");
    }

    #[test]
    fn what_the_origin_says_counts_before_what_the_page_says() {
        assert_eq!(html(b"<meta charset=utf-8>\x93\xfa", Some("shift_jis")), "<meta charset=utf-8>日");
        assert_eq!(html(b"<meta charset=Shift_JIS>\x93\xfa", None), "<meta charset=Shift_JIS>日");
        assert_eq!(html(b"<meta charset=Shift_JIS>\x93\xfa", Some("no such thing")), "<meta charset=Shift_JIS>日");
    }

    #[test]
    fn a_page_that_says_nothing_is_utf_8_if_it_can_be_and_windows_1252_if_not() {
        assert_eq!(html("日".as_bytes(), None), "日");
        assert_eq!(html(b"caf\xe9", None), "café");
        assert_eq!(html(b"<meta charset=utf-16>caf\xc3\xa9", None), "<meta charset=utf-16>café");
    }

    #[test]
    fn xml_says_it_in_its_first_line() {
        let xml = b"<?xml version='1.0' encoding='ISO-8859-2'?><a>\xb1</a>".to_vec();
        assert!(decode(xml, None, Kind::Text).unwrap().contains('ą'));
    }

    #[test]
    fn text_of_broken_utf_8_is_mended_and_what_is_no_text_is_left_alone() {
        assert_eq!(html(b"a\xffb", Some("utf-8")), "a\u{fffd}b");
        assert_eq!(decode(b"\x89PNG\0\xff".to_vec(), None, Kind::Text), Err(b"\x89PNG\0\xff".to_vec()));
    }
}
