//! Streamable HTTP over hyper: the HTTP client of [`direct`](crate::direct) and of rmcp's transport ([`rmcp_client`]).
//!
//! HTTP/1.1 over a pool of [`connections`](crate::connections). Redirects are not followed, so credentials are sent
//! only to the configured URL. The caller sets the maximum size of a body and of an event. The body of an error that is
//! not JSON is ignored above [`MAX_ERROR_BODY`] bytes. After an answer in an event stream, the rest of the stream is
//! read, so that the connection can be reused: for one call of an upstream at a time, up to [`MAX_REST`] bytes and for
//! [`MAX_END`]. Beyond that, the connection is closed. [`events`] bounds event streams.

mod error;
mod events;
mod rmcp_client;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use mcp_host_base::bounded_body::{self, BodyError};
use mcp_host_base::informational;
use mcp_host_base::task;
use mcp_host_base::threads::yield_ready;
use mcp_host_base::tls_client;
use rmcp::model::{JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{EVENT_STREAM_MIME_TYPE, HEADER_SESSION_ID, JSON_MIME_TYPE};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpError,
};
use rustls::RootCertStore;
use tokio::sync::Semaphore;

pub(crate) use self::error::{
    ErrorStatus, Failed, error_status, handshake_reason, is_answered, is_of_one_exchange, is_outage,
};
pub(crate) use self::events::MAX_RETRY;

use self::error::{HttpError, failed};
use self::events::{RawEvents, Streams, raw_events};
use crate::connections::{Connections, ReceivedBody};
use crate::guard::{Allowance, Cancellations};
use crate::message::{Decoder, LONG, Undecoded};
use crate::tokens::AccessTokens;
use crate::updates::Updates;

/// The timeout of a TCP connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an error's body that is not JSON, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The maximum number of other messages in an event stream before the answer.
const MAX_OTHERS: usize = 1000;
/// The maximum time to read an event stream to its end after the answer, so that its connection can be reused.
const MAX_END: Duration = Duration::from_secs(1);
/// The maximum number of bytes that are read for this purpose.
const MAX_REST: usize = 64 << 10;
const ACCEPTED: HeaderValue = HeaderValue::from_static("text/event-stream, application/json");
const NAME: HeaderValue = HeaderValue::from_static(concat!("mcp-host/", env!("CARGO_PKG_VERSION")));

/// The HTTP client of one upstream.
#[derive(Clone)]
pub(crate) struct HttpClient {
    connections: Connections,
    credentials: Credentials,
    updates: Arc<Updates>,
    decoder: Decoder,
    /// The event streams. When another stream of notifications is opened, notifications in between may be lost.
    streams: Arc<Streams>,
    /// Permits one task that reads an event stream to its end.
    ending: Arc<Semaphore>,
}

/// The source of the header `Authorization`.
#[derive(Clone, Debug)]
pub(crate) enum Credentials {
    None,
    Fixed(HeaderValue),
    Tokens(Arc<dyn AccessTokens>),
}

impl Credentials {
    async fn authorization(&self) -> Result<Option<HeaderValue>, HttpError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::Tokens(tokens) => tokens.authorization().await.map(Some).map_err(HttpError::Token),
        }
    }
}

/// The thread that decodes an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thread {
    /// The thread of the call that waits for the answer, within the call's time.
    OfCall,
    /// A thread that other tasks share. Long answers are decoded on another thread.
    OfTransport,
}

impl HttpClient {
    /// Creates a client without credentials.
    pub(crate) async fn new(is_tls: bool) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if is_tls {
            let found = task::spawn_blocking(rustls_native_certs::load_native_certs).await.unwrap_or_default();
            roots.add_parsable_certificates(found.certs);
        }
        let tls = tls_client::client_config(roots).map_err(|error| error.to_string())?;
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        let connector =
            HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().wrap_connector(tcp);
        let connections = Connections::new(connector);
        let (credentials, updates) = (Credentials::None, Arc::new(Updates::new()));
        let (decoder, streams, ending) = (Decoder::new(0), Arc::default(), Arc::new(Semaphore::new(1)));
        Ok(Self { connections, credentials, updates, decoder, streams, ending })
    }

    /// Creates a client with other credentials, and with its own connections: responses never reach another identity.
    /// It reports gaps in its notifications to `updates`.
    pub(crate) fn with_credentials(&self, credentials: Credentials, updates: Arc<Updates>, decoder: Decoder) -> Self {
        let (connections, streams, ending) = (self.connections.separate(), Arc::default(), self.ending.clone());
        Self { connections, credentials, updates, decoder, streams, ending }
    }

    /// Returns the same client without idle connections.
    fn with_empty_pool(&self) -> Self {
        Self { connections: self.connections.separate(), ..self.clone() }
    }

    /// Begins a connection of rmcp. What the server sends without a request is counted in this allowance, and the
    /// connection's requests are cancelled with these cancellations.
    pub(crate) fn begin_connection(&self, allowance: Arc<Allowance>, cancellations: Arc<Cancellations>) {
        self.streams.begin_connection(allowance, cancellations);
    }

    async fn send(
        &self,
        method: Method,
        uri: &str,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Bytes,
    ) -> Result<Response<ReceivedBody>, Failed> {
        let authorization = self.credentials.authorization().await.map_err(failed)?;
        let Credentials::Tokens(tokens) = &self.credentials else {
            let response = self.send_as(authorization.as_ref(), method, uri, session, headers, body).await?;
            return refused(&response).map_or(Ok(response), Err);
        };
        let (again, repeated) = (headers.clone(), body.clone());
        let mut response = self.send_as(authorization.as_ref(), method.clone(), uri, session, headers, body).await?;
        // The token may have been revoked.
        if let Some(rejected) = authorization.filter(|_| response.status() == StatusCode::UNAUTHORIZED)
            && tokens.reject(&rejected).await
        {
            let authorization = self.credentials.authorization().await.map_err(failed)?;
            response = self.send_as(authorization.as_ref(), method, uri, session, again, repeated).await?;
        }
        refused(&response).map_or(Ok(response), Err)
    }

    /// Posts a request of [`direct`](crate::direct), and returns its answer of at most `max` bytes. None if an event
    /// stream ended before the answer.
    pub(crate) async fn exchange(
        &self,
        uri: &str,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Bytes,
        id: &RequestId,
        max: usize,
        thread: Thread,
    ) -> Result<Option<ServerJsonRpcMessage>, Failed> {
        let response = self.send(Method::POST, uri, None, headers, body).await?;
        let (status, is_json) = (response.status(), is_type(&response, JSON_MIME_TYPE));
        if !status.is_success() {
            let retry_after = header(&response, "retry-after");
            // A body that is too long or ends early must not hide the status.
            let mut body = response.into_body();
            let text = read(&mut body, if is_json { max } else { MAX_ERROR_BODY }).await.unwrap_or_default();
            return match self.decode(text, id, thread).await {
                Ok(message) if is_json && is_error(&message) && is_answer(&message, id) => {
                    if id_of(&message).is_some() {
                        body.reuse().permit();
                    }
                    Ok(Some(message))
                }
                _ => Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
            };
        }
        if is_type(&response, EVENT_STREAM_MIME_TYPE) {
            return self.answer_in(raw_events(response.into_body(), max), id, thread).await;
        }
        if !is_json {
            return Err(StreamableHttpError::UnexpectedContentType(header(&response, "content-type")));
        }
        let mut body = response.into_body();
        let text = read(&mut body, max).await?;
        let unexpected = |text: String| StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text));
        let message = self.decode(text, id, thread).await.map_err(|error| unexpected(error.to_string()))?;
        if is_answer(&message, id) {
            body.reuse().permit();
            Ok(Some(message))
        } else {
            Err(unexpected("an answer to another request".to_owned()))
        }
    }

    /// Returns the answer in an event stream. Other messages are skipped, because notifications of changes arrive on a
    /// separate stream.
    async fn answer_in(
        &self,
        mut events: RawEvents,
        id: &RequestId,
        thread: Thread,
    ) -> Result<Option<ServerJsonRpcMessage>, Failed> {
        for _ in 0..MAX_OTHERS {
            let Some(event) = events.stream.next().await else { return Ok(None) };
            // rmcp resumes an interrupted stream.
            let Ok(event) = event else { return Ok(None) };
            let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
            let Some(data) = event.data.filter(|data| is_message && !data.is_empty()) else { continue };
            match self.decode(data.into(), id, thread).await {
                Ok(message) if is_answer(&message, id) => {
                    events.reuse.permit();
                    self.end(events);
                    return Ok(Some(message));
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "event of the upstream ignored"),
            }
        }
        Err(failed(HttpError::Broken(format!("there are {MAX_OTHERS} other messages before it"))))
    }

    /// Reads an event stream to its end. Otherwise hyper could not reuse the connection. The connection is closed if
    /// another stream is being read to its end, or if this takes longer than [`MAX_END`] or more than [`MAX_REST`]
    /// bytes.
    fn end(&self, mut events: RawEvents) {
        events.left.store(MAX_REST, Ordering::Relaxed);
        if let Some(None) = events.stream.next().now_or_never() {
            return;
        }
        let Ok(permit) = self.ending.clone().try_acquire_owned() else { return };
        task::spawn(tokio::time::timeout(MAX_END, async move {
            let _permit = permit;
            while let Some(Ok(_)) = events.stream.next().await {}
        }));
    }

    async fn decode(&self, body: Bytes, id: &RequestId, thread: Thread) -> Result<ServerJsonRpcMessage, Undecoded> {
        match thread {
            Thread::OfCall => {
                if body.len() >= LONG {
                    // Not on a transport thread: the call continues on a worker.
                    yield_ready().await;
                }
                self.decoder.decode(&body, |answered| answered == id)
            }
            Thread::OfTransport => self.decoder.decode_any(body, true).await,
        }
    }

    async fn send_as(
        &self,
        authorization: Option<&HeaderValue>,
        method: Method,
        uri: &str,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Bytes,
    ) -> Result<Response<ReceivedBody>, Failed> {
        let mut request = Request::builder().method(method).uri(uri).header(ACCEPT, ACCEPTED).header(USER_AGENT, NAME);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, JSON_MIME_TYPE);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization.clone());
        }
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        let request = request.body(Full::new(body)).map_err(failed)?;
        let response = informational::limit(request, |request| self.connections.send(request)).await;
        response.map_err(|error| failed(HttpError::Broken(error.to_string())))?.map_err(failed)
    }
}

/// Returns the error of a response that rejects the credentials.
fn refused(response: &Response<ReceivedBody>) -> Option<Failed> {
    let challenge = || {
        let challenge = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        challenge.unwrap_or_default().chars().take(MAX_ERROR_BODY.min(512)).collect::<String>()
    };
    match response.status() {
        StatusCode::UNAUTHORIZED => Some(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge()))),
        StatusCode::FORBIDDEN => {
            Some(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge(), None)))
        }
        _ => None,
    }
}

/// Returns the id of the request that a message answers.
fn id_of(message: &ServerJsonRpcMessage) -> Option<&RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(&response.id),
        JsonRpcMessage::Error(error) => error.id.as_ref(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

fn is_error(message: &ServerJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Error(_))
}

/// Returns whether a message is the answer to this request. An error without an id counts as its answer.
fn is_answer(message: &ServerJsonRpcMessage, id: &RequestId) -> bool {
    id_of(message).map_or(is_error(message), |answered| answered == id)
}

/// Returns a header of a response as text.
fn header(response: &Response<ReceivedBody>, name: &str) -> Option<String> {
    response.headers().get(name)?.to_str().ok().map(str::to_owned)
}

/// Returns whether a response has this media type.
fn is_type(response: &Response<ReceivedBody>, expected: &str) -> bool {
    let value = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

/// Reads a body of at most `max` bytes.
async fn read(body: &mut ReceivedBody, max: usize) -> Result<Bytes, Failed> {
    bounded_body::receive(body, max).await.map_err(|error| match error {
        BodyError::TooLarge(max_size) => StreamableHttpError::ResponseBodyTooLarge { max_size },
        error => failed(HttpError::Broken(error.to_string())),
    })
}
