//! `subscriptions/listen` (MCP 2026-07-28, "Subscriptions"): a stream of notifications, which a transport sends as
//! events or as lines.
//!
//! A stream consists of a [`Subscriber`], whose mailbox holds the updates, and one task that makes its subscriptions
//! ([`Subscriptions`]). A stream of the console has the same parts.
//!
//! The first notification acknowledges the subscriptions, and each notification has the id of the request. The list of
//! resources counts towards the memory of subscriptions (`http.limits.subscription-memory`): if it is exhausted, no
//! resource is acknowledged.
//!
//! A stream delivers only updates that the [scopes](CredentialScopes) of the request that began it allow.
//!
//! The stream ends with a result at graceful shutdown, and without one when the request is cancelled, the client
//! disconnects or the credentials expire, are revoked or lose a scope.

use std::convert::Infallible;
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt as _};
use mcp_host_config::Config;
use mcp_host_model::requester::Requester;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::audit;
use mcp_resource_host::host::Host;
use mcp_resource_host::watch::{Subscriber, Update};
use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::error::{Outcome, RpcError, to_rpc};
use super::jsonrpc::{RequestId, Response};
use super::method::Method;
use super::notification::{may_deliver, notification, update_notification};
use super::params::ListenParams;
use super::revision::Revision;
use super::server_info::server_info_meta;
use super::server_metrics::{ServerMetrics, Transport};

/// The member of `_meta` with the id of the request that a notification belongs to.
const SUBSCRIPTION_ID_META_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// The maximum number of URIs of one filter that are checked. Further URIs are not accepted.
const MAX_CHECKED_URIS: usize = 4 * Subscriber::MAX_RESOURCES;

/// The subscriptions of a stream, of `subscriptions/listen` or of the console.
pub(super) struct Subscriptions {
    host: Arc<Host>,
    subscriber: Arc<Subscriber>,
    /// The scopes of the request.
    scopes: CredentialScopes,
    /// The task that makes the subscriptions.
    _subscribing: AbortOnDropHandle<Infallible>,
}

/// An open stream of a request.
pub(super) struct Listener {
    subscriptions: Subscriptions,
    id: RequestId,
    /// The first notification, unless it was taken.
    acknowledged: Option<Value>,
}

impl Subscriptions {
    /// Subscribes a principal to these resources, and to the list of resources if `listing`. Returns the subscriptions
    /// with the accepted URIs. Fails if the request cannot be recorded. A view of the console does not count as a
    /// subscriber.
    pub(super) async fn begin(
        host: &Arc<Host>,
        uris: Vec<String>,
        listing: bool,
        is_view: bool,
        principal: &Principal,
        context: Option<audit::RequestContext>,
    ) -> Result<(Self, Vec<String>), Error> {
        in_context(context.clone(), async { host.record_listen(principal) }).await?;
        let subscriber = Arc::new(host.subscriber(principal));
        if is_view {
            subscriber.mark_as_view();
        }
        if listing {
            subscriber.watch_listing();
        }
        let mut uris = accepted_uris(host, if host.supports_subscriptions(principal) { uris } else { Vec::new() });
        let memory = host.reserve_subscription_list(&subscriber, &uris);
        if memory.is_none() {
            uris = Vec::new();
        }
        let subscribing = tokio::spawn({
            let (host, subscriber, uris) = (host.clone(), subscriber.clone(), uris.clone());
            let maintaining = async move {
                let _memory = memory;
                in_context(context, host.maintain_subscriptions(&subscriber, &uris)).await
            };
            Requester::current_or(principal).scope(maintaining)
        });
        let (host, scopes) = (host.clone(), CredentialScopes::current());
        Ok((Self { host, subscriber, scopes, _subscribing: AbortOnDropHandle::new(subscribing) }, uris))
    }

    /// Waits for the next update. Cancel-safe: pending updates are retained.
    pub(super) async fn next(&self) -> Update {
        loop {
            let update = self.subscriber.next().await;
            if may_deliver(&self.host, self.scopes, &update) {
                return update;
            }
        }
    }
}

/// Runs a part of a request in the audit context of its transport.
async fn in_context<T>(context: Option<audit::RequestContext>, part: impl Future<Output = T>) -> T {
    match context {
        Some(context) => context.scope(part).await,
        None => part.await,
    }
}

impl Listener {
    /// Begins a stream. Fails if the request cannot be recorded.
    pub(super) async fn begin(
        host: &Arc<Host>,
        id: RequestId,
        params: ListenParams,
        principal: &Principal,
        context: audit::RequestContext,
    ) -> Result<Self, RpcError> {
        let listing = params.list_changed == Some(true);
        let uris = params.subscriptions.unwrap_or_default();
        let begun = Subscriptions::begin(host, uris, listing, false, principal, Some(context)).await;
        let (subscriptions, uris) = begun.map_err(|error| to_rpc(&error, Revision::LATEST))?;
        let mut members = filter(listing, &uris);
        members.insert("_meta".to_owned(), subscription_meta(&id));
        let acknowledged = Some(notification("subscriptions/acknowledged", members));
        Ok(Self { subscriptions, id, acknowledged })
    }

    /// Takes the first notification, which repeats the resources of the request.
    pub(super) fn take_acknowledged(&mut self) -> Option<Value> {
        self.acknowledged.take()
    }

    /// Returns the notifications, an endless stream.
    pub(super) fn notifications(self) -> impl Stream<Item = Value> + Send {
        let Self { subscriptions, id, acknowledged } = self;
        let updates = stream::unfold((subscriptions, id), async |(subscriptions, id)| {
            let update = update_notification(subscriptions.next().await, Some(subscription_meta(&id)));
            Some((update, (subscriptions, id)))
        });
        stream::iter(acknowledged).chain(updates)
    }
}

/// The method that opens a stream.
pub(super) fn method() -> Option<&'static Method> {
    Method::named("subscriptions/listen", &[])
}

/// Counts the request of a stream after the stream has begun or failed to begin.
pub(super) fn count(metrics: &ServerMetrics, transport: Transport, outcome: Outcome) {
    metrics.count_request(transport, method(), Some(Revision::LATEST), outcome);
}

/// Returns the answer that ends the stream of the request with this id.
pub(super) fn end(config: &Config, id: RequestId) -> Response {
    let mut meta = server_info_meta(config, Revision::LATEST);
    meta.insert(SUBSCRIPTION_ID_META_KEY.to_owned(), json!(id));
    Response::new(id, Ok(json!({ "resultType": "complete", "_meta": meta })))
}

/// Returns the acknowledged URIs of a filter. The result does not depend on the mounts, whose existence is not public:
/// URIs are acknowledged whether or not the resources exist.
fn accepted_uris(host: &Host, uris: Vec<String>) -> Vec<String> {
    let mut bytes = 0_usize;
    let served = uris.into_iter().take(MAX_CHECKED_URIS).filter(|uri| host.is_uri(uri));
    let few_enough = served.take(Subscriber::MAX_RESOURCES).take_while(|uri| {
        bytes = bytes.saturating_add(uri.len());
        bytes <= Subscriber::MAX_URI_BYTES
    });
    few_enough.collect()
}

/// Returns the members that acknowledge a filter.
fn filter(listing: bool, uris: &[String]) -> Map<String, Value> {
    let listing = listing.then(|| ("resourcesListChanged".to_owned(), Value::Bool(true)));
    let uris = (!uris.is_empty()).then(|| ("resourceSubscriptions".to_owned(), json!(uris)));
    let filter: Map<_, _> = listing.into_iter().chain(uris).collect();
    Map::from_iter([("notifications".to_owned(), Value::Object(filter))])
}

fn subscription_meta(id: &RequestId) -> Value {
    json!({ SUBSCRIPTION_ID_META_KEY: id })
}
