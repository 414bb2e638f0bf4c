//! The budgets of what an upstream sends without a request.
//!
//! Everything that an upstream sends is counted where it is received, in event streams ([`http`](crate::http)) and on
//! pipes ([`pipes`](crate::pipes)), in token buckets of events and of bytes ([`Buckets`]): messages, and also empty
//! lines, comments, events that cannot be decoded, and answers that no request waits for. A chunk, or a read of a pipe,
//! counts as at least 64 bytes ([`shortfall`]). One answer to each request is not counted. Each request also permits
//! [`BESIDES`] short events, because servers send such events with each answer, for example the id of its stream.
//! Successive connections with one identity share their buckets, so a new connection has no new burst. All identities
//! of an upstream also share buckets, which are [`IDENTITIES`] times as large, and a budget of bytes of incomplete
//! events ([`Incomplete`]). A [part](OWN_PART) of the buckets of each identity is not taken from the shared ones, so
//! identities that receive a flood do not end the connection of one that receives little.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::bounded_body::shortfall;
use tokio_util::sync::CancellationToken;

/// The burst of events, or of lines.
const EVENTS: NonZeroU32 = NonZeroU32::new(10_000).unwrap();
/// The rate of events, or of lines.
const EVENTS_PER_SECOND: NonZeroU32 = NonZeroU32::new(1000).unwrap();
/// The burst of bytes. A longer event counts as a burst.
const BYTES: NonZeroU32 = NonZeroU32::new(16 << 20).unwrap();
/// The rate of bytes.
const BYTES_PER_SECOND: NonZeroU32 = NonZeroU32::new(1 << 20).unwrap();
/// The buckets of all identities together have this many times the size of one identity's buckets.
const IDENTITIES: NonZeroU32 = NonZeroU32::new(4).unwrap();
/// The part of its buckets that an identity can always take, whatever the others have taken: this fraction.
const OWN_PART: u32 = 64;
/// The minimum number of messages of maximum length that may be incomplete in all event streams together.
const MIN_INCOMPLETE: usize = 4;
/// The maximum number of requests whose answers are not counted. It exceeds the number of requests that can be in
/// flight.
const MAX_AWAITED: usize = 2048;
/// The number of short events that a request permits besides its answer.
const BESIDES: usize = 4;
/// The maximum length of a short event in bytes.
const MAX_SHORT: usize = 1024;

/// The limit that an upstream has exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Excess {
    /// The token bucket of events.
    #[error(
        "the upstream sends more than {EVENTS} events or lines at once, or {EVENTS_PER_SECOND} a second, that are not answers to requests"
    )]
    Events,
    /// The token bucket of bytes.
    #[error(
        "the upstream sends more than {} MiB at once, or {} MiB a second, that are not answers to requests",
        BYTES.get() >> 20,
        BYTES_PER_SECOND.get() >> 20
    )]
    Bytes,
    /// The token buckets of all identities together.
    #[error(
        "the upstream sends more than {IDENTITIES} times as much for all identities together as it may for one: {EVENTS} events or {} MiB \
         at once, or {EVENTS_PER_SECOND} events or {} MiB a second, that are not answers to requests",
        BYTES.get() >> 20,
        BYTES_PER_SECOND.get() >> 20
    )]
    Total,
    /// The budget of bytes of incomplete events.
    #[error("the upstream keeps incomplete events of more than {0} bytes together in its event streams")]
    Incomplete(usize),
    /// The maximum length of a line in bytes, even if it is an answer.
    #[error("the upstream sends a line of more than {} MiB", .0 >> 20)]
    Line(u64),
}

/// A token bucket of events, and one of bytes.
#[derive(Debug)]
struct Tokens {
    events: DefaultDirectRateLimiter,
    bytes: DefaultDirectRateLimiter,
}

impl Tokens {
    /// Creates buckets with the rates and the bursts of one identity, scaled.
    fn scaled(scale: impl Fn(NonZeroU32) -> NonZeroU32) -> Self {
        let limiter = |rate, burst| RateLimiter::direct(Quota::per_second(scale(rate)).allow_burst(scale(burst)));
        Self { events: limiter(EVENTS_PER_SECOND, EVENTS), bytes: limiter(BYTES_PER_SECOND, BYTES) }
    }

    /// Takes this number of events and bytes.
    fn take(&self, events: u32, bytes: u32) -> Result<(), Excess> {
        let take = |bucket: &DefaultDirectRateLimiter, number| {
            NonZeroU32::new(number).is_none_or(|number| matches!(bucket.check_n(number), Ok(Ok(()))))
        };
        if !take(&self.events, events) {
            return Err(Excess::Events);
        }
        if take(&self.bytes, bytes) { Ok(()) } else { Err(Excess::Bytes) }
    }
}

/// Token buckets of events and of bytes.
#[derive(Debug)]
pub(crate) struct Buckets {
    tokens: Tokens,
    /// The buckets that an identity shares with all others.
    shared: Option<Shared>,
    /// The number of bytes of incomplete events in all event streams, and its maximum.
    incomplete: AtomicUsize,
    max_incomplete: usize,
}

/// The buckets of all identities of an upstream, as one of them has them.
#[derive(Debug)]
struct Shared {
    /// What this identity takes before it takes from all.
    own_part: Tokens,
    all: Arc<Buckets>,
}

impl Default for Buckets {
    fn default() -> Self {
        Self::new(Tokens::scaled(|number| number), None, usize::MAX)
    }
}

impl Buckets {
    /// The buckets of all identities of an upstream whose messages have at most `max_message` bytes. `concurrency` is
    /// the maximum number of concurrent calls, whose answers may all be incomplete at the same time.
    pub(crate) fn of_upstream(max_message: usize, concurrency: usize) -> Arc<Self> {
        let tokens = Tokens::scaled(|number| number.saturating_mul(IDENTITIES));
        Arc::new(Self::new(tokens, None, max_message.saturating_mul(concurrency.max(MIN_INCOMPLETE))))
    }

    /// The buckets of one identity. What is taken from them beyond its own part is also taken from the buckets of all
    /// identities.
    pub(crate) fn of_identity(all: Arc<Self>) -> Arc<Self> {
        let part = |number: NonZeroU32| number.get().checked_div(OWN_PART).and_then(NonZeroU32::new);
        let own_part = Tokens::scaled(|number| part(number).unwrap_or(NonZeroU32::MIN));
        Arc::new(Self::new(Tokens::scaled(|number| number), Some(Shared { own_part, all }), usize::MAX))
    }

    fn new(tokens: Tokens, shared: Option<Shared>, max_incomplete: usize) -> Self {
        Self { tokens, shared, incomplete: AtomicUsize::new(0), max_incomplete }
    }

    /// Takes this number of events and bytes, and at most a burst of one identity.
    ///
    /// # Errors
    ///
    /// There are not enough tokens. Those that there are may have been taken.
    pub(crate) fn take(&self, events: usize, bytes: usize) -> Result<(), Excess> {
        let at_most = |number: usize, burst: NonZeroU32| u32::try_from(number).unwrap_or(u32::MAX).min(burst.get());
        let (events, bytes) = (at_most(events, EVENTS), at_most(bytes, BYTES));
        self.tokens.take(events, bytes)?;
        match &self.shared {
            Some(Shared { own_part, all }) if own_part.take(events, bytes).is_err() => {
                all.tokens.take(events, bytes).map_err(|_| Excess::Total)
            }
            _ => Ok(()),
        }
    }
}

/// The bytes of the incomplete event of one stream, in the budget of the upstream. They are returned when it is
/// dropped.
pub(crate) struct Incomplete {
    allowance: Arc<Allowance>,
    length: usize,
}

impl Incomplete {
    /// An event without bytes.
    pub(crate) fn new(allowance: Arc<Allowance>) -> Self {
        Self { allowance, length: 0 }
    }

    /// Sets the number of bytes.
    ///
    /// # Errors
    ///
    /// The budget is exceeded. The connection must end.
    pub(crate) fn set(&mut self, length: usize) -> Result<(), Excess> {
        let budget = self.budget();
        // One operation, so that no other stream sees both lengths in the sum.
        let all = match length.checked_sub(self.length) {
            Some(more) => budget.incomplete.fetch_add(more, Ordering::Relaxed).saturating_add(more),
            None => {
                let less = self.length.saturating_sub(length);
                budget.incomplete.fetch_sub(less, Ordering::Relaxed).saturating_sub(less)
            }
        };
        let max = budget.max_incomplete;
        self.length = length;
        if all > max { Err(self.allowance.exceed(Excess::Incomplete(max))) } else { Ok(()) }
    }

    fn budget(&self) -> &Buckets {
        let own = &self.allowance.buckets;
        own.shared.as_ref().map_or(own, |shared| &shared.all)
    }
}

impl Drop for Incomplete {
    fn drop(&mut self) {
        self.budget().incomplete.fetch_sub(self.length, Ordering::Relaxed);
    }
}

/// The buckets of one connection, for everything that an upstream sends without a request.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    buckets: Arc<Buckets>,
    /// The number of requests that have no answer yet.
    awaited: AtomicUsize,
    /// The number of short events that requests permit.
    besides: AtomicUsize,
    excess: OnceLock<Excess>,
    /// Cancelled by the first excess.
    pub(super) exceeded: CancellationToken,
}

impl Allowance {
    pub(crate) fn new(buckets: Arc<Buckets>) -> Self {
        Self { buckets, ..Self::default() }
    }

    /// Takes the bytes by which a chunk of this length is too [short](shortfall).
    ///
    /// # Errors
    ///
    /// The errors of [`take`](Self::take).
    pub(crate) fn take_piece(&self, length: usize) -> Result<(), Excess> {
        self.take(0, shortfall(length))
    }

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
        } else {
            self.buckets.take(events, bytes).map_err(|excess| self.exceed(excess))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_an_identity_have_the_same_buckets_and_all_identities_have_some_together_beside_their_parts() {
        let total = Buckets::of_upstream(0, 1);
        let identities: Vec<_> = (0..5).map(|_| Buckets::of_identity(total.clone())).collect();
        let flood = |identity: &Arc<Buckets>| {
            let allowance = Allowance::new(identity.clone());
            (0..256).find_map(|_| allowance.take(0, 64 << 10).err())
        };
        let first: Vec<_> = identities[..4].iter().map(flood).collect();
        assert_eq!(first, [None; 4], "a burst each");
        assert_eq!(flood(&identities[0]), Some(Excess::Bytes), "another connection");
        assert_eq!(flood(&identities[4]), Some(Excess::Total), "another identity");
        let with_little = Allowance::new(Buckets::of_identity(total.clone()));
        assert_eq!(with_little.take(100, 200_000), Ok(()), "its own part");
    }

    #[test]
    fn incomplete_events_of_all_identities_have_a_budget() {
        let total = Buckets::of_upstream(100, 1);
        let mut streams: Vec<_> =
            (0..5).map(|_| Incomplete::new(Arc::new(Allowance::new(Buckets::of_identity(total.clone()))))).collect();
        assert!(streams[..4].iter_mut().all(|stream| stream.set(60).is_ok() && stream.set(100).is_ok()));
        assert_eq!(streams[4].set(1), Err(Excess::Incomplete(400)));
        drop(streams.remove(0));
        assert!(streams[0].set(0).is_ok(), "its event is complete");
        assert!(streams[0].set(199).is_ok() && streams[0].set(200).is_err());
        drop(streams);
        assert_eq!(total.incomplete.load(Ordering::Relaxed), 0);
        let mut of_concurrent_calls =
            Incomplete::new(Arc::new(Allowance::new(Buckets::of_identity(Buckets::of_upstream(100, 8)))));
        assert!(of_concurrent_calls.set(800).is_ok() && of_concurrent_calls.set(801).is_err());
        let mut of_a_call = Incomplete::new(Arc::default());
        assert!(of_a_call.set(usize::MAX / 2).is_ok(), "it is in the memory of the call");
    }

    #[test]
    fn a_short_chunk_counts_as_a_longer_one() {
        let allowance = Allowance::default();
        let taken = (0..10_000_000).take_while(|_| allowance.take_piece(1).is_ok()).count();
        assert!((200_000..2_000_000).contains(&taken) && allowance.excess() == Some(Excess::Bytes), "{taken}");
        assert!((0..100_000).all(|_| Allowance::default().take_piece(64).is_ok()));
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
        let text = Excess::Total.to_string();
        assert!(text.contains("more than 4 times as much") && text.contains("10000 events or 16 MiB"), "{text}");
        assert_eq!(Excess::Line(128 << 20).to_string(), "the upstream sends a line of more than 128 MiB");
    }
}
