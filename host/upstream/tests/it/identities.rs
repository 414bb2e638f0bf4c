//! Tokens of principals and groups: two worlds that do not meet.

use std::collections::HashMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use axum::http::Method;
use axum::response::Response;
use futures::stream::{self, StreamExt as _};
use mcp_host_config::{Config, Environment};
use mcp_host_model::caller::Caller;
use mcp_host_model::provider::{Body, Failure, Page, Provider};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio_util::task::AbortOnDropHandle;

use super::hostile::wait_for;
use super::http::{Server, json, status, with_session};
use super::scripted::{acknowledged, discovered};

/// Lists what the user has, in two pages, and reads everything as that user.
fn answer(user: &str, method: &Method, message: &Value) -> Response {
    let Some(user) = user.strip_prefix("Bearer ").filter(|user| *user != "refused") else { return status(401, "") };
    let resource = |name: &str| json!({ "uri": format!("x:{name}"), "name": format!("{name} of {user}") });
    match (message["method"].as_str().unwrap_or_default(), message["params"]["cursor"].as_str()) {
        ("resources/list", None) => json(message, json!({ "resources": [resource("both")], "nextCursor": "two" })),
        ("resources/list", Some(_)) => json(message, json!({ "resources": [resource(user)] })),
        ("resources/templates/list", _) => {
            json(message, json!({ "resourceTemplates": [{ "uriTemplate": format!("x:{user}/{{id}}"), "name": user }] }))
        }
        _ => with_session(method, message, |uri| match uri {
            "x:both" => json(message, json!({ "contents": [{ "uri": uri, "text": format!("for {user}") }] })),
            uri if uri == format!("x:{user}") => json(message, json!({ "contents": [{ "uri": uri, "text": "own" }] })),
            _ => {
                let error =
                    json!({ "jsonrpc": "2.0", "id": message["id"], "error": { "code": -32002, "message": "none" } });
                Response::builder().header("content-type", "application/json").body(error.to_string().into()).unwrap()
            }
        }),
    }
}

async fn start(server: &Server) -> Arc<dyn Provider> {
    start_at(server.url()).await
}

async fn start_at(url: &str) -> Arc<dyn Provider> {
    let text = format!(
        "[[principal]]\nname = 'ada'\ntoken-sha256 = '{:064}'\n[[principal]]\nname = 'eve'\ntoken-sha256 = '{:064}'\n[[upstream]]\nname = \
         'up'\nurl = '{}'\nmount = 'up+'\nauth.tokens = [{{ principal = 'ada', token = {{ env = 'ADA' }} }}, {{ group = 'corp/ops', token = \
         {{ env = 'OPS' }} }}, {{ principal = 'eve', token = {{ env = 'REFUSED' }} }}]",
        1, 2, url
    );
    let environment = Environment::empty().variable("ADA", "a").variable("OPS", "o").variable("REFUSED", "refused");
    let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment);
    let plugin = config.unwrap_or_else(|error| panic!("{error}")).plugins[0].clone();
    mcp_host_upstream::connect(&plugin).await.unwrap_or_else(|error| panic!("{error}"))
}

fn ada() -> Caller {
    Caller::new(Some("ada"), [])
}

fn bob() -> Caller {
    Caller::new(Some("corp/bob"), ["corp/ops"])
}

async fn as_caller<T>(caller: &Caller, task: impl Future<Output = T>) -> T {
    Caller::scope(Some(caller.clone()), task).await
}

/// Serves reads without sessions on each connection of a listener, and sends the second response of each connection
/// twice: once more when the next request is here, before its own response.
async fn serve_with_repetitions(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream);
            let mut responses = Vec::new();
            while let Some((user, message)) = receive(&mut stream).await {
                let result = match message["method"].as_str().unwrap_or_default() {
                    "server/discover" => discovered(json!({})),
                    _ => json!({ "resultType": "complete",
                        "contents": [{ "uri": message["params"]["uri"], "text": format!("for {user}") }] }),
                };
                let body = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }).to_string();
                let length = body.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n");
                if responses.len() == 2 {
                    stream.write_all(String::as_bytes(&responses[1])).await.unwrap_or_default();
                }
                responses.push(head + &body);
                stream.write_all(responses[responses.len() - 1].as_bytes()).await.unwrap_or_default();
            }
        });
    }
}

/// Receives a request by hand. Returns its user and its message.
async fn receive(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let (mut user, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("authorization", value)) => user = value.trim_start_matches("Bearer ").to_owned(),
            Some(("content-length", value)) => length = value.parse().ok()?,
            Some(_) => {}
            None if line == "\r\n" => break,
            None => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((user, serde_json::from_slice(&body).ok()?))
}

#[tokio::test]
async fn a_response_too_many_fails_one_request_and_reaches_no_other_identity() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let _server = AbortOnDropHandle::new(tokio::spawn(serve_with_repetitions(listener)));
    let up = start_at(&url).await;
    let mut failed = Vec::new();
    for turn in 0..8 {
        for (caller, expected) in [(ada(), "for a"), (bob(), "for o")] {
            match as_caller(&caller, text(&up, "x:both")).await {
                Ok(text) => assert_eq!(text, expected),
                Err(_) => failed.push((turn, expected)),
            }
        }
    }
    // Each connection serves two requests, and the third one finds the repetition. Then there is another connection.
    let expected: Vec<_> = [2, 5].into_iter().flat_map(|turn| [(turn, "for a"), (turn, "for o")]).collect();
    assert_eq!(failed, expected);
}

fn paths(page: &Page) -> Vec<String> {
    page.entries.iter().map(|entry| format!("{} {}", entry.path, entry.name)).collect()
}

async fn text(up: &Arc<dyn Provider>, path: &str) -> Result<String, Failure> {
    match up.read(path).await?.remove(0).body {
        Body::Text(text) => Ok(text),
        body => panic!("{body:?} is no text"),
    }
}

#[tokio::test]
async fn the_requests_of_two_identities_have_different_ids() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    for caller in [ada(), bob()] {
        as_caller(&caller, async {
            for _ in 0..10 {
                assert!(text(&up, "x:both").await.is_ok());
            }
        })
        .await;
    }
    let ids = server.ids_of("resources/read");
    let of = |user: &str| ids.iter().filter(|(by, _)| by == user).map(|(_, id)| *id).collect::<Vec<_>>();
    let (ada, bob) = (of("Bearer a"), of("Bearer o"));
    assert!(ada.len() == 10 && bob.len() == 10, "{ids:?}");
    assert!(ada.iter().all(|id| !bob.contains(id)), "{ids:?}");
    assert!(ids.iter().all(|(_, id)| *id < 1 << 53), "JavaScript represents them: {ids:?}");
}

#[tokio::test]
async fn each_identity_sees_its_own_content() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    for (caller, user) in [(ada(), "a"), (bob(), "o"), (ada(), "a")] {
        let first = as_caller(&caller, up.list(None, None, 100)).await.unwrap();
        assert_eq!(paths(&first), [format!("x:both both of {user}")]);
        let second = as_caller(&caller, up.list(None, first.next_cursor.as_deref(), 100)).await.unwrap();
        assert_eq!(paths(&second), [format!("x:{user} {user} of {user}")]);
        assert_eq!(as_caller(&caller, text(&up, "x:both")).await.unwrap(), format!("for {user}"));
        // What was listed is known to the identity that listed it.
        let stat = as_caller(&caller, up.stat("x:both")).await.unwrap();
        assert_eq!((stat.name, stat.ttl, stat.subscribable), (format!("both of {user}"), None, false));
        let templates = as_caller(&caller, up.templates()).await.unwrap();
        assert_eq!(templates[0].name, user);
    }
    assert!(as_caller(&ada(), text(&up, "x:o")).await.is_err());
    assert!(as_caller(&bob(), text(&up, "x:a")).await.is_err());
    // The server has no subscriptions, and is not polled.
    assert!(!up.describe().watches);
}

/// A server that notifies of changes, in the revision with sessions or without.
struct Notifying {
    server: Server,
    /// The event streams of each user. All connections without a token belong to the user without a name.
    streams: Arc<Mutex<HashMap<String, Vec<UnboundedSender<String>>>>>,
}

impl Notifying {
    async fn start(is_stateless: bool) -> Self {
        let streams = Arc::<Mutex<HashMap<String, Vec<UnboundedSender<String>>>>>::default();
        let opened = streams.clone();
        let open = move |user: &str, first: Option<String>| {
            let (sender, mut receiver) = unbounded_channel::<String>();
            first.into_iter().for_each(|line| sender.send(line).unwrap());
            opened.lock().entry(user.to_owned()).or_default().push(sender);
            let lines = stream::poll_fn(move |context| receiver.poll_recv(context));
            let events = lines.map(|line| Ok::<_, Infallible>(format!("data: {line}\n\n")));
            let response = Response::builder().header("content-type", "text/event-stream");
            response.body(axum::body::Body::from_stream(events)).unwrap()
        };
        let server = Server::start_for_users(move |user, method, message| {
            let called = message["method"].as_str().unwrap_or_default();
            let resources = json!({ "subscribe": true, "listChanged": true });
            match (called, is_stateless) {
                ("", _) if *method == Method::GET => open(user, None),
                ("", _) => status(200, ""),
                ("server/discover", true) => json(message, discovered(resources)),
                ("server/discover", false) => status(400, "no valid session"),
                ("initialize", _) => json(
                    message,
                    json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": resources },
                        "serverInfo": { "name": "notifying", "version": "1" } }),
                ),
                ("resources/subscribe" | "resources/unsubscribe", _) => json(message, json!({})),
                ("resources/read", _) => {
                    json(message, json!({ "contents": [{ "uri": message["params"]["uri"], "text": user }] }))
                }
                ("subscriptions/listen", _) => open(user, Some(acknowledged(message).to_string())),
                _ => status(202, ""),
            }
        });
        Self { server: server.await, streams }
    }

    /// Notifies a user of a change, by each id that its stream may have.
    fn notify(&self, user: &str, uri: &str) {
        self.send(user, "notifications/resources/updated", json!({ "uri": uri }));
    }

    /// Notifies a user of a change of the listing, in the same way.
    fn notify_of_listing(&self, user: &str) {
        self.send(user, "notifications/resources/list_changed", json!({}));
    }

    fn send(&self, user: &str, method: &str, mut params: Value) {
        let streams = self.streams.lock();
        for id in 0..10 {
            params["_meta"] = json!({ "io.modelcontextprotocol/subscriptionId": id });
            let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
            // One that the client has closed receives nothing.
            streams.get(user).into_iter().flatten().for_each(|stream| drop(stream.send(line.to_string())));
        }
    }

    async fn wait_for_streams(&self, users: [&str; 2]) {
        wait_for(async || users.iter().all(|user| self.streams.lock().contains_key(*user))).await;
    }

    fn called(&self, method: &str) -> Vec<String> {
        self.server.users_of(method)
    }
}

#[tokio::test]
async fn each_identity_has_its_own_subscriptions_and_updates() {
    for is_stateless in [false, true] {
        let world = Notifying::start(is_stateless).await;
        let up = start(&world.server).await;
        assert!(up.describe().watches && up.describe().views == 3);
        let (both, mut tokens) = (vec!["x:1".to_owned(), "x:2".to_owned()], Vec::new());
        assert_eq!(up.identity(&Caller::new(Some("mallory"), [])), None);
        assert_ne!(up.identity(&ada()), up.identity(&bob()));
        for (caller, watched) in [(ada(), &both), (bob(), &both[1..].to_vec())] {
            assert!(as_caller(&caller, up.stat("x:1")).await.unwrap().subscribable);
            tokens.push(as_caller(&caller, up.changes(watched, None)).await.unwrap().token);
        }
        let method = if is_stateless { "subscriptions/listen" } else { "resources/subscribe" };
        for user in ["Bearer a", "Bearer o"] {
            assert!(world.called(method).iter().any(|of| of == user), "{method} as {user}");
        }
        wait_for(async || world.streams.lock().len() >= 2).await;
        let changed = async |caller: Caller, index: usize, watched: &[String]| {
            as_caller(&caller, up.changes(watched, Some(&tokens[index]))).await.unwrap().changed
        };
        world.notify("Bearer a", "x:2");
        as_caller(&ada(), up.changed()).await;
        wait_for(async || changed(ada(), 0, &both).await == ["x:2"]).await;
        assert!(changed(bob(), 1, &both[1..]).await.is_empty());
        // An update of a resource that no subscriber with this identity watches.
        world.notify("Bearer o", "x:1");
        world.notify("Bearer o", "x:2");
        wait_for(async || changed(bob(), 1, &both[1..]).await == ["x:2"]).await;
        assert_eq!(changed(ada(), 0, &both).await, ["x:2"]);
        // When no subscriber has bob's identity any more, his subscription is cancelled.
        up.end_view(&up.identity(&bob()).unwrap());
        if !is_stateless {
            wait_for(async || world.called("resources/unsubscribe") == ["Bearer o"]).await;
        }
        assert_eq!(changed(ada(), 0, &both).await, ["x:2"]);
    }
}

#[tokio::test]
async fn each_identity_has_its_own_changes_of_the_listing() {
    for is_stateless in [false, true] {
        let world = Notifying::start(is_stateless).await;
        let up = start(&world.server).await;
        let mut tokens = Vec::new();
        for caller in [ada(), bob()] {
            assert!(up.reports_listing(&up.identity(&caller).unwrap()));
            tokens.push(as_caller(&caller, up.changes(&[], None)).await.unwrap().token);
        }
        world.wait_for_streams(["Bearer a", "Bearer o"]).await;
        let has_changed = async |caller: Caller, index: usize| {
            as_caller(&caller, up.changes(&[], Some(&tokens[index]))).await.unwrap().listing_changed
        };
        assert!(!has_changed(ada(), 0).await && !has_changed(bob(), 1).await);
        world.notify_of_listing("Bearer a");
        as_caller(&ada(), up.changed()).await;
        wait_for(async || has_changed(ada(), 0).await).await;
        assert!(!has_changed(bob(), 1).await);
        world.notify_of_listing("Bearer o");
        wait_for(async || has_changed(bob(), 1).await).await;
    }
}

#[tokio::test]
async fn a_cursor_of_another_identity_is_none() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let cursor = as_caller(&ada(), up.list(None, None, 100)).await.unwrap().next_cursor;
    let foreign = as_caller(&bob(), up.list(None, cursor.as_deref(), 100)).await;
    assert!(matches!(foreign, Err(Failure::InvalidRequest(_))), "{foreign:?}");
}

#[tokio::test]
async fn who_has_no_token_and_the_host_itself_see_nothing_and_nothing_is_sent_for_them() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let before = server.users().len();
    let nobody = Caller::new(Some("mallory"), ["ada"]);
    for caller in [Some(nobody), Some(Caller::new(None, [])), None] {
        let looking = async {
            assert_eq!(up.list(None, None, 100).await, Ok(Page::last([])));
            assert_eq!(up.templates().await, Ok(Vec::new()));
            assert_eq!(text(&up, "x:both").await, Err(Failure::NotFound));
            assert_eq!(up.stat("x:a").await, Err(Failure::NotFound));
        };
        Caller::scope(caller, looking).await;
    }
    assert_eq!(server.users().len(), before);
}

#[tokio::test]
async fn an_identity_whose_token_is_refused_fails_alone() {
    let server = Server::start_for_users(answer).await;
    let up = start(&server).await;
    let eve = Caller::new(Some("eve"), []);
    assert!(matches!(as_caller(&eve, text(&up, "x:both")).await, Err(Failure::Unavailable { .. })));
    assert_eq!(as_caller(&ada(), text(&up, "x:both")).await.unwrap(), "for a");
}

/// An upstream with a client for each principal.
async fn start_with_views(server: &Server) -> Arc<dyn Provider> {
    let keys = format!("[[upstream]]\nname = 'up'\nurl = '{}'\nmount = 'up+'\nviews = 'principal'", server.url());
    let config = Config::parse_in(&keys, Path::new("/etc/mcp-host.toml"), &Environment::empty()).unwrap();
    mcp_host_upstream::connect(&config.plugins[0]).await.unwrap()
}

/// Reads as one of many other principals.
async fn read_as_other(up: &Arc<dyn Provider>, number: usize) {
    let other = Caller::new(Some(&format!("other-{number}")), []);
    assert_eq!(as_caller(&other, text(up, "x:1")).await, Ok(String::new()));
}

#[tokio::test]
async fn a_client_with_subscribers_is_kept_however_many_others_come() {
    let world = Notifying::start(false).await;
    let up = start_with_views(&world.server).await;
    assert_eq!(up.describe().views, 128);
    let watched = vec!["x:1".to_owned()];
    // The subscription may begin later than the first call, which everything is notified for once.
    let mut start = as_caller(&ada(), up.changes(&watched, None)).await.unwrap().token;
    loop {
        let changes = as_caller(&ada(), up.changes(&watched, Some(&start))).await.unwrap();
        start = changes.token;
        if changes.changed.is_empty() && world.server.count("resources/subscribe") > 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let crowd = async || {
        for number in 0..300 {
            read_as_other(&up, number).await;
        }
    };
    crowd().await;
    let changes = as_caller(&ada(), up.changes(&watched, Some(&start))).await.unwrap();
    assert!(changes.changed.is_empty(), "it is the same client");
    up.end_view(&up.identity(&ada()).unwrap());
    crowd().await;
    let changes = as_caller(&ada(), up.changes(&watched, Some(&start))).await.unwrap();
    assert_eq!(changes.changed, watched, "it is another client");
}

#[tokio::test]
async fn the_listing_is_watched_for_clients_that_exist_and_is_no_use_of_them() {
    let world = Notifying::start(false).await;
    let up = start_with_views(&world.server).await;
    let identity = up.identity(&ada()).unwrap();
    let poll = async |token: Option<&str>| as_caller(&ada(), up.changes(&[], token)).await.unwrap();
    assert!(!up.reports_listing(&identity));
    let before = poll(None).await.token;
    assert!(!up.reports_listing(&identity), "a poll creates no client");
    assert_eq!(as_caller(&ada(), text(&up, "x:1")).await, Ok(String::new()));
    up.identities_changed().await;
    assert!(up.reports_listing(&identity));
    // There was no client, so it is not known what has changed since then.
    assert!(poll(Some(before.as_str())).await.listing_changed);
    let start = poll(None).await.token;
    assert!(!poll(Some(start.as_str())).await.listing_changed);
    for number in 0..300 {
        read_as_other(&up, number).await;
        poll(Some(start.as_str())).await;
    }
    assert!(!up.reports_listing(&identity), "it was the least recently used one");
    assert!(!poll(Some(start.as_str())).await.listing_changed, "nothing is known any more");
    // With a subscriber it is kept, and without one not.
    as_caller(&ada(), up.changes(&["x:1".to_owned()], None)).await.unwrap();
    for number in 0..300 {
        read_as_other(&up, number).await;
    }
    assert!(up.reports_listing(&identity));
    up.end_subscriptions(&identity);
    for number in 0..300 {
        read_as_other(&up, number).await;
    }
    assert!(!up.reports_listing(&identity));
}
