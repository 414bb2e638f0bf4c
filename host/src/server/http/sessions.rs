//! Sessions from their beginning to their end, in order: when the client deletes them, when nothing has been in flight for
//! [too long](crate::config::http::HttpServerLimits::session_idle_timeout), when there are [too
//! many](crate::config::http::HttpServerLimits::sessions), or with the server.
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

use super::client_limiter::{ClientLimiter, ClientLimits, ClientPermit, LimitReached};
use super::guarded_body::GuardedBody;
use super::{SESSION_ID_HEADER, unavailable};
use crate::host::Host;
use crate::log_target;
use crate::server::budget::Account;
use crate::server::client::{Client, ClientCell};
use crate::server::client_id::ClientId;

/// The longest that passes until it is looked whether a session is idle: the config may have changed.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// What rmcp says of a session that is none.
const SESSION_NOT_FOUND: &str = "Not Found: Session not found";

/// All sessions of a server.
pub(super) struct Sessions {
    host: Arc<Host>,
    manager: Arc<LocalSessionManager>,
    by_id: Mutex<HashMap<String, SessionState>>,
    /// How many each client has.
    limiter: ClientLimiter,
}

/// How a session is.
struct SessionState {
    client: ClientCell,
    permit: ClientPermit,
    /// Requests and streams of it.
    in_flight: usize,
    /// Since when that is as it is.
    idle_since: Instant,
}

/// A request or a stream of a session, until it is dropped.
pub(super) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: String,
    client: ClientCell,
}

impl Sessions {
    pub(super) fn new(host: Arc<Host>) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        Self { host, manager: Arc::new(manager), by_id: Mutex::default(), limiter: ClientLimiter::default() }
    }

    /// What rmcp keeps them in.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Ends sessions that are idle for too long. Goes on until it is dropped.
    pub(super) async fn close_idle(&self) {
        loop {
            let most = self.host.config().http.limits.session_idle_timeout.duration();
            for id in self.remove_idle(most) {
                tracing::info!(target: log_target::SERVER, session = id, "session ended: it was idle");
                self.close(&id).await;
            }
            let idle = self.lock().values().filter(|life| life.in_flight == 0).map(|life| life.idle_since).min();
            let first = idle.map_or(most, |since| most.saturating_sub(since.elapsed()));
            sleep(first.min(SWEEP_INTERVAL)).await;
        }
    }

    fn remove_idle(&self, most: Duration) -> Vec<String> {
        let is_idle = |life: &SessionState| life.in_flight == 0 && life.idle_since.elapsed() >= most;
        self.lock().extract_if(|_, life| is_idle(life)).map(|(id, _)| id).collect()
    }

    async fn close(&self, id: &str) {
        if let Err(error) = self.manager.close_session(&id.into()).await {
            tracing::debug!(target: log_target::SERVER, %error, session = id, "closing a session failed");
        }
    }

    /// Begins a session of that client, and names the one that has to make room for it: one of its own, if it has its share.
    fn insert(
        self: &Arc<Self>,
        id: &str,
        client: ClientId,
        opening: ClientCell,
    ) -> Result<(SessionGuard, Option<String>), LimitReached> {
        let limits = &self.host.config().http.limits;
        let max = ClientLimits::new(limits.sessions.get(), limits.client_share);
        let mut all = self.lock();
        let (of_client, ended) = match self.limiter.acquire(client, max) {
            Ok(of_client) => (of_client, None),
            Err(exhausted) => {
                let may_end = |life: &SessionState| {
                    life.in_flight == 0 && (exhausted == LimitReached::Overall || life.permit.client() == client)
                };
                let idle = all.iter().filter(|(_, life)| may_end(life)).min_by_key(|(_, life)| life.idle_since);
                let ended = idle.map(|(id, _)| id.clone()).ok_or(exhausted)?;
                all.remove(&ended);
                (self.limiter.acquire(client, max)?, Some(ended))
            }
        };
        let life =
            SessionState { client: opening.clone(), permit: of_client, in_flight: 1, idle_since: Instant::now() };
        all.insert(id.to_owned(), life);
        Ok((SessionGuard { sessions: self.clone(), id: id.to_owned(), client: opening }, ended))
    }

    /// Uses a session, if there is one of that id.
    pub(super) fn acquire(self: &Arc<Self>, id: &str) -> Option<SessionGuard> {
        let mut all = self.lock();
        let life = all.get_mut(id)?;
        life.in_flight = life.in_flight.saturating_add(1);
        Some(SessionGuard { sessions: self.clone(), id: id.to_owned(), client: life.client.clone() })
    }

    /// Has a request answered, and follows the session that it is of, begins or ends.
    pub(super) async fn track(
        self: &Arc<Self>,
        mut request: Request,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        let Some(id) = session_id(request.headers()) else {
            let opening = ClientCell::default();
            let client = request.extensions().get().map_or(ClientId::Local, |account: &Arc<Account>| account.client());
            request.extensions_mut().insert(opening.clone());
            let response = answer(request).await;
            return match session_id(response.headers()) {
                Some(id) => self.register(&id, client, opening, response).await,
                None => response,
            };
        };
        let used = self.acquire(&id);
        let is_end = request.method() == Method::DELETE;
        let response = answer(request).await;
        match response.status() {
            status if is_end && status.is_success() => {
                self.lock().remove(&id);
                StatusCode::NO_CONTENT.into_response()
            }
            // rmcp had found the session, and then had none to give the message to.
            StatusCode::INTERNAL_SERVER_ERROR if !self.exists(&id).await => {
                (StatusCode::NOT_FOUND, SESSION_NOT_FOUND).into_response()
            }
            _ => response.map(|body| GuardedBody::wrap(body, used)),
        }
    }

    async fn exists(&self, id: &str) -> bool {
        self.manager.has_session(&id.into()).await.unwrap_or(false)
    }

    async fn register(
        self: &Arc<Self>,
        id: &str,
        client: ClientId,
        opening: ClientCell,
        response: Response,
    ) -> Response {
        match self.insert(id, client, opening) {
            Ok((used, ended)) => {
                if let Some(ended) = ended {
                    tracing::info!(
                        target: log_target::SERVER, session = ended,
                        "session ended: there are as many as `http.limits.sessions` allows"
                    );
                    self.close(&ended).await;
                }
                response.map(|body| GuardedBody::wrap(body, used))
            }
            Err(_exhausted) => {
                self.close(id).await;
                unavailable("all sessions that there may be are in use\n")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionState>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SessionGuard {
    /// The client of the session.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.get()
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(life) = self.sessions.lock().get_mut(&self.id) {
            life.in_flight = life.in_flight.saturating_sub(1);
            life.idle_since = Instant::now();
        }
    }
}

fn session_id(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION_ID_HEADER).and_then(|id| id.to_str().ok()).map(str::to_owned)
}
