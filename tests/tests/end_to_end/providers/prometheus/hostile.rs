//! Servers that are not Prometheus, send false answers, or never end.

use std::time::Duration;

use mcp_host_tests::{ConfigFile, MockOrigin, Reply, ReservedPort, StdioServer};

use super::prometheus_plugin;

const QUERY: &str = "prometheus:///query?q=up&end=1700000000";

/// The requested endpoint. Its query contains the remaining time.
const ENDPOINT: &str = "/api/v1/query";

fn vector(series: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
}

#[tokio::test]
async fn servers_that_lie_or_never_end_are_refused_with_a_message_and_the_next_one_is_read() {
    let origin = MockOrigin::http().await;
    let plugin = prometheus_plugin(&origin.origin()).config("timeout", "4s").config("max-body", "1MiB");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let one = r#"{"metric":{},"value":[1700000000,"1"]}"#;
    for (reply, expected) in [
        (Reply::endless(), "is not what its API says"),
        (Reply::endless_headers(), "the headers are too large"),
        (Reply::drip(Duration::from_millis(10)), ""),
        (Reply::silent(), "did not respond in time"),
        (Reply::ok("text/html", "<html>"), "is not what its API says"),
        (Reply::ok("application/json", vector(&format!("{one},").repeat(200_000))), "more than 100 series"),
        (Reply::ok("application/json", vector(&" ".repeat(2_000_000))), "more than 1048576 bytes"),
        (Reply::ok("application/json", vector(one)).truncate_after(30), ""),
        (Reply::ok("application/json", vector(r#"{"metric":{},"value":[0,"x"]}"#)), "expected a number as the value"),
        (Reply::redirect(302, "http://127.0.0.1:1/"), "status 302"),
        (Reply::status(404), "status 404"),
        (Reply::status(401), "denied access (status 401)"),
        (Reply::status(503).header("Retry-After", "7"), "not ready (status 503)"),
    ] {
        origin.serve_any_query(ENDPOINT, reply);
        let error = server.client().read_error(QUERY).await;
        assert!(error.message.contains(expected), "{expected}: {error:?}");
    }
    origin.serve_any_query(ENDPOINT, Reply::ok("application/json", vector(one)));
    assert_eq!(server.client().read(QUERY).await.unwrap().len(), 2);
    server.end().await;
    origin.wait_until_idle().await;
}

#[tokio::test]
async fn a_server_that_is_down_or_not_granted_says_so() {
    let origin = MockOrigin::http().await;
    let other = MockOrigin::http().await;
    let plugin = prometheus_plugin(&origin.origin()).config("url", other.origin());
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let error = server.client().read_error(QUERY).await;
    assert!(error.message.contains("not granted"), "{error:?}");
    server.end().await;
    assert!(other.requests().is_empty());

    // No process listens there.
    let down = ReservedPort::new();
    let config = ConfigFile::new().plugin(prometheus_plugin(&format!("http://{}", down.address()))).write();
    let server = StdioServer::start(&config).await;
    let error = server.client().read_error(QUERY).await;
    assert!(error.message.contains("unreachable"), "{error:?}");
    server.end().await;
}
