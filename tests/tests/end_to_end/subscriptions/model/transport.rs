//! Transports: the ways to reach the host.

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
    /// Whether changes of the listing are notified as soon as a subscriber exists. In sessions, notifications start
    /// slightly later.
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool;

    /// Returns the principal of a subscriber, as named in rules.
    fn principal(principal: usize) -> &'static str;

    /// Subscribes. Returns whether that succeeded.
    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool;

    /// Unsubscribes. Returns all updates up to the response, so every later update was sent after it.
    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update>;

    /// Starts `count` concurrent streams of `subscriptions/listen`, each for all of these resources. They last until
    /// the end.
    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>>;

    /// Disconnects and connects again, without subscriptions.
    async fn reconnect(&mut self, principal: usize);

    /// Disturbs a subscriber's stream without ending its subscriptions: the stream is cut and opened again immediately
    /// or later, or a newer one takes over while the older one is considered alive. Returns whether updates may be
    /// repeated.
    async fn disturb(&mut self, _principal: usize, _how: usize) -> bool {
        false
    }

    /// Restarts the server, if it serves all subscribers. They have no subscriptions afterwards. Returns whether it was
    /// restarted.
    async fn restart(&mut self, _config: &WrittenConfig) -> bool {
        false
    }

    /// Returns the updates of each of these subscribers so far: no earlier update is still in flight.
    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>>;

    /// Waits for an update of a subscriber.
    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update>;

    /// Makes the hosts apply the current config file, asynchronously.
    fn reload(&mut self, config: &WrittenConfig);

    /// Waits until the hosts have applied the config.
    async fn wait_until_reloaded(&mut self);
}
