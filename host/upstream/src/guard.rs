//! Limits of what an upstream sends without a request.
//!
//! Each connection has an [`Allowance`]: token buckets of events and of bytes. Everything that an upstream sends is counted where it is
//! received, in event streams ([`http`](crate::http)) and on pipes ([`pipes`](crate::pipes)): messages, and also empty lines, comments,
//! events that cannot be decoded, and answers that no request waits for. One answer to each request is not counted. When a bucket is empty,
//! the connection ends. It is opened again with back-off, as after a failed attempt. Each request also permits [`BESIDES`] short events,
//! because servers send such events with each answer, for example the id of its stream.
//!
//! Notifications that the host does not use (progress, logs, tools, prompts) are dropped before they are processed. A request whose id is
//! longer than [`MAX_ID`] bytes is dropped, because its answer, which contains the id, may be queued for long.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, RequestId, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio_util::sync::CancellationToken;

use crate::health::Health;
use crate::updates::Updates;

/// The burst of events, or of lines.
const EVENTS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
/// The rate of events, or of lines.
const EVENTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(1000).unwrap();
/// The burst of bytes. A longer event counts as a burst.
const BYTES: NonZeroU32 = NonZeroU32::new(16 << 20).unwrap();
/// The rate of bytes.
const BYTES_PER_SECOND: NonZeroU32 = NonZeroU32::new(1 << 20).unwrap();
/// The maximum number of requests whose answers are not counted. It exceeds the number of requests that can be in flight.
const MAX_AWAITED: usize = 2048;
/// The number of short events that a request permits besides its answer.
const BESIDES: usize = 4;
/// The maximum length of a short event in bytes.
const MAX_SHORT: usize = 1024;

/// The maximum length of a request's id in bytes.
const MAX_ID: usize = 1024;

/// The limit that an upstream has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    /// The token bucket of events.
    #[error(
        "the upstream sends more than {EVENTS} events or lines at once, or {EVENTS_PER_SECOND} a second, that are not answers to requests"
    )]
    Events,
    /// The token bucket of bytes.
    #[error("the upstream sends more than 16 MiB at once, or 1 MiB a second, that are not answers to requests")]
    Bytes,
    /// The maximum length of a line, even if it is an answer.
    #[error("the upstream sends a line of more than 2 GiB")]
    Line,
}

/// The token buckets of one connection, for everything that an upstream sends without a request.
#[derive(Debug)]
pub(crate) struct Allowance {
    events: DefaultDirectRateLimiter,
    bytes: DefaultDirectRateLimiter,
    /// The number of requests that have no answer yet.
    awaited: AtomicUsize,
    /// The number of short events that requests permit.
    besides: AtomicUsize,
    excess: OnceLock<Excess>,
    /// Cancelled by the first excess.
    exceeded: CancellationToken,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            events: RateLimiter::direct(Quota::per_second(EVENTS_PER_SECOND).allow_burst(EVENTS)),
            bytes: RateLimiter::direct(Quota::per_second(BYTES_PER_SECOND).allow_burst(BYTES)),
            awaited: AtomicUsize::new(0),
            besides: AtomicUsize::new(0),
            excess: OnceLock::new(),
            exceeded: CancellationToken::new(),
        }
    }
}

impl Allowance {
    /// Takes this number of events and bytes.
    ///
    /// # Errors
    ///
    /// There is an excess, now or before. The connection must end.
    pub(crate) fn take(&self, events: usize, bytes: usize) -> Result<(), Excess> {
        if let Some(excess) = self.excess() {
            Err(excess)
        } else if events > 0 && bytes <= MAX_SHORT && subtract(&self.besides, events) {
            Ok(())
        } else if !take(&self.events, events, EVENTS) {
            Err(self.exceed(Excess::Events))
        } else if !take(&self.bytes, bytes, BYTES) {
            Err(self.exceed(Excess::Bytes))
        } else {
            Ok(())
        }
    }

    /// Records an excess, and returns the first one.
    pub(crate) fn exceed(&self, excess: Excess) -> Excess {
        let first = *self.excess.get_or_init(|| excess);
        self.exceeded.cancel();
        first
    }

    /// Returns the first excess.
    pub(crate) fn excess(&self) -> Option<Excess> {
        self.excess.get().copied()
    }

    /// Records that a request waits for an answer, which is not counted.
    pub(crate) fn await_answer(&self) {
        add(&self.awaited, 1, MAX_AWAITED);
        add(&self.besides, BESIDES, MAX_AWAITED.saturating_mul(BESIDES));
    }

    /// Records that there is an answer. Returns whether a request waits for one.
    pub(crate) fn take_answer(&self) -> bool {
        subtract(&self.awaited, 1)
    }
}

/// Adds to a counter, up to a maximum.
fn add(counter: &AtomicUsize, number: usize, max: usize) {
    let add = |count: usize| Some(count.saturating_add(number).min(max));
    let _ = counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
}

/// Subtracts from a counter, if it is at least as high. Returns whether it is.
fn subtract(counter: &AtomicUsize, number: usize) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(number)).is_ok()
}

/// Takes this number of tokens, and at most a burst. Returns whether there were enough.
fn take(bucket: &DefaultDirectRateLimiter, number: usize, burst: NonZeroU32) -> bool {
    let number = u32::try_from(number).unwrap_or(u32::MAX).min(burst.get());
    NonZeroU32::new(number).is_none_or(|number| matches!(bucket.check_n(number), Ok(Ok(()))))
}

/// A transport that ends with the allowance of its connection.
pub(crate) struct Guarded<T> {
    inner: T,
    allowance: Arc<Allowance>,
    updates: Arc<Updates>,
    health: Arc<Health>,
    /// Whether the transport has ended.
    has_ended: Arc<AtomicBool>,
}

impl<T> Guarded<T> {
    pub(crate) fn new(
        inner: T,
        allowance: Arc<Allowance>,
        updates: Arc<Updates>,
        health: Arc<Health>,
        has_ended: Arc<AtomicBool>,
    ) -> Self {
        Self { inner, allowance, updates, health, has_ended }
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
            let received = tokio::select! {
                biased;
                () = self.allowance.exceeded.cancelled() => None,
                received = self.inner.receive() => received,
            };
            let Some(message) = received else {
                self.end();
                return None;
            };
            let is_wanted = match &message {
                JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_) => true,
                JsonRpcMessage::Request(request) => has_short_id(&request.id),
                JsonRpcMessage::Notification(notification) => is_wanted(&notification.notification),
            };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_with_a_long_id_is_dropped() {
        assert!(has_short_id(&RequestId::Number(1)) && has_short_id(&RequestId::String("a".repeat(MAX_ID).into())));
        assert!(!has_short_id(&RequestId::String("a".repeat(MAX_ID + 1).into())));
    }

    #[test]
    fn a_burst_is_allowed_and_a_flood_is_not() {
        let allowance = Allowance::default();
        let taken = (0..10_000_000).take_while(|_| allowance.take(1, 1).is_ok()).count();
        assert!(taken >= 10_000 && allowance.excess() == Some(Excess::Events), "{taken}");
        assert!(allowance.exceeded.is_cancelled());

        let allowance = Allowance::default();
        let taken = (0..10_000_000).take_while(|_| allowance.take(0, 64 << 10).is_ok()).count();
        assert!(taken >= 256 && allowance.excess() == Some(Excess::Bytes), "{taken}");
        assert_eq!(allowance.take(1, 1), Err(Excess::Bytes), "after an excess the connection ends");

        let allowance = Allowance::default();
        assert_eq!(allowance.take(1, usize::MAX), Ok(()), "a long event is a burst");
        assert_eq!(allowance.take(1, 16 << 20), Err(Excess::Bytes));
    }

    #[test]
    fn each_request_permits_one_answer() {
        let allowance = Allowance::default();
        assert!(!allowance.take_answer());
        allowance.await_answer();
        allowance.await_answer();
        assert!(allowance.take_answer() && allowance.take_answer() && !allowance.take_answer());
        for _ in 0..2 * MAX_AWAITED {
            allowance.await_answer();
        }
        assert_eq!((0..).take_while(|_| allowance.take_answer()).count(), MAX_AWAITED);
    }

    #[test]
    fn a_request_permits_few_short_events_besides_its_answer() {
        let allowance = Allowance::default();
        for _ in 0..50_000 {
            allowance.await_answer();
            assert!(allowance.take_answer() && allowance.take(1, 20).is_ok());
        }
        assert!((0..100_000).any(|_| allowance.take(1, 20).is_err()));

        let allowance = Allowance::default();
        allowance.await_answer();
        assert!((0..100_000).any(|_| allowance.take(0, 1024).is_err()), "parts of a line are no events");
    }

    #[test]
    fn an_excess_names_its_limits() {
        let text = Excess::Events.to_string();
        assert!(text.contains("10000 events") && text.contains("1000 a second"), "{text}");
        assert_eq!((BYTES.get(), BYTES_PER_SECOND.get()), (16 << 20, 1 << 20));
        let text = Excess::Bytes.to_string();
        assert!(text.contains("16 MiB") && text.contains("1 MiB a second"), "{text}");
    }
}
