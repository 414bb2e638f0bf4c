//! The contents of pages.

use crate::harness::{Harness, ok};
use mcp_provider::{Body, Timestamp};
use serde_json::Value;

const PAGE: &str = "h.example/page";
const URL: &str = "https://h.example/page";
const HTML: &str = "<!doctype html><title>A page</title><meta name=description content='About it'>\
                    <nav>menu</nav><main><h1>Hello</h1><p>It <b>works</b>, see <a href=other>there</a>.</main>";

#[test]
fn html_is_offered_as_markdown_and_as_it_is() {
    let harness =
        Harness::with_page(&[("content-type", "text/html; charset=utf-8"), ("cache-control", "max-age=60")], HTML);
    let contents = harness.read(PAGE).unwrap();
    let types: Vec<_> = contents.iter().map(|contents| contents.entry.mime_type.as_deref().unwrap()).collect();
    assert_eq!(types, ["text/markdown", "text/html"]);
    assert_eq!(contents[0].as_text(), Some("# Hello\n\nIt **works**, see [there](https://h.example/other).\n"));
    assert_eq!(contents[1].as_text(), Some(HTML));
    for contents in &contents {
        assert_eq!(contents.entry.path, PAGE);
        assert_eq!(contents.entry.size, u64::try_from(contents.as_bytes().len()).ok());
        assert_eq!(contents.entry.title.as_deref(), Some("A page"));
    }
    let entry = harness.stat(PAGE).unwrap();
    assert_eq!((entry.mime_type.as_deref(), entry.size), (Some("text/html"), contents[1].entry.size));
    assert_eq!((entry.title.as_deref(), entry.description.as_deref()), (Some("A page"), Some("About it")));
}

#[test]
fn the_config_says_which_forms_are_offered_and_which_first() {
    for (formats, expected) in [
        (r#"["html", "markdown"]"#, &["text/html", "text/markdown"][..]),
        (r#"["markdown"]"#, &["text/markdown"]),
        (r#"["html"]"#, &["text/html"]),
    ] {
        let harness = Harness::with_page(&[("content-type", "text/html"), ("cache-control", "max-age=60")], HTML);
        let harness = harness.config("formats", formats);
        let contents = harness.read(PAGE).unwrap();
        let types: Vec<_> = contents.iter().map(|contents| contents.entry.mime_type.as_deref().unwrap()).collect();
        assert_eq!(types, expected);
        let entry = harness.stat(PAGE).unwrap();
        let is_html = expected.contains(&"text/html");
        assert_eq!(entry.mime_type.as_deref(), Some(if is_html { "text/html" } else { "text/markdown" }));
        assert_eq!(entry.size.is_some(), is_html);
    }
}

#[test]
fn a_page_in_another_charset_becomes_utf_8() {
    for (content_type, body) in [
        ("text/html; charset=Shift_JIS", &b"<title>\x93\xfa\x96{</title>\x93\xfa\x96{"[..]),
        ("text/html", b"<meta charset=shift_jis><title>\x93\xfa\x96{</title>\x93\xfa\x96{"),
        ("text/html; charset=EUC-JP", b"<title>\xc6\xfc\xcb\xdc</title>\xc6\xfc\xcb\xdc"),
        (
            "text/html; charset=shift_jis",
            b"\xef\xbb\xbf<title>\xe6\x97\xa5\xe6\x9c\xac</title>\xe6\x97\xa5\xe6\x9c\xac",
        ),
    ] {
        let harness = Harness::new();
        harness.serve(URL, ok(&[("content-type", content_type)], body));
        let contents = harness.read(PAGE).unwrap();
        assert_eq!(contents[0].as_text(), Some("日本\n"), "{content_type}");
        assert_eq!(contents[1].entry.title.as_deref(), Some("日本"), "{content_type}");
    }
}

#[test]
fn text_is_text_and_anything_else_is_bytes() {
    for (content_type, body, expected) in [
        ("text/plain; charset=iso-8859-1", &b"caf\xe9"[..], Body::Text("café".to_owned())),
        ("application/json", b"{}", Body::Text("{}".to_owned())),
        ("application/rss+xml", b"<rss/>", Body::Text("<rss/>".to_owned())),
        ("text/markdown", b"# a", Body::Text("# a".to_owned())),
        ("image/png", b"\x89PNG", Body::Blob(b"\x89PNG".to_vec())),
        ("application/pdf", b"%PDF-1.7", Body::Blob(b"%PDF-1.7".to_vec())),
        ("text/plain", b"\x7fELF\0\xff", Body::Blob(b"\x7fELF\0\xff".to_vec())),
    ] {
        let harness = Harness::new();
        harness.serve(URL, ok(&[("content-type", content_type), ("cache-control", "max-age=60")], body));
        for _ in 0..2 {
            let contents = harness.read_one(PAGE);
            assert_eq!(contents.body, expected, "{content_type}");
            assert_eq!(contents.entry.mime_type.as_deref(), content_type.split(';').next());
        }
        assert_eq!(harness.request_count(), 1);
    }
}

#[test]
fn a_page_without_a_proper_type_gets_one() {
    for (content_type, body, expected) in [("nonsense", "plain", "text/plain"), ("", "<html>x", "text/markdown")] {
        let harness = Harness::new();
        harness.serve(URL, ok(&[("content-type", content_type)], body));
        assert_eq!(harness.read(PAGE).unwrap()[0].entry.mime_type.as_deref(), Some(expected));
    }
}

#[test]
fn it_says_when_it_changed_or_else_when_it_was_made() {
    let changed = ("last-modified", "Sun, 12 Jan 2025 15:00:58 GMT");
    let made = ("date", "Sat, 01 Mar 2025 00:00:00 GMT");
    for (headers, expected) in [
        (&[changed, made][..], "2025-01-12T15:00:58Z"),
        (&[made], "2025-03-01T00:00:00Z"),
        (&[("last-modified", "someday"), made], "2025-03-01T00:00:00Z"),
    ] {
        let harness = Harness::with_page(headers, "one");
        assert_eq!(harness.read_one(PAGE).entry.last_modified, Some(Timestamp::from(expected)));
    }
}

#[test]
fn markdown_that_is_cut_says_so_and_html_never_is() {
    let html = format!("<main>{}", "<p>word</p>".repeat(120_000));
    let harness = Harness::with_page(&[("content-type", "text/html")], &html);
    let contents = harness.read(PAGE).unwrap();
    assert_eq!(contents[0].entry.meta.get("http-cache/cut"), Some(&Value::Bool(true)));
    assert_eq!(contents[1].entry.meta.get("http-cache/cut"), None);
    assert_eq!(contents[1].as_bytes().len(), html.len());
}

#[test]
fn an_empty_page_is_an_empty_page() {
    let harness = Harness::new();
    harness.serve(URL, ok(&[("content-type", "text/html")], ""));
    assert_eq!(harness.text(PAGE), "");
    harness.respond_with(URL, |_| Ok(crate::harness::status(204, &[])));
    assert_eq!(harness.read_one(PAGE).as_bytes(), b"");
}
