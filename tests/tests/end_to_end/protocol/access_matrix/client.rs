//! A client over either transport, and its received notifications.

use std::fmt;
use std::time::{Duration, Instant};

use mcp_host_tests::{HttpServer, RawHttp, RawStdio, Revision, TIMEOUT, WrittenConfig};
use reqwest::Response;
use serde_json::{Value, json};
use tokio::time::timeout;

/// A notification about resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Notification {
    Updated(String),
    Listing,
}

impl Notification {
    pub(super) fn updated(uri: &str) -> Self {
        Self::Updated(uri.to_owned())
    }

    fn from_message(message: &Value) -> Option<Self> {
        match message["method"].as_str()? {
            "notifications/resources/updated" => Some(Self::updated(message["params"]["uri"].as_str()?)),
            "notifications/resources/list_changed" => Some(Self::Listing),
            _ => None,
        }
    }
}

/// The interval at which an awaited change is repeated: a change before the listing is known causes no notification.
const NUDGE_INTERVAL: Duration = Duration::from_millis(500);

/// A client, with its received notifications.
pub(super) struct Client {
    wire: Wire,
    revision: Revision,
}

enum Wire {
    Http { wire: RawHttp, stream: Option<Stream> },
    Stdio { wire: RawStdio, seen: Vec<Notification> },
}

/// A stream of server-sent events.
pub(super) struct Stream {
    response: Response,
    /// The beginning of an event.
    text: String,
    seen: Vec<Notification>,
    is_acknowledged: bool,
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let transport = match self.wire {
            Wire::Http { .. } => "HTTP",
            Wire::Stdio { .. } => "stdio",
        };
        write!(f, "over {transport}, {}", self.revision)
    }
}

impl Client {
    pub(super) async fn over_http(server: &HttpServer, revision: Revision, token: Option<&str>) -> Self {
        let wire = match token {
            Some(token) => RawHttp::start_with_token(server.url(), revision.clone(), token).await,
            None => RawHttp::start(server.url(), revision.clone()).await,
        };
        Self { wire: Wire::Http { wire, stream: None }, revision }
    }

    pub(super) async fn over_stdio(config: &WrittenConfig, revision: Revision) -> Self {
        let wire = RawStdio::start(config, revision.clone()).await;
        Self { wire: Wire::Stdio { wire, seen: Vec::new() }, revision }
    }

    /// Returns the log of the client's server so far, over stdio.
    pub(super) fn log(&self) -> String {
        match &self.wire {
            Wire::Http { .. } => String::new(),
            Wire::Stdio { wire, .. } => wire.log(),
        }
    }

    /// Returns whether subscriptions belong to a session.
    pub(super) fn has_sessions(&self) -> bool {
        self.revision.has_initialize()
    }

    /// Sends a request. Returns its result or its error, without its id.
    pub(super) async fn request(&mut self, method: &str, params: Value) -> Value {
        let mut message = match &mut self.wire {
            Wire::Http { wire, .. } => wire.request(method, params).await.message,
            Wire::Stdio { wire, .. } => wire.request(method, params).await.message,
        };
        message.as_object_mut().unwrap().remove("id");
        message
    }

    /// Returns the text of all pages of a listing.
    pub(super) async fn pages(&mut self, method: &str, items: &str) -> String {
        let (mut text, mut cursor) = (String::new(), Value::Null);
        loop {
            let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
            let page = self.request(method, params).await;
            assert!(page["result"][items].is_array(), "{page}");
            text.push_str(&page.to_string());
            cursor = page["result"]["nextCursor"].clone();
            if cursor.is_null() {
                return text;
            }
        }
    }

    /// Subscribes to these resources, all of which must be acknowledged, and to the listing.
    pub(super) async fn watch(&mut self, uris: &[&str]) {
        let filter = json!({ "notifications": { "resourceSubscriptions": uris, "resourcesListChanged": true } });
        let has_sessions = self.has_sessions();
        match &mut self.wire {
            Wire::Http { wire, stream } => {
                let response = match has_sessions {
                    true => wire.event_stream().await,
                    false => wire.request_builder("subscriptions/listen", filter).send().await.unwrap(),
                };
                let stream = stream.insert(Stream::new(response));
                while !has_sessions && !stream.is_acknowledged {
                    assert!(stream.read().await, "the stream goes on");
                }
            }
            Wire::Stdio { wire, .. } if !has_sessions => {
                wire.send_request("subscriptions/listen", filter).await;
                wire.notification("notifications/subscriptions/acknowledged").await;
            }
            Wire::Stdio { .. } => {}
        }
        for uri in uris.iter().filter(|_| has_sessions) {
            let subscribed = self.request("resources/subscribe", json!({ "uri": uri })).await;
            assert!(subscribed.get("result").is_some(), "{uri}: {subscribed}");
        }
    }

    /// Waits until all expected notifications have arrived. `nudge` causes them.
    pub(super) async fn wait_for(&mut self, expected: &[Notification], nudge: impl Fn()) {
        let began = Instant::now();
        loop {
            let seen = self.seen().to_vec();
            if expected.iter().all(|one| seen.contains(one)) {
                return;
            }
            assert!(began.elapsed() < TIMEOUT, "{self} is not told of {expected:?}, but of {seen:?}");
            if let Ok(goes_on) = timeout(NUDGE_INTERVAL, self.read()).await {
                assert!(goes_on, "the stream goes on");
            } else {
                nudge();
            }
        }
    }

    fn seen(&mut self) -> &[Notification] {
        match &mut self.wire {
            Wire::Http { stream, .. } => stream.as_ref().map_or(&[], |stream| &stream.seen),
            Wire::Stdio { wire, seen } => {
                seen.extend(wire.take_notifications().iter().filter_map(Notification::from_message));
                seen
            }
        }
    }

    /// Reads some messages. Returns whether there were any before the end. Cancel-safe.
    async fn read(&mut self) -> bool {
        match &mut self.wire {
            Wire::Http { stream: Some(stream), .. } => stream.read().await,
            Wire::Http { stream: None, .. } => false,
            Wire::Stdio { wire, seen } => {
                let message = wire.next_message().await;
                seen.extend(message.as_ref().and_then(Notification::from_message));
                message.is_some()
            }
        }
    }

    /// Returns all notifications up to the end of the stream: the server ends, or its standard input is closed.
    pub(super) async fn notifications_to_the_end(mut self) -> Vec<Notification> {
        if let Wire::Stdio { wire, .. } = &mut self.wire {
            wire.close_stdin();
        }
        while timeout(TIMEOUT, self.read()).await.expect("an end in time") {}
        let seen = self.seen().to_vec();
        if let Wire::Stdio { wire, .. } = self.wire {
            wire.wait_clean_exit().await;
        }
        seen
    }
}

impl Stream {
    fn new(response: Response) -> Self {
        Self { response, text: String::new(), seen: Vec::new(), is_acknowledged: false }
    }

    /// Reads some events. Returns whether there were any before the end. Cancel-safe.
    async fn read(&mut self) -> bool {
        let Some(chunk) = self.response.chunk().await.expect("an orderly end") else { return false };
        self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        while let Some((line, rest)) = self.text.split_once('\n') {
            let data = line.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data.trim()).ok());
            self.is_acknowledged |=
                data.as_ref().is_some_and(|message| message["method"] == "notifications/subscriptions/acknowledged");
            self.seen.extend(data.as_ref().and_then(Notification::from_message));
            self.text = rest.to_owned();
        }
        true
    }
}
