//! `[telemetry]`: requests are traced as configured, and a collector does not delay them, whatever it does.

use std::time::{Duration, Instant};

use mcp_host_tests::{
    Collector, ConfigFile, Folder, HttpServer, MockOrigin, Plugin, RawHttp, RawStdio, Reply, Revision, WrittenConfig,
    fixture, wait_until,
};
use reqwest::header::{ACCEPT, AUTHORIZATION};
use rusqlite::Connection;
use serde_json::{Value, json};
use toml::Table;

const REVISION: Revision = Revision::V_2025_11_25;
const ADMIN: &str = "\n[admin]\nlisten = \"127.0.0.1:0\"\n";
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const OTHER_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "00f067aa0ba902b7";
const ALL: &str = "sample = 1";
const SAVED: &str = "SELECT name FROM customers ORDER BY name";

fn traceparent(trace: &str, flags: &str) -> String {
    format!("00-{trace}-{SPAN}-{flags}")
}

/// A plugin with a file, and a collector that receives everything.
fn notes(folder: &Folder, collector: &Collector, telemetry: &str) -> WrittenConfig {
    let plugin = Plugin::files("f", folder.path());
    let tools = vec![toml::Value::from("read")];
    ConfigFile::new()
        .server("tools", tools)
        .plugin(plugin)
        .allow_all()
        .append(&collector.section(telemetry))
        .append(ADMIN)
        .write()
}

fn folder() -> Folder {
    Folder::with_files([("a.txt", "text")])
}

async fn read(client: &mut RawHttp, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri })).await.message
}

/// Reads with trace contexts in the message and in the HTTP request.
async fn read_with(client: &mut RawHttp, message: Option<&str>, http: Option<&str>) {
    let mut params = json!({ "uri": "files://f/a.txt" });
    if let Some(message) = message {
        params["_meta"] = json!({ "traceparent": message });
    }
    let mut request = client.request_builder("resources/read", params);
    if let Some(http) = http {
        request = request.header("traceparent", http);
    }
    assert!(request.send().await.unwrap().status().is_success());
}

/// Returns the numbers of spans in `/metrics`: exported, dropped, failed.
async fn counts(server: &HttpServer) -> [u64; 3] {
    let line = server.log_line("administration at ").await;
    let url = format!("{}/metrics", line.split_whitespace().last().unwrap());
    let text = reqwest::Client::new().get(url).header(ACCEPT, "text/plain").send().await.unwrap().text().await.unwrap();
    ["exported", "dropped", "failed"].map(|outcome| {
        let series = format!("mcp_host_telemetry_spans_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&series)).unwrap().parse().unwrap()
    })
}

#[tokio::test]
async fn a_request_is_a_span_and_so_is_each_thing_that_it_waits_for() {
    let (collector, folder) = (Collector::start().await, folder());
    let server = HttpServer::start(&notes(&folder, &collector, ALL)).await;
    let mut client = server.raw_client(REVISION).await;
    assert!(read(&mut client, "files://f/a.txt").await["result"].is_object());
    let trace = collector.trace_with("resources/read").await;
    let request = trace.span("resources/read");
    assert!(request.is_server && !request.is_error && request.parent.is_empty() && request.links.is_empty());
    let attributes = [
        ("mcp.method.name", json!("resources/read")),
        ("mcp.protocol.version", json!("2025-11-25")),
        ("mcp.resource.uri", json!("files://f/a.txt")),
        ("jsonrpc.request.id", json!("2")),
        ("network.transport", json!("tcp")),
        ("client.address", json!("127.0.0.1")),
        ("error.type", Value::Null),
        ("code.file.path", Value::Null),
        ("thread.id", Value::Null),
    ];
    for (name, value) in attributes {
        if name == "jsonrpc.request.id" {
            assert!(request.attribute(name).as_str().is_some_and(|id| id.parse::<u64>().is_ok()), "{request:#?}");
            continue;
        }
        assert_eq!(request.attribute(name), &value, "{name} of {request:#?}");
    }
    let session = client.session_id().unwrap();
    let hash = request.attribute("mcp.session.id").as_str().unwrap();
    assert!(hash.len() == 16 && !session.contains(hash), "the id itself is a credential: {hash}");
    for (name, parent) in [
        ("call", "resources/read"),
        ("admission", "call"),
        ("guest", "call"),
        ("validation", "call"),
        ("encode", "resources/read"),
    ] {
        assert_eq!(trace.parent_of(name), parent, "{name} in {trace:#?}");
    }
    assert_eq!(trace.span("call").attribute("mcp_host.plugin"), "f");
    assert_eq!(trace.span("call").attribute("mcp_host.function"), "read");
    assert_eq!(collector.resource()["service.name"], "mcp-host");

    // Reading a directory waits for the disk.
    client.request("resources/list", json!({})).await.result();
    let trace = collector.trace_with("resources/list").await;
    assert_eq!(trace.parent_of("files"), "guest", "{trace:#?}");
    assert!(trace.span("files").attribute("mcp_host.file.operations").as_i64().is_some_and(|count| count > 0));
    assert!(trace.span("files").attribute("mcp_host.file.seconds").as_f64().is_some_and(|time| time > 0.0));

    // Calls of a tool, of an unknown tool, and with an error.
    let call = |tool: &str| json!({ "name": tool, "arguments": { "uri": "files://f/a.txt" } });
    client.request("tools/call", call("read_resource")).await.result();
    let trace = collector.trace_with("tools/call read_resource").await;
    let request = trace.span("tools/call read_resource");
    assert_eq!(request.attribute("gen_ai.tool.name"), "read_resource");
    assert_eq!(request.attribute("gen_ai.operation.name"), "execute_tool");
    assert_eq!(trace.parent_of("call"), "tools/call read_resource");
    read(&mut client, "files://f/none").await;
    client.request("tools/call", call("drop_tables")).await;
    client.request("no/such", json!({})).await;
    wait_until("seven requests are there", || collector.spans().iter().filter(|span| span.is_server).count() >= 7)
        .await;
    let spans = collector.spans();
    let failed = spans.iter().find(|span| span.is_server && span.is_error).unwrap();
    assert_eq!((failed.name.as_str(), failed.attribute("error.type")), ("resources/read", &json!("not-found")));
    assert_eq!(failed.attribute("rpc.response.status_code"), "-32002");
    let names: Vec<_> = spans.iter().filter(|span| span.is_server).map(|span| span.name.as_str()).collect();
    assert!(names.contains(&"_OTHER") && names.contains(&"tools/call _OTHER"), "{names:?}");
    server.end().await;
}

#[tokio::test]
async fn the_parent_is_the_span_of_the_message_else_of_its_http_request_and_the_other_one_is_a_link() {
    let (collector, folder) = (Collector::start().await, folder());
    let server = HttpServer::start(&notes(&folder, &collector, ALL)).await;
    let mut client = server.raw_client(REVISION).await;
    // The client's sampling flag has no effect.
    let (message, http) = (traceparent(TRACE, "00"), traceparent(OTHER_TRACE, "01"));
    read_with(&mut client, Some(&message), Some(&http)).await;
    read_with(&mut client, None, Some(&http)).await;
    read_with(&mut client, Some("nonsense"), None).await;
    let requests = || collector.spans().into_iter().filter(|span| span.name == "resources/read").collect::<Vec<_>>();
    wait_until("all three are there", || requests().len() >= 3).await;
    let mut found: Vec<_> = requests().into_iter().map(|span| (span.trace, span.parent, span.links)).collect();
    found.sort();
    let own = found.iter().position(|(_, parent, _)| parent.is_empty()).unwrap();
    let (trace, _, links) = found.remove(own);
    assert!(trace != TRACE && trace != OTHER_TRACE && links.is_empty());
    let link = vec![(OTHER_TRACE.to_owned(), SPAN.to_owned())];
    let expected = [(OTHER_TRACE, Vec::new()), (TRACE, link)];
    assert_eq!(found, expected.map(|(trace, links)| (trace.to_owned(), SPAN.to_owned(), links)));
    server.end().await;
}

#[tokio::test]
async fn the_config_decides_what_is_traced_and_a_reload_changes_it() {
    let (collector, folder) = (Collector::start().await, folder());
    let config = notes(&folder, &collector, "sample = 0");
    let server = HttpServer::start(&config).await;
    let mut client = server.raw_client(REVISION).await;
    let sampled = traceparent(TRACE, "01");
    for _ in 0..20 {
        read_with(&mut client, Some(&sampled), Some(&sampled)).await;
    }
    let text = std::fs::read_to_string(config.path()).unwrap();
    config.replace_text(&text.replace("sample = 0", "sample = 1"));
    server.log_line(" reloaded ").await;
    read_with(&mut client, None, None).await;
    let trace = collector.trace_with("resources/read").await;
    assert_eq!(collector.spans().iter().filter(|span| span.is_server).count(), 1, "{trace:#?}");
    assert_ne!(trace.span("resources/read").trace, TRACE);
    server.end().await;
}

#[tokio::test]
async fn waits_for_other_servers_are_spans_without_secrets_and_the_trace_goes_on_where_the_grant_says_so() {
    let (collector, folder) = (Collector::start().await, Folder::with_files::<&str, &str>([]));
    let (told, other) = (MockOrigin::http().await, MockOrigin::http().await);
    for origin in [&told, &other] {
        origin.serve_any_query("/page", Reply::ok("text/plain", "hello"));
    }
    let file = folder.path().join("shop.db");
    let writer = Connection::open(&file).unwrap();
    let rows = "('hunter2-a'), ('hunter2-b'), ('hunter2-c')";
    writer
        .execute_batch(&format!("CREATE TABLE customers (name TEXT PRIMARY KEY); INSERT INTO customers VALUES {rows}"))
        .unwrap();
    std::fs::write(folder.path().join("token"), "Bearer hunter2-of-the-collector").unwrap();
    let grant: Table =
        [("origin".to_owned(), told.origin().into()), ("trace".to_owned(), true.into())].into_iter().collect();
    let web = Plugin::new("web", &fixture("fetch"), "fetch://web/").limit("deadline", "60s");
    let shop = Plugin::database("shop", format!("sqlite://{}", file.display()));
    let saved: Table = toml::from_str(&format!("all = {{ sql = {SAVED:?} }}")).unwrap();
    let token = format!("headers = {{ authorization = {{ file = {:?} }} }}\n{ALL}", folder.path().join("token"));
    let config = ConfigFile::new()
        .plugin(web.http(grant.into()).origin(&other.origin()))
        .plugin(shop.config("queries", saved).config("free-sql", true))
        .allow_all()
        .append(&collector.section(&token))
        .write();
    let server = HttpServer::start(&config).await;
    let mut client = server.raw_client(REVISION).await;
    for origin in [&told, &other] {
        let url: String =
            origin.url("/page?key=hunter2-of-the-url").bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = read(&mut client, &format!("fetch://web/get?url={url}")).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    // The next page starts after a key, which is a parameter of the statement.
    let first = read(&mut client, "db://shop/main/customers/rows?limit=1&format=json").await;
    let next = first["result"]["contents"][0]["_meta"]["mcp-host/notices"][0]["next"].as_str();
    let next = next.unwrap_or_else(|| panic!("{first}")).to_owned();
    let second = read(&mut client, &next).await;
    let text = second["result"]["contents"][0]["text"].as_str().unwrap();
    assert!(text.contains("hunter2-b") && !text.contains("hunter2-a"), "{second}");
    for uri in ["db://shop/query/all", "db://shop/sql?q=SELECT%20%27hunter2-of-a-client%27"] {
        let answer = read(&mut client, uri).await;
        assert!(answer["result"].is_object(), "{answer}");
    }
    let is_complete = || {
        let spans = collector.spans();
        spans.iter().filter(|span| span.name == "http").count() >= 2 && spans.iter().any(|span| span.name == "sql")
    };
    wait_until("both exchanges and a statement are there", is_complete).await;
    wait_until("all requests are there", || collector.spans().iter().filter(|span| span.is_server).count() >= 7).await;
    let spans = collector.spans();
    let exchange =
        |origin: &MockOrigin| spans.iter().find(|span| *span.attribute("server.port") == json!(origin.port())).unwrap();
    let (exchange, silent) = (exchange(&told), exchange(&other));
    assert_eq!(exchange.attribute("http.request.method"), "GET");
    assert_eq!(exchange.attribute("http.response.status_code"), 200);
    let expected = format!("00-{}-{}-01", exchange.trace, exchange.id);
    assert_eq!(told.requests()[0].header("traceparent"), Some(expected.as_str()));
    assert_eq!((other.requests()[0].header("traceparent"), silent.is_error), (None, false));
    let parent = spans.iter().find(|span| span.id == exchange.parent).unwrap();
    assert_eq!(parent.name, "guest");
    let statements: Vec<_> = spans.iter().filter(|span| span.name == "sql").collect();
    assert!(
        statements
            .iter()
            .all(|span| { span.attribute("db.system.name") == "sqlite" && span.attribute("db.namespace") == "shop" })
    );
    // The text is always the config's statement, because clients write statements, too.
    let texts: Vec<_> = statements.iter().map(|span| span.attribute("db.query.text")).collect();
    assert!(texts.iter().any(|text| *text == SAVED) && texts.iter().all(|text| *text == SAVED || text.is_null()));
    for span in &spans {
        for (name, value) in &span.attributes {
            let may_hold_it = name == "mcp.resource.uri";
            assert!(may_hold_it || !value.to_string().contains("hunter2"), "{name} = {value} of {span:#?}");
        }
    }
    for request in collector.requests() {
        assert_eq!(request.header(AUTHORIZATION.as_str()), Some("Bearer hunter2-of-the-collector"));
        assert!(!request.body.windows(12).any(|bytes| bytes == b"of-the-colle"));
    }
    server.end().await;
}

#[tokio::test]
async fn initialize_and_requests_that_are_rejected_are_spans() {
    let (collector, folder) = (Collector::start().await, folder());
    let server = HttpServer::start(&notes(&folder, &collector, ALL)).await;
    let mut client = server.raw_client(REVISION).await;
    let post = async |session: &str, body: String| {
        let request = reqwest::Client::new().post(server.url()).header("Mcp-Session-Id", session);
        let request = request.header(ACCEPT, "application/json, text/event-stream").body(body);
        let request =
            request.header("Content-Type", "application/json").header("traceparent", traceparent(TRACE, "01"));
        request.send().await.unwrap();
    };
    let id = client.session_id().unwrap().to_owned();
    post(&id, "no message".to_owned()).await;
    post("0123", json!({ "jsonrpc": "2.0", "id": 8, "method": "resources/list" }).to_string()).await;
    client.request("initialize", json!({})).await;
    let spans = || collector.spans().into_iter().filter(|span| span.is_server).collect::<Vec<_>>();
    wait_until("the requests are there", || spans().len() >= 4).await;
    let spans = spans();
    let with = |name: &str, error: Value| {
        let found = spans.iter().find(|span| span.name == name && *span.attribute("error.type") == error);
        found.unwrap_or_else(|| panic!("{name} {error}: {spans:#?}"))
    };
    let opened = with("initialize", Value::Null);
    assert_eq!(opened.attribute("mcp.protocol.version"), "2025-11-25");
    assert!(opened.attribute("mcp.session.id").as_str().is_some_and(|hash| hash.len() == 16), "{opened:#?}");
    assert!(with("initialize", json!("invalid-request")).is_error);
    let unparsed = with("_OTHER", json!("parse-error"));
    assert_eq!((unparsed.trace.as_str(), unparsed.attribute("mcp.protocol.version")), (TRACE, &Value::Null));
    let unknown = with("resources/list", json!("invalid-request"));
    assert_eq!((unknown.trace.as_str(), unknown.attribute("jsonrpc.request.id")), (TRACE, &json!("8")));
    server.end().await;
}

#[tokio::test]
async fn stdio_is_traced_and_spans_that_wait_are_sent_at_the_end() {
    let (collector, folder) = (Collector::start().await, folder());
    let mut wire = RawStdio::start(&notes(&folder, &collector, ALL), REVISION).await;
    let params = json!({ "uri": "files://f/a.txt", "_meta": { "traceparent": traceparent(TRACE, "00") } });
    wire.request("resources/read", params).await.result();
    wire.end().await;
    let spans = collector.spans();
    let request = spans.iter().find(|span| span.name == "resources/read").unwrap_or_else(|| panic!("{spans:#?}"));
    assert_eq!((request.trace.as_str(), request.parent.as_str()), (TRACE, SPAN));
    assert_eq!(request.attribute("network.transport"), "pipe");
    assert!(spans.iter().any(|span| span.name == "initialize" && !span.is_error), "{spans:#?}");
}

#[tokio::test]
async fn a_trace_that_begins_here_is_in_the_log_and_in_the_audit_log() {
    let (collector, folder) = (Collector::start().await, folder());
    let plugin = Plugin::files("f", folder.path());
    let config = ConfigFile::new().audit("file", "audit.jsonl").plugin(plugin).allow_all();
    let config = config.append(&collector.section(ALL)).write();
    let server = HttpServer::start_with(&config, &["--log", "info,mcp_host::access=debug"]).await;
    let mut client = server.raw_client(REVISION).await;
    read(&mut client, "files://f/a.txt").await;
    let id = collector.trace_with("resources/read").await.span("resources/read").trace.clone();
    let line = server.log_line("files://f/a.txt").await;
    assert!(line.contains(&format!("request{{trace_id={id}}}")), "{line}");
    server.end().await;
    let audit = std::fs::read_to_string(config.dir().join("audit.jsonl")).unwrap();
    let line = audit.lines().find(|line| line.contains("files://f/a.txt")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(line).unwrap()["trace_id"], json!(id), "{line}");
}

/// A function that sets a collector's behavior.
type Behavior<'a> = &'a dyn Fn(&Collector);

#[tokio::test]
async fn a_collector_costs_requests_nothing_whatever_it_does() {
    let folder = folder();
    let elsewhere = MockOrigin::http().await;
    let silent = |collector: &Collector| collector.answer_with(Reply::silent());
    let garbage = |collector: &Collector| collector.answer_with(Reply::ok("application/x-protobuf", vec![0xff; 1000]));
    let endless = |collector: &Collector| collector.answer_with(Reply::endless());
    let failing = |collector: &Collector| collector.answer_with(Reply::status(503));
    let away = elsewhere.url("/v1/traces");
    let redirect = move |collector: &Collector| collector.answer_with(Reply::redirect(307, &away));
    let behaviors: [(&str, Behavior<'_>); 5] = [
        ("silent", &silent),
        ("garbage", &garbage),
        ("endless", &endless),
        ("failing", &failing),
        ("redirect", &redirect),
    ];
    for (name, behave) in behaviors {
        let collector = Collector::start().await;
        behave(&collector);
        serve_many(&folder, &collector, name).await;
        assert!(!collector.requests().is_empty(), "{name}");
    }
    let gone = Collector::start().await;
    gone.origin().take_down().await;
    serve_many(&folder, &gone, "gone").await;
    assert_eq!(elsewhere.requests(), [], "redirects are not followed");
}

/// Sends requests, and returns the time of the slowest.
async fn slowest_read(client: &mut RawHttp, requests: usize) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..requests {
        let began = Instant::now();
        let answer = read(client, "files://f/a.txt").await;
        slowest = slowest.max(began.elapsed());
        assert!(answer["result"].is_object(), "{answer}");
    }
    slowest
}

/// Sends requests whose spans exceed the queue by far.
async fn serve_many(folder: &Folder, collector: &Collector, name: &str) {
    const REQUESTS: usize = 1500;
    /// Far less than the export timeout.
    const SOON: Duration = Duration::from_secs(5);
    /// A busy machine may be late.
    const ATTEMPTS: usize = 5;
    let server = HttpServer::start(&notes(folder, collector, ALL)).await;
    let mut client = server.raw_client(REVISION).await;
    read(&mut client, "files://f/a.txt").await;
    // The server has tried to export.
    if name != "gone" {
        wait_until("the collector is asked", || !collector.requests().is_empty()).await;
    }
    let before = server.rss();
    let mut slowest: Vec<Duration> = Vec::new();
    while slowest.iter().all(|time| *time >= SOON) {
        assert!(slowest.len() < ATTEMPTS, "{name}: {slowest:?}");
        slowest.push(slowest_read(&mut client, REQUESTS).await);
    }
    let grown = server.rss().saturating_sub(before);
    assert!(grown < 32 << 20, "{name}: {grown} bytes");
    let [exported, dropped, failed] = counts(&server).await;
    match name {
        "garbage" => assert!(exported > 0 && failed == 0, "{name}: {exported} {dropped} {failed}"),
        _ => assert!(exported == 0 && dropped > 0, "{name}: {exported} {dropped} {failed}"),
    }
    if !["garbage", "silent", "endless"].contains(&name) {
        server.log_line("traces cannot be exported").await;
        assert!(failed > 0, "{name}");
    }
    server.end().await;
}
