//! A client in a session that is notified of changes.

use std::time::Duration;

use mcp_host_tests::{RawHttp, Revision};
use serde_json::json;
use tokio::time::timeout;

use crate::subscriptions::session_streams::EventStream;

/// The revision of the sessions.
pub(crate) const REVISION: Revision = Revision::V_2025_11_25;
/// The time in which a wrong notification would have come: several polls.
const QUIET: Duration = Duration::from_millis(800);
const UPDATED: &str = "notifications/resources/updated";
const LISTING: &str = "notifications/resources/list_changed";

/// A client with its event stream.
pub(crate) struct Watcher {
    pub(crate) wire: RawHttp,
    stream: EventStream,
}

/// The number of notifications.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Notified {
    /// Of updates.
    pub(crate) updates: usize,
    /// Of changes of the listing.
    pub(crate) listings: usize,
}

impl Watcher {
    /// Begins a session with a token, and subscribes to these resources.
    pub(crate) async fn start(url: &str, token: &str, uris: &[&str]) -> Self {
        let mut wire = RawHttp::start_with_token(url, REVISION, token).await;
        for uri in uris {
            wire.request("resources/subscribe", json!({ "uri": uri })).await.result();
        }
        Self::of(wire).await
    }

    /// Opens the event stream of a session.
    pub(crate) async fn of(wire: RawHttp) -> Self {
        let stream = EventStream::open(&wire, None).await;
        Self { wire, stream }
    }

    /// Waits for an update of a resource. Everything before it is skipped.
    pub(crate) async fn assert_updated(&mut self, uri: &str) {
        while !self.next().await.is_some_and(|updated| updated == uri) {}
    }

    /// Waits for a change of the listing. Everything before it is skipped.
    pub(crate) async fn assert_listing_changed(&mut self) {
        while self.next().await.is_some() {}
    }

    /// Returns whether a change of the listing is notified within this time.
    pub(crate) async fn is_listing_changed_within(&mut self, time: Duration) -> bool {
        timeout(time, self.assert_listing_changed()).await.is_ok()
    }

    /// Waits until nothing has come for a while. Returns what came before.
    pub(crate) async fn drain(&mut self) -> Notified {
        let mut notified = Notified::default();
        while let Ok(next) = timeout(QUIET, self.next()).await {
            match next {
                Some(_) => notified.updates += 1,
                None => notified.listings += 1,
            }
        }
        notified
    }

    /// Asserts that no update comes for a while.
    pub(crate) async fn assert_no_update(&mut self) {
        assert_eq!(self.drain().await.updates, 0);
    }

    /// Asserts that nothing comes for a while.
    pub(crate) async fn assert_quiet(&mut self) {
        assert_eq!(self.drain().await, Notified::default());
    }

    /// Returns the URI of the next update; none for a change of the listing.
    async fn next(&mut self) -> Option<String> {
        loop {
            let message = self.stream.next().await.expect("the stream goes on");
            if message["method"] == UPDATED {
                return message["params"]["uri"].as_str().map(str::to_owned);
            }
            if message["method"] == LISTING {
                return None;
            }
        }
    }
}
