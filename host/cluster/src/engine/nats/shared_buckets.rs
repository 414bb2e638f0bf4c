//! Plugins' buckets that replicas share: one JetStream key-value bucket for each.
//!
//! | operation | request |
//! |---|---|
//! | read | the last message of the key's subject, from the leader of the stream (`STREAM.MSG.GET`): a read sees each acknowledged write |
//! | write | a message with the expected last sequence of its subject |
//! | deletion | a purge of the subject, which leaves no marker: the number of messages is the number of keys |
//! | listing | a consumer without payloads, from the sequence after the last page, for one page |
//! | quotas | `max_bytes` and `max_msgs` of the stream, with `discard` `new`. NATS counts the message as it stores it, so a quota of bytes is approximate |
//!
//! The last token of a subject is the key in base64 (URL-safe), so any text is a key, and no two keys have the same subject. Other
//! messages in the stream, from any client that may publish there, are not keys: listings omit them, and nothing reads them.
//!
//! The buckets have a connection and a thread of their own: values of guests delay neither the leases of the replica nor its transports.
//!
//! A response is untrusted input. Its size is bounded before it is parsed, and its texts are for the log.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message, StatusCode};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt as _;
use mcp_host_base::shared_buckets::{
    Answer, BucketContents, BucketEntry, BucketError, BucketLimits, BucketPage, Expected, SharedBucket, SharedBuckets,
};
use serde_json::json;
use tokio::time::timeout;

use super::bucket::{Bucket, Last, MAX_HEADER_BYTES, NO_STREAM, WRONG_SEQUENCE};
use super::connection::{API, ApiError, Connection, ConnectionThread};
use super::connection_log::{Effects, quoted};
use super::{EngineError, Nats, NatsError, NatsOptions, connection};
use crate::buckets::{MAX_VALUE, bucket_name};

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 1024;
/// The time after which NATS drops the consumer of a listing that has ended with its call.
const CONSUMER_LIFETIME: Duration = Duration::from_secs(10);
/// The header of a message that marks its key as deleted.
const OPERATION: &str = "KV-Operation";
/// Error codes of JetStream.
const NOT_STORED: u64 = 10_077;
const MESSAGE_TOO_LARGE: u64 = 10_054;

/// The buckets of plugins, on a connection of their own.
pub struct NatsBuckets {
    connection: Arc<Connection>,
    cluster: String,
}

impl fmt::Debug for NatsBuckets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsBuckets").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

impl NatsBuckets {
    /// Creates the buckets of a cluster. Needs no runtime, and does not connect yet. The bucket of the options is not used.
    ///
    /// # Errors
    ///
    /// The URL of a server, or a certificate authority, is invalid.
    pub fn new(options: NatsOptions, cluster: &str) -> Result<Self, NatsError> {
        let connection = connection(options, Effects::OF_BUCKETS, Some(ConnectionThread::default()))?;
        Ok(Self { connection: Arc::new(connection), cluster: cluster.to_owned() })
    }
}

impl SharedBuckets for NatsBuckets {
    fn bucket(&self, plugin: &str, name: &str, limits: BucketLimits) -> Arc<dyn SharedBucket> {
        let bucket = Bucket::of_plugin(bucket_name(&self.cluster, plugin, name), limits);
        Arc::new(PluginBucket(Nats { connection: self.connection.clone(), bucket: Arc::new(bucket) }))
    }
}

/// A bucket of a plugin.
#[derive(Debug)]
struct PluginBucket(Nats);

impl From<EngineError> for BucketError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Conflict => Self::Conflict,
            EngineError::NoAnswer(reason) => Self::NoAnswer(quoted(&reason)),
            EngineError::Refused(reason) => Self::Refused(quoted(&reason)),
        }
    }
}

/// The error of a write that the stream has answered.
fn write_error(error: &ApiError, length: usize, max: usize) -> BucketError {
    let ApiError { err_code, description } = error;
    match *err_code {
        code if WRONG_SEQUENCE.contains(&code) => BucketError::Conflict,
        NOT_STORED if description.contains("maximum bytes") => BucketError::FullOfBytes,
        NOT_STORED if description.contains("maximum messages") => BucketError::FullOfKeys,
        MESSAGE_TOO_LARGE => BucketError::TooLarge { length, max },
        _ => api_error(error),
    }
}

fn api_error(error: &ApiError) -> BucketError {
    EngineError::from(error).into()
}

/// The last token of the subject of a key.
fn token(key: &str) -> String {
    URL_SAFE_NO_PAD.encode(key)
}

/// Returns the key of a token; none if it is not the token of a key.
fn key_of(token: &str) -> Option<String> {
    let key = String::from_utf8(URL_SAFE_NO_PAD.decode(token).ok()?).ok()?;
    (1..=MAX_KEY).contains(&key.len()).then_some(key)
}

/// Returns the sequence of a message of a consumer, and the number of further messages: `$JS.ACK.STREAM.CONSUMER.DELIVERED.SEQUENCE.….PENDING`,
/// with the domain and the account after `ACK` at newer servers.
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

/// Returns the sequence of a message in a listing and the number of further ones; none if the server says that there are no more messages.
///
/// A message of the stream has a place, and its status is what its publisher has written into its header. Only a message without a place
/// is a status of the server.
fn listed_place(message: &Message) -> Result<Option<(u64, u64)>, BucketError> {
    if let Some(place) = message.reply.as_deref().and_then(place) {
        return Ok(Some(place));
    }
    match message.status {
        Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => Ok(None),
        Some(status) => Err(BucketError::NoAnswer(format!("a listing ends with the status {status}"))),
        None => Err(BucketError::Foreign("a message of a listing without a place".to_owned())),
    }
}

impl PluginBucket {
    async fn read(&self, key: &str) -> Result<Option<BucketEntry>, BucketError> {
        let last = self.0.last(&token(key)).await?;
        let Some(Last { revision, value: Some(value) }) = last else { return Ok(None) };
        if value.len() > MAX_VALUE {
            return Err(BucketError::Foreign(format!("{} bytes, more than {MAX_VALUE}", value.len())));
        }
        Ok(Some(BucketEntry { revision, value }))
    }

    async fn write(&self, key: &str, value: Vec<u8>, expected: Expected) -> Result<u64, BucketError> {
        let token = token(key);
        let (length, max) = (value.len(), self.maximum().await?);
        if length > max {
            return Err(BucketError::TooLarge { length, max });
        }
        let sequence = match expected {
            Expected::Any => None,
            Expected::Absent => Some(0),
            Expected::Revision(revision) => Some(revision),
        };
        let kept = (expected == Expected::Absent).then(|| value.clone());
        let stored = self.0.store(&token, value, sequence, None).await?;
        let stored = stored.map_err(|error| write_error(&error, length, max));
        match (stored, kept) {
            // Another client has deleted the key: the marker is a message, too.
            (Err(BucketError::Conflict), Some(value)) => match self.0.last(&token).await? {
                Some(Last { revision, value: None }) => {
                    let stored = self.0.store(&token, value, Some(revision), None).await?;
                    stored.map_err(|error| write_error(&error, length, max))
                }
                _ => Err(BucketError::Conflict),
            },
            (stored, _) => stored,
        }
    }

    /// The maximum size of a value, by the servers' maximum of a message.
    async fn maximum(&self) -> Result<usize, BucketError> {
        let of_servers = self.0.connection.connected().await?.max_payload();
        Ok(MAX_VALUE.min(of_servers.saturating_sub(MAX_HEADER_BYTES)))
    }

    async fn purge(&self, key: &str) -> Result<(), BucketError> {
        let body = json!({ "filter": self.0.bucket.subject(&token(key)) });
        let answer = self.0.stream_request("STREAM.PURGE", &body).await?;
        match answer.error {
            Some(error) if error.err_code != NO_STREAM => Err(api_error(&error)),
            _ => Ok(()),
        }
    }

    async fn list(&self, revision: u64, max: usize) -> Result<BucketPage, BucketError> {
        let Nats { connection, bucket } = &self.0;
        let client = connection.connected().await?;
        let (stream, name) = (bucket.stream(), format!("mcp-host-{:032x}", fastrand::u128(..)));
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
        let failed = |error: &dyn fmt::Display| BucketError::NoAnswer(quoted(&error.to_string()));
        let inbox = client.new_inbox();
        let mut messages = client.subscribe(inbox.clone()).await.map_err(|error| failed(&error))?;
        let next = json!({ "batch": max, "no_wait": true }).to_string().into_bytes();
        let subject = format!("{API}CONSUMER.MSG.NEXT.{stream}.{name}");
        client.publish_with_reply(subject, inbox, next.into()).await.map_err(|error| failed(&error))?;
        let mut page = BucketPage::default();
        for _ in 0..max {
            let received = timeout(connection.timeout, messages.next()).await;
            let message = received.map_err(|error| failed(&error))?;
            let message = message.ok_or_else(|| failed(&"the connection has ended"))?;
            let Some((sequence, pending)) = listed_place(&message)? else {
                page.next = None;
                break;
            };
            page.keys.extend(self.listed_key(&message));
            page.next = (pending > 0).then_some(sequence);
            if pending == 0 {
                break;
            }
        }
        // If this is lost, NATS drops the consumer after its lifetime.
        let _ = client.publish(format!("{API}CONSUMER.DELETE.{stream}.{name}"), Vec::new().into()).await;
        Ok(page)
    }

    /// Returns the key of a message in a listing; none if it is a marker of a deletion, or of another client.
    fn listed_key(&self, message: &Message) -> Option<String> {
        if message.headers.as_ref().is_some_and(|headers| headers.get(OPERATION).is_some()) {
            return None;
        }
        key_of(message.subject.strip_prefix(&self.0.bucket.subject(""))?)
    }

    async fn count(&self) -> Result<BucketContents, BucketError> {
        let answer = self.0.stream_request("STREAM.INFO", &json!({})).await?;
        match answer.error {
            Some(error) if error.err_code == NO_STREAM => return Ok(BucketContents::default()),
            Some(error) => return Err(api_error(&error)),
            None => {}
        }
        let state = answer.state.unwrap_or_default();
        Ok(BucketContents { keys: state.messages, bytes: state.bytes })
    }
}

impl SharedBucket for PluginBucket {
    fn max_value(&self) -> usize {
        let known = self.0.connection.max_payload();
        known.map_or(MAX_VALUE, |of_servers| MAX_VALUE.min(of_servers.saturating_sub(MAX_HEADER_BYTES)))
    }

    fn get<'a>(&'a self, key: &'a str) -> Answer<'a, Option<BucketEntry>> {
        Box::pin(self.read(key))
    }

    fn put<'a>(&'a self, key: &'a str, value: Vec<u8>, expected: Expected) -> Answer<'a, u64> {
        Box::pin(self.write(key, value, expected))
    }

    fn delete<'a>(&'a self, key: &'a str) -> Answer<'a, ()> {
        Box::pin(self.purge(key))
    }

    fn keys_after(&self, revision: u64, max: usize) -> Answer<'_, BucketPage> {
        Box::pin(self.list(revision, max))
    }

    fn contents(&self) -> Answer<'_, BucketContents> {
        Box::pin(self.count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_is_a_key_and_no_other_token_is_one() {
        for key in ["a", " ", "a\0b", ".", "*", ">", "鍵", "$KV.x", &"k".repeat(MAX_KEY)] {
            let token = token(key);
            assert!(token.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')), "{token}");
            assert_eq!(key_of(&token).as_deref(), Some(key));
        }
        let too_long = token(&"k".repeat(MAX_KEY + 1));
        for token in ["", "a.b", "not base64", "YQ==", "_w", "YR", too_long.as_str()] {
            assert_eq!(key_of(token), None, "{token}");
        }
    }

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
            assert_eq!(listed_place(&stored), Ok(Some((7, 3))), "{status:?}");
        }
        for status in [404, 408] {
            assert_eq!(listed_place(&message(None, Some(status))), Ok(None), "the server says that there are no more");
        }
        assert!(matches!(listed_place(&message(None, Some(503))), Err(BucketError::NoAnswer(_))));
        assert!(matches!(listed_place(&message(None, None)), Err(BucketError::Foreign(_))));
    }

    #[test]
    fn errors_of_a_stream_are_told_apart() {
        let error = |err_code, description: &str| ApiError { err_code, description: description.to_owned() };
        let of = |err_code, description| write_error(&error(err_code, description), 9, 8);
        assert_eq!(of(10_071, "wrong last sequence: 5"), BucketError::Conflict);
        assert_eq!(of(10_077, "maximum bytes exceeded"), BucketError::FullOfBytes);
        assert_eq!(of(10_077, "maximum messages exceeded"), BucketError::FullOfKeys);
        assert_eq!(of(10_077, "disk\nfull"), BucketError::Refused("disk\\nfull".to_owned()));
        assert_eq!(of(10_054, "too large"), BucketError::TooLarge { length: 9, max: 8 });
        assert_eq!(of(10_008, "unavailable"), BucketError::NoAnswer("unavailable".to_owned()));
    }
}
