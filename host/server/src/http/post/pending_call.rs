//! A request with its context, from its dispatch to its answer, and the events of a batch's answers.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, BoxStream, StreamExt as _};
use mcp_resource_host::watch::Subscriber;
use serde_json::json;

use crate::dispatch::Call;
use crate::error::{Outcome, RpcError};
use crate::http::response::{ResponseCharge, chunks, document_response, event_response, sse_response};
use crate::http::sessions::{Change, SessionGuard, Sessions, ShareError};
use crate::in_flight::Claim;
use crate::jsonrpc::RequestId;
use crate::request_context::RequestContext;
use crate::respond::{Reply, respond};
use crate::server_metrics::RequestTimer;

/// A request that is answered once.
pub(super) struct PendingCall {
    pub(super) id: RequestId,
    pub(super) call: Call,
    pub(super) context: RequestContext,
    pub(super) sessions: Arc<Sessions>,
    pub(super) session: Option<SessionGuard>,
    pub(super) claim: Option<Claim>,
    pub(super) timer: RequestTimer,
}

/// An event of the answer to a batch.
pub(super) enum SseEvent {
    /// The answer to a request.
    Reply(Reply),
    /// A chunk that contains one whole event.
    Encoded(Result<Bytes, axum::Error>),
}

impl PendingCall {
    /// Answers with a response. For a cancelled request it is an event stream without events.
    pub(super) async fn respond(self) -> Response {
        let is_of_session = self.session.is_some() && self.call.revision.has_sessions();
        let is_event = is_of_session && self.call.method.is_some_and(|method| method.is_protocol);
        let Some(Reply { json, charge, outcome, .. }) = self.execute().await else {
            return sse_response(Body::empty());
        };
        let status =
            if outcome == Outcome::MethodNotFound && !is_of_session { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let mut response = if is_event { event_response(json) } else { document_response(status, json) };
        if let Some(charge) = charge {
            ResponseCharge::attach(&mut response, charge);
        }
        response
    }

    /// Executes the request and returns the answer. None if the request is cancelled.
    pub(super) async fn execute(self) -> Option<Reply> {
        let Self { id, call, context, sessions, session, claim, timer } = self;
        let change = session.as_ref().and(call.request.as_ref().ok()).and_then(Change::of);
        let subscribes = matches!(change, Some(Change::Subscribe(_)));
        let shared_id = change.is_some().then(|| id.clone());
        let responding = respond(&context, id, call);
        let mut reply = match &claim {
            Some(claim) => tokio::select! {
                reply = responding => reply,
                () = claim.cancelled() => return None,
            },
            None => responding.await,
        };
        if let (Some(session), Some(change), Some(id)) = (&session, change, shared_id)
            && reply.outcome == Outcome::Ok
            && let Err(error) = Box::pin(sessions.share(session, change.clone())).await
        {
            sessions.withdraw(session, &change);
            reply = Reply::error(id, not_shared(error));
        }
        timer.end(reply.outcome);
        if let Some(session) = &session {
            session.session().log().warn_missing(&reply.missing);
            if subscribes {
                session.end_stream_without_updates();
            }
        }
        Some(reply)
    }
}

impl SseEvent {
    pub(super) fn into_chunks(self) -> BoxStream<'static, Result<Bytes, axum::Error>> {
        match self {
            Self::Encoded(ready) => stream::iter([ready]).boxed(),
            Self::Reply(Reply { json, charge, .. }) => chunks(json.wrap("data: ", "\n\n"), charge, 0).map(Ok).boxed(),
        }
    }
}

/// The error for a change of a session that could not be shared with other replicas.
fn not_shared(error: ShareError) -> RpcError {
    match error {
        ShareError::TooLarge => RpcError::invalid_params(format!(
            "a session is limited to {} resources and {} bytes of URIs; unsubscribe from some first",
            Subscriber::MAX_RESOURCES,
            Subscriber::MAX_URI_BYTES
        )),
        ShareError::Ended => RpcError::internal("the session has ended".to_owned()),
        ShareError::Unavailable => {
            let reason = "the event stream of the session is at another replica, which cannot be told now: send the request again";
            RpcError::internal(reason.to_owned()).with_data(json!({ "kind": "unavailable", "retryAfterMs": 1000 }))
        }
    }
}
