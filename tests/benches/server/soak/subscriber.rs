//! A client that is subscribed to one file, and reads it when it is notified.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mcp_host_tests::{RawHttp, Revision};
use reqwest::Response;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// What a notification of an update has in its event.
const UPDATED: &str = "notifications/resources/updated";

/// What the subscribers of a file have read.
#[derive(Default)]
pub(crate) struct FileProgress {
    /// The newest version that each has read, by the subscriber's number.
    versions: Mutex<BTreeMap<usize, usize>>,
    changed: Notify,
}

impl FileProgress {
    /// The number of subscribers that have read that version or a newer one.
    pub(crate) fn seen(&self, version: usize) -> usize {
        let versions = self.versions.lock().expect("no subscriber panics here");
        versions.values().filter(|seen| **seen >= version).count()
    }

    /// Waits until `subscribers` subscribers have seen the version.
    pub(crate) async fn wait_until_seen(&self, version: usize, subscribers: usize) {
        loop {
            let changed = self.changed.notified();
            if self.seen(version) >= subscribers {
                return;
            }
            changed.await;
        }
    }

    fn set(&self, subscriber: usize, version: Option<usize>) {
        let mut versions = self.versions.lock().expect("no subscriber panics here");
        match version {
            Some(version) => versions.insert(subscriber, version),
            None => versions.remove(&subscriber),
        };
        self.changed.notify_waiters();
    }
}

/// A subscriber, until it is ended.
pub(crate) struct Subscriber {
    pub(crate) number: usize,
    file: usize,
    progress: Arc<FileProgress>,
    task: JoinHandle<()>,
}

impl Subscriber {
    /// Subscribes in that revision, with a session if it has sessions.
    pub(crate) async fn start(
        url: &str,
        revision: Revision,
        number: usize,
        file: usize,
        uri: String,
        progress: Arc<FileProgress>,
    ) -> Self {
        let mut client = RawHttp::start(url, revision.clone()).await;
        let stream = if revision.has_initialize() {
            let stream = client.event_stream().await;
            // A provider that has just crashed is called again, as a client would.
            while client.request("resources/subscribe", json!({ "uri": uri })).await.message.get("error").is_some() {
                tokio::task::yield_now().await;
            }
            stream
        } else {
            let params = json!({ "notifications": { "resourceSubscriptions": [uri] } });
            let mut stream =
                client.request_builder("subscriptions/listen", params).send().await.expect("a stream of events");
            // The subscription counts from the acknowledgment on.
            stream.chunk().await.expect("the stream lasts").expect("an acknowledgment");
            stream
        };
        let task = tokio::spawn(follow(client, stream, uri, number, progress.clone()));
        Self { number, file, progress, task }
    }

    /// The number of its file.
    pub(crate) fn file(&self) -> usize {
        self.file
    }

    /// Disconnects.
    pub(crate) async fn end(self) {
        self.task.abort();
        // Dropped for certain, so that it does not count any more.
        let ended = self.task.await;
        assert!(ended.is_err_and(|error| error.is_cancelled()), "a subscriber's stream ended");
        self.progress.set(self.number, None);
    }
}

/// Reads the file after each notification, and retries a read that fails.
async fn follow(mut client: RawHttp, mut stream: Response, uri: String, number: usize, progress: Arc<FileProgress>) {
    let mut text = String::new();
    while let Some(chunk) = stream.chunk().await.expect("the stream lasts") {
        text.push_str(&String::from_utf8_lossy(&chunk));
        // An event ends with an empty line.
        while let Some((event, rest)) = text.split_once("\n\n") {
            let is_update = event.contains(UPDATED) && event.contains(&uri);
            text = rest.to_owned();
            if is_update {
                progress.set(number, Some(read_version(&mut client, &uri).await));
            }
        }
    }
}

async fn read_version(client: &mut RawHttp, uri: &str) -> usize {
    loop {
        let answer = client.request("resources/read", json!({ "uri": uri })).await.message;
        let text = answer["result"]["contents"][0]["text"].as_str();
        if let Some(version) = text.and_then(|text| text.strip_prefix("version ")?.parse().ok()) {
            return version;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}
