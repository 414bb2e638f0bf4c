//! The event stream of a session (`GET`): its notifications, with at-least-once delivery.
//!
//! A session has one stream at a time. A new stream replaces the previous one: a client whose network changed opens a
//! new stream while the server still believes that the old connection is alive.
//!
//! Without a stream, notifications are pending: one for each resource and one for the listing, as for any
//! [`Subscriber`](mcp_resource_host::watch::Subscriber). An event that was written to a connection may not have been
//! received, so each event has an id. A client that opens a stream with `Last-Event-ID` gets a new notification for
//! every resource that was notified after that event. Without the header, or with an unknown id, it gets one for every
//! resource that was notified on earlier streams. The first event of a stream has the id to resume from and no data, so
//! that a client that has received nothing can resume, too.
//!
//! Updates are delivered only if the token that opened the stream has the scopes of a subscription. Without the scopes,
//! updates stay pending, even if another token has subscribed, and the stream has only log messages. Such a stream ends
//! when the session subscribes with a token that has the scopes, so that the client opens a new stream with that token.
//!
//! Changes of the listing are delivered only if the token of the stream has the scopes of `list`, too, and updates of a
//! resource of search only if it has the scopes of `list` and `read`. What a stream withheld is notified again on the
//! next stream whose token has more scopes, if only by one notification for each resource. A log message names a plugin
//! only while the principal has access to any part of it.
//!
//! If replicas [share](super::sessions) the session, an event id is known to one copy only. At another replica, and
//! after a stream of another replica, every subscribed resource is notified once.
//!
//! A stream ends when a newer one begins, when its session ends, when a request of the session has other groups, when
//! the credentials of the stream expire, are revoked or lose a scope, and with the server.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use futures::stream::{self, Stream, StreamExt as _};
use mcp_host_config::Operation;
use mcp_resource_host::access::CredentialScopes;
use mcp_resource_host::host::Host;
use mcp_resource_host::watch::StreamGuard;
use tokio_util::sync::CancellationToken;

use super::response::{event, numbered_event, sse_response, with_keep_alive};
use super::sessions::SessionGuard;
use crate::notification::{may_deliver, update_notification};

/// The header by which a client resumes an event stream.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The reconnection time (`retry`) for clients.
const RETRY: Duration = Duration::from_secs(3);

/// The events of one stream.
struct Events {
    host: Arc<Host>,
    session: SessionGuard,
    /// Fires when the stream ends.
    ended: CancellationToken,
    /// The scopes of the stream's token.
    scopes: CredentialScopes,
    /// Shows administrators that the session has an open stream.
    _open: StreamGuard,
}

/// Returns the response with the stream of a session.
pub(super) fn respond(
    host: Arc<Host>,
    session: SessionGuard,
    received: Option<u64>,
    scopes: CredentialScopes,
    keep_alive: Duration,
) -> Response {
    let (ended, last) = session.begin_stream(received, scopes);
    // Without updates there is nothing to resume: undelivered updates of an earlier stream stay pending.
    let has_updates = scopes.include(Operation::Subscribe);
    let id = if has_updates { format!("id: {}\n", session.event_id(last)) } else { String::new() };
    let first = Bytes::from(format!("{id}retry: {}\ndata:\n\n", RETRY.as_millis()));
    let _open = session.session().subscriber().open_stream();
    let events = Events { _open, host, session, ended: ended.clone(), scopes };
    let all = stream::iter([first]).chain(events.into_stream()).take_until(ended.cancelled_owned());
    let all = with_keep_alive(all, keep_alive);
    sse_response(Body::from_stream(all.map(Ok::<_, Infallible>)))
}

/// The id of the last event that a client has received, from its header.
pub(super) fn last_event_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(LAST_EVENT_ID)?.to_str().ok()
}

impl Events {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, async |events| Some((events.next().await?, events)))
    }

    /// Returns the next event. None if the stream has ended.
    async fn next(&self) -> Option<Bytes> {
        let session = self.session.session();
        let (subscriber, has_updates) = (session.subscriber(), self.scopes.include(Operation::Subscribe));
        // Checked with the current rules and the current groups of the session.
        let may_know = |plugin: &str| self.host.may_know_of_plugin(&subscriber.principal(), plugin);
        loop {
            tokio::select! {
                () = self.ended.cancelled() => return None,
                () = subscriber.ready(), if has_updates => {
                    let update = self.session.unless_ended(&self.ended, || subscriber.try_next_numbered());
                    let Some((number, update)) = update else { continue };
                    if may_deliver(&self.host, self.scopes, &update) {
                        let id = self.session.event_id(number);
                        return Some(numbered_event(&id, &update_notification(update, None)));
                    }
                    self.session.withhold(self.scopes);
                }
                warning = session.log().next(may_know) => return Some(event(&warning)),
            }
        }
    }
}
