//! A request with its context, from its dispatch to its answer, and the events of a batch's answers.
//!
//! The answer of each message of a batch is kept until the client reads it, so each has its own budget charge. A
//! message without room for its answer gets an error that takes less, for which its charge has the room from the
//! beginning.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use mcp_resource_host::watch::Subscriber;
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use crate::budget::Charge;
use crate::dispatch::Call;
use crate::error::{Outcome, RpcError};
use crate::http::response::{
    ResponseCharge, chunks, document_response, event_response, rejection_response, sse_response,
};
use crate::http::sessions::{Change, SessionGuard, Sessions, ShareError};
use crate::in_flight::Claim;
use crate::jsonrpc::{Rejection, RequestId};
use crate::request_context::RequestContext;
use crate::respond::{Reply, refusal_cost, respond};
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
    Reply(Result<Reply, NoRoom>),
    /// A chunk that contains one whole event.
    Encoded(Result<Bytes, axum::Error>),
}

/// There is no room for the answer to a message of a batch, nor for an error instead, so the event stream fails. Only a
/// fault of the server leads here, because the room for the error was reserved.
#[derive(Debug, thiserror::Error)]
#[error("too many answers wait to be read by this client, or by all; the answers to the batch end here")]
pub(super) struct NoRoom;

impl PendingCall {
    /// Answers with a response. For a cancelled request it is an event stream without events.
    pub(super) async fn respond(self) -> Response {
        let is_of_session = self.session.is_some() && self.call.revision.has_sessions();
        let is_event = is_of_session && self.call.method.is_some_and(|method| method.is_protocol);
        let Reply { json, charge, outcome, .. } = match self.execute(None).await {
            Some(Ok(reply)) => reply,
            Some(Err(rejection)) => return rejection_response(rejection),
            None => return sse_response(Body::empty()),
        };
        let status =
            if outcome == Outcome::MethodNotFound && !is_of_session { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let mut response = if is_event { event_response(json) } else { document_response(status, json) };
        ResponseCharge::attach(&mut response, charge);
        response
    }

    /// Returns the bytes to reserve before a message of a batch is executed.
    pub(super) fn refusal_cost(&self) -> usize {
        refusal_cost(&self.id)
    }

    /// Answers a message of a batch with one event, or with none if the request is cancelled. `reserved` has the bytes
    /// of its [`refusal_cost`](Self::refusal_cost).
    pub(super) fn events(self, reserved: Charge) -> BoxStream<'static, SseEvent> {
        // In a separate task: an answer is charged when it is ready, not when it is sent. The future is boxed, so that
        // a finished task holds only its answer.
        let executing: BoxFuture<'static, _> =
            async move { Some(self.execute(Some(Box::new(reserved))).await?.map_err(|_rejection| NoRoom)) }.boxed();
        let reply = AbortOnDropHandle::new(tokio::spawn(executing));
        stream::once(reply).filter_map(async |reply| Some(SseEvent::Reply(reply.ok()??))).boxed()
    }

    /// Executes the request and returns the answer, or the rejection of a request without room for an answer. None if
    /// the request is cancelled.
    async fn execute(self, reserved: Option<Box<Charge>>) -> Option<Result<Reply, Rejection>> {
        let Self { id, call, context, sessions, session, claim, timer } = self;
        let change = session.as_ref().and(call.request.as_ref().ok()).and_then(Change::of);
        let subscribes = matches!(change, Some(Change::Subscribe(_)));
        let shared_id = change.is_some().then(|| id.clone());
        let responding = respond(&context, id, call, reserved);
        let mut answer = match &claim {
            Some(claim) => tokio::select! {
                answer = responding => answer,
                () = claim.cancelled() => return None,
            },
            None => responding.await,
        };
        let is_done = outcome_of(&answer) == Outcome::Ok;
        if let (Some(session), Some(change), Some(id)) = (&session, change, shared_id)
            && is_done
            && let Err(error) = Box::pin(sessions.share(session, change.clone())).await
        {
            sessions.withdraw(session, &change);
            answer = answer.and_then(|Reply { charge, .. }| Reply::error(id, not_shared(error), charge));
        }
        timer.end(outcome_of(&answer));
        if let Some(session) = &session {
            if let Ok(reply) = &answer {
                session.session().log().warn_missing(&reply.missing);
            }
            if subscribes {
                session.end_stream_without_updates();
            }
        }
        Some(answer)
    }
}

fn outcome_of(answer: &Result<Reply, Rejection>) -> Outcome {
    answer.as_ref().map_or_else(|rejection| rejection.error.outcome(), |reply| reply.outcome)
}

impl SseEvent {
    pub(super) fn into_chunks(self) -> BoxStream<'static, Result<Bytes, axum::Error>> {
        match self {
            Self::Encoded(ready) => stream::iter([ready]).boxed(),
            Self::Reply(Ok(Reply { json, charge, .. })) => {
                chunks(json.wrap("data: ", "\n\n"), Some(charge), 0).map(Ok).boxed()
            }
            Self::Reply(Err(no_room)) => stream::iter([Err(axum::Error::new(no_room))]).boxed(),
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
