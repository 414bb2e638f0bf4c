//! `poll = true`: change detection by polling, for servers without notifications. Watched resources, and the first page
//! of the listing, are read again, and the digests of the answers are compared.
//!
//! A resource is read when the host requests changes and the time to live of the previous answer is over. The first
//! read is the baseline.
//!
//! Reads are independent: a failed read does not affect others. Each read is a task with the timeout `limits.deadline`,
//! and records a change when it ends. The call that started it waits for at most [`Poller::wait`]. A failed read is
//! repeated with exponential back-off, in [slots](crate::slots) for retries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::{BoxFuture, join_all, select};
use mcp_host_base::backoff::Backoff;
use mcp_host_base::task;
use mcp_host_model::provider::Failure;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use crate::answer;
use crate::message::LONG;
use crate::slots::Slots;
use crate::updates::Updates;

/// The maximum time to live that delays a read.
const MAX_TTL: Duration = Duration::from_secs(3600);
/// The maximum time for which a call waits for reads.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The key of the listing.
pub(crate) const LISTING: Option<String> = None;

/// A watched path; none is the listing.
pub(crate) type Key = Option<String>;

/// The digest of an answer, and its time to live.
pub(crate) struct Content {
    pub(crate) digest: [u8; 32],
    pub(crate) ttl: Option<Duration>,
}

impl Content {
    fn new(bytes: &[u8], ttl: Option<Duration>) -> Self {
        Self { digest: Sha256::digest(bytes).into(), ttl }
    }

    /// Returns the digest of the compared part of a result. A long result is parsed on another thread.
    pub(crate) async fn of(result: String) -> Result<Self, Failure> {
        let compared = |result: String| match answer::compared(&result) {
            Ok((compared, ttl)) => Ok(Self::new(compared.as_bytes(), ttl)),
            Err(error) => Err(Failure::internal(format!("the upstream answers with something else: {error}"))),
        };
        if result.len() < LONG {
            return compared(result);
        }
        let failed = |_| Failure::unavailable("the host is shutting down");
        task::spawn_blocking(move || compared(result)).await.map_err(failed)?
    }
}

/// Reads the watched resources of one client.
pub(crate) struct Poller {
    runtime: Handle,
    updates: Arc<Updates>,
    readings: Arc<Mutex<Readings>>,
    slots: Slots,
    deadline: Duration,
    wait: Duration,
    /// Cancels all reads. Otherwise each read would keep the client of the upstream until its answer arrives.
    stopped: CancellationToken,
}

impl Poller {
    pub(crate) fn new(runtime: Handle, updates: Arc<Updates>, deadline: Duration) -> Self {
        let wait = deadline.div_f64(4.0).min(MAX_WAIT);
        Self {
            runtime,
            updates,
            readings: Arc::default(),
            slots: Slots::for_readings(),
            deadline,
            wait,
            stopped: CancellationToken::new(),
        }
    }

    /// Starts the reads of these keys that are due. Removes keys that were not requested for `idle`.
    pub(crate) async fn poll(
        &self,
        keys: impl Iterator<Item = Key>,
        idle: Duration,
        read: impl Fn(&Key) -> BoxFuture<'static, Result<Content, Failure>>,
    ) {
        let now = Instant::now();
        let until = now.checked_add(self.wait).unwrap_or(now);
        let due = self.readings.lock().due(keys, now, idle);
        let mut first = Vec::new();
        for (key, is_again) in due {
            let reading = self.read(read(&key), key, is_again, until);
            let task = self.runtime.spawn(self.stopped.clone().run_until_cancelled_owned(reading));
            if !is_again {
                first.push(task);
            }
        }
        if first.is_empty() {
            return;
        }
        let timer = {
            let _context = self.runtime.enter();
            tokio::time::sleep_until(until.into())
        };
        select(join_all(first), std::pin::pin!(timer)).await;
    }

    /// Cancels all reads, and starts no more.
    pub(crate) fn stop(&self) {
        self.stopped.cancel();
    }

    /// Removes the results of reads, because nothing is watched any more.
    pub(crate) fn forget(&self) {
        self.readings.lock().by_key.clear();
    }

    /// Makes one read, and records its result. `until` is the time until which the call waits for it.
    fn read(
        &self,
        reading: BoxFuture<'static, Result<Content, Failure>>,
        key: Key,
        is_again: bool,
        until: Instant,
    ) -> impl Future<Output = ()> + 'static {
        let (slots, deadline) = (self.slots.clone(), self.deadline);
        let (readings, updates) = (self.readings.clone(), self.updates.clone());
        async move {
            let _slot = slots.take(is_again).await;
            let content = match tokio::time::timeout(deadline, reading).await {
                Ok(Ok(content)) => Some(content),
                // A resource may appear and disappear.
                Ok(Err(Failure::NotFound | Failure::InvalidRequest(_) | Failure::Denied(_))) => {
                    Some(Content::new(&[], None))
                }
                Ok(Err(_)) | Err(_) => None,
            };
            let now = Instant::now();
            if !readings.lock().record(&key, content, now) {
                return;
            }
            match &key {
                None => updates.listing_changed(),
                Some(path) => drop(updates.changed(path)),
            }
            if is_again || now >= until {
                updates.wake();
            }
        }
    }
}

/// The reads of all keys.
#[derive(Debug, Default)]
struct Readings {
    by_key: HashMap<Key, Reading>,
}

#[derive(Debug)]
struct Reading {
    /// The digest of the last answer.
    digest: Option<[u8; 32]>,
    due: Instant,
    asked_at: Instant,
    is_under_way: bool,
    /// The delays after failures; none after a success.
    backoff: Option<Backoff>,
}

impl Readings {
    /// Returns the keys that are due, each with whether its last read failed. Removes keys that were not requested for
    /// `idle`.
    fn due(&mut self, keys: impl Iterator<Item = Key>, now: Instant, idle: Duration) -> Vec<(Key, bool)> {
        let mut due = Vec::new();
        for key in keys {
            let new = Reading { digest: None, due: now, asked_at: now, is_under_way: false, backoff: None };
            let reading = self.by_key.entry(key.clone()).or_insert(new);
            reading.asked_at = now;
            if reading.due <= now && !reading.is_under_way {
                reading.is_under_way = true;
                due.push((key, reading.backoff.is_some()));
            }
        }
        self.by_key.retain(|_, reading| reading.is_under_way || now.saturating_duration_since(reading.asked_at) < idle);
        due
    }

    /// Records the result of a read; none if it failed. Returns whether the content has changed.
    fn record(&mut self, key: &Key, content: Option<Content>, now: Instant) -> bool {
        let Some(reading) = self.by_key.get_mut(key) else { return false };
        reading.is_under_way = false;
        let Some(Content { digest, ttl }) = content else {
            let delay = reading.backoff.get_or_insert_default().next_delay();
            reading.due = now.checked_add(delay).unwrap_or(now);
            return false;
        };
        reading.backoff = None;
        reading.due = now.checked_add(ttl.unwrap_or_default().min(MAX_TTL)).unwrap_or(now);
        reading.digest.replace(digest).is_some_and(|before| before != digest)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const IDLE: Duration = Duration::from_secs(60);

    fn key(name: &str) -> Key {
        Some(name.to_owned())
    }

    fn due(readings: &mut Readings, name: &str, now: Instant) -> Vec<bool> {
        readings.due([key(name)].into_iter(), now, IDLE).into_iter().map(|(_, is_again)| is_again).collect()
    }

    #[test]
    fn a_resource_is_read_again_when_its_time_to_live_is_over() {
        let (mut readings, start) = (Readings::default(), Instant::now());
        let after = |seconds| start + Duration::from_secs(seconds);
        let content = |text: &str, seconds| Some(Content::new(text.as_bytes(), Some(Duration::from_secs(seconds))));
        assert_eq!(due(&mut readings, "a", start), [false]);
        assert!(due(&mut readings, "a", start).is_empty(), "it is under way");
        assert!(!readings.record(&key("a"), content("1", 10), start), "the first is compared with nothing");
        assert!(due(&mut readings, "a", after(9)).is_empty());
        assert_eq!(due(&mut readings, "a", after(10)), [false]);
        assert!(!readings.record(&key("a"), content("1", 0), after(10)));
        assert_eq!(due(&mut readings, "a", after(10)), [false]);
        assert!(readings.record(&key("a"), content("2", 0), after(11)));
    }

    #[test]
    fn what_fails_is_read_again_with_back_off_and_compared_with_what_was_before() {
        let (mut readings, start) = (Readings::default(), Instant::now());
        let content = |text: &str| Some(Content::new(text.as_bytes(), None));
        due(&mut readings, "a", start);
        readings.record(&key("a"), content("1"), start);
        due(&mut readings, "a", start);
        assert!(!readings.record(&key("a"), None, start));
        assert!(due(&mut readings, "a", start).is_empty());
        assert_eq!(due(&mut readings, "a", start + Duration::from_secs(2)), [true]);
        assert!(readings.record(&key("a"), content("2"), start + Duration::from_secs(2)));
    }

    #[tokio::test]
    async fn a_reading_that_never_ends_holds_its_client_no_longer_than_that_is_there() {
        let poller = Poller::new(Handle::current(), Arc::new(Updates::new()), Duration::from_secs(3600));
        let client = Arc::new(());
        let read = |_: &Key| {
            let client = client.clone();
            let reading = async move {
                std::future::pending::<()>().await;
                drop(client);
                Err(Failure::NotFound)
            };
            reading.boxed()
        };
        poller.poll([key("a")].into_iter(), IDLE, read).await;
        assert_eq!(Arc::strong_count(&client), 2);
        poller.stop();
        while Arc::strong_count(&client) > 1 {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn what_nobody_asks_for_is_forgotten() {
        let (mut readings, start) = (Readings::default(), Instant::now());
        due(&mut readings, "a", start);
        readings.record(&key("a"), Some(Content::new(b"1", None)), start);
        due(&mut readings, "b", start + IDLE);
        assert!(!readings.by_key.contains_key(&key("a")));
    }
}
