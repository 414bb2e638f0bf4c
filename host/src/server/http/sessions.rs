//! The lifecycle of sessions. A session ends when its client deletes it, when it has been idle for [too
//! long](crate::config::http::HttpServerLimits::session_idle_timeout), when there are [too
//! many](crate::config::http::HttpServerLimits::sessions), or with the server.
//!
//! A session is bound to the principal that opened it: for other principals it does not exist. If the same principal comes back with
//! other groups, as with a renewed access token, its subscriptions get these, and its event stream ends: what a stream delivers is what
//! the token may see that opened it. The same holds for a token that has the scopes of a subscription where the one before had not, or
//! the other way round: a stream that was opened without them never delivers what was subscribed to with them.
//!
//! An open event stream counts as a request in flight, so a client that only waits for notifications is never idle.
//! (rmcp counts messages, and would end the session.)

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;

use super::authentication::Authenticated;
use super::caller::Caller;
use super::client_limiter::{ClientLimiter, ClientPermit, LimitReached, client_limits};
use super::guarded_body::GuardedBody;
use super::unavailable;
use crate::access::Principal;
use crate::audit::SessionHash;
use crate::config::Operation;
use crate::host::Host;
use crate::log_target;
use crate::server::SESSION_ID_HEADER;
use crate::server::client::{Client, ClientCell};
use crate::server::in_flight::InFlight;

/// The maximum interval between two sweeps for idle sessions: a reload may have changed the timeout.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// The header by which a client resumes an event stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// rmcp's answer to a request of an unknown session.
const SESSION_NOT_FOUND: &str = "Not Found: Session not found";

/// All sessions of a server.
pub(super) struct Sessions {
    host: Arc<Host>,
    manager: Arc<LocalSessionManager>,
    by_id: Mutex<HashMap<String, SessionState>>,
    /// The number of sessions of each client.
    limiter: ClientLimiter,
    /// The task that ends idle sessions, started with the first session.
    reaper: OnceLock<AbortOnDropHandle<()>>,
}

/// The state of a session.
struct SessionState {
    /// The hash of its id, for the audit log.
    hash: SessionHash,
    /// The principal that opened it, with the groups of its last request.
    principal: watch::Sender<Principal>,
    /// Whether the token of its last request had the scopes of a subscription.
    may_subscribe: bool,
    /// Whether its groups, or these scopes, have been others before.
    has_changed: bool,
    client: ClientCell,
    permit: ClientPermit,
    in_flight: InFlight,
    /// The number of requests and event streams in flight.
    active: usize,
    /// The time of the last change of `active`.
    idle_since: Instant,
}

/// A request or an event stream of a session, until it is dropped.
pub(super) struct SessionGuard {
    sessions: Arc<Sessions>,
    id: String,
    hash: SessionHash,
    client: ClientCell,
    in_flight: InFlight,
    /// The principal of the session, from this request on.
    principal: watch::Receiver<Principal>,
    /// Whether the groups of the session have been others before.
    has_changed: bool,
}

impl Sessions {
    pub(super) fn new(host: Arc<Host>) -> Self {
        let mut manager = LocalSessionManager::default();
        manager.session_config.keep_alive = None;
        Self {
            host,
            manager: Arc::new(manager),
            by_id: Mutex::default(),
            limiter: ClientLimiter::default(),
            reaper: OnceLock::new(),
        }
    }

    /// rmcp's side of the sessions.
    pub(super) fn manager(&self) -> Arc<LocalSessionManager> {
        self.manager.clone()
    }

    /// Returns whether a session with this id exists and was opened by this principal.
    pub(super) fn belongs_to(&self, id: &str, principal: &Principal) -> bool {
        self.lock().get(id).is_some_and(|session| session.principal.borrow().is_same_identity(principal))
    }

    /// Ends sessions that have been idle for too long, as long as there is a server.
    async fn close_idle(all: Weak<Self>) {
        while let Some(sessions) = all.upgrade() {
            let limit = sessions.host.config().http.limits.session_idle_timeout.duration();
            for id in sessions.remove_idle(limit) {
                tracing::info!(target: log_target::SERVER, session = id, "session ended: it was idle");
                sessions.close(&id).await;
            }
            let idle = sessions.lock().values().filter(|session| session.active == 0).map(|one| one.idle_since).min();
            drop(sessions);
            let next = idle.map_or(limit, |since| limit.saturating_sub(since.elapsed()));
            sleep(next.min(SWEEP_INTERVAL)).await;
        }
    }

    fn remove_idle(&self, limit: Duration) -> Vec<String> {
        let is_idle = |session: &SessionState| session.active == 0 && session.idle_since.elapsed() >= limit;
        self.lock().extract_if(|_, session| is_idle(session)).map(|(id, _)| id).collect()
    }

    async fn close(&self, id: &str) {
        if let Err(error) = self.manager.close_session(&id.into()).await {
            tracing::debug!(target: log_target::SERVER, %error, session = id, "closing a session failed");
        }
    }

    /// Registers a session. If the limit is reached, it removes the session that has been idle for longest, and returns
    /// its id: one of the same client, if the client has reached its share.
    fn insert(
        self: &Arc<Self>,
        id: &str,
        caller: &Caller,
        client: ClientCell,
    ) -> Result<(SessionGuard, Option<String>), LimitReached> {
        let limits = &self.host.config().http.limits;
        let client_id = caller.account.client();
        let max = client_limits(limits.sessions.get(), client_id, limits);
        let mut all = self.lock();
        let (permit, evicted) = match self.limiter.acquire(client_id, max) {
            Ok(permit) => (permit, None),
            Err(reached) => {
                let is_candidate = |session: &SessionState| {
                    session.active == 0 && (reached == LimitReached::Overall || session.permit.client() == client_id)
                };
                let idle =
                    all.iter().filter(|(_, session)| is_candidate(session)).min_by_key(|(_, one)| one.idle_since);
                let evicted = idle.map(|(id, _)| id.clone()).ok_or(reached)?;
                all.remove(&evicted);
                (self.limiter.acquire(client_id, max)?, Some(evicted))
            }
        };
        let (in_flight, hash) = (InFlight::default(), SessionHash::new(id));
        let (principal, seen) = watch::channel(caller.principal().clone());
        let session = SessionState {
            hash,
            principal,
            may_subscribe: may_subscribe(&caller.authenticated),
            has_changed: false,
            client: client.clone(),
            permit,
            in_flight: in_flight.clone(),
            active: 1,
            idle_since: Instant::now(),
        };
        all.insert(id.to_owned(), session);
        let guard = SessionGuard {
            sessions: self.clone(),
            id: id.to_owned(),
            hash,
            client,
            in_flight,
            principal: seen,
            has_changed: false,
        };
        Ok((guard, evicted))
    }

    /// Acquires the session with this id, if this principal has it. The groups of the principal are from now on those of the session.
    pub(super) fn acquire(self: &Arc<Self>, id: &str, authenticated: &Authenticated) -> Option<SessionGuard> {
        let principal = &authenticated.principal;
        let mut all = self.lock();
        let session = all.get_mut(id).filter(|session| session.principal.borrow().is_same_identity(principal))?;
        session.active = session.active.saturating_add(1);
        let may_subscribe = may_subscribe(authenticated);
        let has_other_scopes = std::mem::replace(&mut session.may_subscribe, may_subscribe) != may_subscribe;
        let is_another = session.principal.send_if_modified(|current| {
            let is_another = *current != *principal;
            if is_another {
                current.clone_from(principal);
            }
            is_another || has_other_scopes
        });
        session.has_changed |= is_another;
        if let Some(client) = session.client.get() {
            client.set_principal(principal, authenticated.expires());
        }
        let (client, in_flight, hash) = (session.client.clone(), session.in_flight.clone(), session.hash);
        let (principal, has_changed) = (session.principal.subscribe(), session.has_changed);
        Some(SessionGuard {
            sessions: self.clone(),
            id: id.to_owned(),
            hash,
            client,
            in_flight,
            principal,
            has_changed,
        })
    }

    /// Returns whether the session with this id has subscriptions to resources.
    pub(super) fn has_subscriptions(&self, id: &str) -> bool {
        let client = self.lock().get(id).map(|session| session.client.clone());
        client.is_some_and(|client| client.get().is_some_and(|client| client.subscriptions.has_resources()))
    }

    /// Answers a request, and tracks the session that it belongs to, opens or ends.
    pub(super) async fn track(
        self: &Arc<Self>,
        mut request: Request,
        caller: &Caller,
        answer: impl AsyncFnOnce(Request) -> Response,
    ) -> Response {
        let Some(id) = session_id(request.headers()).map(str::to_owned) else {
            let client = ClientCell::default();
            request.extensions_mut().insert(client.clone());
            let response = answer(request).await;
            return match session_id(response.headers()).map(str::to_owned) {
                Some(id) => self.register(&id, caller, client, response).await,
                None => response,
            };
        };
        let session = self.acquire(&id, &caller.authenticated);
        if session.as_ref().is_some_and(|session| session.has_changed) {
            // What was sent before was sent to a principal with other groups.
            request.headers_mut().remove(LAST_EVENT_ID);
        }
        let (is_delete, is_stream) = (request.method() == Method::DELETE, request.method() == Method::GET);
        let response = answer(request).await;
        match response.status() {
            status if is_delete && status.is_success() => match session {
                Some(_) => {
                    self.lock().remove(&id);
                    StatusCode::NO_CONTENT.into_response()
                }
                // rmcp accepts the deletion of an unknown session.
                None => not_found(),
            },
            // rmcp found the session, which was closed before it got the message.
            StatusCode::INTERNAL_SERVER_ERROR if !self.exists(&id).await => not_found(),
            status if is_stream && status.is_success() => {
                let Some(session) = session else { return response };
                let changed = session.until_principal_changes();
                let response =
                    response.map(|body| Body::from_stream(body.into_data_stream().take_until(Box::pin(changed))));
                response.map(|body| GuardedBody::wrap(body, session))
            }
            _ => response.map(|body| GuardedBody::wrap(body, session)),
        }
    }

    async fn exists(&self, id: &str) -> bool {
        self.manager.has_session(&id.into()).await.unwrap_or(false)
    }

    async fn register(self: &Arc<Self>, id: &str, caller: &Caller, client: ClientCell, response: Response) -> Response {
        match self.insert(id, caller, client) {
            Ok((session, evicted)) => {
                let all = Arc::downgrade(self);
                self.reaper.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(Self::close_idle(all))));
                if let Some(evicted) = evicted {
                    tracing::info!(
                        target: log_target::SERVER, session = evicted,
                        "session ended: there are as many as `http.limits.sessions` allows"
                    );
                    self.close(&evicted).await;
                }
                response.map(|body| GuardedBody::wrap(body, session))
            }
            Err(_) => {
                self.close(id).await;
                unavailable("all sessions that there may be are in use\n")
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, SessionState>> {
        self.by_id.lock()
    }
}

impl SessionGuard {
    /// The client of the session; none until `initialize` has been answered.
    pub(super) fn client(&self) -> Option<&Client> {
        self.client.get()
    }

    /// The hash of its id, for the audit log.
    pub(super) fn hash(&self) -> SessionHash {
        self.hash
    }

    /// Waits until a request of the session has other groups, or until the session ends.
    fn until_principal_changes(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut principal = self.principal.clone();
        async move {
            let _ = principal.changed().await;
        }
    }

    /// The requests of the session in flight.
    pub(super) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.lock().get_mut(&self.id) {
            session.active = session.active.saturating_sub(1);
            session.idle_since = Instant::now();
        }
    }
}

/// The session that the headers of a request or response name.
pub(super) fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID_HEADER).and_then(|id| id.to_str().ok())
}

/// Whether the token of a request has the scopes of a subscription.
fn may_subscribe(authenticated: &Authenticated) -> bool {
    authenticated.require_scopes(&[Operation::Subscribe]).is_ok()
}

/// The response to a request of a session that does not exist for its principal: the same as rmcp's, without a type.
pub(super) fn not_found() -> Response {
    (StatusCode::NOT_FOUND, Body::from(SESSION_NOT_FOUND)).into_response()
}
