//! Updates to clients that asked for them: for the session-based revisions as notifications of the session, for 2026-07-28
//! on the stream of `subscriptions/listen`.

use std::sync::Arc;

use rmcp::model::{ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext};
use rmcp::{ErrorData, RoleServer};
use tokio::sync::{Mutex, OnceCell};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::error::to_rpc;
use crate::access::Principal;
use crate::host::Host;
use crate::watch::{Subscriber, Update};

/// What one session is told. It ends with the session.
#[derive(Default)]
pub(super) struct Session(OnceCell<Live>);

struct Live {
    subscriber: Arc<Subscriber>,
    /// Held while an update is on its way, so that none arrives behind the answer to an unsubscription.
    delivering: Arc<Mutex<()>>,
    _deliver: AbortOnDropHandle<()>,
}

impl Session {
    /// Has the session told when what is listed changes.
    pub(super) async fn watch_listing(&self, host: &Host, who: &Principal, client: &Peer<RoleServer>) {
        self.live(host, who, client).await.subscriber.watch_listing();
    }

    /// `resources/subscribe`.
    pub(super) async fn subscribe(
        &self,
        host: &Host,
        who: &Principal,
        client: &Peer<RoleServer>,
        uri: &str,
    ) -> Result<(), ErrorData> {
        let live = self.live(host, who, client).await;
        host.subscribe(&live.subscriber, uri).await.map_err(|error| to_rpc(&error))
    }

    /// `resources/unsubscribe`. That there is no such subscription is no error.
    pub(super) async fn unsubscribe(&self, host: &Host, uri: &str) -> Result<(), ErrorData> {
        let Some(live) = self.0.get() else { return Ok(()) };
        let _none_on_its_way = live.delivering.lock().await;
        host.unsubscribe(&live.subscriber, uri).map_err(|error| to_rpc(&error))
    }

    async fn live(&self, host: &Host, who: &Principal, client: &Peer<RoleServer>) -> &Live {
        self.0.get_or_init(async || Live::new(host.subscriber(who), client.clone())).await
    }
}

impl Live {
    fn new(subscriber: Subscriber, client: Peer<RoleServer>) -> Self {
        let subscriber = Arc::new(subscriber);
        let delivering = Arc::new(Mutex::new(()));
        let task = deliver(subscriber.clone(), delivering.clone(), client);
        Self { subscriber, delivering, _deliver: AbortOnDropHandle::new(tokio::spawn(task)) }
    }
}

/// Passes updates on to a session, one after the other, until it is gone.
async fn deliver(subscriber: Arc<Subscriber>, delivering: Arc<Mutex<()>>, client: Peer<RoleServer>) {
    loop {
        subscriber.filled().await;
        let _delivering = delivering.lock().await;
        let sent = match subscriber.take() {
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

/// What of a filter can be served, as far as that shows before it is known who asks.
pub(super) fn accepted(host: &Host, requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = SubscriptionFilter::new();
    accepted.resources_list_changed = requested.resources_list_changed;
    accepted.resource_subscriptions = requested.resource_subscriptions.as_ref().map(|uris| {
        let served = uris.iter().filter(|uri| host.serves(uri));
        served.take(Subscriber::MAX_RESOURCES).cloned().collect()
    });
    accepted
}

/// Serves one `subscriptions/listen` until the client cancels it or the server ends.
pub(super) async fn listen(host: &Host, who: &Principal, stream: SubscriptionContext, ending: &CancellationToken) {
    let subscriber = host.subscriber(who);
    if stream.accepted().resources_list_changed == Some(true) {
        subscriber.watch_listing();
    }
    for uri in stream.accepted().resource_subscriptions.iter().flatten() {
        match host.subscribe(&subscriber, uri).await {
            // It was acknowledged before it counted, and what changed in between is not known: better told once too often.
            Ok(()) if stream.sink().notify_resource_updated(uri).await.is_err() => return,
            Ok(()) => {}
            // The revision has no way to refuse a single one any more: it is as if it never changed.
            Err(error) => tracing::debug!(%uri, %error, "a resource of subscriptions/listen cannot be watched"),
        }
    }
    loop {
        let update = tokio::select! {
            update = subscriber.next() => update,
            () = stream.cancelled() => return,
            () = ending.cancelled() => return,
        };
        let sent = match update {
            Update::Resource(uri) => stream.sink().notify_resource_updated(uri).await,
            Update::Listing => stream.sink().notify_resource_list_changed().await,
        };
        if sent.is_err() {
            return;
        }
    }
}
