//! The contents of pages.

use mcp_host_tests::{MockOrigin, Reply};

use super::{PageReader, page_uri, plugin_config, web_plugin};

#[tokio::test]
async fn html_is_offered_as_markdown_and_as_it_is() {
    let origin = MockOrigin::http().await;
    let html = "<!doctype html><title>A page</title><nav>menu</nav><main><h1>Hello</h1>\
                <p>See <a href=other>there</a>.</main>";
    origin.serve("/page", Reply::ok("Text/HTML; charset=utf-8", html).cache_control("max-age=3600"));
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    let contents = reader.contents(&page_uri(&origin, "/page")).await;
    assert_eq!(contents.len(), 2);
    assert!(contents.iter().all(|content| content["uri"] == page_uri(&origin, "/page")));
    assert_eq!(contents[0]["mimeType"], "text/markdown");
    let expected = format!("# Hello\n\nSee [there]({}).\n", origin.url("/other"));
    assert_eq!(contents[0]["text"], expected.as_str());
    assert_eq!((&contents[1]["mimeType"], &contents[1]["text"]), (&"text/html".into(), &html.into()));
    reader.end().await;
}

#[tokio::test]
async fn text_in_any_charset_is_utf_8_and_pictures_and_documents_are_bytes() {
    let origin = MockOrigin::http().await;
    origin.serve("/sjis", Reply::ok("text/plain; charset=Shift_JIS", *b"\x93\xfa\x96{"));
    origin.serve("/euc", Reply::ok("text/html", *b"<meta charset=euc-jp><p>\xc6\xfc\xcb\xdc"));
    origin.serve("/latin", Reply::ok("text/plain", *b"caf\xe9"));
    origin.serve("/picture", Reply::ok("image/png", *b"\x89PNG"));
    origin.serve("/document", Reply::ok("application/pdf", "%PDF-1.7"));
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    for (path, text) in [("/sjis", "日本"), ("/euc", "日本\n"), ("/latin", "café")] {
        assert_eq!(reader.contents(&page_uri(&origin, path)).await[0]["text"], text, "{path}");
    }
    for (path, mime, blob) in [("/picture", "image/png", "iVBORw=="), ("/document", "application/pdf", "JVBERi0xLjc=")]
    {
        let contents = reader.contents(&page_uri(&origin, path)).await;
        assert_eq!((&contents[0]["mimeType"], &contents[0]["blob"]), (&mime.into(), &blob.into()), "{path}");
    }
    reader.end().await;
}

#[tokio::test]
async fn html_nested_beyond_measure_is_read() {
    let origin = MockOrigin::http().await;
    for (path, tag) in
        [("/div", "div"), ("/list", "ul><li"), ("/quote", "blockquote"), ("/table", "table><tr><td"), ("/bold", "b")]
    {
        let html = format!("<p>before{}deep", format!("<{tag}>").repeat(20_000));
        origin.serve(path, Reply::ok("text/html", html));
    }
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    for path in ["/div", "/list", "/quote", "/table", "/bold"] {
        let contents = reader.contents(&page_uri(&origin, path)).await;
        assert!(contents[0]["text"].as_str().unwrap().contains("before"), "{path}");
    }
    reader.end().await;
}
