//! Plugins' buckets that replicas share: one JetStream key-value bucket for each.
//!
//! | operation | request |
//! |---|---|
//! | read | the last message of the key's subject, from the leader of the stream (`STREAM.MSG.GET`): a read sees each acknowledged write |
//! | write | a message with the expected last sequence of its subject |
//! | deletion | a purge of the subject, which leaves no marker: the number of messages is the number of keys |
//! | listing | for each page a consumer without payloads, from the sequence after the last page ([`listing`]) |
//! | quotas | `max_bytes` and `max_msgs` of the stream, with `discard` `new`. NATS counts the message as it stores it, so a quota of bytes is approximate |
//!
//! The last token of a subject is the key in base64 (URL-safe), so any text is a key, and no two keys have the same
//! subject. Other messages in the stream, from any client that may publish there, are not keys: listings omit them, and
//! nothing reads them.
//!
//! The buckets have a connection and a thread of their own: values of guests delay neither the leases of the replica
//! nor its transports.
//!
//! A response is untrusted input. Its size is bounded before it is parsed, and its texts are for the log.

mod listing;

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_base::shared_buckets::{
    Answer, BucketContents, BucketEntry, BucketError, BucketLimits, BucketPage, Expected, SharedBucket, SharedBuckets,
};
use serde_json::json;

use super::bucket::{Bucket, Last, MAX_HEADER_BYTES, NO_STREAM};
use super::connection::{ApiError, Connection, ConnectionThread};
use super::connection_log::Effects;
use super::{EngineError, Nats, NatsError, NatsOptions, connection};
use crate::buckets::{MAX_VALUE, bucket_name};

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 1024;
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
    /// Creates the buckets of a cluster. Needs no runtime, and does not connect yet. The bucket of the options is not
    /// used.
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
        error.into_shared(Self::Conflict, Self::NoAnswer, Self::Refused)
    }
}

/// The error of a write that the stream has answered.
fn write_error(error: &ApiError, length: usize, max: usize) -> BucketError {
    let ApiError { err_code, description } = error;
    match *err_code {
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
        Ok(self.0.purge(&token(key)).await?)
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
