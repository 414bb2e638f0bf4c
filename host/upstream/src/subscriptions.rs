//! Subscriptions held at an upstream: one for each resource that anybody watches.
//!
//! With sessions each resource is subscribed to. Without, one stream (`subscriptions/listen`) is open for all of them; when another resource
//! is watched, a stream for all is opened before the old one is closed. After a stream or a connection was opened again, everything that is
//! watched has changed once: updates in between are lost.
//!
//! The host asks for groups of its watched resources in turn, so a resource is given up when it was not asked for during [`Subscriptions::idle`].

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use mcp_host_base::backoff::Backoff;
use mcp_host_base::log_target;
use mcp_host_base::text::Excerpt;
use rmcp::model::{ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams};
use rmcp::service::{ServiceError, Subscription};
use tokio::runtime::Handle;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::Link;
use crate::mapping::Mapping;
use crate::updates::Updates;

/// The requests to subscribe that are under way at once.
const MAX_REQUESTS: usize = 8;
/// The shortest and the longest time between two streams that the upstream ends.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(30));
/// A stream that lasted so long ended for a reason of its own.
const LASTING: Duration = Duration::from_secs(30);

/// What is subscribed to.
pub(crate) struct Subscriptions {
    name: Arc<str>,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    runtime: Handle,
    idle: Duration,
    held: HashMap<String, Held>,
    /// The connection that they are held on.
    link: Option<u64>,
    stream: Option<Stream>,
    backoff: Backoff,
    /// The time before which no stream is opened.
    not_before: Option<Instant>,
}

struct Held {
    spelling: String,
    asked_at: Instant,
    /// Whether the upstream has been asked.
    is_requested: bool,
}

/// An open stream.
struct Stream {
    began: Instant,
    has_ended: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

impl Subscriptions {
    pub(crate) fn new(
        name: Arc<str>,
        mapping: Arc<Mapping>,
        updates: Arc<Updates>,
        runtime: Handle,
        idle: Duration,
    ) -> Self {
        let backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
        let (held, link, stream, not_before) = (HashMap::new(), None, None, None);
        Self { name, mapping, updates, runtime, idle, held, link, stream, backoff, not_before }
    }

    /// Whether anything is subscribed to.
    pub(crate) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.stream.is_none()
    }

    /// Subscribes to those paths, each with the spelling of its URI, and gives up what nobody has asked for lately.
    pub(crate) async fn hold(&mut self, link: &Arc<Link>, watched: Vec<(String, String)>) -> Result<(), ServiceError> {
        let now = Instant::now();
        let is_new_link = self.link != Some(link.id);
        let had_link = self.link.is_some();
        if is_new_link {
            self.link = Some(link.id);
            self.stream = None;
            self.held.values_mut().for_each(|held| held.is_requested = false);
        }
        self.updates.watch(watched.iter().map(|(path, _)| path.as_str()));
        for (path, spelling) in watched {
            let held = self.held.entry(path).or_insert(Held { spelling, asked_at: now, is_requested: false });
            held.asked_at = now;
        }
        let given_up = self.give_up(now);
        if link.is_stateless() {
            self.listen(link, is_new_link && had_link).await
        } else {
            self.subscribe(link, given_up).await?;
            if is_new_link && had_link {
                self.updates.gap();
            }
            Ok(())
        }
    }

    /// Gives up everything, as nobody watches any more.
    pub(crate) async fn release(&mut self, link: Option<&Arc<Link>>) {
        let spellings: Vec<_> = self
            .held
            .drain()
            .map(|(path, held)| {
                self.updates.unwatch(&path);
                held.spelling
            })
            .collect();
        self.stream = None;
        if let Some(link) = link.filter(|link| !link.is_stateless() && self.link == Some(link.id)) {
            unsubscribe(link, spellings).await;
        }
        self.link = None;
    }

    /// Forgets the paths that were not asked for during [`Self::idle`], and returns their spellings.
    fn give_up(&mut self, now: Instant) -> Vec<String> {
        let (idle, updates, mut given_up) = (self.idle, &self.updates, Vec::new());
        self.held.retain(|path, held| {
            let is_asked = now.saturating_duration_since(held.asked_at) < idle;
            if !is_asked {
                updates.unwatch(path);
                given_up.push(std::mem::take(&mut held.spelling));
            }
            is_asked
        });
        given_up
    }

    /// Subscribes with a session.
    async fn subscribe(&mut self, link: &Arc<Link>, given_up: Vec<String>) -> Result<(), ServiceError> {
        unsubscribe(link, given_up).await;
        if !link.can_subscribe() {
            return Ok(());
        }
        let wanted = self.held.iter().filter(|(_, held)| !held.is_requested);
        let wanted: Vec<_> = wanted.map(|(path, held)| (path.clone(), held.spelling.clone())).collect();
        let mut answers = futures::stream::iter(wanted)
            .map(|(path, spelling)| async {
                #[allow(deprecated, reason = "it is how the revisions with sessions subscribe")]
                let answer = link.peer.subscribe(SubscribeRequestParams::new(spelling)).await;
                (path, answer)
            })
            .buffer_unordered(MAX_REQUESTS);
        while let Some((path, answer)) = answers.next().await {
            match answer {
                Ok(()) => {}
                // The others are watched without it.
                Err(ServiceError::McpError(error)) => {
                    let (path, error) = (Excerpt(&path).to_string(), Excerpt(&error.message).to_string());
                    tracing::warn!(target: log_target::WATCH, plugin = &*self.name, path, error, "the upstream does not let a resource be subscribed to");
                }
                Err(error) => return Err(error),
            }
            if let Some(held) = self.held.get_mut(&path) {
                held.is_requested = true;
            }
        }
        Ok(())
    }

    /// Opens a stream for all that is held, unless the open one is for all.
    async fn listen(&mut self, link: &Arc<Link>, has_gap: bool) -> Result<(), ServiceError> {
        let now = Instant::now();
        let ended = self.stream.take_if(|stream| stream.has_ended.load(Ordering::Acquire));
        if let Some(ended) = &ended {
            if now.saturating_duration_since(ended.began) > LASTING {
                self.backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
            }
            self.not_before = now.checked_add(self.backoff.next_delay());
        }
        let is_complete = self.stream.is_some() && self.held.values().all(|held| held.is_requested);
        let has_use = link.notifies_of_listing() || (link.can_subscribe() && !self.held.is_empty());
        if is_complete || !has_use {
            return Ok(());
        }
        if self.stream.is_none() && self.not_before.is_some_and(|at| at > now) {
            return Ok(());
        }
        let mut filter = SubscriptionFilter::builder();
        if link.notifies_of_listing() {
            filter = filter.resources_list_changed();
        }
        if link.can_subscribe() && !self.held.is_empty() {
            filter = filter.resource_subscriptions(self.held.values().map(|held| held.spelling.clone()));
        }
        let subscription = link.peer.listen(filter.build()).await?;
        self.warn_of_missing(&subscription);
        // A stream that was open until now has been open all the time.
        let is_gap = has_gap || (self.stream.is_none() && self.not_before.is_some());
        self.held.values_mut().for_each(|held| held.is_requested = true);
        let has_ended = Arc::new(AtomicBool::new(false));
        let task = follow(subscription, self.mapping.clone(), self.updates.clone(), has_ended.clone());
        let _task = AbortOnDropHandle::new(self.runtime.spawn(task));
        self.stream = Some(Stream { began: now, has_ended, _task });
        if is_gap {
            self.updates.gap();
        }
        Ok(())
    }

    /// Logs what the upstream does not notify of, though it was asked to.
    fn warn_of_missing(&self, subscription: &Subscription) {
        let accepted = subscription.acknowledged().resource_subscriptions.as_deref().unwrap_or_default();
        let accepted: HashSet<&str> = accepted.iter().map(String::as_str).collect();
        let missing =
            self.held.values().filter(|held| !held.is_requested && !accepted.contains(held.spelling.as_str())).count();
        if missing > 0 {
            tracing::warn!(target: log_target::WATCH, plugin = &*self.name, missing, "the upstream does not notify of some of the resources that are watched");
        }
    }
}

async fn unsubscribe(link: &Arc<Link>, spellings: Vec<String>) {
    for spelling in spellings {
        #[allow(deprecated, reason = "it is how the revisions with sessions unsubscribe")]
        let answer = link.peer.unsubscribe(UnsubscribeRequestParams::new(spelling)).await;
        if matches!(answer, Err(ServiceError::TransportClosed | ServiceError::TransportSend(_))) {
            return;
        }
    }
}

/// Records what a stream says until it ends.
async fn follow(mut stream: Subscription, mapping: Arc<Mapping>, updates: Arc<Updates>, has_ended: Arc<AtomicBool>) {
    while let Ok(Some(notification)) = stream.next().await {
        match notification {
            ServerNotification::ResourceUpdatedNotification(update) => {
                if let Ok(path) = mapping.path(&update.params.uri) {
                    updates.changed(&path);
                }
            }
            ServerNotification::ResourceListChangedNotification(_) => updates.listing_changed(),
            _ => {}
        }
    }
    has_ended.store(true, Ordering::Release);
    updates.wake();
}
