//! The HTTP client of rmcp's transport: handshakes, requests of revisions with sessions, and streams of notifications.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{Method, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    HttpStatusError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};

use super::error::{Failed, HttpError, failed};
use super::events::{Events, Previous, events, reopened, until_cancelled};
use super::{HttpClient, MAX_ERROR_BODY, header, id_of, is_answer, is_type, read};
use crate::message::is_asked;

/// The maximum size of an event in a stream of notifications, in bytes.
const MAX_NOTIFICATION: usize = 256 << 10;

/// Converts a client error (4xx) in response to `server/discover` into a JSON-RPC error, so that rmcp continues with
/// `initialize`. Servers without this method respond so.
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

fn is_initialize(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::InitializeRequest(_))
}

/// Returns whether a message opens a stream of notifications.
fn is_listening(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    matches!(request.request, ClientRequest::SubscriptionsListenRequest(_))
}

impl HttpClient {
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
        // On a connection that was idle, the request could be sent twice, and the server would keep an unused session.
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
        let cancellation = self.streams.cancellation(request.id.clone());
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
