//! Buckets: streams of JetStream whose subjects are the keys, as documented by NATS (ADR-8).
//!
//! There are three kinds, with different retention. Lease records are kept for [`MAX_AGE`] after the last
//! write. Session records have individual lifetimes (`Nats-TTL`, NATS 2.11), and are bounded in number and
//! size. Values of a plugin's bucket are kept until they are deleted; its quotas are the limits of the stream.
//!
//! An object store (ADR-20) is a stream of the same kind, whose subjects are the descriptions of objects and
//! their chunks. It has several messages of one subject. They are kept for [`SNAPSHOT_LIFETIME`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_host_base::shared_buckets::BucketLimits;
use mcp_host_base::shared_snapshots::{MAX_CHUNK, SNAPSHOT_LIFETIME};
use serde_json::{Value, json};

use super::connection::{API, Answer, ApiError};
use super::connection_log::quoted;
use super::{EngineError, Nats};
use crate::buckets::MAX_VALUE;
use crate::record::MAX_RECORD_BYTES;
use crate::session::MAX_SESSION_BYTES;

/// The maximum size of a response in bytes: a value in base64, and the rest.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The same with a value of a plugin's bucket: four thirds of [`MAX_VALUE`], and the rest.
const MAX_VALUE_ANSWER_BYTES: usize = MAX_VALUE.div_ceil(3).saturating_mul(4).saturating_add(16 * 1024);
/// The maximum size of the headers of a message that a host writes.
pub(super) const MAX_HEADER_BYTES: usize = 512;
/// The time after its last write at which a record is dropped.
pub(super) const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The same time for a session record, which has an individual lifetime: no session is idle that long.
const MAX_SESSION_AGE: Duration = Duration::from_secs(45 * 24 * 60 * 60);
/// The maximum size of all session records in bytes.
const MAX_SESSIONS_BYTES: i64 = 256 * 1024 * 1024;
/// The maximum number of session records.
const MAX_SESSIONS: i64 = 1_000_000;
/// The maximum size of all objects in bytes.
const MAX_OBJECTS_BYTES: i64 = 1024 * 1024 * 1024;
/// The header with the expected revision.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// The header with the lifetime of a message.
const LIFETIME: &str = "Nats-TTL";
/// The header of a message that replaces all earlier ones of its subject.
const ROLLUP: &str = "Nats-Rollup";
/// Error codes of JetStream.
const NO_MESSAGE: u64 = 10_037;
pub(super) const NO_STREAM: u64 = 10_059;
const WRONG_SEQUENCE: [u64; 2] = [10_071, 10_164];
const NAME_IN_USE: u64 = 10_058;
/// JetStream is not available at the moment: the stream has no leader, for example.
const NOT_AVAILABLE: [u64; 3] = [10_008, 10_009, 10_117];
const NOT_CLUSTERED: [u64; 2] = [10_074, 10_005];
/// The header of a message that marks its key as deleted.
const DELETED: &[u8] = b"KV-Operation:";

/// A bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    name: String,
    kind: Kind,
    /// Whether it existed, or was created, when it was last used.
    pub(super) is_made: AtomicBool,
}

impl From<&ApiError> for EngineError {
    fn from(error: &ApiError) -> Self {
        let reason = error.description.clone();
        match error.err_code {
            code if WRONG_SEQUENCE.contains(&code) => Self::Conflict,
            code if NOT_AVAILABLE.contains(&code) => Self::NoAnswer(reason),
            _ => Self::Refused(reason),
        }
    }
}

impl EngineError {
    /// Returns this error as one of these errors of a shared store, with a text for the log.
    pub(super) fn into_shared<E>(self, conflict: E, no_answer: fn(String) -> E, refused: fn(String) -> E) -> E {
        match self {
            Self::Conflict => conflict,
            Self::NoAnswer(reason) => no_answer(quoted(&reason)),
            Self::Refused(reason) => refused(quoted(&reason)),
        }
    }
}

/// The content of a bucket.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Lease records.
    Records,
    /// Session records.
    Sessions,
    /// Values of a plugin.
    Values(BucketLimits),
    /// Objects, in chunks.
    Objects,
}

impl Bucket {
    /// The bucket of the lease records.
    pub(super) fn of_records(name: String) -> Self {
        Self { name, kind: Kind::Records, is_made: AtomicBool::new(false) }
    }

    /// The bucket of the session records.
    pub(super) fn of_sessions(name: String) -> Self {
        Self { name, kind: Kind::Sessions, is_made: AtomicBool::new(false) }
    }

    /// A bucket of a plugin.
    pub(super) fn of_plugin(name: String, limits: BucketLimits) -> Self {
        Self { name, kind: Kind::Values(limits), is_made: AtomicBool::new(false) }
    }

    /// The object store with this name.
    pub(super) fn of_objects(name: String) -> Self {
        Self { name, kind: Kind::Objects, is_made: AtomicBool::new(false) }
    }

    /// The name of its stream.
    pub(super) fn stream(&self) -> String {
        let prefix = if matches!(self.kind, Kind::Objects) { "OBJ" } else { "KV" };
        format!("{prefix}_{}", self.name)
    }

    /// The subject of a key. In an object store, a key is `C.` or `M.` and a name.
    pub(super) fn subject(&self, key: &str) -> String {
        let prefix = if matches!(self.kind, Kind::Objects) { "$O" } else { "$KV" };
        format!("{prefix}.{}.{key}", self.name)
    }

    /// Returns the config of its stream, with this number of copies.
    fn config(&self, copies: u32) -> Value {
        let nanoseconds = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (max_age, max_msg_size) = match self.kind {
            Kind::Records => (nanoseconds(MAX_AGE), MAX_RECORD_BYTES),
            Kind::Sessions => (nanoseconds(MAX_SESSION_AGE), MAX_SESSION_BYTES),
            Kind::Values(_) => (0, MAX_VALUE.saturating_add(MAX_HEADER_BYTES)),
            Kind::Objects => (nanoseconds(SNAPSHOT_LIFETIME), MAX_CHUNK.saturating_add(MAX_HEADER_BYTES)),
        };
        let mut config = json!({
            "name": self.stream(),
            "subjects": [self.subject(">")],
            "max_msgs_per_subject": 1,
            "max_age": max_age,
            "max_msg_size": max_msg_size,
            "discard": "new",
            "deny_delete": true,
            "allow_rollup_hdrs": true,
            "allow_direct": true,
            "storage": "file",
            "num_replicas": copies,
        });
        if let Some(members) = config.as_object_mut() {
            match self.kind {
                Kind::Records => {}
                Kind::Sessions => {
                    members.insert("allow_msg_ttl".to_owned(), json!(true));
                    members.insert("max_msgs".to_owned(), json!(MAX_SESSIONS));
                    members.insert("max_bytes".to_owned(), json!(MAX_SESSIONS_BYTES));
                }
                Kind::Values(limits) => {
                    members.insert("max_msgs".to_owned(), json!(signed(limits.keys)));
                    members.insert("max_bytes".to_owned(), json!(signed(limits.bytes)));
                }
                Kind::Objects => {
                    members.insert("max_msgs_per_subject".to_owned(), json!(-1));
                    members.insert("max_bytes".to_owned(), json!(MAX_OBJECTS_BYTES));
                }
            }
        }
        config
    }

    /// The maximum size of a response about it.
    fn max_answer(&self) -> usize {
        match self.kind {
            Kind::Records | Kind::Sessions | Kind::Objects => MAX_ANSWER_BYTES,
            Kind::Values(_) => MAX_VALUE_ANSWER_BYTES,
        }
    }
}

/// A limit of a stream.
fn signed(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A message of a key.
pub(super) struct Last {
    pub(super) revision: u64,
    /// None if the key was deleted.
    pub(super) value: Option<Vec<u8>>,
}

impl Nats {
    pub(super) async fn request(
        &self,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
    ) -> Result<Answer, EngineError> {
        let Bucket { is_made, .. } = &*self.bucket;
        self.connection.request(is_made, subject, headers, body, self.bucket.max_answer()).await
    }

    /// Sends a request of the JetStream API about the stream: `STREAM.INFO`, for example.
    pub(super) async fn stream_request(&self, operation: &str, body: &Value) -> Result<Answer, EngineError> {
        let subject = format!("{API}{operation}.{}", self.bucket.stream());
        self.request(subject, HeaderMap::new(), body.to_string().into_bytes()).await
    }

    /// Creates the bucket, unless it exists. An existing bucket of a plugin gets its limits.
    async fn create_bucket(&self) -> Result<(), EngineError> {
        for replicas in [3, 1] {
            let answer = self.stream_request("STREAM.CREATE", &self.bucket.config(replicas)).await?;
            match answer.error {
                None => break,
                Some(error) if error.err_code == NAME_IN_USE => {
                    if let Kind::Values(_) = self.bucket.kind {
                        self.update_limits().await?;
                    }
                    break;
                }
                Some(error) if replicas > 1 && NOT_CLUSTERED.contains(&error.err_code) => {}
                Some(error) => return Err(EngineError::from(&error)),
            }
        }
        self.bucket.is_made.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sets the limits of an existing stream, unless it has them. Its other settings stay: an admin may have changed
    /// them.
    async fn update_limits(&self) -> Result<(), EngineError> {
        let answer = self.stream_request("STREAM.INFO", &json!({})).await?;
        let wanted = self.bucket.config(1);
        let Some(Value::Object(mut config)) = answer.config else { return Ok(()) };
        let mut is_same = true;
        for limit in ["max_msgs", "max_bytes", "max_msg_size"] {
            if let Some(value) = wanted.get(limit).filter(|value| config.get(limit) != Some(value)) {
                config.insert(limit.to_owned(), value.clone());
                is_same = false;
            }
        }
        if is_same {
            return Ok(());
        }
        let answer = self.stream_request("STREAM.UPDATE", &Value::Object(config)).await?;
        answer.error.map_or(Ok(()), |error| Err(EngineError::from(&error)))
    }

    pub(super) async fn last(&self, key: &str) -> Result<Option<Last>, EngineError> {
        self.stored(&json!({ "last_by_subj": self.bucket.subject(key) })).await
    }

    /// Returns the first message of a key after this revision.
    pub(super) async fn next_after(&self, key: &str, revision: u64) -> Result<Option<Last>, EngineError> {
        let body = json!({ "seq": revision.saturating_add(1), "next_by_subj": self.bucket.subject(key) });
        self.stored(&body).await
    }

    /// Returns the message that a request selects.
    async fn stored(&self, body: &Value) -> Result<Option<Last>, EngineError> {
        let answer = self.stream_request("STREAM.MSG.GET", body).await?;
        let answer = match answer.error.as_ref().map(|error| error.err_code) {
            Some(NO_STREAM) => {
                self.create_bucket().await?;
                self.stream_request("STREAM.MSG.GET", body).await?
            }
            _ => answer,
        };
        match answer {
            Answer { error: Some(error), .. } if error.err_code == NO_MESSAGE => Ok(None),
            Answer { error: Some(error), .. } => Err(EngineError::from(&error)),
            Answer { message: Some(message), .. } => {
                let invalid = |error: base64::DecodeError| EngineError::NoAnswer(error.to_string());
                let headers = STANDARD.decode(&message.hdrs).map_err(invalid)?;
                let is_deleted = headers.windows(DELETED.len()).any(|window| window == DELETED);
                let value = STANDARD.decode(&message.data).map_err(invalid)?;
                Ok(Some(Last { revision: message.seq, value: (!is_deleted).then_some(value) }))
            }
            Answer { .. } => Err(EngineError::NoAnswer("an answer without a message".to_owned())),
        }
    }

    /// Writes the value of a key, if the key has this revision, or does not exist.
    pub(super) async fn put_expected(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Option<Duration>,
    ) -> Result<u64, EngineError> {
        if let Some(expected) = expected {
            return self.put(key, value, Some(expected), lifetime).await;
        }
        match self.put(key, value.clone(), Some(0), lifetime).await {
            // An admin has deleted the key: the deletion is a message, too.
            Err(EngineError::Conflict) => match self.last(key).await? {
                Some(Last { revision, value: None }) => self.put(key, value, Some(revision), lifetime).await,
                _ => Err(EngineError::Conflict),
            },
            result => result,
        }
    }

    /// Publishes the message of a key.
    pub(super) async fn put(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Option<Duration>,
    ) -> Result<u64, EngineError> {
        self.store(key, value, expected, lifetime).await?.map_err(|error| EngineError::from(&error))
    }

    /// Publishes the message of a key. Returns its revision, or the error of the stream.
    pub(super) async fn store(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Option<Duration>,
    ) -> Result<Result<u64, ApiError>, EngineError> {
        let mut headers = HeaderMap::new();
        if let Some(lifetime) = lifetime {
            // A lifetime of less than a second is not valid.
            headers.insert(LIFETIME, format!("{}s", lifetime.as_secs().max(1)));
        }
        if let Some(expected) = expected {
            headers.insert(EXPECTED, expected.to_string());
        }
        self.send(key, value, headers).await
    }

    /// Publishes the message of a key that has this revision, or none. The message replaces all earlier ones of the
    /// key.
    pub(super) async fn replace(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
    ) -> Result<Result<u64, ApiError>, EngineError> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, expected.unwrap_or_default().to_string());
        headers.insert(ROLLUP, "sub");
        self.send(key, value, headers).await
    }

    /// Deletes all messages of a key.
    pub(super) async fn purge(&self, key: &str) -> Result<(), EngineError> {
        let body = json!({ "filter": self.bucket.subject(key) });
        match self.stream_request("STREAM.PURGE", &body).await?.error {
            Some(error) if error.err_code != NO_STREAM => Err(EngineError::from(&error)),
            _ => Ok(()),
        }
    }

    async fn send(&self, key: &str, value: Vec<u8>, headers: HeaderMap) -> Result<Result<u64, ApiError>, EngineError> {
        if !self.bucket.is_made.load(Ordering::Relaxed) {
            self.create_bucket().await?;
        }
        match self.request(self.bucket.subject(key), headers, value).await? {
            Answer { error: Some(error), .. } => Ok(Err(error)),
            Answer { seq: Some(revision), .. } => Ok(Ok(revision)),
            Answer { .. } => Err(EngineError::NoAnswer("an answer without a sequence".to_owned())),
        }
    }
}
