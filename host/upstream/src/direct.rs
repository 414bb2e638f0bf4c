//! Requests over HTTP of the revision without sessions, which the call that waits for the answer sends itself.
//!
//! Each request of that revision is an exchange of its own, in no order with others. So the caller posts it, and reads and decodes the answer, in
//! its own time. By rmcp's client it would pass through the tasks of the connection and of the transport, on its way there and back. What is
//! sent is the same: the headers, `_meta`, the credentials. A call that does not wait any more closes the connection, which
//! cancels the request.
//!
//! Requests of sessions, and over pipes, are rmcp's. So is the request whose answer is in a stream of events that ends before it: rmcp resumes
//! streams. All requests of that connection are, from then on.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{HeaderName, HeaderValue};
use mcp_host_config::{Plugin, UpstreamSource};
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
use crate::message::{Decoder, max_message};
use crate::updates::Updates;

/// The id of the first request: rmcp counts those of the same connection from 0.
const FIRST_ID: u32 = 1 << 30;

/// Posts requests to one upstream, with the credentials of one identity.
pub(crate) struct Direct {
    client: HttpClient,
    uri: Arc<str>,
    /// The bytes of an answer.
    max: usize,
    /// The runtime of connections.
    runtime: Handle,
    next_id: AtomicU32,
    /// Whether the server ends streams before their answers.
    is_unsuited: AtomicBool,
}

impl Direct {
    /// A client of an upstream that is a URL, by that client with those credentials.
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
            next_id: AtomicU32::new(FIRST_ID),
            is_unsuited: AtomicBool::new(false),
        })
    }

    /// Sends a request of that revision, and returns the text of its result. None if it is to be sent by rmcp.
    pub(crate) async fn ask(
        &self,
        version: &ProtocolVersion,
        request: ClientRequest,
        thread: Thread,
    ) -> Option<Result<String, ServiceError>> {
        if self.is_unsuited.load(Ordering::Relaxed) {
            return None;
        }
        let headers = headers(version, &request);
        let id = RequestId::Number(self.next_id.fetch_add(1, Ordering::Relaxed).into());
        let message = ClientJsonRpcMessage::request(with_meta(version, request), id.clone());
        let body = match serde_json::to_vec(&message) {
            Ok(body) => body,
            Err(error) => return Some(Err(of_transport(StreamableHttpError::Deserialize(error)))),
        };
        // Boxed: the state of an exchange is large.
        let exchange = Box::pin(self.client.exchange(&self.uri, headers, body.into(), &id, self.max, thread));
        let answer = match TokioContext::new(exchange, self.runtime.clone()).await {
            Ok(Some(answer)) => answer,
            Ok(None) => {
                self.is_unsuited.store(true, Ordering::Relaxed);
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

/// The request with what each of them says in that revision.
fn with_meta(version: &ProtocolVersion, mut request: ClientRequest) -> ClientRequest {
    let meta = request.get_meta_mut();
    meta.set_protocol_version(version.clone());
    meta.set_client_info(Implementation::new("mcp-host", env!("CARGO_PKG_VERSION")));
    meta.set_client_capabilities(ClientCapabilities::default());
    request
}

/// What of a request is said in headers, too, for whatever is in between.
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

/// A text as the value of a header: in Base64 if it is not plain.
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
