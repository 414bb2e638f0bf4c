//! The requests that rmcp answers, and the sessions that they belong to.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::sessions::Sessions;
use crate::host::Host;
use crate::server::handler::{Handler, PrincipalSource};
use crate::server::server_info::ServerInfoCache;

/// rmcp's service.
pub(super) struct RmcpService {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<Sessions>,
}

impl RmcpService {
    /// Creates the service. `streams` ends the event streams of sessions, `shutdown` those of `subscriptions/listen`.
    pub(super) fn new(
        host: Arc<Host>,
        sessions: Arc<Sessions>,
        streams: CancellationToken,
        shutdown: CancellationToken,
    ) -> Self {
        // The origin and the length of the body have been checked before rmcp gets a request.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_sse_keep_alive(Some(host.config().http.keep_alive.duration()))
            .with_cancellation_token(streams);
        let info = Arc::new(ServerInfoCache::default());
        let handler = move || {
            Ok::<_, io::Error>(Handler::new(host.clone(), info.clone(), PrincipalSource::HttpRequest, shutdown.clone()))
        };
        Self { service: StreamableHttpService::new(handler, sessions.manager(), config), sessions }
    }

    /// Forwards a request to rmcp.
    pub(super) async fn forward(&self, request: Request, caller: &Caller) -> Response {
        let answering = async |request| self.service.handle(request).await.map(Body::new);
        self.sessions.track(request, caller, answering).await
    }
}
