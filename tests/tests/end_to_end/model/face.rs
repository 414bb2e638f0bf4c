//! How subscribers are reached.

use mcp_host_tests::WrittenConfig;
use mcp_resource_host::Update;

/// How subscribers are reached: over the façade, stdio or HTTP.
pub(super) trait Face {
    /// Whether changes of the listing count as soon as a subscriber is there: sessions are told so a little later.
    const LISTING_COUNTS: bool;

    /// The principal of that subscriber, as rules name it.
    fn principal(who: usize) -> &'static str;

    /// Subscribes; whether that was granted.
    async fn subscribe(&mut self, who: usize, uri: &str) -> bool;

    /// Unsubscribes; all that it was told up to that, so that whatever it is told later was sent behind the answer.
    async fn unsubscribe(&mut self, who: usize, uri: &str) -> Vec<Update>;

    /// Goes away and comes anew, with no subscriptions.
    async fn leave(&mut self, who: usize);

    /// What each of those has been told by now: nothing that was sent before is on its way any more.
    async fn told(&mut self, whom: &[usize]) -> Vec<Vec<Update>>;

    /// Waits until that one is told something.
    async fn wait(&mut self, who: usize) -> Vec<Update>;

    /// Has hosts go over to the config file of now, which may take a while.
    fn reload(&mut self, config: &WrittenConfig);

    /// Waits until they have.
    async fn settle(&mut self);
}
