//! The requests of subscriptions: one task for each, with a timeout.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_base::text::Excerpt;
use rmcp::model::{
    ClientRequest, Request, ServerNotification, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{ServiceError, Subscription};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::Sleep;
use tokio_util::task::AbortOnDropHandle;

use crate::ask::ask;
use crate::connection::Link;
use crate::mapping::Mapping;
use crate::slots::Slots;
use crate::updates::Updates;

/// Why a request failed, for the log.
pub(super) struct Trouble {
    pub(super) reason: &'static str,
    pub(super) text: String,
}

/// The result of a request.
pub(super) enum Ended {
    /// Of a request for one resource. With `is_stream`, it was a stream, which was closed again.
    Subscribed { path: String, answer: Result<(), Trouble>, is_stream: bool },
    /// The answer is irrelevant.
    Unsubscribed { path: String },
    /// Of a request for a stream for all resources.
    Opened { paths: Vec<String>, answer: Result<Stream, Trouble> },
}

impl Ended {
    /// Returns the path; none for a stream for all resources.
    pub(super) fn key(&self) -> Option<String> {
        match self {
            Self::Subscribed { path, .. } | Self::Unsubscribed { path } => Some(path.clone()),
            Self::Opened { .. } => None,
        }
    }
}

/// An open stream.
pub(super) struct Stream {
    pub(super) began: Instant,
    pub(super) has_ended: Arc<AtomicBool>,
    _task: AbortOnDropHandle<()>,
}

/// Starts requests. Clones share the slots.
#[derive(Clone)]
pub(super) struct Requests {
    name: Arc<str>,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    runtime: Handle,
    deadline: Duration,
    slots: Slots,
}

impl Requests {
    pub(super) fn new(
        name: Arc<str>,
        mapping: Arc<Mapping>,
        updates: Arc<Updates>,
        runtime: Handle,
        deadline: Duration,
    ) -> Self {
        Self { name, mapping, updates, runtime, deadline, slots: Slots::for_subscriptions() }
    }

    /// Returns a timer of the upstream's runtime, which completes at this time on any thread.
    pub(super) fn timer(&self, at: Instant) -> Sleep {
        let _context = self.runtime.enter();
        tokio::time::sleep_until(at.into())
    }

    /// Subscribes to one resource. `until` is the time until which a call waits for the first attempt; none for a later
    /// one.
    pub(super) fn subscribe(
        &self,
        tasks: &mut JoinSet<Ended>,
        link: &Arc<Link>,
        path: String,
        spelling: String,
        until: Option<Instant>,
    ) {
        let (requests, link) = (self.clone(), link.clone());
        let (is_first, is_stream) = (until.is_some(), link.is_stateless());
        let task = async move {
            let _slot = requests.slots.take(!is_first).await;
            let answer = if is_stream {
                let filter = SubscriptionFilter::builder().resource_subscriptions([spelling]).build();
                requests.within(link.peer.listen(filter)).await.map(drop)
            } else {
                let request = Request::new(SubscribeRequestParams::new(spelling));
                requests
                    .within(ask(&link.peer, &requests.runtime, ClientRequest::SubscribeRequest(request)))
                    .await
                    .map(drop)
            };
            if answer.is_ok() {
                requests.wake_if_late(until);
            }
            Ended::Subscribed { path, answer, is_stream }
        };
        tasks.spawn_on(task, &self.runtime);
    }

    pub(super) fn unsubscribe(&self, tasks: &mut JoinSet<Ended>, link: &Arc<Link>, path: String, spelling: String) {
        let (requests, link) = (self.clone(), link.clone());
        let task = async move {
            let _slot = requests.slots.take(true).await;
            let request = Request::new(UnsubscribeRequestParams::new(spelling));
            drop(requests.within(ask(&link.peer, &requests.runtime, ClientRequest::UnsubscribeRequest(request))).await);
            Ended::Unsubscribed { path }
        };
        tasks.spawn_on(task, &self.runtime);
    }

    /// Opens a stream for these paths, each with its spelling, and for the listing.
    pub(super) fn open(
        &self,
        tasks: &mut JoinSet<Ended>,
        link: &Arc<Link>,
        paths: Vec<(String, String)>,
        until: Instant,
    ) {
        let (requests, link) = (self.clone(), link.clone());
        let (paths, spellings): (Vec<_>, Vec<_>) = paths.into_iter().unzip();
        let task = async move {
            let mut filter = SubscriptionFilter::builder();
            if link.notifies_of_listing() {
                filter = filter.resources_list_changed();
            }
            if !spellings.is_empty() {
                filter = filter.resource_subscriptions(spellings.iter().cloned());
            }
            let opened = requests.within(link.peer.listen(filter.build())).await;
            let answer = opened.map(|subscription| {
                requests.warn_of_missing(&subscription, &spellings);
                let has_ended = Arc::new(AtomicBool::new(false));
                let (mapping, updates) = (requests.mapping.clone(), requests.updates.clone());
                let task = task::spawn(follow(subscription, mapping, updates, has_ended.clone()));
                Stream { began: Instant::now(), has_ended, _task: AbortOnDropHandle::new(task) }
            });
            // If the stream was refused, the next call tries each resource separately.
            requests.wake_if_late(Some(until));
            Ended::Opened { paths, answer }
        };
        tasks.spawn_on(task, &self.runtime);
    }

    /// Waits for the answer of the upstream until the deadline.
    async fn within<T>(&self, request: impl Future<Output = Result<T, ServiceError>>) -> Result<T, Trouble> {
        match tokio::time::timeout(self.deadline, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(ServiceError::McpError(error))) => {
                Err(Trouble { reason: "refused", text: Excerpt(&error.message).to_string() })
            }
            Ok(Err(error)) => Err(Trouble { reason: "failed", text: Excerpt(&error.to_string()).to_string() }),
            Err(_) => Err(Trouble { reason: "no answer", text: format!("no answer within {:?}", self.deadline) }),
        }
    }

    /// Makes the host request changes, if no call waits for the request any more.
    fn wake_if_late(&self, until: Option<Instant>) {
        if until.is_none_or(|until| Instant::now() >= until) {
            self.updates.wake();
        }
    }

    /// Logs how many requested resources the acknowledgement of the stream does not include.
    fn warn_of_missing(&self, subscription: &Subscription, spellings: &[String]) {
        let accepted = subscription.acknowledged().resource_subscriptions.as_deref().unwrap_or_default();
        let accepted: HashSet<&str> = accepted.iter().map(String::as_str).collect();
        let missing = spellings.iter().filter(|spelling| !accepted.contains(spelling.as_str())).count();
        if missing > 0 {
            tracing::warn!(target: log_target::WATCH, plugin = &*self.name, missing, "the upstream does not notify of some of the resources that are watched");
        }
    }
}

/// Records the notifications of a stream until it ends.
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
