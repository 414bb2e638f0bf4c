//! Subscribing: with a response, or in the background for subscriptions that were acknowledged already.
//!
//! A subscription is active once the provider has declared the resource subscribable and a poll of `changes` that
//! includes it has ended. Either step may fail for a transient reason: the provider traps, times out, is suspended by
//! the circuit breaker, or is being replaced by a reload. Then it is retried with the back-off of the failed step
//! (`watch::lookup`, `watch::poller`). Jitter is added there, not again per subscriber, so all subscribers of one
//! resource retry at the same time and share one call.
//!
//! - [`Host::subscribe`] is for requests with a response. It retries for [`RETRY_BUDGET`], and waits [`MAX_WAIT`] in
//!   total while it is queued behind others or the plugin is being loaded. Then the response is the error, which is
//!   final for this request: nothing is retained, and a later request begins from the start.
//! - [`Host::maintain_subscriptions`] is for a list of resources that were acknowledged already
//!   (`subscriptions/listen`). Each is retried until it is active, and is then notified once. A resource that fails
//!   permanently (not found, denied, not subscribable, plugin removed) is dormant until the next reload, which may
//!   change each of these.
//!
//! Concurrency per list is bounded, and a limit that is reached holds back the attempts of the whole list
//! ([`subscription_list`](super::subscription_list)). A failed attempt costs a few bytes until its retry.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::share_limiter::{LimitReached, ShareLimits, SharePermit};
use mcp_host_config::Operation;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::Error;
use mcp_host_model::uri::Uri;
use tokio::time::{Instant, sleep, timeout};

use super::Host;
use super::subscription_list::{Attempt, AttemptQueue};
use crate::access::Principal;
use crate::audit::Facts;
use crate::watch::{LimitScope, SubscribeError, Subscriber};

/// The time for which a subscribe request is retried.
const RETRY_BUDGET: Duration = Duration::from_secs(3);
/// The maximum total wait of such a request.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The retry delay while a reload replaces the plugin.
const RELOAD_RETRY_DELAY: Duration = Duration::from_millis(10);

/// Why a subscription is not active.
struct AttemptError {
    error: Error,
    retry: Retry,
}

/// Whether an attempt may succeed later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Retry {
    /// The error is permanent until a reload.
    Never,
    /// After this time.
    After(Duration),
    /// A limit is reached that applies to other resources, too.
    Limited(LimitScope),
}

impl From<Error> for AttemptError {
    fn from(error: Error) -> Self {
        Self { error, retry: Retry::Never }
    }
}

/// A resource of a list.
struct RequestedResource<'a> {
    uri: &'a str,
    is_active: AtomicBool,
    /// Whether the audit log has a line about its permanent failure: reloads repeat the attempt, and usually the
    /// failure.
    is_failure_recorded: AtomicBool,
}

impl Host {
    /// Subscribes to a resource. After this returns, every later change is notified at least once.
    ///
    /// # Errors
    ///
    /// The resource is not subscribable, or not within some seconds. Then nothing is retained.
    pub async fn subscribe(&self, subscriber: &Subscriber, uri: &str) -> Result<(), Error> {
        let facts = Facts::default();
        let trying = async {
            // A principal that may not read it is rejected by the attempt, without a wait.
            self.generation_for(&subscriber.principal(), Operation::Read, uri, &facts).await;
            let began = Instant::now();
            loop {
                match self.try_subscribe(subscriber, uri, false, &facts).await {
                    Ok(()) => return Ok(()),
                    Err(AttemptError { retry: Retry::After(after), .. })
                        if began.elapsed().saturating_add(after) < RETRY_BUDGET =>
                    {
                        sleep(after).await;
                    }
                    Err(refusal) => return Err(refusal.error),
                }
            }
        };
        let waiting = async {
            timeout(MAX_WAIT, trying)
                .await
                .unwrap_or_else(|_| Err(self.subscribe_timeout(&subscriber.principal(), uri)))
        };
        self.audited(&subscriber.principal(), Operation::Subscribe, uri, &facts, waiting).await
    }

    /// Subscribes to each of these resources, with retries until it succeeds, and notifies the subscriber once about
    /// each when its subscription becomes active. Runs until it is dropped; active subscriptions stay.
    #[doc(hidden)]
    pub async fn maintain_subscriptions(&self, subscriber: &Subscriber, uris: &[String]) -> Infallible {
        let (mut reloads, releases) = (self.hub.reloads(), subscriber.memory_releases());
        let wanted = uris.iter().map(|uri| RequestedResource {
            uri,
            is_active: AtomicBool::new(false),
            is_failure_recorded: AtomicBool::new(false),
        });
        let wanted: Vec<_> = wanted.collect();
        loop {
            reloads.mark_unchanged();
            let mut by_plugin = BTreeMap::<_, VecDeque<_>>::new();
            for one in wanted.iter().filter(|one| !one.is_active.load(Ordering::Relaxed)) {
                by_plugin.entry(self.slot_index(&subscriber.principal(), one.uri)).or_default().push_back(one);
            }
            let queue = AttemptQueue::new(by_plugin.into_values());
            // Boxed, because it exists only during attempts, and a subscriber is usually idle.
            let mut attempts = Box::pin(queue.run(&releases, |wanted| self.try_subscribe_audited(subscriber, wanted)));
            tokio::select! {
                () = &mut attempts => {}
                _ = reloads.changed() => continue,
            }
            drop(attempts);
            if reloads.changed().await.is_err() {
                // The host is being dropped.
                return std::future::pending().await;
            }
        }
    }

    /// Attempts once to subscribe to a resource of a list. The audit log gets a line when the subscription becomes
    /// active, and when it first fails permanently.
    async fn try_subscribe_audited(&self, subscriber: &Subscriber, wanted: &RequestedResource<'_>) -> Attempt {
        let uri = wanted.uri;
        let facts = Facts::default();
        let principal = subscriber.principal();
        let record = self.begin_record(&principal, Operation::Subscribe, uri, &facts);
        let Ok(mut record) = record else { return Attempt::Unrecorded };
        record.set_audited(false);
        let mut retry = Retry::Never;
        let trying = async {
            let tried = self.try_subscribe(subscriber, uri, true, &facts).await;
            tried.map_err(|refusal| {
                retry = refusal.retry;
                refusal.error
            })
        };
        let response = record.run(&self.requests, pin!(trying)).await;
        let is_new_failure = || retry == Retry::Never && !wanted.is_failure_recorded.swap(true, Ordering::Relaxed);
        record.set_audited(response.is_ok() || is_new_failure());
        match response {
            Ok(()) => wanted.is_active.store(true, Ordering::Relaxed),
            // Such a list cannot reject a single resource, so the resource behaves like one that never changes.
            Err(error) if retry == Retry::Never => {
                tracing::debug!(target: log_target::WATCH, uri, error = error.to_string(), "a resource cannot be subscribed to, unless by a reload");
            }
            Err(error) => {
                tracing::debug!(target: log_target::WATCH, uri, error = error.to_string(), ?retry, "a resource cannot be subscribed to yet")
            }
        }
        match retry {
            Retry::Never => Attempt::Ended,
            Retry::After(after) => Attempt::Retry(after),
            Retry::Limited(scope) => Attempt::Limited(scope),
        }
    }

    /// Reserves the memory of a resource list for [`maintain_subscriptions`](Self::maintain_subscriptions), for as long
    /// as the list is kept. None if the subscriptions of the client, or of all clients, leave too little.
    #[doc(hidden)]
    pub fn reserve_subscription_list(
        &self,
        subscriber: &Subscriber,
        uris: &[String],
    ) -> Option<SharePermit<Requester>> {
        subscriber.reserve_list(uris, self.subscription_memory(&subscriber.principal()))
    }

    /// Charges the subscriptions of a session's record that are not subscriptions at this host to the client, as if
    /// they were. `uris` are by normal form, and as requested. If there is too little memory, the charge is unchanged.
    #[doc(hidden)]
    pub fn charge_subscriptions_elsewhere(
        &self,
        subscriber: &Subscriber,
        client: Requester,
        uris: &BTreeMap<String, String>,
        charge: &mut Option<SharePermit<Requester>>,
    ) -> Result<(), LimitReached> {
        subscriber.charge_elsewhere(client, uris, charge, self.subscription_memory(&subscriber.principal()))
    }

    /// Returns the limits on the memory of subscriptions, per client and overall. A client is a principal, or the
    /// address of an anonymous client.
    fn subscription_memory(&self, principal: &Principal) -> ShareLimits {
        let config = self.config();
        let limits = &config.http.limits;
        let overall = usize::try_from(limits.subscription_memory.bytes()).unwrap_or(usize::MAX);
        let is_built_in = principal.is_built_in();
        let client =
            if is_built_in { limits.client_share.apply(overall) } else { limits.principal_share.apply(overall) };
        ShareLimits { client, overall }
    }

    /// Attempts once to subscribe, with the current plugin.
    async fn try_subscribe(
        &self,
        subscriber: &Subscriber,
        uri: &str,
        notify_now: bool,
        facts: &Facts,
    ) -> Result<(), AttemptError> {
        loop {
            let (plugin, normal) = self.authorize_subscribe(subscriber, uri, facts)?;
            let memory = self.subscription_memory(&subscriber.principal());
            let (fault, retry) = match self.hub.subscribe(subscriber, uri, &normal, notify_now, memory).await {
                Ok(()) => return Ok(()),
                Err(SubscribeError::PluginReplaced) => {
                    sleep(RELOAD_RETRY_DELAY).await;
                    continue;
                }
                Err(SubscribeError::Permanent(fault)) => (fault, Retry::Never),
                Err(SubscribeError::Transient(fault, after)) => (fault, Retry::After(after)),
                Err(SubscribeError::Limited(fault, scope)) => (fault, Retry::Limited(scope)),
            };
            return Err(AttemptError { error: fault.into_client_error(&plugin, uri), retry });
        }
    }

    /// Returns the plugin's name and the URI in normal form, if the subscriber's principal may subscribe to it.
    fn authorize_subscribe(&self, subscriber: &Subscriber, uri: &str, facts: &Facts) -> Result<(String, Uri), Error> {
        let generation = self.generation.load();
        let target = generation.resolve(&subscriber.principal(), Operation::Subscribe, uri, facts)?;
        let (_, decision) = target.policy.decide_request(Operation::Subscribe, &target.uri);
        if !decision.is_allowed() {
            facts.set_decision(decision);
            return Err(Error::NotFound { uri: uri.to_owned() });
        }
        let plugin = target.slot.loaded()?;
        Ok((plugin.name().to_owned(), target.uri))
    }

    /// Returns the index of the plugin that owns a URI, for a principal.
    fn slot_index(&self, principal: &Principal, uri: &str) -> Option<usize> {
        let generation = self.generation.load();
        let policy = generation.access.policy(principal);
        generation.route_for(&policy, Operation::Subscribe, uri).ok().map(|routed| *routed.target)
    }

    fn subscribe_timeout(&self, principal: &Principal, uri: &str) -> Error {
        let generation = self.generation.load();
        match self.slot_index(principal, uri).and_then(|index| generation.slots.get(index)) {
            Some(slot) if slot.plugin.is_err() => slot.unavailable_error(),
            Some(slot) => Error::Unavailable {
                plugin: slot.name.clone(),
                reason: "too many others subscribe at the moment; try again later".to_owned(),
                retry_after: Some(Duration::from_secs(1)),
            },
            None => Error::NotFound { uri: uri.to_owned() },
        }
    }
}
