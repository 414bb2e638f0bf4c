//! The transport of rmcp, guarded against an upstream that sends too much.
//!
//! An excess of the [`allowance`] ends the connection. It is opened again with back-off, as after a failed attempt. The
//! responses of a cancelled request end at once ([`cancellations`]).
//!
//! Notifications that the host does not use (progress, logs, tools, prompts), or that their stream was not opened for,
//! are dropped before they are processed. Requests of the server are answered here: `ping` by a result, and all others
//! by an error, because the host declares no capabilities. At most [`MAX_ANSWERS`] of these answers wait until they are
//! sent; further requests are dropped, as is a request whose id is longer than [`MAX_ID`] bytes. The [`ids`] of the
//! host's requests are random numbers.

mod allowance;
mod cancellations;
mod ids;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientResult, ErrorCode, ErrorData, JsonRpcMessage, RequestId,
    ServerNotification, ServerRequest,
};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

pub(crate) use self::allowance::{Allowance, Buckets, Excess, Incomplete};
pub(crate) use self::cancellations::{Cancellation, Cancellations};

use self::ids::Ids;
use crate::health::Health;
use crate::server_info;
use crate::updates::Updates;

/// The maximum length of a request's id in bytes.
const MAX_ID: usize = 1024;
/// The maximum number of answers to requests of the server that wait until they are sent.
const MAX_ANSWERS: usize = 64;

/// A transport that ends with the allowance of its connection, and answers requests of the server.
pub(crate) struct Guarded<T> {
    inner: T,
    allowance: Arc<Allowance>,
    cancellations: Arc<Cancellations>,
    updates: Arc<Updates>,
    health: Arc<Health>,
    /// Whether the transport has ended.
    has_ended: Arc<AtomicBool>,
    /// The answers that are being sent.
    answers: FuturesUnordered<BoxFuture<'static, ()>>,
    ids: Ids,
}

impl<T> Guarded<T> {
    pub(crate) fn new(
        inner: T,
        allowance: Arc<Allowance>,
        cancellations: Arc<Cancellations>,
        updates: Arc<Updates>,
        health: Arc<Health>,
        has_ended: Arc<AtomicBool>,
    ) -> Self {
        let (answers, ids) = (FuturesUnordered::new(), Ids::new());
        Self { inner, allowance, cancellations, updates, health, has_ended, answers, ids }
    }

    /// Marks the connection as ended, and wakes the host and the connection's watch, which open another one.
    fn end(&self) {
        if let Some(excess) = self.allowance.excess() {
            self.health.exceeded(&excess.to_string());
        }
        self.has_ended.store(true, Ordering::Release);
        self.updates.wake();
        self.health.connection_lost();
    }
}

impl<T: Transport<RoleClient>> Guarded<T> {
    /// Sends the answer to a request of the server, unless too many are being sent.
    fn answer(&mut self, request: &ServerRequest, id: RequestId) {
        if self.answers.len() >= MAX_ANSWERS || !has_short_id(&id) {
            tracing::debug!("request of the upstream ignored");
            return;
        }
        let answer = match request {
            ServerRequest::PingRequest(_) => ClientJsonRpcMessage::response(ClientResult::empty(()), id),
            _ => {
                let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "the host answers `ping` only", None);
                ClientJsonRpcMessage::error(error, Some(id))
            }
        };
        let sending = self.inner.send(answer);
        self.answers.push(Box::pin(async move {
            if let Err(error) = sending.await {
                tracing::debug!(%error, "cannot answer a request of the upstream");
            }
        }));
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        mut item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.ids.replace_in_sent(&mut item);
        if let JsonRpcMessage::Notification(notification) = &item
            && let ClientNotification::CancelledNotification(cancelled) = &notification.notification
            && let Some(id) = &cancelled.params.request_id
        {
            // Before the notification is sent, which waits for other notifications.
            self.cancellations.cancel(id);
        }
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let received = tokio::select! {
                biased;
                () = self.allowance.exceeded.cancelled() => None,
                Some(()) = self.answers.next() => continue,
                received = self.inner.receive() => received,
            };
            let Some(mut message) = received else {
                self.end();
                return None;
            };
            self.ids.restore_in_received(&mut message);
            if let JsonRpcMessage::Response(response) = &mut message {
                server_info::reduce(&mut response.result);
            }
            match message {
                JsonRpcMessage::Request(request) => self.answer(&request.request, request.id),
                JsonRpcMessage::Notification(notification)
                    if !is_wanted(&notification.notification) || !self.ids.is_requested(&notification.notification) => {
                }
                message => return Some(message),
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Returns whether a request has a short id, and thus a short answer.
fn has_short_id(id: &RequestId) -> bool {
    match id {
        RequestId::Number(_) => true,
        RequestId::String(text) => text.len() <= MAX_ID,
    }
}

fn is_wanted(notification: &ServerNotification) -> bool {
    matches!(
        notification,
        ServerNotification::ResourceUpdatedNotification(_)
            | ServerNotification::ResourceListChangedNotification(_)
            | ServerNotification::SubscriptionsAcknowledgedNotification(_)
            | ServerNotification::CancelledNotification(_)
    )
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_request_with_a_long_id_is_dropped() {
        assert!(has_short_id(&RequestId::Number(1)) && has_short_id(&RequestId::String("a".repeat(MAX_ID).into())));
        assert!(!has_short_id(&RequestId::String("a".repeat(MAX_ID + 1).into())));
    }

    /// A server that sends `ping` without end, and reads nothing.
    struct Deaf(Arc<AtomicUsize>);

    impl Transport<RoleClient> for Deaf {
        type Error = std::io::Error;

        fn send(
            &mut self,
            _: TxJsonRpcMessage<RoleClient>,
        ) -> impl Future<Output = std::io::Result<()>> + Send + 'static {
            self.0.fetch_add(1, Ordering::Relaxed);
            std::future::pending()
        }

        async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
            tokio::task::yield_now().await;
            Some(serde_json::from_str(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap())
        }

        async fn close(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn few_answers_to_requests_of_the_server_wait_until_they_are_sent() {
        let sent = Arc::new(AtomicUsize::new(0));
        let health = Arc::new(Health::new("up".into(), None));
        let (allowance, cancellations, updates) = (Arc::default(), Arc::default(), Arc::new(Updates::new()));
        let mut guarded = Guarded::new(Deaf(sent.clone()), allowance, cancellations, updates, health, Arc::default());
        let mut receiving = std::pin::pin!(guarded.receive());
        for _ in 0..10 * MAX_ANSWERS {
            assert!(receiving.as_mut().now_or_never().is_none(), "a request is not passed on");
        }
        assert_eq!(sent.load(Ordering::Relaxed), MAX_ANSWERS);
    }
}
