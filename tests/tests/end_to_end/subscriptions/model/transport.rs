//! Transports: the ways to reach subscribers.

use mcp_host_tests::WrittenConfig;
use mcp_resource_host::Update;
use serde_json::Value;
use tokio::sync::mpsc;

/// An event on a listener's stream.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// These resources are subscribed to, or will be as soon as possible.
    Acknowledged(Vec<String>),
    Update(Update),
}

impl StreamEvent {
    /// Converts a notification on a stream.
    pub(super) fn from_message(message: &Value) -> Option<Self> {
        let accepted = || {
            let uris = &message["params"]["notifications"]["resourceSubscriptions"];
            uris.as_array().into_iter().flatten().filter_map(|uri| uri.as_str().map(str::to_owned)).collect()
        };
        match message["method"].as_str()? {
            "notifications/subscriptions/acknowledged" => Some(Self::Acknowledged(accepted())),
            _ => update_in(message).map(Self::Update),
        }
    }
}

/// Returns the update of a notification, if it is one.
pub(super) fn update_in(message: &Value) -> Option<Update> {
    match message["method"].as_str()? {
        "notifications/resources/updated" => Some(Update::Resource(message["params"]["uri"].as_str()?.to_owned())),
        "notifications/resources/list_changed" => Some(Update::Listing),
        _ => None,
    }
}

/// A transport: the façade, stdio or HTTP.
pub(super) trait Transport {
    /// Whether changes of the listing are notified as soon as a subscriber exists: sessions start a little later.
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool;

    /// The principal of that subscriber, as rules name it.
    fn principal(principal: usize) -> &'static str;

    /// Subscribes; returns whether that succeeded.
    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool;

    /// Unsubscribes; returns all updates up to the response, so that any later update was sent after it.
    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update>;

    /// Starts so many streams of `subscriptions/listen` at the same moment, each for all of these. They last to the
    /// end.
    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>>;

    /// Disconnects and connects again, without subscriptions.
    async fn reconnect(&mut self, principal: usize);

    /// Disturbs what that one is notified over, without an end of its subscriptions: its stream is cut and opened again
    /// at once or later, or a newer one takes over while the older is taken for alive. Returns whether updates may be
    /// repeated.
    async fn disturb(&mut self, _principal: usize, _how: usize) -> bool {
        false
    }

    /// Restarts the server, if it is one for all subscribers, who subscribe to nothing then. Returns whether it was.
    async fn restart(&mut self, _config: &WrittenConfig) -> bool {
        false
    }

    /// Returns the updates of each of those so far: none that was sent before is still in flight.
    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>>;

    /// Waits for an update of that one.
    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update>;

    /// Makes the hosts apply the current config file, asynchronously.
    fn reload(&mut self, config: &WrittenConfig);

    /// Waits until they have applied it.
    async fn wait_until_reloaded(&mut self);
}
