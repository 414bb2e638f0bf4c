//! Limits of the messages that an upstream sends without a request.
//!
//! Notifications that the host does not use (progress, logs, tools, prompts) are dropped before they are processed. Token bucket: all
//! messages that are not answers are counted, with a burst of [`BURST`] and [`PER_SECOND`] per second. An excess ends the connection, which
//! is opened again with back-off. A request whose id is longer than [`MAX_ID`] bytes is dropped, because its answer, which contains the id,
//! may be queued for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mcp_host_base::log_target;
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

use crate::health::Health;
use crate::updates::Updates;

/// The burst of messages.
const BURST: f64 = 10_000.0;
/// The rate of messages per second.
const PER_SECOND: f64 = 1_000.0;

/// The maximum length of a request's id in bytes.
const MAX_ID: usize = 1024;

/// A transport with these limits.
pub(crate) struct Guarded<T> {
    inner: T,
    name: Arc<str>,
    updates: Arc<Updates>,
    health: Arc<Health>,
    /// Whether the transport has ended.
    has_ended: Arc<AtomicBool>,
    allowance: Allowance,
}

impl<T> Guarded<T> {
    pub(crate) fn new(
        inner: T,
        name: Arc<str>,
        updates: Arc<Updates>,
        health: Arc<Health>,
        has_ended: Arc<AtomicBool>,
    ) -> Self {
        Self { inner, name, updates, health, has_ended, allowance: Allowance::new() }
    }

    /// Marks the connection as ended, and wakes the host and the connection's watch, which open another one.
    fn end(&self) {
        self.has_ended.store(true, Ordering::Release);
        self.updates.wake();
        self.health.connection_lost();
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Guarded<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.end();
                return None;
            };
            let is_wanted = match &message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => return Some(message),
                JsonRpcMessage::Request(request) => has_short_id(&request.id),
                JsonRpcMessage::Notification(notification) => is_wanted(&notification.notification),
            };
            if !self.allowance.take(Instant::now()) {
                tracing::warn!(
                    target: log_target::PLUGIN, plugin = &*self.name,
                    "the upstream exceeds the rate limit of unsolicited messages; its connection is closed"
                );
                self.end();
                return None;
            }
            if is_wanted {
                return Some(message);
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

/// A token bucket.
struct Allowance {
    left: f64,
    at: Option<Instant>,
}

impl Allowance {
    fn new() -> Self {
        Self { left: BURST, at: None }
    }

    fn take(&mut self, now: Instant) -> bool {
        let since = self.at.map_or(0.0, |at| now.saturating_duration_since(at).as_secs_f64());
        self.at = Some(now);
        self.left = since.mul_add(PER_SECOND, self.left).min(BURST);
        if self.left < 1.0 {
            return false;
        }
        self.left -= 1.0;
        true
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_request_with_a_long_id_is_dropped() {
        assert!(has_short_id(&RequestId::Number(1)) && has_short_id(&RequestId::String("a".repeat(MAX_ID).into())));
        assert!(!has_short_id(&RequestId::String("a".repeat(MAX_ID + 1).into())));
    }

    #[test]
    fn a_burst_is_allowed_and_a_flood_is_not() {
        let (start, mut allowance) = (Instant::now(), Allowance::new());
        assert!((0..10_000).all(|_| allowance.take(start)));
        assert!(!allowance.take(start));
        assert!(allowance.take(start + Duration::from_millis(2)));
        let mut allowance = Allowance::new();
        assert!((0..100_000).all(|message| allowance.take(start + Duration::from_millis(message))));
    }
}
