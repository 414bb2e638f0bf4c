//! The service that an application mounts in its own HTTP server.

use std::convert::Infallible;
use std::future::ready;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::extract::{ConnectInfo, Request};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, any, get};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::authentication::resource_metadata::{self, WELL_KNOWN_PATH};
use super::endpoint::Endpoint;
use super::request_source::Peer;
use super::response::{GuardedBody, ResponseCharge, unavailable};
use super::{ENDPOINT_PATH, HttpOptions, head, layers, unread_body};
use crate::budget::Budget;
use crate::client_id::ClientId;

/// The answer at unknown paths.
const NOT_FOUND: &str = "there is nothing at this path; the MCP endpoint is /mcp\n";

/// The well-known paths of resources that have a path.
const WELL_KNOWN_BELOW: &str = "/.well-known/oauth-protected-resource/{*path}";

/// Returns MCP over streamable HTTP as a [`tower::Service`](https://docs.rs/tower), to be mounted in an existing
/// server, at any path.
///
/// The application authenticates its users, and inserts a [`Principal`] into the extensions of each request. The host's
/// rules decide what each principal may do, and sessions, subscriptions and cursors are bound to the principal that
/// created them: a session id that another principal uses is answered as an unknown session (404).
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use axum::Router;
/// use axum::extract::Request;
/// use axum::http::StatusCode;
/// use axum::middleware::{Next, from_fn};
/// use axum::response::{IntoResponse, Response};
/// use mcp_host_server::access::Principal;
/// use mcp_host_server::config::Config;
/// use mcp_host_server::{Host, HttpOptions, http_service};
///
/// /// The login of the application.
/// async fn login(mut request: Request, next: Next) -> Response {
///     let Some(user) = request.headers().get("x-user").and_then(|user| user.to_str().ok()) else {
///         return StatusCode::UNAUTHORIZED.into_response();
///     };
///     // The prefix keeps any user from being the built-in principal `local`.
///     let principal = Principal::new(format!("users/{user}"));
///     request.extensions_mut().insert(principal);
///     next.run(request).await
/// }
///
/// # let dir = tempfile::tempdir()?;
/// # let mut config = Config::new();
/// # config.server.cache = Some(dir.path().join("cache"));
/// # config.server.state = Some(dir.path().join("state"));
/// let host = Arc::new(Host::start(config).await?);
/// let mcp = http_service(host.clone(), HttpOptions::new().require_principal());
/// let app: Router = Router::new().route_service("/context/mcp", mcp.clone()).layer(from_fn(login));
///
/// # let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
/// # let stop_signal = async {};
/// let timeout = std::time::Duration::from_secs(10);
/// // The server waits until all connections are closed, and the service ends the event streams that keep them open.
/// let shutdown = async move {
///     stop_signal.await;
///     mcp.shutdown(timeout).await;
/// };
/// axum::serve(listener, app).with_graceful_shutdown(shutdown).await?;
/// host.shutdown(timeout).await;
/// # Ok(())
/// # }
/// ```
///
/// # What the server has to provide
///
/// | behavior | by |
/// |---|---|
/// | principal | [`Principal`] in the extensions, else the principal of the bearer token, if the config has `[[principal]]`, else the default of the [`HttpOptions`] |
/// | validation of `Host` and `Origin`, CORS | this service, by `[http]` of the host's config, unless the options switch it off |
/// | limits of requests, bodies, sessions, event streams and answers in memory | this service, by `[http.limits]`. A client is an authenticated principal; another one is its peer address, if there is a `ConnectInfo<SocketAddr>` in the extensions |
/// | connections, TLS, timeouts of reading and writing, except the timeout of a body | the server. An answer is charged to its client until the server drops the body |
///
/// Header fields that MCP does not use are dropped; they are not retained with a session.
pub fn http_service(host: Arc<Host>, options: HttpOptions) -> McpService {
    McpService::new(host, options, CancellationToken::new())
}

/// Returns [`http_service`] as an axum router, at `/mcp`, to be nested in or merged into an existing one. At `/healthz`
/// it answers 200 while requests are served, and 503 after [`McpService::shutdown`]. If the config has `[[issuer]]`,
/// clients look for the metadata of the protected resource (RFC 9728) at `/.well-known/oauth-protected-resource` of the
/// server: merge the router there.
///
/// To shut it down, use [`McpService::into_router`] on a clone of the service instead.
pub fn router(host: Arc<Host>, options: HttpOptions) -> Router {
    http_service(host, options).into_router()
}

/// MCP over streamable HTTP, as a service. Clones share sessions and limits; see [`http_service`].
///
/// [`shutdown`](Self::shutdown) ends it gracefully. When the last clone is dropped, sessions and event streams end
/// immediately.
#[derive(Clone)]
pub struct McpService {
    endpoint: Arc<Endpoint>,
}

impl McpService {
    pub(super) fn new(host: Arc<Host>, options: HttpOptions, shutdown: CancellationToken) -> Self {
        Self { endpoint: Arc::new(Endpoint::new(host, options, shutdown)) }
    }

    /// Returns the service at `/mcp`, its health check at `/healthz`, and the metadata of the protected resource
    /// (RFC 9728), as [`router`] does.
    pub fn into_router(self) -> Router {
        self.other_routes(self.endpoint.options()).route_service(ENDPOINT_PATH, self)
    }

    /// Shuts the service down: from now on requests are rejected with 503, the streams of `subscriptions/listen` end,
    /// requests in flight are answered, then the event streams of sessions end. The function returns when the requests
    /// in flight have been answered, or after `timeout`, which it logs.
    ///
    /// The connections belong to the server. Begin the server's graceful shutdown after this function or at the same
    /// time, never before: the server waits until all connections are closed, and an event stream keeps its connection
    /// open until this function ends the stream. The [`Host`] is not shut down; [`Host::shutdown`] comes last.
    pub async fn shutdown(&self, timeout: Duration) {
        self.endpoint.close();
        self.endpoint.drain(timeout).await;
    }

    /// The routes besides the endpoint of a server with its own listener. Its connections [answer](Self::answer)
    /// requests for the endpoint.
    pub(super) fn server_routes(&self) -> Router {
        let (host, options) = (self.endpoint.host().clone(), HttpOptions::new());
        let not_found = layered(host, options.clone(), |_, _| (StatusCode::NOT_FOUND, NOT_FOUND).into_response());
        self.other_routes(&options).fallback(not_found)
    }

    /// The routes besides the endpoint.
    fn other_routes(&self, options: &HttpOptions) -> Router {
        // Pages in browsers may read the metadata, too.
        let metadata = layered(self.endpoint.host().clone(), options.clone(), resource_metadata::respond);
        let endpoint = self.endpoint.clone();
        Router::new()
            .route("/healthz", get(async move || health(&endpoint)))
            .route(WELL_KNOWN_PATH, metadata.clone())
            .route(WELL_KNOWN_BELOW, metadata)
    }

    /// Answers a request of this peer for the endpoint under one config.
    pub(super) async fn answer(&self, request: Request, peer: Arc<Peer>) -> Response {
        let endpoint = &self.endpoint;
        let (is_head, config) = (request.method() == Method::HEAD, endpoint.host().config());
        // Boxed and type-erased, because the nested futures of calls exceed a limit of the compiler.
        let handle = |request| endpoint.handle(request, peer.clone(), config.clone()).boxed();
        let response = layers::apply(config.clone(), endpoint.options(), request, handle).await;
        // RFC 9110, section 9.3.2: no body. Over HTTP/2, hyper would send it.
        if is_head { response.map(|_| Body::empty()) } else { response }
    }

    /// The budget for answers that wait to be sent.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        self.endpoint.budget()
    }

    /// Waits until the requests in flight have been answered, then ends the event streams.
    pub(super) async fn drain(&self, timeout: Duration) {
        self.endpoint.drain(timeout).await;
    }

    /// Answers a request of a foreign server, and supplies the properties that a connection of
    /// [`serve_http`](super::serve_http) has.
    async fn call_mounted(self, request: Request) -> Response {
        let account = self.endpoint.budget().account(client_id(&self.endpoint, &request));
        let peer = Arc::new(Peer { account, certificate: None, bodies: None });
        let max_head = self.endpoint.host().config().http.limits.headers.bytes();
        let mut response = serve(request, max_head, |request| self.answer(request, peer)).await;
        match ResponseCharge::take_from(&mut response) {
            Some(charge) => response.map(|body| GuardedBody::until_dropped(body, charge)),
            None => response,
        }
    }
}

impl std::fmt::Debug for McpService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpService").finish_non_exhaustive()
    }
}

impl<B> Service<axum::http::Request<B>> for McpService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: axum::http::Request<B>) -> Self::Future {
        let answering = self.clone().call_mounted(request.map(Body::new));
        Box::pin(async move { Ok(answering.await) })
    }
}

/// Serves a request. A head of more than `max_head` bytes is rejected, and unused header fields are dropped. The unread
/// rest of a body is discarded before an error is sent.
pub(super) async fn serve<B, F>(
    mut request: axum::http::Request<B>,
    max_head: u64,
    answer: impl FnOnce(Request) -> F,
) -> Response
where
    B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
    F: Future<Output = Response>,
{
    let head = head::strip_unused(&mut request, max_head);
    let (request, unread) = unread_body::track(request);
    let response = match head {
        Ok(()) => answer(request.map(Body::new)).await,
        Err(rejected) => {
            drop(request);
            rejected.into_response()
        }
    };
    unread.discard_before(response).await
}

/// Determines the client of a request of a foreign server: the peer address if the server supplies it, else the
/// principal.
fn client_id(endpoint: &Endpoint, request: &Request) -> ClientId {
    match request.extensions().get::<ConnectInfo<SocketAddr>>() {
        Some(ConnectInfo(peer)) => ClientId::from_address(peer.ip()),
        None => ClientId::Principal(endpoint.default_principal(request).unwrap_or(Principal::ANONYMOUS)),
    }
}

/// A route behind the layers, with a function as its handler.
fn layered(host: Arc<Host>, options: HttpOptions, respond: fn(&Host, &Request) -> Response) -> MethodRouter {
    any(async move |request: Request| {
        layers::apply(host.config(), &options, request, |request| ready(respond(&host, &request))).await
    })
}

fn health(endpoint: &Endpoint) -> Response {
    if endpoint.is_closed() { unavailable("the server is shutting down\n") } else { "ok\n".into_response() }
}
