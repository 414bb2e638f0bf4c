//! An upstream with sessions whose resources differ by user, and that notifies each session separately.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use mcp_host_tests::{EventSource, MockOrigin, RecordedRequest, Reply, wait_until};
use serde_json::{Value, json};

/// The server, at `/mcp`. The user of a token is its text before the first `-`. Each user lists `x:both` and what a
/// test adds, and may read any URI.
pub(crate) struct UserServer {
    origin: MockOrigin,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// Whether it notifies of changes.
    notifies: bool,
    /// By their ids.
    sessions: BTreeMap<String, Session>,
    /// The version of each user's content.
    versions: HashMap<String, u32>,
    /// The names of what was added to each user's listing.
    listings: HashMap<String, Vec<String>>,
    /// The tokens that it answers with 401.
    refused: HashSet<String>,
}

struct Session {
    user: String,
    events: EventSource,
    /// The URIs that were read.
    read: BTreeSet<String>,
    /// The URIs that are subscribed to.
    subscribed: BTreeSet<String>,
}

impl Session {
    fn notify(&self, method: &str, params: &Value) {
        self.events.send(json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    fn notify_of_update(&self, uri: &str) {
        if self.subscribed.contains(uri) {
            self.notify("notifications/resources/updated", &json!({ "uri": uri }));
        }
    }

    fn notify_of_listing(&self) {
        self.notify("notifications/resources/list_changed", &json!({}));
    }
}

impl UserServer {
    /// Starts a server that notifies of changes, or does not.
    pub(crate) async fn start(notifies: bool) -> Self {
        let (origin, state) = (MockOrigin::http().await, Arc::new(Mutex::new(State { notifies, ..State::default() })));
        let shared = state.clone();
        origin.serve_with("/mcp", move |request| shared.lock().unwrap().answer(request));
        Self { origin, state }
    }

    /// Its web server.
    pub(crate) fn origin(&self) -> &MockOrigin {
        &self.origin
    }

    /// The URL of its endpoint.
    pub(crate) fn url(&self) -> String {
        self.origin.url("/mcp")
    }

    /// Changes the content of a user's resources, and notifies the sessions of the user that have subscribed to
    /// `x:both`.
    pub(crate) fn edit(&self, user: &str) {
        let mut state = self.state();
        *state.versions.entry(user.to_owned()).or_default() += 1;
        state.sessions_of(user).for_each(|session| session.notify_of_update("x:both"));
    }

    /// Adds a resource to the listing of a user, and notifies the sessions of the user.
    pub(crate) fn add(&self, user: &str, name: &str) {
        let mut state = self.state();
        state.listings.entry(user.to_owned()).or_default().push(name.to_owned());
        if state.notifies {
            state.sessions_of(user).for_each(Session::notify_of_listing);
        }
    }

    /// Notifies the sessions that have subscribed to a URI of an update.
    pub(crate) fn update(&self, uri: &str) {
        self.state().sessions.values().for_each(|session| session.notify_of_update(uri));
    }

    /// Adds a resource to the listing of the users who have read a URI, and notifies the sessions in which they have.
    pub(crate) fn add_where_read(&self, uri: &str) {
        let mut state = self.state();
        let State { sessions, listings, .. } = &mut *state;
        for session in sessions.values().filter(|session| session.read.contains(uri)) {
            let names = listings.entry(session.user.clone()).or_default();
            names.push(format!("added-{}", names.len()));
            session.notify_of_listing();
        }
    }

    /// Refuses a token from now on.
    pub(crate) fn refuse(&self, token: &str) {
        self.state().refused.insert(token.to_owned());
    }

    /// The number of its sessions so far.
    pub(crate) fn session_count(&self) -> usize {
        self.state().sessions.len()
    }

    /// Waits until a session of a user has subscribed to a URI.
    pub(crate) async fn wait_until_subscribed(&self, user: &str, uri: &str) {
        let is_subscribed = || self.state().sessions_of(user).any(|session| session.subscribed.contains(uri));
        wait_until(&format!("{user} subscribes to {uri}"), is_subscribed).await;
    }

    /// The tokens of the requests so far.
    pub(crate) fn tokens(&self) -> Vec<String> {
        self.origin.requests().iter().filter(|request| request.path == "/mcp").map(token).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The bearer token of a request; empty without one.
fn token(request: &RecordedRequest) -> String {
    request.header("authorization").unwrap_or_default().trim_start_matches("Bearer ").to_owned()
}

impl State {
    fn sessions_of(&self, user: &str) -> impl Iterator<Item = &Session> {
        self.sessions.values().filter(move |session| session.user == user)
    }

    fn answer(&mut self, request: &RecordedRequest) -> Reply {
        let token = token(request);
        if self.refused.contains(&token) {
            return Reply::status(401);
        }
        let user = token.split('-').next().unwrap_or_default().to_owned();
        let session = request.header("mcp-session-id").map(str::to_owned);
        match (request.method.as_str(), session) {
            ("POST", session) => self.answer_message(request, &user, session),
            ("GET", Some(id)) => match self.sessions.get(&id) {
                Some(session) if self.notifies => Reply::events(&session.events),
                Some(_) => Reply::status(405),
                None => Reply::status(404),
            },
            _ => Reply::status(200),
        }
    }

    fn answer_message(&mut self, request: &RecordedRequest, user: &str, session: Option<String>) -> Reply {
        let message: Value = serde_json::from_slice(&request.body).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if method == "initialize" {
            let id = format!("session-{}", self.sessions.len());
            let (user, events) = (user.to_owned(), EventSource::new());
            let new = Session { user, events, read: BTreeSet::new(), subscribed: BTreeSet::new() };
            self.sessions.insert(id.clone(), new);
            let capabilities = json!({ "subscribe": self.notifies, "listChanged": self.notifies });
            let result = json!({ "protocolVersion": "2025-06-18", "capabilities": { "resources": capabilities },
                "serverInfo": { "name": "users", "version": "1" } });
            return reply(&message, &id, &result);
        }
        let Some(id) = session else { return Reply::status(400) };
        let uri = message["params"]["uri"].as_str().unwrap_or_default().to_owned();
        let names = self.listings.get(user).cloned().unwrap_or_default();
        let version = self.versions.get(user).copied().unwrap_or_default();
        let Some(session) = self.sessions.get_mut(&id) else { return Reply::status(404) };
        let result = match method {
            "resources/list" => {
                let names = ["both".to_owned()].into_iter().chain(names);
                let resources: Vec<_> = names.map(|name| json!({ "uri": format!("x:{name}"), "name": name })).collect();
                json!({ "resources": resources })
            }
            "resources/templates/list" => json!({ "resourceTemplates": [] }),
            "resources/read" => {
                session.read.insert(uri.clone());
                json!({ "contents": [{ "uri": uri, "text": format!("{version} of {user}") }] })
            }
            "resources/subscribe" => {
                session.subscribed.insert(uri);
                json!({})
            }
            "resources/unsubscribe" => {
                session.subscribed.remove(&uri);
                json!({})
            }
            "ping" => json!({}),
            method if method.starts_with("notifications/") => return Reply::status(202),
            _ => return Reply::status(400),
        };
        reply(&message, &id, &result)
    }
}

fn reply(message: &Value, session: &str, result: &Value) -> Reply {
    let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
    Reply::ok("application/json", answer.to_string()).header("mcp-session-id", session)
}
