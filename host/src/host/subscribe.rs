//! Subscribing: for those who wait for the answer, and for those who were promised to be told.
//!
//! A subscription counts when the provider has said that the resource can be subscribed to and a round of `changes` that knows
//! of it has ended. Either may fail for a reason that passes: the provider traps, takes too long, is left alone by the circuit
//! breaker, is being replaced by a reload. Then it is tried again, with the back-off of what failed (`watch::lookup`,
//! `watch::poller`). That has jitter where it is made, and not once more for each who waits: all who wait for one resource try
//! again at the same moment, and share one call.
//!
//! - [`Host::subscribe`] is for requests with an answer: it tries again for [`RETRY_BUDGET`], and waits for [`MAX_WAIT`] in all
//!   while others are before it. Then the answer is the error, which is final for the request: nothing is left behind, and a
//!   client that asks again begins anew.
//! - [`Host::maintain_subscriptions`] is for a list of resources that were acknowledged already (`subscriptions/listen`): each is tried
//!   until it counts, and is told of once when it does. One that is refused for good (not found, denied, not to be subscribed to,
//!   its plugin gone) is dormant until the next reload, which may change each of these.
//!
//! What is done at the same time for one list is bounded: [`MAX_ATTEMPTS_PER_PLUGIN`] attempts for each plugin, so that one which hangs
//! delays the resources of no other. An attempt that failed waits for its next try as a few bytes.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::Host;
use crate::config::Operation;
use crate::log_target;
use crate::resource::Error;
use crate::uri::Uri;
use crate::watch::{SubscribeError, Subscriber};

/// For how long a request to subscribe is tried again.
const RETRY_BUDGET: Duration = Duration::from_secs(3);
/// For how long it waits at most, for all reasons together.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// For how long an attempt waits while a reload replaces its plugin.
const RELOAD_RETRY_DELAY: Duration = Duration::from_millis(10);
/// Attempts for resources of one list, and one plugin, at the same time.
const MAX_ATTEMPTS_PER_PLUGIN: usize = 8;

/// Why a subscription does not count.
struct AttemptError {
    error: Error,
    /// In how long it makes sense to try again; none if the answer will be the same until a reload.
    retry_after: Option<Duration>,
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        Self { error, retry_after: None }
    }
}

/// A resource of a list.
struct RequestedResource<'a> {
    uri: &'a str,
    is_active: AtomicBool,
}

/// Resources whose next attempt is at a certain time.
#[derive(Default)]
struct RetryQueue<'a>(BTreeMap<Instant, Vec<&'a RequestedResource<'a>>>);

impl<'a> RetryQueue<'a> {
    /// Takes out those whose time has come.
    fn pop_due(&mut self, now: Instant) -> Vec<&'a RequestedResource<'a>> {
        let mut due = Vec::new();
        while let Some(entry) = self.0.first_entry().filter(|entry| *entry.key() <= now) {
            due.append(&mut entry.remove());
        }
        due
    }
}

impl Host {
    /// Subscribes to a resource. When this returns, every change from then on is told at least once.
    ///
    /// # Errors
    ///
    /// It cannot be subscribed to, or not within some seconds. Nothing is left behind then.
    pub async fn subscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        let began = Instant::now();
        let trying = async {
            loop {
                match self.try_subscribe(subscriber, uri, false).await {
                    Ok(()) => return Ok(()),
                    Err(AttemptError { retry_after: Some(after), .. })
                        if began.elapsed().saturating_add(after) < RETRY_BUDGET =>
                    {
                        sleep(after).await;
                    }
                    Err(refusal) => return Err(refusal.error),
                }
            }
        };
        let waiting = async { timeout(MAX_WAIT, trying).await.unwrap_or_else(|_| Err(self.subscribe_timeout(uri))) };
        self.audited(subscriber.principal(), Operation::Subscribe, uri, waiting).await
    }

    /// Subscribes to each of those resources as soon as that can be done, whatever is in the way of it now, and tells the
    /// subscriber once of each when its subscription counts. It goes on until it is dropped; what counts by then stays.
    pub async fn maintain_subscriptions(&self, subscriber: &Subscriber, uris: &[String]) -> Infallible {
        let mut reloads = self.hub.reloads();
        let wanted = uris.iter().map(|uri| RequestedResource { uri, is_active: AtomicBool::new(false) });
        let wanted: Vec<_> = wanted.collect();
        loop {
            reloads.mark_unchanged();
            let mut by_plugin = BTreeMap::<_, VecDeque<_>>::new();
            for one in wanted.iter().filter(|one| !one.is_active.load(Ordering::Relaxed)) {
                by_plugin.entry(self.slot_index(one.uri)).or_default().push_back(one);
            }
            let groups = by_plugin.into_values().map(|group| self.subscribe_group(subscriber, group));
            tokio::select! {
                _ = join_all(groups) => {}
                _ = reloads.changed() => continue,
            }
            if reloads.changed().await.is_err() {
                // The host is going away.
                return std::future::pending().await;
            }
        }
    }

    /// Subscribes to resources of one plugin, and returns when each counts or was refused for good.
    async fn subscribe_group<'a>(&self, subscriber: &Subscriber, mut ready: VecDeque<&'a RequestedResource<'a>>) {
        let mut retry_queue = RetryQueue::default();
        let mut in_flight = FuturesUnordered::new();
        loop {
            while in_flight.len() < MAX_ATTEMPTS_PER_PLUGIN
                && let Some(wanted) = ready.pop_front()
            {
                in_flight.push(self.try_subscribe_audited(subscriber, wanted));
            }
            let next = retry_queue.0.first_key_value().map(|(when, _)| *when);
            tokio::select! {
                Some((wanted, retry_after)) = in_flight.next() => {
                    if let Some(when) = retry_after.and_then(|after| Instant::now().checked_add(after)) {
                        retry_queue.0.entry(when).or_default().push(wanted);
                    }
                }
                () = sleep_until_some(next), if next.is_some() => ready.extend(retry_queue.pop_due(Instant::now())),
                else => return,
            }
        }
    }

    /// Tries once to subscribe to a resource of a list. Gives in how long to try again, if at all.
    async fn try_subscribe_audited<'a>(
        &self,
        subscriber: &Subscriber,
        wanted: &'a RequestedResource<'a>,
    ) -> (&'a RequestedResource<'a>, Option<Duration>) {
        let uri = wanted.uri;
        let mut retry_after = None;
        let trying = async {
            let tried = self.try_subscribe(subscriber, uri, true).await;
            tried.map_err(|refusal| {
                retry_after = refusal.retry_after;
                refusal.error
            })
        };
        match self.audited(subscriber.principal(), Operation::Subscribe, uri, trying).await {
            Ok(()) => wanted.is_active.store(true, Ordering::Relaxed),
            // Such a list has no way to refuse a single one: it is as if it never changed.
            Err(error) if retry_after.is_none() => {
                tracing::debug!(target: log_target::WATCH, %uri, %error, "a resource cannot be subscribed to, unless by a reload");
            }
            Err(error) => {
                tracing::debug!(target: log_target::WATCH, %uri, %error, ?retry_after, "a resource cannot be subscribed to yet")
            }
        }
        (wanted, retry_after)
    }

    /// Tries once to subscribe, with the plugin of this moment.
    async fn try_subscribe(&self, subscriber: &Subscriber, uri: &str, notify_now: bool) -> Result<(), AttemptError> {
        loop {
            let (plugin, normal) = self.authorize_subscribe(subscriber, uri)?;
            let (fault, retry_after) = match self.hub.subscribe(subscriber, uri, &normal, notify_now).await {
                Ok(()) => return Ok(()),
                Err(SubscribeError::PluginReplaced) => {
                    sleep(RELOAD_RETRY_DELAY).await;
                    continue;
                }
                Err(SubscribeError::Permanent(fault)) => (fault, None),
                Err(SubscribeError::Transient(fault, after)) => (fault, Some(after)),
            };
            return Err(AttemptError { error: fault.into_client_error(&plugin, uri), retry_after });
        }
    }

    /// The name of the plugin and the resource that a URI leads to, if the subscriber's principal may subscribe to it.
    fn authorize_subscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(String, Uri), Error> {
        let generation = self.generation.load();
        let target = generation.resolve(subscriber.principal(), Operation::Subscribe, uri)?;
        if !generation.access.allows(subscriber.principal(), Operation::Read, &target.uri) {
            return Err(Error::NotFound { uri: uri.to_owned() });
        }
        let plugin = target.slot.loaded()?;
        Ok((plugin.name().to_owned(), target.uri))
    }

    /// The place of the plugin that owns a URI.
    fn slot_index(&self, uri: &str) -> Option<usize> {
        self.generation.load().router.route(uri).ok().map(|routed| *routed.target)
    }

    fn subscribe_timeout(&self, uri: &str) -> Error {
        let generation = self.generation.load();
        match self.slot_index(uri).and_then(|index| generation.slots.get(index)) {
            Some(slot) => Error::Unavailable {
                plugin: slot.name.clone(),
                reason: "too many others subscribe at the moment; try again later".to_owned(),
                retry_after: Some(Duration::from_secs(1)),
            },
            None => Error::NotFound { uri: uri.to_owned() },
        }
    }
}

async fn sleep_until_some(when: Option<Instant>) {
    if let Some(when) = when {
        sleep_until(when).await;
    }
}
