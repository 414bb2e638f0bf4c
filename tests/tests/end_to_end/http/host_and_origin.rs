//! Validation of `Host` and `Origin`, and CORS.

use mcp_host_tests::{ConfigFile, HttpServer, Plugin, Revision};
use reqwest::header::HeaderMap;
use reqwest::{Client, Method, StatusCode};
use serde_json::json;

const PAGE_ORIGIN: &str = "https://app.example.com";

fn config() -> ConfigFile {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all()
}

/// Sends a browser's preflight request for a page of this origin.
async fn preflight(server: &HttpServer, origin: &str) -> (StatusCode, HeaderMap) {
    let asking = Client::new()
        .request(Method::OPTIONS, server.url())
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "content-type,mcp-method,mcp-protocol-version")
        .send();
    let answer = asking.await.unwrap();
    (answer.status(), answer.headers().clone())
}

/// Sends the POST of a page of this origin.
async fn post(server: &HttpServer, origin: &str) -> (StatusCode, HeaderMap) {
    let request = server.uninitialized(Revision::V_2026_07_28).request_builder("resources/list", json!({}));
    let answer = request.header("origin", origin).send().await.unwrap();
    (answer.status(), answer.headers().clone())
}

fn has_cors_headers(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("access-control-"))
}

/// Splits a header that is a list.
fn list_header<'a>(headers: &'a HeaderMap, name: &str) -> Vec<&'a str> {
    let mut entries: Vec<_> = headers[name].to_str().unwrap().split(',').map(str::trim).collect();
    entries.sort_unstable();
    entries
}

#[tokio::test]
async fn no_page_is_shown_anything_unless_the_config_names_it() {
    let config = config().write();
    let server = HttpServer::start(&config).await;
    for (page, asked_beforehand, asked) in [
        ("http://localhost:3000", StatusCode::METHOD_NOT_ALLOWED, StatusCode::OK),
        (PAGE_ORIGIN, StatusCode::FORBIDDEN, StatusCode::FORBIDDEN),
    ] {
        let (status, headers) = preflight(&server, page).await;
        assert_eq!((status, has_cors_headers(&headers)), (asked_beforehand, false), "{page}: {headers:?}");
        let (status, headers) = post(&server, page).await;
        assert_eq!((status, has_cors_headers(&headers)), (asked, false), "{page}: {headers:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_page_that_is_named_may_ask_and_see_the_answer() {
    let config = config().http("cors", vec![PAGE_ORIGIN, "https://*.example.org"]).write();
    let server = HttpServer::start(&config).await;
    for page in [PAGE_ORIGIN, "https://any.example.org"] {
        let (status, headers) = preflight(&server, page).await;
        assert_eq!((status, headers["access-control-allow-origin"].to_str().unwrap()), (StatusCode::OK, page));
        assert_eq!(list_header(&headers, "access-control-allow-methods"), ["DELETE", "GET", "POST"]);
        assert_eq!(
            list_header(&headers, "access-control-allow-headers"),
            [
                "accept",
                "authorization",
                "content-type",
                "last-event-id",
                "mcp-method",
                "mcp-name",
                "mcp-protocol-version",
                "mcp-session-id"
            ]
        );
        let (status, headers) = post(&server, page).await;
        assert_eq!((status, headers["access-control-allow-origin"].to_str().unwrap()), (StatusCode::OK, page));
        let exposed = ["mcp-protocol-version", "mcp-session-id", "www-authenticate"];
        assert_eq!(list_header(&headers, "access-control-expose-headers"), exposed);
        assert!(headers["vary"].to_str().unwrap().contains("origin"), "{headers:?}");
        assert!(!headers.contains_key("access-control-allow-credentials"));
    }
    for page in ["https://evil.example", "http://app.example.com", "https://app.example.com:8443", "null"] {
        let (status, headers) = preflight(&server, page).await;
        assert_eq!((status, has_cors_headers(&headers)), (StatusCode::FORBIDDEN, false), "{page}");
        assert_eq!(post(&server, page).await.0, StatusCode::FORBIDDEN, "{page}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_page_sees_why_it_is_refused_too() {
    let config = config().http("cors", vec![PAGE_ORIGIN]).write();
    let server = HttpServer::start(&config).await;
    let refused = Client::new().put(server.url()).header("origin", PAGE_ORIGIN).send().await.unwrap();
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()["access-control-allow-origin"], PAGE_ORIGIN);
    server.end().await;
}

#[tokio::test]
async fn a_host_is_called_by_other_names_only_if_the_config_has_them() {
    let written = config().http("hosts", vec!["mcp.example.com"]).write();
    let server = HttpServer::start(&written).await;
    let called = async |name: &str| {
        let request = server.uninitialized(Revision::V_2026_07_28).request_builder("resources/list", json!({}));
        request.header("host", name).send().await.unwrap().status()
    };
    for name in ["mcp.example.com", "MCP.example.com:8443", "localhost", "127.0.0.1:1"] {
        assert_eq!(called(name).await, StatusCode::OK, "{name}");
    }
    assert_eq!(called("www.example.com").await, StatusCode::FORBIDDEN);

    // Both lists are looked up for each request.
    written.replace(config().http("hosts", vec!["www.example.com"]).http("cors", vec![PAGE_ORIGIN]));
    server.log_line("http=true").await;
    assert_eq!(called("www.example.com").await, StatusCode::OK);
    assert_eq!(called("mcp.example.com").await, StatusCode::FORBIDDEN);
    assert_eq!(post(&server, PAGE_ORIGIN).await.0, StatusCode::OK);
    server.end().await;
}
