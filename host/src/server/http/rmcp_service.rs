//! What rmcp answers, and the sessions that it is part of.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::sessions::Sessions;
use crate::host::Host;
use crate::server::handler::{Handler, TransportKind};
use crate::server::server_info::ServerInfoCache;

/// The way to rmcp.
pub(super) struct RmcpService {
    service: StreamableHttpService<Handler, LocalSessionManager>,
    sessions: Arc<Sessions>,
}

impl RmcpService {
    /// `streams` ends what is open when it fires; `ending` says beforehand that this is near.
    pub(super) fn new(
        host: Arc<Host>,
        sessions: Arc<Sessions>,
        streams: CancellationToken,
        shutdown: CancellationToken,
    ) -> Self {
        // Who may ask, and how long a body is, has been checked when rmcp sees a request.
        let config = StreamableHttpServerConfig::default()
            .with_json_response(true)
            .disable_allowed_hosts()
            .with_max_request_body_bytes(usize::MAX)
            .with_sse_keep_alive(Some(host.config().http.keep_alive.duration()))
            .with_cancellation_token(streams);
        let about = Arc::new(ServerInfoCache::default());
        let handler = move || {
            Ok::<_, io::Error>(Handler::new(host.clone(), about.clone(), TransportKind::Http, shutdown.clone()))
        };
        Self { service: StreamableHttpService::new(handler, sessions.manager(), config), sessions }
    }

    /// The sessions.
    pub(super) fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Has rmcp answer a request.
    pub(super) async fn forward(&self, request: Request) -> Response {
        let answering = async |request| self.service.handle(request).await.map(Body::new);
        self.sessions.track(request, answering).await
    }
}
