//! One page of a listing of a shared bucket.
//!
//! JetStream lists the messages of a stream by a consumer only. Each page has a consumer of its own, without payloads,
//! from the sequence after the last page: the cursor of a listing is a sequence, which any replica can continue, so no
//! state remains between two pages.
//!
//! # Bounds
//!
//! A page is received in pulls, one after another. The server ends a pull before a message that exceeds its
//! [`MAX_PULL_BYTES`]. They include the headers of other clients' messages, of up to 64 KiB each, for which the client
//! library allocates up to 40 times their bytes. After [`MAX_PULLS`] a page ends with fewer keys than were requested,
//! and the next one continues after its last message.
//!
//! The consumer is deleted at the end of the page, whether it succeeds or fails. If the call has ended before, the
//! server deletes it [`CONSUMER_LIFETIME`] after the last pull.

use std::fmt;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Message, StatusCode, Subscriber};
use futures::StreamExt as _;
use mcp_host_base::shared_buckets::{BucketError, BucketPage};
use serde_json::json;
use tokio::time::timeout;

use super::{PluginBucket, api_error, key_of};
use crate::engine::nats::bucket::NO_STREAM;
use crate::engine::nats::connection::{API, MAX_PENDING};
use crate::engine::nats::connection_log::quoted;

/// The maximum size of the messages of a pull, as the servers count them: subjects, reply subjects and headers.
const MAX_PULL_BYTES: usize = 128 * 1024;
/// The maximum number of pulls of a page. 1000 keys of the maximum length need at most as many.
const MAX_PULLS: usize = 16;
/// The time after its last pull at which the server deletes a consumer.
const CONSUMER_LIFETIME: Duration = Duration::from_secs(10);
/// The header of a message that marks its key as deleted.
const OPERATION: &str = "KV-Operation";

/// The meaning of a message that is received for a pull.
#[derive(Debug, PartialEq, Eq)]
enum Listed {
    /// A message of the stream, with its sequence and the number of further ones.
    Message { sequence: u64, pending: u64 },
    /// The server has ended the pull: the next message does not fit, for example.
    EndOfPull,
    /// There are no more messages.
    EndOfStream,
}

/// Returns the meaning of a message that is received for a pull.
///
/// A message of the stream has a place, and its status is what its publisher has written into its header. Only a
/// message without a place is a status of the server.
fn listed(message: &Message) -> Result<Listed, BucketError> {
    if let Some((sequence, pending)) = message.reply.as_deref().and_then(place) {
        return Ok(Listed::Message { sequence, pending });
    }
    match message.status {
        Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => Ok(Listed::EndOfStream),
        Some(StatusCode::REQUEST_TERMINATED) => Ok(Listed::EndOfPull),
        Some(status) => Err(BucketError::NoAnswer(format!("a listing ends with the status {status}"))),
        None => Err(BucketError::Foreign("a message of a listing without a place".to_owned())),
    }
}

/// Returns the sequence of a message of a consumer, and the number of further messages:
/// `$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.….PENDING`, with the domain and the account after `ACK` at newer
/// servers.
fn place(reply: &str) -> Option<(u64, u64)> {
    let tokens: Vec<&str> = reply.split('.').take(13).collect();
    let first = match tokens.len() {
        9 => 5,
        11.. => 7,
        _ => return None,
    };
    let number = |index: usize| tokens.get(index)?.parse::<u64>().ok();
    Some((number(first)?, number(first.checked_add(3)?)?))
}

fn failed(error: impl fmt::Display) -> BucketError {
    BucketError::NoAnswer(quoted(&error.to_string()))
}

impl PluginBucket {
    /// Returns at most `max` keys whose revisions are greater than `revision`.
    pub(super) async fn list(&self, revision: u64, max: usize) -> Result<BucketPage, BucketError> {
        let client = self.0.connection.connected().await?;
        let (stream, name) = (self.0.bucket.stream(), format!("mcp-host-{:032x}", fastrand::u128(..)));
        let body = json!({
            "stream_name": stream,
            "action": "create",
            "config": {
                "name": name,
                "deliver_policy": "by_start_sequence",
                "opt_start_seq": revision.saturating_add(1),
                "ack_policy": "none",
                "headers_only": true,
                "mem_storage": true,
                "num_replicas": 1,
                "inactive_threshold": u64::try_from(CONSUMER_LIFETIME.as_nanos()).unwrap_or(u64::MAX),
            },
        });
        let created = self.0.request(
            format!("{API}CONSUMER.CREATE.{stream}.{name}"),
            HeaderMap::new(),
            body.to_string().into_bytes(),
        );
        match created.await?.error {
            None => {}
            Some(error) if error.err_code == NO_STREAM => return Ok(BucketPage::default()),
            Some(error) => return Err(api_error(&error)),
        }
        let page = self.pull(client, format!("{API}CONSUMER.MSG.NEXT.{stream}.{name}"), max).await;
        // If this is lost, NATS deletes the consumer after its lifetime.
        let _ = client.publish(format!("{API}CONSUMER.DELETE.{stream}.{name}"), Vec::new().into()).await;
        page
    }

    /// Receives a page from the consumer that sends its next messages at a request with this subject.
    async fn pull(&self, client: &Client, subject: String, max: usize) -> Result<BucketPage, BucketError> {
        let inbox = client.new_inbox();
        let mut messages = client.subscribe(inbox.clone()).await.map_err(failed)?;
        let mut page = BucketPage::default();
        // So that the messages of a pull and its status do not exceed what may wait for the subscriber.
        let mut remaining = max.min(MAX_PENDING.saturating_sub(1));
        for _ in 0..MAX_PULLS {
            let body = json!({ "batch": remaining, "max_bytes": MAX_PULL_BYTES, "no_wait": true }).to_string();
            let pulling = client.publish_with_reply(subject.clone(), inbox.clone(), body.into_bytes().into());
            pulling.await.map_err(failed)?;
            let before = remaining;
            while remaining > 0 {
                let message = self.received(&mut messages).await?;
                match listed(&message)? {
                    Listed::Message { sequence, pending } => {
                        page.keys.extend(self.listed_key(&message));
                        page.next = (pending > 0).then_some(sequence);
                        if pending == 0 {
                            return Ok(page);
                        }
                        remaining = remaining.saturating_sub(1);
                    }
                    Listed::EndOfPull => break,
                    Listed::EndOfStream => {
                        page.next = None;
                        return Ok(page);
                    }
                }
            }
            if remaining == before && page.next.is_none() {
                return Err(failed("the server ends a pull (409) before its first message"));
            }
            if remaining == before || remaining == 0 {
                break;
            }
        }
        Ok(page)
    }

    /// Returns the next message for a pull.
    async fn received(&self, messages: &mut Subscriber) -> Result<Message, BucketError> {
        let received = timeout(self.0.connection.timeout, messages.next()).await;
        received.map_err(failed)?.ok_or_else(|| failed("the connection has ended"))
    }

    /// Returns the key of a message in a listing; none if it is a marker of a deletion, or of another client.
    fn listed_key(&self, message: &Message) -> Option<String> {
        if message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some()) {
            return None;
        }
        key_of(message.subject.strip_prefix(&self.0.bucket.subject(""))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_is_continued_by_the_place_of_its_last_message() {
        assert_eq!(place("$JS.ACK.KV_a.c.1.7.1.1700000000000000000.3"), Some((7, 3)));
        assert_eq!(place("$JS.ACK._.hash.KV_a.c.1.8.1.1700000000000000000.0"), Some((8, 0)));
        assert_eq!(place("$JS.ACK._.hash.KV_a.c.1.9.1.1700000000000000000.5.token"), Some((9, 5)));
        for reply in ["", "_INBOX.a.b", "$JS.ACK.KV_a.c.1.x.1.1.3", "$JS.ACK.KV_a.c.1.7.1.1"] {
            assert_eq!(place(reply), None, "{reply}");
        }
    }

    /// A message of a listing, with this reply subject and this status.
    fn message(reply: Option<&str>, status: Option<u16>) -> Message {
        Message {
            subject: "$KV.a.YQ".into(),
            reply: reply.map(Into::into),
            payload: Vec::new().into(),
            headers: None,
            status: status.map(|status| StatusCode::from_u16(status).unwrap()),
            description: None,
            length: 0,
        }
    }

    #[test]
    fn a_status_in_the_header_of_a_stored_message_neither_ends_a_listing_nor_fails_it() {
        for status in [None, Some(404), Some(408), Some(409), Some(503)] {
            let stored = message(Some("$JS.ACK.KV_a.c.1.7.1.1700000000000000000.3"), status);
            assert_eq!(listed(&stored), Ok(Listed::Message { sequence: 7, pending: 3 }), "{status:?}");
        }
        for status in [404, 408] {
            assert_eq!(listed(&message(None, Some(status))), Ok(Listed::EndOfStream), "{status}");
        }
        assert_eq!(listed(&message(None, Some(409))), Ok(Listed::EndOfPull));
        assert!(matches!(listed(&message(None, Some(503))), Err(BucketError::NoAnswer(_))));
        assert!(matches!(listed(&message(None, None)), Err(BucketError::Foreign(_))));
    }
}
