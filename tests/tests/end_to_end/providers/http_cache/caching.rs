//! Requests to the origin, and cached responses.

use mcp_host_tests::{CertificateAuthority, ConfigFile, Folder, MockOrigin, Plugin, Reply, component};
use std::time::Duration;
use toml::Table;

use super::{PageReader, host_and_port, page_uri, plugin_config, web_plugin};

#[tokio::test]
async fn a_fresh_page_is_asked_for_once_by_all_calls_and_after_a_restart() {
    let origin = MockOrigin::http().await;
    origin.serve("/page?q=1", Reply::ok("text/plain", "one").cache_control("max-age=3600"));
    let config = plugin_config(web_plugin(&[&origin]));
    for _ in 0..2 {
        let mut reader = PageReader::start(&config).await;
        for _ in 0..2 {
            assert_eq!(reader.text(&page_uri(&origin, "/page?q=1")).await, "one");
        }
        reader.end().await;
    }
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn a_fresh_page_is_gone_with_the_grant_of_its_origin() {
    let (kept, taken) = (MockOrigin::http().await, MockOrigin::http().await);
    for origin in [&kept, &taken] {
        origin.serve("/page", Reply::ok("text/plain", "one").cache_control("max-age=3600"));
    }
    let plain = vec![host_and_port(&kept), host_and_port(&taken)];
    let config = plugin_config(web_plugin(&[&kept, &taken]).config("plain-http", plain.clone()));
    let mut reader = PageReader::start(&config).await;
    for origin in [&kept, &taken] {
        assert_eq!(reader.text(&page_uri(origin, "/page")).await, "one");
    }
    config.replace(ConfigFile::new().plugin(web_plugin(&[&kept]).config("plain-http", plain)));
    let uri = page_uri(&taken, "/page");
    let error = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            if let Some(error) = reader.try_error(&uri).await {
                return error;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    let error = error.await.expect("the page is denied after the reload");
    assert_eq!(error["code"], -32602, "{error}");
    assert_eq!(reader.text(&page_uri(&kept, "/page")).await, "one");
    assert_eq!(reader.listed().await, [page_uri(&kept, "/page")]);
    reader.end().await;
    assert_eq!((kept.requests().len(), taken.requests().len()), (1, 1));
}

#[tokio::test]
async fn https_is_assumed_and_certificates_are_checked() {
    let authority = CertificateAuthority::new();
    let origin = MockOrigin::https(&authority).await;
    origin.serve("/page", Reply::ok("text/plain", "secure").cache_control("max-age=3600"));
    let folder = Folder::with_files([("ca.pem", authority.pem())]);
    let plugin = Plugin::new("web", &component("http-cache"), "web://").bucket("pages");
    let mut grant = Table::new();
    grant.insert("origin".to_owned(), origin.origin().into());
    let untrusted = plugin_config(plugin.clone().http(grant.clone().into()));
    grant.insert("ca".to_owned(), folder.path().join("ca.pem").to_str().unwrap().into());
    let trusted = plugin_config(plugin.http(grant.into()));

    let mut reader = PageReader::start(&trusted).await;
    assert_eq!(reader.text(&page_uri(&origin, "/page")).await, "secure");
    reader.end().await;
    let mut reader = PageReader::start(&untrusted).await;
    assert_eq!(reader.error(&page_uri(&origin, "/page")).await["code"], -32603);
    reader.end().await;
    assert_eq!(origin.request_count("/page"), 1);
}

#[tokio::test]
async fn a_stale_page_is_revalidated_and_served_as_it_was_or_as_it_is_now() {
    let origin = MockOrigin::http().await;
    let date = "Sun, 12 Jan 2025 15:00:58 GMT";
    let page = |body: &str, etag: &str| {
        Reply::ok("text/plain", body).cache_control("max-age=0").etag(etag).last_modified(date)
    };
    origin.serve("/page", page("one", "\"1\""));
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    let uri = page_uri(&origin, "/page");
    assert_eq!(reader.text(&uri).await, "one");
    assert_eq!(reader.text(&uri).await, "one");
    origin.serve("/page", page("two", "\"2\""));
    assert_eq!(reader.text(&uri).await, "two");
    reader.end().await;
    let validators: Vec<_> = origin.requests().iter().map(|r| r.header("if-none-match").map(str::to_owned)).collect();
    assert_eq!(validators, [None, Some("\"1\"".to_owned()), Some("\"1\"".to_owned())]);
    assert_eq!(origin.requests()[1].header("if-modified-since"), Some(date));
}

#[tokio::test]
async fn what_may_not_be_kept_is_asked_for_every_time_and_so_is_all_without_a_bucket() {
    let origin = MockOrigin::http().await;
    origin.serve("/private", Reply::ok("text/plain", "one").cache_control("private, max-age=3600"));
    origin.serve("/page", Reply::ok("text/plain", "one").cache_control("max-age=3600"));
    let kept = plugin_config(web_plugin(&[&origin]));
    let plain = Plugin::new("web", &component("http-cache"), "web://").origin(&origin.origin());
    let unkept = plugin_config(plain.config("plain-http", vec![host_and_port(&origin)]));
    for (config, path) in [(kept, "/private"), (unkept, "/page")] {
        let mut reader = PageReader::start(&config).await;
        for _ in 0..2 {
            assert_eq!(reader.text(&page_uri(&origin, path)).await, "one");
        }
        reader.end().await;
        assert_eq!(origin.request_count(path), 2, "{path}");
    }
}

#[tokio::test]
async fn a_bucket_that_is_full_makes_room_for_what_is_read_now() {
    let origin = MockOrigin::http().await;
    for page in 0..12 {
        let body = "x".repeat(20_000);
        origin.serve(&format!("/{page}"), Reply::ok("text/plain", body).cache_control("max-age=3600"));
    }
    let plugin = Plugin::new("web", &component("http-cache"), "web://").origin(&origin.origin());
    let plugin = plugin.config("plain-http", vec![host_and_port(&origin)]).bucket_with_quota("pages", "100KiB", 100);
    let config = plugin_config(plugin);
    let mut reader = PageReader::start(&config).await;
    for page in 0..12 {
        for _ in 0..2 {
            assert_eq!(reader.text(&page_uri(&origin, &format!("/{page}"))).await.len(), 20_000);
        }
    }
    reader.end().await;
    assert_eq!(origin.requests().len(), 12);
}
