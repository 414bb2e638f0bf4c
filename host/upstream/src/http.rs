//! Streamable HTTP over hyper: the HTTP client of rmcp's transport and of [`direct`](crate::direct).
//!
//! HTTP/1.1 over a pool of [`connections`](crate::connections). Redirects are not followed, so credentials are sent only to the configured
//! URL. The caller sets the maximum size of a body and of an event of a stream. An error's body that is not JSON is ignored above [`MAX_ERROR_BODY`] bytes. What
//! follows an answer in an event stream is read for one call of an upstream at a time, up to [`MAX_REST`] bytes and for [`MAX_END`];
//! beyond that, the connection is closed instead of reused. Event streams are bounded in [`events`](mod@events).

mod events;

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
use mcp_host_base::threads::yield_ready;
use mcp_host_base::tls_client;
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
use tokio::sync::Semaphore;

pub(crate) use self::events::MAX_RETRY;

use self::events::{Events, Previous, RawEvents, Streams, events, raw_events, reopened, until_cancelled};
use crate::connections::{Connections, ReceivedBody, SendError};
use crate::guard::{Allowance, Excess};
use crate::message::{Decoder, LONG, Undecoded, is_asked};
use crate::tokens::AccessTokens;
use crate::updates::Updates;

/// The timeout of a TCP connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum size of an error's body that is not JSON, in bytes.
const MAX_ERROR_BODY: usize = 64 * 1024;
/// The maximum size of an event in a stream of notifications, in bytes.
const MAX_NOTIFICATION: usize = 256 << 10;
/// The maximum number of other messages in an event stream before the answer.
const MAX_OTHERS: usize = 1000;
/// The maximum time to read an event stream to its end after the answer, so that its connection can be reused.
const MAX_END: Duration = Duration::from_secs(1);
/// The maximum number of bytes that are read for this purpose.
const MAX_REST: usize = 64 << 10;
/// The bounds of a server's `Retry-After` that is passed on to clients.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));

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
    #[error(transparent)]
    Excess(#[from] Excess),
    #[error("the request was cancelled")]
    Cancelled,
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

/// Returns whether the exchange of one request failed. This shows nothing about other requests, unless the server cannot be connected to.
pub(crate) fn is_of_one_exchange(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    let Some(error) = error.error.downcast_ref::<Failed>() else { return false };
    !matches!(
        error,
        StreamableHttpError::TransportChannelClosed
            | StreamableHttpError::Client(HttpError::Send(SendError::Connect(_)))
    )
}

/// Returns whether the error shows that the server is unavailable: it rejects the credentials, or the status is 5xx.
pub(crate) fn is_outage(error: &ServiceError) -> bool {
    error.auth_challenge().is_some() || status_error(error).is_some_and(|error| error.status >= 500)
}

/// The status of a response that is not successful.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrorStatus {
    pub(crate) status: u16,
    /// The time after which a retry makes sense, if the server is busy or unavailable and has set it.
    pub(crate) retry_after: Option<Duration>,
}

/// Returns the status of the response, if the error is that it is not successful.
pub(crate) fn error_status(error: &ServiceError) -> Option<ErrorStatus> {
    let HttpStatusError { status, retry_after: text, .. } = status_error(error)?;
    let is_passed = matches!(*status, 429 | 503);
    let retry_after = text.as_deref().filter(|_| is_passed).and_then(retry_after);
    Some(ErrorStatus { status: *status, retry_after })
}

fn status_error(error: &ServiceError) -> Option<&HttpStatusError> {
    let ServiceError::TransportSend(error) = error else { return None };
    match error.error.downcast_ref::<Failed>()? {
        StreamableHttpError::HttpStatus(error) => Some(error),
        _ => None,
    }
}

/// Parses `Retry-After` (RFC 9110, section 10.2.3): a number of seconds of any size, within [`RETRY_AFTER`]. None for a date, because the
/// clock of this machine may differ from the server's.
fn retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let seconds = is_number.then(|| text.parse().unwrap_or(u64::MAX))?;
    Some(Duration::from_secs(seconds).clamp(RETRY_AFTER.0, RETRY_AFTER.1))
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
        let (decoder, streams, ending) = (Decoder::new(0), Arc::default(), Arc::new(Semaphore::new(1)));
        Ok(Self { connections, credentials, updates, decoder, streams, ending })
    }

    /// Creates a client with other credentials, and with its own connections: responses never reach another identity. It reports gaps in
    /// its notifications to `updates`.
    pub(crate) fn with_credentials(&self, credentials: Credentials, updates: Arc<Updates>, decoder: Decoder) -> Self {
        let (connections, streams, ending) = (self.connections.separate(), Arc::default(), self.ending.clone());
        Self { connections, credentials, updates, decoder, streams, ending }
    }

    fn with_empty_pool(&self) -> Self {
        Self { connections: self.connections.separate(), ..self.clone() }
    }

    /// Begins a connection of rmcp. What the server sends without a request is counted in this allowance.
    pub(crate) fn begin_connection(&self, allowance: Arc<Allowance>) {
        self.streams.begin_connection(allowance);
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

    /// Posts a message of rmcp.
    async fn post(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(&message).map_err(failed)?;
        // On a connection that was idle, the request could be sent twice, and the server would keep a session that nobody uses.
        let on_new_connection = is_initialize(&message).then(|| self.with_empty_pool());
        let client = on_new_connection.as_ref().unwrap_or(self);
        let response = client.send(Method::POST, &uri, session.as_deref(), headers, body.into()).await?;
        let (status, reuse) = (response.status(), response.body().reuse());
        let request = match &message {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            // A request has an answer: this is the response to another message.
            if request.is_none() {
                reuse.permit();
            } else {
                self.streams.allowance().await_answer();
            }
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
            let mut body = response.into_body();
            let text = read(&mut body, max).await.unwrap_or_default();
            let answered = self.decoder.decode_any(text, is_asked).await.ok();
            if request.is_some() && answered.as_ref().and_then(id_of) == request.as_ref() {
                reuse.permit();
            }
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
            let max = limits.max_sse_event_size;
            let max = if is_listening(&message) { max.min(MAX_NOTIFICATION) } else { max };
            let allowance = self.streams.allowance();
            if request.is_some() {
                allowance.await_answer();
            }
            let events = events(response.into_body(), max, self.decoder, is_asked, request, allowance);
            return Ok(StreamableHttpPostResponse::Sse(events, new_session));
        }
        let Some(id) = request else {
            // A notification needs no answer.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        if !is_json {
            let found =
                response.headers().get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into());
            return Err(StreamableHttpError::UnexpectedContentType(found));
        }
        let mut body = response.into_body();
        let text = read(&mut body, limits.max_json_response_size).await?;
        match self.decoder.decode_any(text, is_asked).await {
            Ok(message) if is_answer(&message, &id) => {
                reuse.permit();
                Ok(StreamableHttpPostResponse::Json(message, new_session))
            }
            Ok(_) => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Borrowed("an answer to another request"))),
            Err(error) => Err(StreamableHttpError::UnexpectedServerResponse(Cow::Owned(error.to_string()))),
        }
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

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

/// Returns whether a message opens a stream of notifications.
fn is_listening(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::SubscriptionsListenRequest(_))
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
        let ClientJsonRpcMessage::Request(request) = &message else {
            return self.post(uri, message, session, headers, limits).await;
        };
        let cancellation = self.streams.allowance().cancellation(request.id.clone());
        let response = tokio::select! {
            () = cancellation.cancelled() => return Err(failed(HttpError::Cancelled)),
            response = self.post(uri, message, session, headers, limits) => response?,
        };
        Ok(match response {
            StreamableHttpPostResponse::Sse(events, session) => {
                StreamableHttpPostResponse::Sse(until_cancelled(events, cancellation), session)
            }
            response => response,
        })
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
    ) -> Result<Events, Failed> {
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
    ) -> Result<Events, Failed> {
        let mut headers = headers;
        if let Some(id) = last_event_id.as_deref().and_then(|id| HeaderValue::from_str(id).ok()) {
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
        let opened = self.streams.opened(session.unwrap_or_else(|| "".into()), last_event_id.as_deref());
        if opened.previous == Some(Previous::OtherSession) {
            self.updates.session_changed();
        }
        if opened.previous.is_some() {
            self.updates.gap();
        }
        let max = if opened.has_notifications { max.min(MAX_NOTIFICATION) } else { max };
        let allowance = self.streams.allowance();
        // Every answer in such a stream is an answer to a request of `ask`.
        let events = events(response.into_body(), max, self.decoder, true, None, allowance);
        Ok(reopened(events, opened.has_notifications.then(|| self.streams.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_retry_is_limited_and_a_date_is_none() {
        let seconds = |text: &str| retry_after(text).map(|time| time.as_secs());
        assert_eq!(["0", " 5 ", "3600", "99999999999999999999"].map(seconds), [1, 5, 300, 300].map(Some));
        assert_eq!(["", "-1", "+5", "1.5", "Fri, 31 Dec 9999 23:59:59 GMT"].map(seconds), [None; 5]);
    }
}
