//! Buckets: streams of JetStream whose subjects are the keys, as documented by NATS (ADR-8).
//!
//! There are two kinds, with different retention. Lease records are kept for [`MAX_AGE`] after the last
//! write. Session records have individual lifetimes (`Nats-TTL`, NATS 2.11), and are bounded in number and
//! size.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{EngineError, Nats};
use crate::bounded_json;
use crate::record::MAX_RECORD_BYTES;
use crate::session::MAX_SESSION_BYTES;

/// The prefix of the subjects of the JetStream API.
const API: &str = "$JS.API.";
/// The maximum size of a response in bytes: a value in base64, and the rest.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;
/// The time after its last write at which a record is dropped.
pub(super) const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The same time for a session record, which has an individual lifetime: no session is idle that long.
const MAX_SESSION_AGE: Duration = Duration::from_secs(45 * 24 * 60 * 60);
/// The maximum size of all session records in bytes.
const MAX_SESSIONS_BYTES: i64 = 256 * 1024 * 1024;
/// The maximum number of session records.
const MAX_SESSIONS: i64 = 1_000_000;
/// The header with the expected revision.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// The header with the lifetime of a message.
const LIFETIME: &str = "Nats-TTL";
/// Error codes of JetStream.
const NO_MESSAGE: u64 = 10_037;
const NO_STREAM: u64 = 10_059;
const WRONG_SEQUENCE: [u64; 2] = [10_071, 10_164];
const NAME_IN_USE: u64 = 10_058;
const NOT_CLUSTERED: [u64; 2] = [10_074, 10_005];
/// JetStream is not enabled, on the server or for the account.
const NO_JETSTREAM: [u64; 2] = [10_076, 10_039];
/// The header of a message that marks its key as deleted.
const DELETED: &[u8] = b"KV-Operation:";

/// A bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    name: String,
    is_of_sessions: bool,
    /// Whether it existed, or was created, when it was last used.
    is_made: AtomicBool,
}

impl Bucket {
    /// The bucket of the lease records.
    pub(super) fn of_records(name: String) -> Self {
        Self { name, is_of_sessions: false, is_made: AtomicBool::new(false) }
    }

    /// The bucket of the session records.
    pub(super) fn of_sessions(name: String) -> Self {
        Self { name, is_of_sessions: true, is_made: AtomicBool::new(false) }
    }

    /// Returns the config of its stream, with this number of copies.
    fn config(&self, copies: u32) -> Value {
        let max_age = if self.is_of_sessions { MAX_SESSION_AGE } else { MAX_AGE };
        let mut config = json!({
            "name": format!("KV_{}", self.name),
            "subjects": [format!("$KV.{}.>", self.name)],
            "max_msgs_per_subject": 1,
            "max_age": u64::try_from(max_age.as_nanos()).unwrap_or(u64::MAX),
            "max_msg_size": if self.is_of_sessions { MAX_SESSION_BYTES } else { MAX_RECORD_BYTES },
            "discard": "new",
            "deny_delete": true,
            "allow_rollup_hdrs": true,
            "allow_direct": true,
            "storage": "file",
            "num_replicas": copies,
        });
        if let Some(members) = config.as_object_mut().filter(|_| self.is_of_sessions) {
            members.insert("allow_msg_ttl".to_owned(), json!(true));
            members.insert("max_msgs".to_owned(), json!(MAX_SESSIONS));
            members.insert("max_bytes".to_owned(), json!(MAX_SESSIONS_BYTES));
        }
        config
    }
}

/// A response of JetStream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) error: Option<ApiError>,
    /// The sequence of a stored message.
    seq: Option<u64>,
    message: Option<StoredMessage>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
    #[serde(default)]
    hdrs: String,
}

/// The last message of a key.
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
        let client = self.connected().await?;
        let is_api = subject.starts_with(API);
        let request = Request::new().headers(headers).payload(body.into()).timeout(Some(self.connection.timeout));
        let answered = tokio::time::timeout(self.connection.timeout, client.send_request(subject, request)).await;
        let message = match answered {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => {
                if error.kind() == RequestErrorKind::NoResponders {
                    self.bucket.is_made.store(false, Ordering::Relaxed);
                    // A missing bucket has no subscriber for its subjects, but the JetStream API has one.
                    if is_api {
                        self.connection.log.no_jetstream("nobody answers");
                    }
                }
                return Err(EngineError::NoAnswer(error.to_string()));
            }
            Err(_) => return Err(EngineError::NoAnswer("the time is over".to_owned())),
        };
        let answer: Answer = bounded_json::decode(&message.payload, MAX_ANSWER_BYTES)
            .map_err(|error| EngineError::NoAnswer(error.to_string()))?;
        match &answer.error {
            Some(error) if NO_JETSTREAM.contains(&error.err_code) => {
                self.connection.log.no_jetstream(&error.description);
            }
            _ => self.connection.log.has_jetstream(),
        }
        Ok(answer)
    }

    /// Creates the bucket, unless it exists.
    async fn create_bucket(&self) -> Result<(), EngineError> {
        let stream = format!("KV_{}", self.bucket.name);
        for replicas in [3, 1] {
            let config = self.bucket.config(replicas);
            let subject = format!("$JS.API.STREAM.CREATE.{stream}");
            let answer = self.request(subject, HeaderMap::new(), config.to_string().into_bytes()).await?;
            match answer.error {
                None => {
                    self.bucket.is_made.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Some(error) if error.err_code == NAME_IN_USE => {
                    self.bucket.is_made.store(true, Ordering::Relaxed);
                    return Ok(());
                }
                Some(error) if replicas > 1 && NOT_CLUSTERED.contains(&error.err_code) => {}
                Some(error) => return Err(EngineError::Refused(error.description)),
            }
        }
        Ok(())
    }

    pub(super) async fn last(&self, key: &str) -> Result<Option<Last>, EngineError> {
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", self.bucket.name);
        let body = serde_json::json!({ "last_by_subj": format!("$KV.{}.{key}", self.bucket.name) });
        let body = body.to_string().into_bytes();
        let answer = self.request(subject.clone(), HeaderMap::new(), body.clone()).await?;
        let answer = match answer.error.as_ref().map(|error| error.err_code) {
            Some(NO_STREAM) => {
                self.create_bucket().await?;
                self.request(subject, HeaderMap::new(), body).await?
            }
            _ => answer,
        };
        match answer {
            Answer { error: Some(error), .. } if error.err_code == NO_MESSAGE => Ok(None),
            Answer { error: Some(error), .. } => Err(EngineError::Refused(error.description)),
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
        if !self.bucket.is_made.load(Ordering::Relaxed) {
            self.create_bucket().await?;
        }
        let mut headers = HeaderMap::new();
        if let Some(lifetime) = lifetime {
            // A lifetime of less than a second is not valid.
            headers.insert(LIFETIME, format!("{}s", lifetime.as_secs().max(1)));
        }
        if let Some(expected) = expected {
            headers.insert(EXPECTED, expected.to_string());
        }
        let answer = self.request(format!("$KV.{}.{key}", self.bucket.name), headers, value).await?;
        match answer {
            Answer { error: Some(error), .. } if WRONG_SEQUENCE.contains(&error.err_code) => Err(EngineError::Conflict),
            Answer { error: Some(error), .. } => Err(EngineError::Refused(error.description)),
            Answer { seq: Some(revision), .. } => Ok(revision),
            Answer { .. } => Err(EngineError::NoAnswer("an answer without a sequence".to_owned())),
        }
    }
}
