//! Streamable HTTP over hyper: the HTTP client of rmcp's transport and of [`direct`](crate::direct).
//!
//! HTTP/1.1 over a pool of [`connections`](crate::connections). Redirects are not followed, so credentials are sent only to the configured URL. The caller sets the
//! maximum size of a body and of an event of a stream. An error's body that is not JSON is ignored above [`MAX_ERROR_BODY`] bytes. What
//! follows an answer in an event stream is read for one call of an upstream at a time, up to [`MAX_REST`] bytes and for [`MAX_END`];
//! beyond that, the connection is closed instead of reused.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt as _, StreamExt as _};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, USER_AGENT, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use mcp_host_base::informational;
use mcp_host_base::threads::yield_ready;
use mcp_host_base::tls_client;
use parking_lot::Mutex;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::ServiceError;
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use rustls::RootCertStore;
use sse_stream::{Sse, SseStream};
use tokio::sync::Semaphore;

use crate::connections::{Connections, ReceivedBody, SendError};
use crate::message::{Decoder, LONG, Undecoded, is_asked};
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
    /// The session of the last stream of notifications. When another stream is opened, notifications in between may be lost.
    had_stream: Arc<Mutex<Option<Arc<str>>>>,
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

/// Why an exchange failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("{}", with_causes(.0))]
    Send(#[from] SendError),
    #[error("{}", with_causes(.0))]
    Body(#[from] hyper::Error),
    #[error(transparent)]
    Request(#[from] hyper::http::Error),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error("the answer broke off: {0}")]
    Broken(String),
    #[error("an event has more than {0} bytes")]
    EventTooLarge(usize),
    #[error("the stream continues after the answer for more than {MAX_REST} bytes")]
    RestTooLarge,
    #[error("there is no access token from {0}")]
    Token(String),
}

/// Returns the text of an error with its causes, because the text of hyper's errors omits them.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

pub(crate) type Failed = StreamableHttpError<HttpError>;

/// Returns whether the server answered the request, and the connection remains usable.
pub(crate) fn is_answered(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    matches!(
        error.error.downcast_ref::<Failed>(),
        Some(
            StreamableHttpError::HttpStatus(_)
                | StreamableHttpError::ResponseBodyTooLarge { .. }
                | StreamableHttpError::UnexpectedContentType(_)
                | StreamableHttpError::UnexpectedServerResponse(_)
        )
    )
}

/// Returns whether the error shows that the server is unavailable: it rejects the credentials, or the status is 5xx.
pub(crate) fn is_outage(error: &ServiceError) -> bool {
    let status = |error: &ServiceError| match error {
        ServiceError::TransportSend(error) => match error.error.downcast_ref::<Failed>()? {
            StreamableHttpError::HttpStatus(error) => Some(error.status),
            _ => None,
        },
        _ => None,
    };
    error.auth_challenge().is_some() || status(error).is_some_and(|status| status >= 500)
}

fn failed(error: impl Into<HttpError>) -> Failed {
    StreamableHttpError::Client(error.into())
}

impl HttpClient {
    /// Creates a client without credentials.
    pub(crate) async fn new(is_tls: bool) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        if is_tls {
            let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.unwrap_or_default();
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
        let (decoder, had_stream, ending) = (Decoder::new(0), Arc::default(), Arc::new(Semaphore::new(1)));
        Ok(Self { connections, credentials, updates, decoder, had_stream, ending })
    }

    /// Creates a client with the same connection pool and other credentials. It reports gaps in its notifications to `updates`.
    pub(crate) fn with_credentials(&self, credentials: Credentials, updates: Arc<Updates>, decoder: Decoder) -> Self {
        let (connections, had_stream, ending) = (self.connections.clone(), Arc::default(), self.ending.clone());
        Self { connections, credentials, updates, decoder, had_stream, ending }
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

    /// Posts a request of [`direct`](crate::direct), and returns its answer of at most `max` bytes. None if an event stream ended before
    /// the answer.
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
            let body = read(response.into_body(), if is_json { max } else { MAX_ERROR_BODY }).await.unwrap_or_default();
            return match self.decode(body, id, thread).await {
                Ok(error @ JsonRpcMessage::Error(_)) if is_json => Ok(Some(error)),
                _ => Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
            };
        }
        if is_type(&response, EVENT_STREAM_MIME_TYPE) {
            return self.answer_in(raw_events(response.into_body(), max), id, thread).await;
        }
        if !is_json {
            return Err(StreamableHttpError::UnexpectedContentType(header(&response, "content-type")));
        }
        let body = read(response.into_body(), max).await?;
        let unexpected = |text: String| StreamableHttpError::UnexpectedServerResponse(Cow::Owned(text));
        let message = self.decode(body, id, thread).await.map_err(|error| unexpected(error.to_string()))?;
        if is_answer(&message, id) {
            Ok(Some(message))
        } else {
            Err(unexpected("an answer to another request".to_owned()))
        }
    }

    /// Returns the answer in an event stream. Other messages are skipped, because notifications of changes arrive on a separate stream.
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
                    self.end(events);
                    return Ok(Some(message));
                }
                Ok(_) => {}
                Err(error) => tracing::debug!(%error, "event of the upstream ignored"),
            }
        }
        Err(failed(HttpError::Broken(format!("there are {MAX_OTHERS} other messages before it"))))
    }

    /// Reads an event stream to its end. Otherwise hyper could not reuse the connection. The connection is closed if another stream is
    /// being read to its end, or if this takes longer than [`MAX_END`] or more than [`MAX_REST`] bytes.
    fn end(&self, mut events: RawEvents) {
        events.left.store(MAX_REST, Ordering::Relaxed);
        if let Some(None) = events.stream.next().now_or_never() {
            return;
        }
        let Ok(permit) = self.ending.clone().try_acquire_owned() else { return };
        tokio::spawn(tokio::time::timeout(MAX_END, async move {
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

/// Returns whether a message is the answer to this request. An error without an id counts as its answer.
fn is_answer(message: &ServerJsonRpcMessage, id: &RequestId) -> bool {
    match message {
        JsonRpcMessage::Response(response) => response.id == *id,
        JsonRpcMessage::Error(error) => error.id.as_ref().is_none_or(|answered| answered == id),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => false,
    }
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
async fn read(body: ReceivedBody, max: usize) -> Result<Bytes, Failed> {
    match Limited::new(body, max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(StreamableHttpError::ResponseBodyTooLarge { max_size: max })
        }
        Err(error) => Err(failed(HttpError::Broken(error.to_string()))),
    }
}

/// Returns the events of a body, each of at most `max` bytes, in a form that rmcp can parse. With `is_asked`, the answers among them are
/// answers to requests of [`ask`](crate::ask).
fn events(
    body: ReceivedBody,
    max: usize,
    decoder: Decoder,
    is_asked: bool,
) -> BoxStream<'static, Result<Sse, sse_stream::Error>> {
    let decode = move |event| async move {
        match event {
            Ok(event) => Ok(decoder.event(event, is_asked).await),
            Err(error) => Err(error),
        }
    };
    raw_events(body, max).stream.then(decode).boxed()
}

/// The events of a body.
struct RawEvents {
    stream: BoxStream<'static, Result<Sse, sse_stream::Error>>,
    /// The number of bytes that may still be read. The stream decreases it.
    left: Arc<AtomicUsize>,
}

/// Returns the events of a body, each of at most `max` bytes.
fn raw_events(body: ReceivedBody, max: usize) -> RawEvents {
    let mut limit = EventLimit { max, length: 0, is_line_empty: true };
    let left = Arc::new(AtomicUsize::new(usize::MAX));
    let counted = left.clone();
    let pieces = body.into_data_stream().map(move |piece| {
        let piece = piece.map_err(HttpError::from)?;
        let rest = counted.load(Ordering::Relaxed).checked_sub(piece.len()).ok_or(HttpError::RestTooLarge)?;
        counted.store(rest, Ordering::Relaxed);
        if limit.admits(&piece) { Ok(piece) } else { Err(HttpError::EventTooLarge(limit.max)) }
    });
    // The first error ends the stream.
    let pieces = pieces.scan(false, |has_failed, piece| {
        let ends = std::mem::replace(has_failed, piece.is_err());
        futures::future::ready((!ends).then_some(piece))
    });
    RawEvents { stream: SseStream::from_bytes_stream(pieces).boxed(), left }
}

/// Counts the bytes of the current event: the bytes since the last empty line.
struct EventLimit {
    max: usize,
    length: usize,
    is_line_empty: bool,
}

impl EventLimit {
    fn admits(&mut self, piece: &[u8]) -> bool {
        for byte in piece {
            match byte {
                b'\n' if self.is_line_empty => self.length = 0,
                b'\n' => self.is_line_empty = true,
                b'\r' => {}
                _ => self.is_line_empty = false,
            }
            self.length = self.length.saturating_add(1);
            if self.length > self.max {
                return false;
            }
        }
        true
    }
}

/// Converts a client error (4xx) in response to `server/discover` into a JSON-RPC error, so that rmcp continues with `initialize`. Servers
/// without this method respond so.
fn legacy_answer(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    answered: Option<&ServerJsonRpcMessage>,
) -> Option<StreamableHttpPostResponse> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    if !matches!(request.request, ClientRequest::DiscoverRequest(_)) || !status.is_client_error() {
        return None;
    }
    let error = match answered {
        Some(JsonRpcMessage::Error(error)) => error.error.clone(),
        _ => ErrorData::invalid_request(format!("server/discover was answered with {status}"), None),
    };
    let answer = ServerJsonRpcMessage::error(error, Some(request.id.clone()));
    Some(StreamableHttpPostResponse::Json(answer, None))
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(&message).map_err(failed)?;
        let response = self.send(Method::POST, &uri, session.as_deref(), headers, body.into()).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session.is_some() {
            return Err(StreamableHttpError::SessionExpired);
        }
        let (new_session, retry_after) = (header(&response, HEADER_SESSION_ID), header(&response, "retry-after"));
        let (is_json, is_asked) = (is_type(&response, JSON_MIME_TYPE), is_asked(&message));
        if !status.is_success() {
            let max = if is_json { limits.max_json_response_size } else { MAX_ERROR_BODY };
            // A body that is too long or ends early must not hide the status.
            let body = read(response.into_body(), max).await.unwrap_or_default();
            let answered = self.decoder.decode_any(body, is_asked).await.ok();
            if let Some(answer) = legacy_answer(&message, status, answered.as_ref()).filter(|_| session.is_none()) {
                return Ok(answer);
            }
            return match answered {
                Some(error @ JsonRpcMessage::Error(_)) if is_json => {
                    Ok(StreamableHttpPostResponse::Json(error, new_session))
                }
                _ => Err(HttpStatusError::new(status.as_u16(), retry_after).into()),
            };
        }
        if is_type(&response, EVENT_STREAM_MIME_TYPE) {
            let events = events(response.into_body(), limits.max_sse_event_size, self.decoder, is_asked);
            return Ok(StreamableHttpPostResponse::Sse(events, new_session));
        }
        if !matches!(message, ClientJsonRpcMessage::Request(_)) {
            // A notification needs no answer.
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !is_json {
            let found =
                response.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into());
            return Err(StreamableHttpError::UnexpectedContentType(found));
        }
        let body = read(response.into_body(), limits.max_json_response_size).await?;
        match self.decoder.decode_any(body, is_asked).await {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
            Err(error) => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(error.to_string()))),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        self.send(Method::DELETE, &uri, Some(&session), headers, Bytes::new()).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, sse_stream::Error>>, Failed> {
        let max = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, last_event_id, auth, headers, max).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        max: usize,
    ) -> Result<BoxStream<'static, Result<Sse, sse_stream::Error>>, Failed> {
        let mut headers = headers;
        if let Some(id) = last_event_id.and_then(|id| HeaderValue::from_str(&id).ok()) {
            headers.insert(
                HeaderName::from_bytes(HEADER_LAST_EVENT_ID.as_bytes())
                    .map_err(|error| failed(hyper::http::Error::from(error)))?,
                id,
            );
        }
        let response = self.send(Method::GET, &uri, session.as_deref(), headers, Bytes::new()).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => return Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if !status.is_success() => return Err(HttpStatusError::new(status.as_u16(), None).into()),
            _ if !is_type(&response, EVENT_STREAM_MIME_TYPE) => {
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            _ => {}
        }
        let session = session.unwrap_or_else(|| "".into());
        if let Some(before) = self.had_stream.lock().replace(session.clone()) {
            if before != session {
                self.updates.session_changed();
            }
            self.updates.gap();
        }
        // Every answer in such a stream is an answer to a request of `ask`.
        Ok(events(response.into_body(), max, self.decoder, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_has_a_maximum_and_many_small_ones_have_none() {
        let admits = |pieces: &[&str]| {
            let mut limit = EventLimit { max: 16, length: 0, is_line_empty: true };
            pieces.iter().all(|piece| limit.admits(piece.as_bytes()))
        };
        assert!(admits(&["data: a\n\n"; 100]));
        assert!(admits(&["data: a\r\n", "\r\n"].repeat(100)));
        assert!(!admits(&["data: aaaaa", "aaaaaa"]));
        assert!(!admits(&[": a\n"; 10]));
    }
}
