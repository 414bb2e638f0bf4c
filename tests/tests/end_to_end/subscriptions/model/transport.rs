//! How subscribers are reached.

use mcp_host_tests::WrittenConfig;
use mcp_resource_host::Update;
use serde_json::Value;
use tokio::sync::mpsc;

/// What one who listens hears.
#[derive(Debug)]
pub(super) enum StreamEvent {
    /// These are subscribed to, or will be as soon as that can be done.
    Acknowledged(Vec<String>),
    Update(Update),
}

impl StreamEvent {
    /// What a notification on a stream says.
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

/// What a notification tells, if it tells of a change.
pub(super) fn update_in(message: &Value) -> Option<Update> {
    match message["method"].as_str()? {
        "notifications/resources/updated" => Some(Update::Resource(message["params"]["uri"].as_str()?.to_owned())),
        "notifications/resources/list_changed" => Some(Update::Listing),
        _ => None,
    }
}

/// How subscribers are reached: over the façade, stdio or HTTP.
pub(super) trait Transport {
    /// Whether changes of the listing count as soon as a subscriber is there: sessions are told so a little later.
    const IS_LISTING_EFFECTIVE_AT_ONCE: bool;

    /// The principal of that subscriber, as rules name it.
    fn principal(principal: usize) -> &'static str;

    /// Subscribes; whether that was granted.
    async fn subscribe(&mut self, principal: usize, uri: &str) -> bool;

    /// Unsubscribes; all that it was told up to that, so that whatever it is told later was sent behind the answer.
    async fn unsubscribe(&mut self, principal: usize, uri: &str) -> Vec<Update>;

    /// Begins so many streams of `subscriptions/listen` at the same moment, each about all of these. They go on to the end.
    async fn listen(&mut self, count: usize, uris: &[String]) -> Vec<mpsc::UnboundedReceiver<StreamEvent>>;

    /// Goes away and comes anew, with no subscriptions.
    async fn reconnect(&mut self, principal: usize);

    /// What each of those has been told by now: nothing that was sent before is on its way any more.
    async fn drain_updates(&mut self, whom: &[usize]) -> Vec<Vec<Update>>;

    /// Waits until that one is told something.
    async fn wait_for_update(&mut self, principal: usize) -> Vec<Update>;

    /// Has hosts go over to the config file of now, which may take a while.
    fn reload(&mut self, config: &WrittenConfig);

    /// Waits until they have.
    async fn wait_until_reloaded(&mut self);
}
