//! Origins that are unreachable, fail, redirect elsewhere or are hostile.

use std::time::Duration;

use mcp_host_tests::{MockOrigin, Reply};

use super::{PageReader, page_uri, plugin_config, web_plugin};

#[tokio::test]
async fn a_stale_copy_stands_in_for_a_server_that_is_down_and_says_so() {
    let origin = MockOrigin::http().await;
    origin.serve("/page", Reply::ok("text/plain", "one").cache_control("max-age=0"));
    origin.serve("/strict", Reply::ok("text/plain", "one").cache_control("no-cache"));
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    for path in ["/page", "/strict"] {
        assert_eq!(reader.contents(&page_uri(&origin, path)).await[0]["_meta"].get("http-cache/stale"), None);
    }
    origin.take_down().await;
    let contents = reader.contents(&page_uri(&origin, "/page")).await;
    assert_eq!(contents[0]["text"], "one");
    assert_eq!(contents[0]["_meta"]["http-cache/stale"], true);
    // The tool `read_resource` shows a notice as the last line of its text.
    let notice = &contents[0]["_meta"]["mcp-host/notices"][0];
    let text = notice["text"].as_str().unwrap_or_default();
    assert!(notice["kind"] == "stale" && text.contains("could not be fetched again"), "{contents:#?}");
    for path in ["/strict", "/other"] {
        let error = reader.error(&page_uri(&origin, path)).await;
        assert_eq!(error["code"], -32603, "{error}");
    }
    reader.end().await;
}

#[tokio::test]
async fn what_a_server_answers_is_what_a_client_sees() {
    let origin = MockOrigin::http().await;
    origin.serve("/busy", Reply::status(503).header("Retry-After", "120"));
    origin.serve("/refused", Reply::status(403));
    let config = plugin_config(web_plugin(&[&origin]));
    let mut reader = PageReader::start(&config).await;
    let busy = reader.error(&page_uri(&origin, "/busy")).await;
    assert_eq!((&busy["code"], &busy["data"]["retryAfterMs"]), (&(-32603).into(), &120_000.into()), "{busy}");
    assert_eq!(reader.error(&page_uri(&origin, "/refused")).await["code"], -32602);
    assert_eq!(reader.error(&page_uri(&origin, "/none")).await["code"], -32002);
    assert_eq!(reader.error("web://no host/").await["code"], -32602);
    reader.end().await;
}

#[tokio::test]
async fn servers_that_are_not_granted_are_not_asked_and_no_redirect_leads_there() {
    let granted = MockOrigin::http().await;
    let other = MockOrigin::http().await;
    other.serve("/secret", Reply::ok("text/plain", "secret"));
    granted.serve("/away", Reply::redirect(302, &other.url("/secret")));
    granted.serve("/home", Reply::redirect(301, "/page"));
    granted.serve("/circle", Reply::redirect(301, "/circle"));
    granted.serve("/page", Reply::ok("text/plain", "one"));
    let config = plugin_config(web_plugin(&[&granted]));
    let mut reader = PageReader::start(&config).await;
    for uri in [page_uri(&other, "/secret"), page_uri(&granted, "/away"), "web://169.254.169.254/latest/".to_owned()] {
        let error = reader.error(&uri).await;
        assert_eq!(error["code"], -32602, "{uri}: {error}");
    }
    let contents = reader.contents(&page_uri(&granted, "/home")).await;
    assert_eq!((&contents[0]["text"], &contents[0]["uri"]), (&"one".into(), &page_uri(&granted, "/home").into()));
    assert_eq!(contents[0]["_meta"]["http-cache/url"], granted.url("/page").as_str());
    assert_eq!(reader.error(&page_uri(&granted, "/circle")).await["code"], -32603);
    reader.end().await;
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn servers_that_mean_harm_are_given_up_and_the_next_page_is_read() {
    let origin = MockOrigin::http().await;
    origin.serve("/endless", Reply::endless());
    origin.serve("/headers", Reply::endless_headers());
    origin.serve("/drip", Reply::drip(Duration::from_millis(10)));
    origin.serve("/silent", Reply::silent());
    origin.serve("/cut", Reply::ok("text/plain", "1234567890").truncate_after(5));
    origin.serve("/page", Reply::ok("text/plain", "one"));
    let config = plugin_config(web_plugin(&[&origin]).config("timeout-ms", 4000).config("max-body-bytes", 100_000));
    let mut reader = PageReader::start(&config).await;
    for (path, code) in
        [("/endless", -32602), ("/headers", -32603), ("/drip", -32603), ("/silent", -32603), ("/cut", -32603)]
    {
        let error = reader.error(&page_uri(&origin, path)).await;
        assert_eq!(error["code"], code, "{path}: {error}");
    }
    assert_eq!(reader.text(&page_uri(&origin, "/page")).await, "one");
    reader.end().await;
    origin.wait_until_idle().await;
}
