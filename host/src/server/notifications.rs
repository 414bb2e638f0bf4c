//! Subscriptions: updates are sent as notifications of the session in the session-based revisions, and on the stream of
//! `subscriptions/listen` in 2026-07-28.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rmcp::RoleServer;
use rmcp::model::ResourceUpdatedNotificationParam;
use rmcp::service::{Peer, SubscriptionContext};
use tokio::sync::{Mutex, OnceCell};
#[cfg(feature = "http")]
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::access::Principal;
use crate::host::Host;
use crate::resource::Error;
use crate::watch::{Subscriber, Update};

/// The URIs of one filter that are checked; those after them are not accepted.
const MAX_CHECKED_URIS: usize = 4 * Subscriber::MAX_RESOURCES;

/// The subscriptions of one session. They end with the session.
#[derive(Default)]
pub(super) struct SessionSubscriptions {
    delivery: OnceCell<NotificationDelivery>,
    /// Whether the capability `subscribe` was offered at `initialize`.
    may_subscribe: AtomicBool,
}

struct NotificationDelivery {
    subscriber: Arc<Subscriber>,
    /// Held while an update is being sent, so that none arrives after the answer to an unsubscription.
    delivery_lock: Arc<Mutex<()>>,
    _task: AbortOnDropHandle<()>,
}

impl SessionSubscriptions {
    /// Records that the capability `subscribe` is offered.
    pub(super) fn allow_subscribe(&self) {
        self.may_subscribe.store(true, Ordering::Relaxed);
    }

    /// Returns whether the capability `subscribe` was offered.
    pub(super) fn may_subscribe(&self) -> bool {
        self.may_subscribe.load(Ordering::Relaxed)
    }

    /// Returns whether there are subscriptions to resources.
    #[cfg(feature = "http")]
    pub(super) fn has_resources(&self) -> bool {
        self.delivery.get().is_some_and(|live| live.subscriber.has_resources())
    }

    /// Replaces the principal that is notified: the same identity with other groups, and until when it has them.
    #[cfg(feature = "http")]
    pub(super) fn set_principal(&self, principal: &Principal, until: Option<Instant>) {
        if let Some(live) = self.delivery.get() {
            live.subscriber.set_principal(principal, until);
        }
    }

    /// Begins to send notifications about changes of the listing.
    pub(super) async fn watch_listing(&self, host: &Host, principal: &Principal, client: &Peer<RoleServer>) {
        self.delivery(host, principal, client).await.subscriber.watch_listing();
    }

    /// Handles `resources/subscribe`.
    pub(super) async fn subscribe(
        &self,
        host: &Host,
        principal: &Principal,
        client: &Peer<RoleServer>,
        uri: &str,
    ) -> Result<(), Error> {
        let live = self.delivery(host, principal, client).await;
        host.subscribe(&live.subscriber, uri).await
    }

    /// Handles `resources/unsubscribe`. It is idempotent: without such a subscription it succeeds.
    pub(super) async fn unsubscribe(&self, host: &Host, uri: &str) -> Result<(), Error> {
        let Some(live) = self.delivery.get() else { return Ok(()) };
        let _none_on_its_way = live.delivery_lock.lock().await;
        host.unsubscribe(&live.subscriber, uri)
    }

    async fn delivery(&self, host: &Host, principal: &Principal, client: &Peer<RoleServer>) -> &NotificationDelivery {
        self.delivery.get_or_init(async || NotificationDelivery::new(host.subscriber(principal), client.clone())).await
    }
}

impl NotificationDelivery {
    fn new(subscriber: Subscriber, client: Peer<RoleServer>) -> Self {
        let subscriber = Arc::new(subscriber);
        let delivering = Arc::new(Mutex::new(()));
        let task = deliver_updates(subscriber.clone(), delivering.clone(), client);
        Self { subscriber, delivery_lock: delivering, _task: AbortOnDropHandle::new(tokio::spawn(task)) }
    }
}

/// Sends updates to a session, one after the other, until it ends.
async fn deliver_updates(subscriber: Arc<Subscriber>, delivering: Arc<Mutex<()>>, client: Peer<RoleServer>) {
    loop {
        subscriber.ready().await;
        let _delivering = delivering.lock().await;
        let sent = match subscriber.try_next() {
            Some(Update::Resource(uri)) => {
                client.notify_resource_updated(ResourceUpdatedNotificationParam::new(uri)).await
            }
            Some(Update::Listing) => client.notify_resource_list_changed().await,
            None => Ok(()),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Returns the URIs of a filter that are acknowledged. They depend neither on the principal, which rmcp does not tell, nor on the
/// mounts, whose existence is not public: URIs are acknowledged whether or not there are such resources.
pub(super) fn accepted_uris(host: &Host, uris: Vec<String>) -> Vec<String> {
    let mut bytes = 0_usize;
    let served = uris.into_iter().take(MAX_CHECKED_URIS).filter(|uri| host.is_uri(uri));
    let few_enough = served.take(Subscriber::MAX_RESOURCES).take_while(|uri| {
        bytes = bytes.saturating_add(uri.len());
        bytes <= Subscriber::MAX_URI_BYTES
    });
    few_enough.collect()
}

/// Serves one `subscriptions/listen` behind rmcp, until the client cancels it, or until shutdown. It fails if it cannot be recorded.
pub(super) async fn listen(
    host: &Host,
    principal: &Principal,
    stream: SubscriptionContext,
    shutdown: &CancellationToken,
) -> Result<(), Error> {
    host.record_listen(principal)?;
    let subscriber = host.subscriber(principal);
    if stream.accepted().resources_list_changed == Some(true) {
        subscriber.watch_listing();
    }
    let uris = stream.accepted().resource_subscriptions.as_deref().unwrap_or_default();
    let delivering = async {
        loop {
            let sent = match subscriber.next().await {
                Update::Resource(uri) => stream.sink().notify_resource_updated(uri).await,
                Update::Listing => stream.sink().notify_resource_list_changed().await,
            };
            if sent.is_err() {
                // The client has disconnected.
                break;
            }
        }
    };
    tokio::select! {
        never = host.maintain_subscriptions(&subscriber, uris) => match never {},
        () = delivering => {}
        () = stream.cancelled() => {}
        () = shutdown.cancelled() => {}
    }
    Ok(())
}
