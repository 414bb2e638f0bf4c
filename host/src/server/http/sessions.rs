//! Sessions from their beginning to their end, in order: when the client deletes them, when nothing has been in flight for
//! [too long](crate::config::HttpServerLimits::session_idle_timeout), when there are [too
//! many](crate::config::HttpServerLimits::sessions), or with the server.
//!
//! A stream of events is in flight as long as it is open, so a client that only waits for notifications is never idle.
//! (rmcp counts messages, and would end it.)

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::time::{Instant, sleep};

use super::guarded::Guarded;
use super::share::{Exhausted, Max, PerClient, Permit};
use super::{SESSION, unavailable};
use crate::host::Host;
use crate::server::budget::Account;
use crate::server::client::{Client, Opening};
use crate::server::client_id::ClientId;

/// The longest that passes until it is looked whether a session is idle: the config may have changed.
const LOOK: Duration = Duration::from_secs(5);

/// What rmcp says of a session that is none.
const NO_SESSION: &str = "Not Found: Session not found";

/// All sessions of a server.
pub(super) struct Sessions {
    host: Arc<Host>,
    manager: Arc<LocalSessionManager>,
    all: Mutex<HashMap<String, Life>>,
    /// How many each client has.
    clients: PerClient,
}

/// How a session is.
struct Life {
    opening: Opening,
    of_client: Permit,
    /// Requests and streams of it.
    in_flight: usize,
    /// Since when that is as it is.
    since: Instant,
}

/// A request or a stream of a session, until it is dropped.
pub(super) struct Use {
    sessions: Arc<Sessions>,
    id: String,
    opening: Opening,
}

impl Sessions {
    pub(super) fn new(host: Arc<Host>) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        Self { host, manager: Arc::new(manager), all: Mutex::default(), clients: PerClient::default() }
    }

    /// What rmcp keeps them in.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Ends sessions that are idle for too long. Goes on until it is dropped.
    pub(super) async fn end_idle(&self) {
        loop {
            let most = self.host.config().http.limits.session_idle_timeout.duration();
            for id in self.take_idle(most) {
                tracing::info!(session = id, "session ended: it was idle");
                self.end(&id).await;
            }
            let idle = self.lock().values().filter(|life| life.in_flight == 0).map(|life| life.since).min();
            let first = idle.map_or(most, |since| most.saturating_sub(since.elapsed()));
            sleep(first.min(LOOK)).await;
        }
    }

    fn take_idle(&self, most: Duration) -> Vec<String> {
        let is_idle = |life: &Life| life.in_flight == 0 && life.since.elapsed() >= most;
        self.lock().extract_if(|_, life| is_idle(life)).map(|(id, _)| id).collect()
    }

    async fn end(&self, id: &str) {
        if let Err(error) = self.manager.close_session(&id.into()).await {
            tracing::debug!(%error, session = id, "closing a session failed");
        }
    }

    /// Begins a session of that client, and names the one that has to make room for it: one of its own, if it has its share.
    fn begin(
        self: &Arc<Self>,
        id: &str,
        client: ClientId,
        opening: Opening,
    ) -> Result<(Use, Option<String>), Exhausted> {
        let limits = &self.host.config().http.limits;
        let max = Max::new(limits.sessions.get(), limits.client_share);
        let mut all = self.lock();
        let (of_client, ended) = match self.clients.acquire(client, max) {
            Ok(of_client) => (of_client, None),
            Err(exhausted) => {
                let may_end = |life: &Life| {
                    life.in_flight == 0 && (exhausted == Exhausted::Overall || life.of_client.client() == client)
                };
                let idle = all.iter().filter(|(_, life)| may_end(life)).min_by_key(|(_, life)| life.since);
                let ended = idle.map(|(id, _)| id.clone()).ok_or(exhausted)?;
                all.remove(&ended);
                (self.clients.acquire(client, max)?, Some(ended))
            }
        };
        let life = Life { opening: opening.clone(), of_client, in_flight: 1, since: Instant::now() };
        all.insert(id.to_owned(), life);
        Ok((Use { sessions: self.clone(), id: id.to_owned(), opening }, ended))
    }

    /// Uses a session, if there is one of that id.
    pub(super) fn using(self: &Arc<Self>, id: &str) -> Option<Use> {
        let mut all = self.lock();
        let life = all.get_mut(id)?;
        life.in_flight = life.in_flight.saturating_add(1);
        Some(Use { sessions: self.clone(), id: id.to_owned(), opening: life.opening.clone() })
    }

    /// Has a request answered, and follows the session that it is of, begins or ends.
    pub(super) async fn follow(
        self: &Arc<Self>,
        mut request: Request,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        let Some(id) = named(request.headers()) else {
            let opening = Opening::default();
            let client = request.extensions().get().map_or(ClientId::Local, |account: &Arc<Account>| account.client());
            request.extensions_mut().insert(opening.clone());
            let response = answer(request).await;
            return match named(response.headers()) {
                Some(id) => self.begun(&id, client, opening, response).await,
                None => response,
            };
        };
        let used = self.using(&id);
        let is_end = request.method() == Method::DELETE;
        let response = answer(request).await;
        match response.status() {
            status if is_end && status.is_success() => {
                self.lock().remove(&id);
                StatusCode::NO_CONTENT.into_response()
            }
            // rmcp had found the session, and then had none to give the message to.
            StatusCode::INTERNAL_SERVER_ERROR if !self.is_open(&id).await => {
                (StatusCode::NOT_FOUND, NO_SESSION).into_response()
            }
            _ => response.map(|body| Guarded::body(body, used)),
        }
    }

    async fn is_open(&self, id: &str) -> bool {
        self.manager.has_session(&id.into()).await.unwrap_or(false)
    }

    async fn begun(self: &Arc<Self>, id: &str, client: ClientId, opening: Opening, response: Response) -> Response {
        match self.begin(id, client, opening) {
            Ok((used, ended)) => {
                if let Some(ended) = ended {
                    tracing::info!(
                        session = ended,
                        "session ended: there are as many as `http.limits.sessions` allows"
                    );
                    self.end(&ended).await;
                }
                response.map(|body| Guarded::body(body, used))
            }
            Err(_exhausted) => {
                self.end(id).await;
                unavailable("all sessions that there may be are in use\n")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Life>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Use {
    /// The client of the session.
    pub(super) fn client(&self) -> Option<&Client> {
        self.opening.client()
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        if let Some(life) = self.sessions.lock().get_mut(&self.id) {
            life.in_flight = life.in_flight.saturating_sub(1);
            life.since = Instant::now();
        }
    }
}

fn named(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned)
}
