//! Sends requests of the revision without sessions over HTTP, in the task that waits for the answer.
//!
//! Each request of this revision is a separate HTTP exchange, independent of others. So the task that waits for the
//! answer also posts the request, reads the answer and decodes it. With rmcp's client, request and answer would pass
//! through two more tasks: the connection's and the transport's. The request is the same as rmcp's: headers, `_meta`
//! and credentials. When the future is dropped, the HTTP connection is closed, which cancels the request.
//!
//! rmcp sends the requests of revisions with sessions, and all requests over pipes. It also sends a request again whose
//! event stream ended before the answer, because rmcp resumes streams. After such a stream, rmcp sends all requests of
//! this client for [`UNSUITED`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use mcp_host_config::{Plugin, UpstreamSource};
use parking_lot::Mutex;
use rmcp::RoleClient;
use rmcp::model::{
    ClientCapabilities, ClientJsonRpcMessage, ClientRequest, CustomResult, GetMeta as _, Implementation,
    JsonRpcMessage, ProtocolVersion, RequestId, ServerResult,
};
use rmcp::service::ServiceError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::common::http_header::{BASE64_HEADER_PREFIX, BASE64_HEADER_SUFFIX};
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransport, StreamableHttpError};
use serde_json::Value;
use tokio::runtime::Handle;
use tokio_util::context::TokioContext;

use crate::http::{Credentials, Failed, HttpClient, Thread};
use crate::message::{Decoder, max_message, random_first_id};
use crate::updates::Updates;

/// The time for which rmcp sends all requests after an event stream that ended before its answer.
const UNSUITED: Duration = Duration::from_secs(60);

/// Posts requests to one upstream, with the credentials of one identity.
pub(crate) struct Direct {
    client: HttpClient,
    uri: Arc<str>,
    /// The maximum length of an answer in bytes.
    max: usize,
    /// The runtime that drives the HTTP connections.
    runtime: Handle,
    next_id: AtomicI64,
    /// The time until which rmcp sends all requests, because the server ended an event stream before the answer.
    unsuited_until: Mutex<Option<Instant>>,
}

impl Direct {
    /// Creates a client with these credentials; none if the upstream is a program.
    pub(crate) fn new(
        runtime: Handle,
        plugin: &Plugin,
        http: Option<&HttpClient>,
        credentials: Credentials,
        updates: &Arc<Updates>,
    ) -> Option<Self> {
        let UpstreamSource::Url(url) = &plugin.upstream.as_ref()?.source else { return None };
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX);
        let client = http?.with_credentials(credentials, updates.clone(), Decoder::new(memory));
        Some(Self {
            client,
            uri: url.as_str().into(),
            max: max_message(&plugin.limits),
            runtime,
            next_id: AtomicI64::new(random_first_id()),
            unsuited_until: Mutex::default(),
        })
    }

    /// Sends a request of this revision, and returns the text of its result. None if rmcp must send the request.
    pub(crate) async fn ask(
        &self,
        version: &ProtocolVersion,
        request: ClientRequest,
        thread: Thread,
    ) -> Option<Result<String, ServiceError>> {
        if self.unsuited_until.lock().is_some_and(|until| Instant::now() < until) {
            return None;
        }
        let headers = headers(version, &request);
        let id = RequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed));
        let message = ClientJsonRpcMessage::request(with_meta(version, request), id.clone());
        let body = match serde_json::to_vec(&message) {
            Ok(body) => body,
            Err(error) => return Some(Err(of_transport(StreamableHttpError::Deserialize(error)))),
        };
        // Boxed, because the future of an exchange is large.
        let exchange = Box::pin(self.client.exchange(&self.uri, headers, body.into(), &id, self.max, thread));
        let answer = match TokioContext::new(exchange, self.runtime.clone()).await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                *self.unsuited_until.lock() = Instant::now().checked_add(UNSUITED);
                return None;
            }
            Err(error) => return Some(Err(of_transport(error))),
        };
        Some(match answer {
            JsonRpcMessage::Response(response) => match response.result {
                ServerResult::CustomResult(CustomResult(Value::String(text))) => Ok(text),
                _ => Err(ServiceError::UnexpectedResponse),
            },
            JsonRpcMessage::Error(error) => Err(ServiceError::McpError(error.error)),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => Err(ServiceError::UnexpectedResponse),
        })
    }
}

fn of_transport(error: Failed) -> ServiceError {
    type Transport = StreamableHttpClientTransport<HttpClient>;
    ServiceError::TransportSend(DynamicTransportError::new::<Transport, RoleClient>(error))
}

/// Returns the request with the members of `_meta` that this revision requires in each request.
fn with_meta(version: &ProtocolVersion, mut request: ClientRequest) -> ClientRequest {
    let meta = request.get_meta_mut();
    meta.set_protocol_version(version.clone());
    meta.set_client_info(Implementation::new("mcp-host", env!("CARGO_PKG_VERSION")));
    meta.set_client_capabilities(ClientCapabilities::default());
    request
}

/// Returns the headers that repeat parts of the request for intermediaries.
fn headers(version: &ProtocolVersion, request: &ClientRequest) -> HashMap<HeaderName, HeaderValue> {
    let name = match request {
        ClientRequest::ReadResourceRequest(request) => Some(&request.params.uri),
        _ => None,
    };
    let of =
        |name: &'static str, value: &str| Some((HeaderName::from_static(name), HeaderValue::from_str(value).ok()?));
    let headers = [
        of("mcp-protocol-version", version.as_str()),
        of("mcp-method", request.method()),
        name.and_then(|name| of("mcp-name", &header_text(name))),
    ];
    headers.into_iter().flatten().collect()
}

/// Encodes a text as the value of a header: in Base64 unless it is visible ASCII.
fn header_text(text: &str) -> String {
    let is_visible = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let is_padded = text.starts_with(' ') || text.ends_with(' ');
    let looks_encoded = text.starts_with(BASE64_HEADER_PREFIX) && text.ends_with(BASE64_HEADER_SUFFIX);
    if is_visible && !is_padded && !looks_encoded {
        text.to_owned()
    } else {
        format!("{BASE64_HEADER_PREFIX}{}{BASE64_HEADER_SUFFIX}", STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_plain_is_in_base64_in_a_header() {
        for plain in ["", "x:a b", "file:///a%20b", "=?base64?x"] {
            assert_eq!(header_text(plain), plain);
        }
        for (text, header) in [
            ("ä", "=?base64?w6Q=?="),
            (" a", "=?base64?IGE=?="),
            ("a\n", "=?base64?YQo=?="),
            ("=?base64??=", "=?base64?PT9iYXNlNjQ/Pz0=?="),
        ] {
            assert_eq!(header_text(text), header);
        }
    }
}
