//! HTTP grants: a plugin can reach the granted origins within its limits, and does not see the credentials that the
//! host adds.

use std::time::Duration;

use mcp_host_tests::{
    CertificateAuthority, ConfigFile, Folder, MockOrigin, Plugin, RawStdio, Reply, Revision, StdioServer,
    WrittenConfig, fixture, run,
};
use serde_json::{Value, json};
use toml::Table;

/// The guest that sends requests to web servers, at `fetch://web/`. Its deadline is long, because times depend on the
/// machine.
fn fetch_plugin() -> Plugin {
    Plugin::new("web", &fixture("fetch"), "fetch://web/").limit("deadline", "60s")
}

/// The same, with a grant of an origin and limits on HTTP.
fn config_with_limits<const N: usize>(origin: &MockOrigin, limits: [(&str, toml::Value); N]) -> WrittenConfig {
    let limits: Table = limits.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    config(fetch_plugin().origin(&origin.origin()).limit("http", limits))
}

fn config(plugin: Plugin) -> WrittenConfig {
    ConfigFile::new().plugin(plugin).write()
}

/// An entry of `grants.http` with an origin and additional keys.
fn http_grant<const N: usize>(origin: &MockOrigin, beside: [(&str, toml::Value); N]) -> toml::Value {
    let beside = beside.into_iter().map(|(key, value)| (key.to_owned(), value));
    beside.chain([("origin".to_owned(), origin.origin().into())]).collect::<Table>().into()
}

/// The URI of a request, with additional keys.
fn fetch_uri(what: &str, url: &str, more: &str) -> String {
    let url: String = url.bytes().map(|byte| format!("%{byte:02X}")).collect();
    format!("fetch://web/{what}?url={url}{more}")
}

/// Returns the response as the guest received it.
async fn run_fetch(server: &StdioServer, what: &str, url: &str, more: &str) -> Value {
    serde_json::from_str(&server.client().text(&fetch_uri(what, url, more)).await).unwrap()
}

async fn get(server: &StdioServer, url: &str) -> Value {
    run_fetch(server, "get", url, "").await
}

fn error_json(code: &str) -> Value {
    json!({ "error": format!("ErrorCode::{code}") })
}

/// Returns whether the error starts with a code, whatever its details.
fn is_error(answer: &Value, code: &str) -> bool {
    answer["error"].as_str().is_some_and(|error| error.starts_with(&format!("ErrorCode::{code}")))
}

fn header<'a>(answer: &'a Value, name: &str) -> Option<&'a str> {
    let headers = answer["headers"].as_array().unwrap().iter();
    headers.filter(|header| header[0] == name).find_map(|header| header[1].as_str())
}

#[tokio::test]
async fn a_granted_origin_is_asked_and_no_other() {
    let (granted, other) = (MockOrigin::http().await, MockOrigin::http().await);
    granted.serve("/page?a=b", Reply::ok("text/plain", "hello").header("X-One", "1").header("Keep-Alive", "timeout=5"));
    let server = StdioServer::start(&config(fetch_plugin().origin(&granted.origin()))).await;
    let answer = get(&server, &granted.url("/page?a=b")).await;
    assert_eq!((&answer["status"], &answer["body"], &answer["ended"]), (&json!(200), &json!("hello"), &Value::Null));
    assert_eq!((header(&answer, "x-one"), header(&answer, "keep-alive")), (Some("1"), None));
    assert_eq!(granted.requests()[0].header("host"), Some(&*format!("127.0.0.1:{}", granted.port())));
    for url in [
        other.url("/page"),
        granted.url("/page").replace("http:", "https:"),
        "https://docs.rs/".to_owned(),
        format!("http://localhost:{}/page", granted.port()),
        format!("http://[::1]:{}/page", granted.port()),
        "http://127.0.0.1/page".to_owned(),
    ] {
        assert_eq!(get(&server, &url).await, error_json("HttpRequestDenied"), "{url}");
    }
    server.log_line("the origin is not granted").await;
    server.end().await;
    assert_eq!((granted.requests().len(), other.requests().len()), (1, 0));
}

#[tokio::test]
async fn without_a_grant_every_request_is_denied() {
    let origin = MockOrigin::http().await;
    let server = StdioServer::start(&config(fetch_plugin())).await;
    assert_eq!(get(&server, &origin.url("/")).await, error_json("HttpRequestDenied"));
    server.end().await;
    assert_eq!(origin.requests(), []);
}

#[tokio::test]
async fn a_wildcard_grants_nothing_but_what_is_below() {
    let server = StdioServer::start(&config(fetch_plugin().origin("https://*.example.invalid"))).await;
    for url in ["https://example.invalid/", "http://a.example.invalid/", "https://a.example.invalid:444/"] {
        assert_eq!(get(&server, url).await, error_json("HttpRequestDenied"), "{url}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_name_never_leads_to_this_machine() {
    let origin = MockOrigin::http().await;
    let by_name = format!("http://localhost:{}", origin.port());
    let server = StdioServer::start(&config(fetch_plugin().origin(&by_name))).await;
    assert_eq!(get(&server, &by_name).await, error_json("DestinationIpProhibited"));
    server.log_line("which only a grant of the address itself allows").await;
    server.end().await;
    assert_eq!(origin.requests(), []);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_leads_to_nothing_that_was_not_granted() {
    let (granted, other) = (MockOrigin::http().await, MockOrigin::http().await);
    granted.serve("/away", Reply::redirect(302, &other.url("/secret")));
    let server = StdioServer::start(&config(fetch_plugin().origin(&granted.origin()))).await;
    let answer = get(&server, &granted.url("/away")).await;
    assert_eq!((&answer["status"], header(&answer, "location")), (&json!(302), Some(&*other.url("/secret"))));
    assert_eq!(get(&server, header(&answer, "location").unwrap()).await, error_json("HttpRequestDenied"));
    server.end().await;
    assert_eq!(other.requests(), []);
}

#[tokio::test]
async fn credentials_go_to_their_origin_and_the_guest_never_sees_them() {
    let (api, other) = (MockOrigin::http().await, MockOrigin::http().await);
    let secrets = Folder::with_files([("auth", "Bearer hunter2\n")]);
    let file: Table = [("file".to_owned(), secrets.path().join("auth").to_str().unwrap().into())].into_iter().collect();
    let headers: Table = [("Authorization".to_owned(), file.into())].into_iter().collect();
    api.serve("/", Reply::ok("text/plain", "welcome"));
    other.serve("/", Reply::redirect(307, &api.url("/")));
    let plugin = fetch_plugin().http(http_grant(&api, [("headers-from", headers.into())])).origin(&other.origin());
    let server = StdioServer::start(&config(plugin)).await;
    let own = "&header=Authorization:mine&header=X-Trace:1";
    let answers =
        [run_fetch(&server, "get", &api.url("/"), own).await, run_fetch(&server, "get", &other.url("/"), own).await];
    let ended = server.end().await;
    let [request] = &api.requests()[..] else { panic!("one request") };
    let sent: Vec<_> = request.headers.iter().filter(|(name, _)| name == "authorization").collect();
    assert_eq!(sent, [&("authorization".to_owned(), "Bearer hunter2".to_owned())]);
    assert_eq!((request.header("x-trace"), other.requests()[0].header("authorization")), (Some("1"), Some("mine")));
    assert!(!format!("{answers:?} {}", ended.log).contains("hunter2"));
}

#[tokio::test]
async fn over_tls_a_server_is_who_the_certificate_says() {
    let (trusted, unknown) = (CertificateAuthority::new(), CertificateAuthority::new());
    let files = Folder::with_files([("ca.pem", trusted.pem())]);
    let ca = || ("ca", files.path().join("ca.pem").to_str().unwrap().into());
    let (right, wrong) = (MockOrigin::https(&trusted).await, MockOrigin::https_as(&trusted, "docs.rs").await);
    let (stranger, bare) = (MockOrigin::https(&unknown).await, MockOrigin::https(&trusted).await);
    for origin in [&right, &wrong, &stranger, &bare] {
        origin.serve("/", Reply::ok("text/plain", "hello"));
    }
    let with_ca = [&right, &wrong, &stranger]
        .into_iter()
        .fold(fetch_plugin(), |plugin, origin| plugin.http(http_grant(origin, [ca()])));
    let server = StdioServer::start(&config(with_ca.origin(&bare.origin()))).await;
    assert_eq!(get(&server, &right.url("/")).await["body"], "hello");
    // Another name, another authority, and an authority that applies only to other origins.
    for origin in [&wrong, &stranger, &bare] {
        assert_eq!(get(&server, &origin.url("/")).await, error_json("TlsCertificateError"), "{}", origin.origin());
    }
    server.log_line("the server's certificate is not trusted").await;
    server.end().await;
    assert_eq!([&right, &wrong, &stranger, &bare].map(|origin| origin.requests().len()), [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_body_that_is_too_large_ends_with_an_error() {
    let origin = MockOrigin::http().await;
    origin.serve("/exact", Reply::ok("text/plain", "x".repeat(4096)));
    origin.serve("/announced", Reply::ok("text/plain", "x".repeat(4097)));
    origin.serve("/endless", Reply::endless());
    let server = StdioServer::start(&config_with_limits(&origin, [("body", "4KiB".into())])).await;
    let exact = get(&server, &origin.url("/exact")).await;
    assert_eq!((&exact["length"], &exact["ended"]), (&json!(4096), &Value::Null));
    assert_eq!(get(&server, &origin.url("/announced")).await, error_json("HttpResponseBodySize(Some(4096))"));
    let endless = get(&server, &origin.url("/endless")).await;
    assert!(endless["ended"].as_str().unwrap().contains("body size exceeds limit"), "{endless}");
    assert!(endless["length"].as_u64().unwrap() <= 4096, "{endless}");
    server.log_line("`limits.http.body` (4.0 KiB)").await;
    origin.wait_until_idle().await;
    server.end().await;
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent_whole() {
    let origin = MockOrigin::http().await;
    origin.serve("/", Reply::ok("text/plain", ""));
    let server =
        StdioServer::start(&config_with_limits(&origin, [("body", "4KiB".into()), ("headers", "1KiB".into())])).await;
    let post = |more: String| format!("&method=POST{more}");
    assert_eq!(run_fetch(&server, "get", &origin.url("/"), &post("&fill=4096".into())).await["status"], 200);
    for more in ["&fill=4097", "&fill=1000000"] {
        let answer = run_fetch(&server, "get", &origin.url("/"), &post(more.into())).await;
        assert!(is_error(&answer, "HttpRequestBodySize"), "{answer}");
    }
    let announced = post("&header=Content-Length:4097&fill=4097".into());
    assert_eq!(
        run_fetch(&server, "get", &origin.url("/"), &announced).await,
        error_json("HttpRequestBodySize(Some(4096))")
    );
    let large = format!("&header=X-Large:{}", "x".repeat(1024));
    let many = "&header=X:1".repeat(300);
    let long = origin.url(&format!("/{}", "x".repeat(1024)));
    for (url, more) in [(&origin.url("/"), &*large), (&origin.url("/"), &many), (&long, "")] {
        let answer = run_fetch(&server, "get", url, more).await;
        assert_eq!(answer, error_json("HttpRequestHeaderSectionSize(Some(1024))"));
    }
    server.end().await;
    let whole: Vec<_> = origin.requests().iter().map(|request| request.body.len()).collect();
    assert_eq!(whole, [4096]);
}

#[tokio::test]
async fn headers_that_are_too_large_are_not_taken() {
    let origin = MockOrigin::http().await;
    let large = |size| Reply::ok("text/plain", "").header("X-Large", &"x".repeat(size));
    origin.serve("/some", large(500));
    origin.serve("/large", large(1024));
    origin.serve("/many", (0..300).fold(Reply::ok("text/plain", ""), |reply, _| reply.header("A", "")));
    origin.serve("/endless", Reply::endless_headers());
    let server = StdioServer::start(&config_with_limits(&origin, [("headers", "1KiB".into())])).await;
    assert_eq!(get(&server, &origin.url("/some")).await["status"], 200);
    for path in ["/large", "/many", "/endless"] {
        let answer = get(&server, &origin.url(path)).await;
        assert!(is_error(&answer, "HttpResponseHeaderSectionSize"), "{path}: {answer}");
    }
    origin.wait_until_idle().await;
    server.end().await;
}

#[tokio::test]
async fn an_exchange_ends_with_its_time_however_slowly_it_goes_on() {
    let origin = MockOrigin::http().await;
    origin.serve("/drip", Reply::drip(Duration::from_millis(20)));
    origin.serve("/silent", Reply::silent());
    let server = StdioServer::start(&config_with_limits(&origin, [("timeout", "5s".into())])).await;
    assert_eq!(get(&server, &origin.url("/silent")).await, error_json("HttpResponseTimeout"));
    // The guest's timeout applies only if it is shorter.
    let patient =
        run_fetch(&server, "get", &origin.url("/silent"), "&connect=60000&first-byte=60000&pause=60000").await;
    assert_eq!(patient, error_json("HttpResponseTimeout"));
    let drip = get(&server, &origin.url("/drip")).await;
    assert!(drip["ended"].as_str().unwrap().contains("timeout"), "{drip}");
    server.log_line("took longer than `limits.http.timeout` (5s)").await;
    origin.wait_until_idle().await;
    server.end().await;
}

#[tokio::test]
async fn a_guest_may_be_less_patient() {
    let origin = MockOrigin::http().await;
    origin.serve("/silent", Reply::silent());
    origin.serve("/pause", Reply::drip(Duration::from_secs(3600)));
    let server = StdioServer::start(&config_with_limits(&origin, [("timeout", "50s".into())])).await;
    assert_eq!(
        run_fetch(&server, "get", &origin.url("/silent"), "&first-byte=50").await,
        error_json("ConnectionReadTimeout")
    );
    let pause = run_fetch(&server, "get", &origin.url("/pause"), "&pause=5000").await;
    assert_eq!((&pause["length"], &pause["ended"]), (&json!(1), &json!("connection read timeout")));
    origin.wait_until_idle().await;
    server.end().await;
}

#[tokio::test]
async fn exchanges_at_once_are_counted() {
    let origin = MockOrigin::http().await;
    origin.serve("/silent", Reply::silent());
    origin.serve("/", Reply::ok("text/plain", ""));
    let server =
        StdioServer::start(&config_with_limits(&origin, [("concurrency", 2.into()), ("timeout", "5s".into())])).await;
    let answers = run_fetch(&server, "many", &origin.url("/silent"), "&count=6").await;
    let count = |code| answers.as_array().unwrap().iter().filter(|answer| **answer == error_json(code)).count();
    assert_eq!((count("ConnectionLimitReached"), count("HttpResponseTimeout")), (4, 2), "{answers}");
    server.log_line("`limits.http.concurrency` (2), or the share of one client, is reached").await;
    // The permits are free again.
    for _ in 0..5 {
        assert_eq!(get(&server, &origin.url("/")).await["status"], 200);
    }
    server.end().await;
    assert_eq!(origin.request_count("/silent"), 2);
}

#[tokio::test]
async fn requests_a_minute_are_counted() {
    let origin = MockOrigin::http().await;
    origin.serve("/", Reply::ok("text/plain", ""));
    let server = StdioServer::start(&config_with_limits(&origin, [("rate", "1/m".into())])).await;
    assert_eq!(get(&server, &origin.url("/")).await["status"], 200);
    assert_eq!(get(&server, &origin.url("/")).await, error_json("ConnectionLimitReached"));
    server.log_line("`limits.http.rate` (1/m) is used up").await;
    server.end().await;
    assert_eq!(origin.requests().len(), 1);
}

#[tokio::test]
async fn what_would_show_or_bend_a_request_is_not_sent() {
    let origin = MockOrigin::http().await;
    origin.serve("/", Reply::ok("text/plain", ""));
    let server = StdioServer::start(&config(fetch_plugin().origin(&origin.origin()))).await;
    for method in ["TRACE", "CONNECT", "trace", "Trace", "connect"] {
        let answer = run_fetch(&server, "get", &origin.url("/"), &format!("&method={method}")).await;
        assert_eq!(answer, error_json("HttpRequestMethodInvalid"), "{method}");
    }
    for header in ["Host:docs.rs", "Connection:upgrade", "Upgrade:h2c", "Transfer-Encoding:chunked", "TE:trailers"] {
        let answer = run_fetch(&server, "get", &origin.url("/"), &format!("&header={header}")).await;
        assert_eq!(answer["error"], "HeaderError::Forbidden", "{header}");
    }
    let answer = get(&server, &origin.url("/").replace("://", "://me:secret@")).await;
    assert_eq!(answer, error_json("HttpRequestUriInvalid"));
    server.end().await;
    assert_eq!(origin.requests(), []);
}

#[tokio::test]
async fn an_answer_that_is_cut_is_no_answer() {
    let origin = MockOrigin::http().await;
    origin.serve("/cut", Reply::ok("text/plain", "hello, world").truncate_after(5));
    let server = StdioServer::start(&config(fetch_plugin().origin(&origin.origin()))).await;
    let cut = get(&server, &origin.url("/cut")).await;
    assert_eq!((&cut["body"], &cut["ended"]), (&json!("hello"), &json!("incomplete HTTP response")));
    origin.take_down().await;
    assert_eq!(get(&server, &origin.url("/cut")).await, error_json("ConnectionRefused"));
    origin.bring_up().await;
    origin.serve("/", Reply::ok("text/plain", "back").etag("\"1\""));
    assert_eq!(get(&server, &origin.url("/")).await["body"], "back");
    let unchanged = run_fetch(&server, "get", &origin.url("/"), "&header=If-None-Match:%221%22").await;
    assert_eq!(
        (&unchanged["status"], &unchanged["length"], &unchanged["ended"]),
        (&json!(304), &json!(0), &Value::Null)
    );
    let head = run_fetch(&server, "get", &origin.url("/"), "&method=HEAD").await;
    assert_eq!(
        (header(&head, "content-length"), &head["length"], &head["ended"]),
        (Some("4"), &json!(0), &Value::Null)
    );
    server.end().await;
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_its_exchange() {
    let origin = MockOrigin::http().await;
    origin.serve("/silent", Reply::silent());
    origin.serve("/endless", Reply::drip(Duration::from_secs(3600)));
    let config = config_with_limits(&origin, [("timeout", "10m".into())]);
    let mut wire = RawStdio::start(&config, Revision::LATEST_WITH_INITIALIZE).await;
    for (asked, path) in ["/silent", "/endless"].into_iter().enumerate() {
        let id = wire.send_request("resources/read", json!({ "uri": fetch_uri("get", &origin.url(path), "") })).await;
        origin.wait_for_requests(asked + 1).await;
        wire.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } }))
            .await;
        origin.wait_until_idle().await;
    }
    wire.end().await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_ends_its_exchange() {
    let origin = MockOrigin::http().await;
    origin.serve("/silent", Reply::silent());
    let plugin = fetch_plugin().origin(&origin.origin()).limit("deadline", "500ms");
    let server = StdioServer::start(&config(plugin)).await;
    server.client().read_error(&fetch_uri("get", &origin.url("/silent"), "")).await;
    origin.wait_until_idle().await;
    server.end().await;
}

#[tokio::test]
async fn a_header_that_imitates_one_of_the_host_is_not_sent() {
    let origin = MockOrigin::http().await;
    origin.serve("/", Reply::ok("text/plain", "hello"));
    let folder = Folder::with_files([("key", "hunter2")]);
    let key: Table = [("file".to_owned(), folder.path().join("key").to_str().unwrap().into())].into_iter().collect();
    let headers: Table = [("X-Api-Key".to_owned(), key.into())].into_iter().collect();
    let plugin = fetch_plugin().http(http_grant(&origin, [("headers-from", headers.into())]));
    let server = StdioServer::start(&config(plugin)).await;
    let answer = run_fetch(&server, "get", &origin.url("/"), "&header=X_Api_Key:guess").await;
    assert_eq!(answer, error_json("HttpRequestDenied"));
    server.log_line("differs in `_` and `-` only").await;
    assert_eq!(run_fetch(&server, "get", &origin.url("/"), "&header=X_Other:1").await["status"], 200);
    server.end().await;
    let keys: Vec<_> = origin.requests().iter().map(|request| request.header("x-api-key").map(str::to_owned)).collect();
    assert_eq!(keys, [Some("hunter2".to_owned())]);
}

#[tokio::test]
async fn check_connects_to_each_origin_and_offline_to_none() {
    let origin = MockOrigin::http().await;
    let plugin = || fetch_plugin().origin(&origin.origin()).origin("https://*.example.invalid");
    let config = config(plugin());
    let check = async |more: &[&str]| {
        let path = config.path();
        let arguments = ["check", "--json", "--config", path.to_str().unwrap()].into_iter().chain(more.iter().copied());
        let report = run(arguments).await.success().json();
        report["plugins"][0]["warnings"].as_array().unwrap().len()
    };
    assert_eq!(check(&[]).await, 0);
    origin.take_down().await;
    assert_eq!((check(&[]).await, check(&["--offline"]).await), (1, 0));
    assert_eq!(origin.requests(), [], "a connection is no request");
}
