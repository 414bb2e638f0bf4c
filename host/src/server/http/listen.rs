//! `subscriptions/listen` (MCP 2026-07-28, "Subscriptions"): an event stream of the host's own.
//!
//! A stream is a [`Subscriber`], whose mailbox the body of the response takes updates from, and one task that makes its
//! subscriptions.
//!
//! The first event acknowledges what is listened for, and each event has the id of the request. The stream ends with a result
//! at graceful shutdown, and without one when the client disconnects or its credentials end. A comment is sent when there was
//! nothing else to send for `http.keep-alive`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use futures::stream::{self, Stream, StreamExt as _};
use rmcp::model::{RequestId, ServerJsonRpcMessage, SubscriptionsListenResult};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::json_response::message_response;
use super::sse_response::{event, sse_response, with_keep_alive};
use crate::access::Principal;
use crate::audit::RequestContext;
use crate::host::Host;
use crate::server::error::to_rpc;
use crate::server::params::ListenParams;
use crate::server::revision::Revision;
use crate::server::server_info::ServerInfoCache;
use crate::server::subscription_filter;
use crate::watch::{Subscriber, Update};

/// The member of `_meta` with the id of the request that a notification belongs to.
const SUBSCRIPTION_ID_META_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A request to listen.
pub(super) struct ListenRequest {
    pub(super) id: RequestId,
    pub(super) params: ListenParams,
    pub(super) principal: Principal,
    pub(super) context: RequestContext,
}

/// The events of one stream.
struct Events {
    subscriber: Arc<Subscriber>,
    id: RequestId,
    /// The task that makes the subscriptions.
    _subscribing: AbortOnDropHandle<Infallible>,
}

impl ListenRequest {
    /// Answers with a stream of events, which ends when `shutdown` fires.
    pub(super) async fn respond(
        self,
        host: &Arc<Host>,
        info: &ServerInfoCache,
        shutdown: &CancellationToken,
    ) -> Response {
        let Self { id, params, principal, context } = self;
        if let Err(error) = context.clone().scope(async { host.record_listen(&principal) }).await {
            let error = ServerJsonRpcMessage::error(to_rpc(&error, Revision::LATEST), Some(id));
            return message_response(StatusCode::OK, &error);
        }
        let subscriber = Arc::new(host.subscriber(&principal));
        let listing = params.list_changed == Some(true);
        if listing {
            subscriber.watch_listing();
        }
        let uris = params.subscriptions.filter(|_| host.supports_subscriptions());
        let uris = subscription_filter::accepted_uris(host, uris.unwrap_or_default());
        let acknowledged = event(&notification("subscriptions/acknowledged", &id, filter(listing, &uris)));
        let mut result = SubscriptionsListenResult::complete(id.clone());
        result.meta.set_server_info(info.current(host).server_info.clone());
        let end = event(&json!({ "jsonrpc": "2.0", "id": &id, "result": result }));

        let subscribing = tokio::spawn({
            let (host, subscriber) = (host.clone(), subscriber.clone());
            async move { context.scope(host.maintain_subscriptions(&subscriber, &uris)).await }
        });
        let events = Events { subscriber, id, _subscribing: AbortOnDropHandle::new(subscribing) };
        let updates = events.into_stream().take_until(shutdown.clone().cancelled_owned());
        let all = stream::iter([acknowledged]).chain(updates).chain(stream::iter([end]));
        let all = with_keep_alive(all, host.config().http.keep_alive.duration());
        sse_response(Body::from_stream(all.map(Ok::<_, Infallible>)))
    }
}

impl Events {
    fn into_stream(self) -> impl Stream<Item = Bytes> + Send {
        stream::unfold(self, async |events| {
            let update = match events.subscriber.next().await {
                Update::Resource(uri) => {
                    let members = Map::from_iter([("uri".to_owned(), uri.into())]);
                    notification("resources/updated", &events.id, members)
                }
                Update::Listing => notification("resources/list_changed", &events.id, Map::new()),
            };
            Some((event(&update), events))
        })
    }
}

/// What is acknowledged of a filter.
fn filter(listing: bool, uris: &[String]) -> Map<String, Value> {
    let listing = listing.then(|| ("resourcesListChanged".to_owned(), Value::Bool(true)));
    let uris = (!uris.is_empty()).then(|| ("resourceSubscriptions".to_owned(), json!(uris)));
    let filter: Map<_, _> = listing.into_iter().chain(uris).collect();
    Map::from_iter([("notifications".to_owned(), Value::Object(filter))])
}

fn notification(method: &str, id: &RequestId, mut params: Map<String, Value>) -> Value {
    params.insert("_meta".to_owned(), json!({ SUBSCRIPTION_ID_META_KEY: id }));
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params })
}
