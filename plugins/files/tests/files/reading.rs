//! Reading: encodings, parts, and the beginning of large files.

use super::{Fixture, meta, number};
use mcp_provider::{Body, Contents, Failure, Provider};
use proptest::prelude::*;

const EUC: &[u8] = b"\xc6\xfc\xcb\xdc\xb8\xec\xa4\xce\xca\xb8\xbd\xf1\xa4\xc7\xa4\xb9\xa1\xa3\n\xbb\xcd\xb9\xd4\xcc\xdc\xa4\xc7\xa4\xb9\xa1\xa3\n";
const SHIFT_JIS: &[u8] =
    b"\x93\xfa\x96{\x8c\xea\x82\xcc\x95\xb6\x8f\x91\x82\xc5\x82\xb7\x81B\n\x8el\x8ds\x96\xda\x82\xc5\x82\xb7\x81B\n";
const JAPANESE: &str = "日本語の文書です。\n四行目です。\n";

fn read(fixture: &Fixture, path: &str) -> Contents {
    fixture.read(path).unwrap_or_else(|failure| panic!("{path}: {failure}"))
}

fn text(fixture: &Fixture, path: &str) -> String {
    read(fixture, path).as_text().unwrap_or_else(|| panic!("{path} is no text")).to_owned()
}

#[test]
fn text_in_its_own_encoding_is_served_as_utf_8_and_says_which_it_was() {
    let utf_16: Vec<u8> = format!("\u{feff}{JAPANESE}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let iso: &[u8] = b"\x1b$BF|K\\8l\x1b(B\n";
    let fixture = Fixture::new([
        ("euc.txt", EUC),
        ("sjis.txt", SHIFT_JIS),
        ("utf16.txt", &utf_16),
        ("utf8.txt", JAPANESE.as_bytes()),
        ("no-extension", EUC),
        ("iso.txt", iso),
        ("latin.txt", b"caf\xe9 au lait, na\xefve, d\xe9j\xe0 vu\n"),
    ]);
    for (path, encoding) in [
        ("euc.txt", Some("EUC-JP")),
        ("sjis.txt", Some("Shift_JIS")),
        ("utf16.txt", Some("UTF-16LE")),
        ("utf8.txt", None),
        ("no-extension", Some("EUC-JP")),
    ] {
        let contents = read(&fixture, path);
        assert_eq!(contents.as_text(), Some(JAPANESE), "{path}");
        assert_eq!(meta(&contents.entry, "files/encoding"), encoding, "{path}");
        assert_eq!(text(&fixture, &format!("{path}?lines=2")), "四行目です。\n", "{path}");
        assert_eq!(text(&fixture, &format!("{path}?lines=-1")), "四行目です。\n", "{path}");
    }
    assert_eq!(text(&fixture, "iso.txt"), "日本語\n");
    assert_eq!(text(&fixture, "latin.txt"), "café au lait, naïve, déjà vu\n");
}

#[test]
fn source_code_is_text_although_its_extension_is_registered_for_something_else() {
    let names = ["a.sql", "a.tcl", "a.bat", "go.mod", "a.dts", "a.org", "a.dot", "a.pub", "a.scm", "a.cu", "a.fsx"];
    let fixture = Fixture::new(names.map(|name| (name, EUC)));
    for name in names {
        let contents = read(&fixture, name);
        assert_eq!(contents.as_text(), Some(JAPANESE), "{name}");
        assert!(contents.entry.mime_type.unwrap().starts_with("text/"), "{name}");
        assert_eq!(text(&fixture, &format!("{name}?lines=2")), "四行目です。\n", "{name}");
    }
}

#[test]
fn content_of_a_type_that_is_not_text_is_text_if_all_of_it_is_utf_8() {
    let long = "日本語\n".repeat(4000);
    let mixed = [long.as_bytes(), EUC].concat();
    let fixture = Fixture::new([("a.nt", JAPANESE.as_bytes()), ("long.dat", long.as_bytes()), ("mixed.dat", &mixed)]);
    assert_eq!(text(&fixture, "a.nt"), JAPANESE);
    assert_eq!(text(&fixture, "a.nt?lines=2"), "四行目です。\n");
    assert_eq!(text(&fixture, "long.dat"), long);
    assert_eq!(read(&fixture, "mixed.dat?lines=-2").body, Body::Blob(EUC.to_vec()));
    assert_eq!(read(&fixture, "mixed.dat").body, Body::Blob(mixed));
}

#[test]
fn bytes_are_exact_and_text_only_between_characters() {
    let fixture = Fixture::new([("a.txt", JAPANESE.as_bytes()), ("b.bin", b"\0\x01\x02\x03")]);
    assert_eq!(text(&fixture, "a.txt?bytes=0-5"), "日本");
    assert_eq!(read(&fixture, "a.txt?bytes=0-3").body, Body::Blob(JAPANESE.as_bytes()[..4].to_vec()));
    assert_eq!(text(&fixture, "a.txt?bytes=-1"), "\n");
    let slice = read(&fixture, "b.bin?bytes=1-2");
    assert_eq!(slice.as_bytes(), b"\x01\x02");
    assert_eq!(
        (meta(&slice.entry, "files/range"), number(&slice.entry, "files/total-bytes")),
        (Some("bytes=1-2"), Some(4))
    );
    assert_eq!(slice.entry.path, "b.bin?bytes=1-2");
    assert!(matches!(fixture.read("b.bin?lines=1-2"), Err(Failure::InvalidRequest(_))));
    assert!(matches!(fixture.read("b.bin?as=text"), Err(Failure::InvalidRequest(_))));
    assert!(matches!(fixture.read("b.bin?bytes=9-"), Err(Failure::InvalidRequest(_))));
}

#[test]
fn a_large_file_is_its_beginning_with_the_total_and_the_next_range() {
    let lines: String = (1..=1000).map(|n| format!("line {n}\n")).collect();
    let fixture = Fixture::with_config([("a.log", &lines)], [("max-read", "1000")]);
    let head = read(&fixture, "a.log");
    let meta_of = |name| meta(&head.entry, name).unwrap().to_owned();
    assert_eq!(meta_of("files/range"), "lines=1-123");
    assert_eq!(meta_of("files/next-range"), "lines=124-");
    assert_eq!(number(&head.entry, "files/total-bytes"), Some(u64::try_from(lines.len()).unwrap()));
    assert_eq!(number(&head.entry, "files/total-lines"), Some(1000));
    assert!(head.as_text().unwrap().ends_with("line 123\n"));
    assert_eq!(fixture.provider.stat("a.log").unwrap().size, None, "a listing does not promise the size of the file");
    let whole = Fixture::new([("a.log", &lines)]);
    assert!(read(&whole, "a.log").entry.meta.is_empty(), "a file that is read whole says nothing of ranges");
}

#[test]
fn a_large_binary_file_continues_by_bytes() {
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(2500).collect();
    let fixture = Fixture::with_config([("a.bin", &bytes)], [("max-read", "1000")]);
    let (mut whole, mut path) = (Vec::new(), "a.bin".to_owned());
    loop {
        let part = read(&fixture, &path);
        whole.extend_from_slice(part.as_bytes());
        match meta(&part.entry, "files/next-range") {
            Some(next) => path = format!("a.bin?{next}"),
            None => break,
        }
    }
    assert_eq!(whole, bytes);
}

#[test]
fn a_part_says_its_type_by_stat_without_being_read() {
    let fixture = Fixture::new([("a.md", "# A\n")]);
    let stat = fixture.provider.stat("a.md?lines=1-1").unwrap();
    assert_eq!((stat.path.as_str(), stat.mime_type.as_deref()), ("a.md?lines=1-1", Some("text/markdown")));
    assert_eq!(fixture.provider.stat("b.md?lines=1-1"), Err(Failure::NotFound));
    assert_eq!(text(&fixture, "a.md?as=text"), "# A\n");
    assert!(matches!(fixture.provider.stat("a.md?page=1"), Err(Failure::InvalidRequest(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn following_the_next_range_gives_the_whole_text(
        text in "([a-c日本]{0,30}\n?){0,8}", max in 4usize..64, encoding in 0usize..3,
    ) {
        let encoding = [encoding_rs::UTF_8, encoding_rs::EUC_JP, encoding_rs::SHIFT_JIS][encoding];
        let encoded = encoding.encode(&text).0.into_owned();
        let config = [("max-read", max.to_string().leak() as &str), ("encoding", encoding.name())];
        let fixture = Fixture::with_config([("a.txt", encoded)], config);
        let (mut whole, mut path) = (String::new(), "a.txt".to_owned());
        loop {
            let part = read(&fixture, &path);
            whole.push_str(part.as_text().expect("a part of text is text"));
            match meta(&part.entry, "files/next-range") {
                Some(next) => path = format!("a.txt?{next}"),
                None => break,
            }
        }
        prop_assert_eq!(whole, text);
    }
}
