//! Japanese documents: encodings, normalization forms, defaults by folder, order by reading.

mod common;

use common::{Fixture, faults, strings};
use encoding_rs::{EUC_JP, Encoding, ISO_2022_JP, SHIFT_JIS};
use mcp_provider::{Argument, Provider, Role};

const NOTE: &str = "---\n題名: 就業規則\n説明: 就業に関する規則を定めます。\n優先度: ０．９\n対象: 利用者、ＡＩ\nタグ: 規程，人事\n日付: 令和7年4月1日（火）\n読み: しゅうぎょうきそく\n---\n本文です。\n";

fn encoded(encoding: &'static Encoding) -> Vec<u8> {
    encoding.encode(NOTE).0.into_owned()
}

#[test]
fn a_note_in_each_encoding_says_and_reads_the_same() {
    for encoding in [EUC_JP, SHIFT_JIS, ISO_2022_JP] {
        let fixture = Fixture::new([("a.md", encoded(encoding))]);
        let entry = fixture.provider.stat("a.md").unwrap();
        assert_eq!(entry.title.as_deref(), Some("就業規則"), "{}", encoding.name());
        assert_eq!((entry.priority, entry.audience.as_slice()), (Some(0.9), [Role::User, Role::Assistant].as_slice()));
        assert_eq!(strings(&entry, "notes/tags"), ["規程", "人事"]);
        assert_eq!(entry.last_modified.as_ref().map(ToString::to_string).as_deref(), Some("2025-04-01T00:00:00Z"));
        assert_eq!(entry.meta.get("notes/encoding").and_then(|name| name.as_str()), Some(encoding.name()));
        let contents = fixture.read("a.md").unwrap();
        assert_eq!(contents.as_text(), Some(NOTE));
        assert_eq!(contents.entry, entry, "the size is that of what is served");
        assert_eq!(faults(&fixture, "a.md"), Vec::<String>::new());
    }
}

#[test]
fn a_long_note_that_is_not_utf_8_has_no_size_before_it_is_read() {
    let long = format!("{NOTE}{}", "長い文書です。\n".repeat(2000));
    let fixture = Fixture::new([("a.md", EUC_JP.encode(&long).0.into_owned()), ("b.md", long.clone().into_bytes())]);
    assert_eq!(fixture.provider.stat("a.md").unwrap().size, None);
    assert_eq!(fixture.provider.stat("b.md").unwrap().size, u64::try_from(long.len()).ok());
    assert_eq!(fixture.read("a.md").unwrap().as_text(), Some(long.as_str()));
}

#[test]
fn text_beside_notes_is_utf_8_too_and_other_files_are_unchanged() {
    let bytes = SHIFT_JIS.encode("表示される文章です。添付の説明。\n").0.into_owned();
    let fixture = Fixture::new([("a.txt", bytes.clone()), ("a.bin", bytes.clone())]);
    assert_eq!(fixture.read("a.txt").unwrap().as_text(), Some("表示される文章です。添付の説明。\n"));
    assert_eq!(fixture.read("a.bin").unwrap().as_bytes(), bytes);
}

#[test]
fn the_configured_encoding_counts_where_it_can_be() {
    let bytes = SHIFT_JIS.encode("# ﾃｽﾄ\n").0.into_owned();
    let fixture = Fixture::with_config([("a.md", bytes)], [("encoding", "shift_jis")]);
    assert_eq!(fixture.provider.stat("a.md").unwrap().title.as_deref(), Some("ﾃｽﾄ"));
}

#[test]
fn tags_are_found_in_either_normalization_form() {
    let fixture = Fixture::new([("a.md", "---\nタグ: か\u{3099}く\n---\n"), ("b.md", "---\ntags: [がく]\n---\n")]);
    assert_eq!(fixture.list(Some("tag"), 9).unwrap(), ["tag/%E3%81%8C%E3%81%8F"]);
    for path in ["tag/%E3%81%8C%E3%81%8F", "tag/%E3%81%8B%E3%82%99%E3%81%8F"] {
        assert_eq!(fixture.list(Some(path), 9).unwrap(), ["a.md", "b.md"], "{path}");
        assert_eq!(fixture.provider.stat(path).unwrap().path, "tag/%E3%81%8C%E3%81%8F");
    }
    let completion = fixture.provider.complete("tag/{tag}", &Argument::new("tag", "が"), &[]).unwrap();
    assert_eq!(completion.values, ["がく"]);
}

#[test]
fn files_that_say_nothing_have_the_priority_and_audience_of_their_folder() {
    let files = [("規程/a.md", "# A"), ("規程/b.md", NOTE), ("規程/c.png", "png"), ("d.md", "# D")];
    let config = [("priority", r#"{"規程/":0.7}"#), ("audience", r#"{"規程/":"assistant"}"#)];
    let fixture = Fixture::with_config(files, config);
    let entries = fixture.provider.list(None, None, 9).unwrap().entries;
    let priorities: Vec<_> = entries.iter().map(|entry| entry.priority).collect();
    assert_eq!(priorities, [None, Some(0.7), Some(0.9), Some(0.7)]);
    let audiences: Vec<_> = entries.iter().map(|entry| entry.audience.len()).collect();
    assert_eq!(audiences, [0, 1, 2, 1]);
}

#[test]
fn listings_are_in_order_of_reading_where_that_is_asked_for() {
    let files = [
        ("x/1.md", "---\n題名: 議事録\n読み: ぎじろく\nタグ: 会議\n---\n"),
        ("2.md", "---\n題名: 暗号\nふりがな: アンゴウ\nタグ: 会議\n---\n"),
        ("3.md", "---\n題名: きじ\n---\n"),
        ("4.md", "---\n読み: きじ\nタグ: 会議\n---\n"),
    ];
    let fixture = Fixture::with_config(files, [("order", "reading")]);
    for limit in 1..6 {
        assert_eq!(fixture.list(None, limit).unwrap(), ["2.md", "3.md", "4.md", "x/1.md"]);
        assert_eq!(fixture.list(Some("tag/%E4%BC%9A%E8%AD%B0"), limit).unwrap(), ["2.md", "4.md", "x/1.md"]);
    }
}
