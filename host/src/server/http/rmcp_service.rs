//! The requests that rmcp answers, and the sessions that they belong to.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio_util::sync::CancellationToken;

use super::caller::Caller;
use super::json_response::message_response;
use super::preflight::{self, PROTOCOL_VERSION_HEADER};
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

    /// Forwards a request to rmcp, whose message has that id.
    pub(super) async fn forward(&self, request: Request, id: Option<&RequestId>, caller: &Caller) -> Response {
        let version = request.headers().get(PROTOCOL_VERSION_HEADER).cloned();
        let answering = async |request| self.service.handle(request).await.map(Body::new);
        let response = self.sessions.track(request, caller, answering).await;
        // A response without a type is a text of rmcp about one of two headers, which does not say what to do.
        if response.status() == StatusCode::BAD_REQUEST && !response.headers().contains_key(CONTENT_TYPE) {
            let error = preflight::header_error(version.as_ref());
            return message_response(StatusCode::BAD_REQUEST, &ServerJsonRpcMessage::error(error, id.cloned()));
        }
        response
    }
}
