//! Records of sessions that any replica can continue, in a separate bucket, by a hash of the session's id.
//!
//! A record is untrusted input, and grants no access: it does not authenticate, and it gives its principal nothing that
//! the principal could not get by opening a session and subscribing. The caller compares the principal of each request
//! with the record's, and applies its rules to each subscription. A record is bounded ([`MAX_SESSION_BYTES`],
//! [`MAX_SUBSCRIPTIONS`]), and expires if it is not written for the time that its last writer set.
//!
//! Writes are compare-and-swaps, so if two replicas change a session concurrently, neither undoes the other's change,
//! and a replica that has missed a deletion cannot write the record again. A deletion leaves a tombstone, an empty
//! value, for some seconds. A random number in the bucket, its history, tells a deleted record from one that the engine
//! has lost.

mod store;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;

pub use self::store::{RecordPlace, SessionStore, StoreError, Stored, TOMBSTONE_LIFETIME, Unwritten};

/// The maximum size of a record in bytes: NATS allows 1 MiB for one message.
pub const MAX_SESSION_BYTES: usize = 576 * 1024;
/// The maximum number of subscriptions of a session.
pub const MAX_SUBSCRIPTIONS: usize = 1024;
/// The maximum size of the URIs of a record, in bytes.
pub const MAX_URI_BYTES: usize = 256 * 1024;
/// The maximum size of the name of a principal, in bytes.
const MAX_PRINCIPAL: usize = 4096;
/// The maximum size of the name of a revision and of a log level, in bytes.
const MAX_NAME: usize = 32;

/// The identity of a session among replicas: a hash of its id, which does not reveal the id.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionKey(String);

/// A text that is not the key of a session.
#[derive(Debug, thiserror::Error)]
#[error("a session is known by 32 hexadecimal digits")]
pub struct SessionKeyError;

impl SessionKey {
    /// Returns the key of the session with this id.
    pub fn of(id: &str) -> Self {
        let digest = Sha256::new().chain_update(b"mcp-host session ").chain_update(id).finalize();
        Self(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// Returns the key of the record, as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SessionKey {
    type Error = SessionKeyError;

    fn try_from(text: String) -> Result<Self, SessionKeyError> {
        let is_key = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if is_key { Ok(Self(text)) } else { Err(SessionKeyError) }
    }
}

impl From<SessionKey> for String {
    fn from(key: SessionKey) -> Self {
        key.0
    }
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    /// The name of the principal that opened it.
    pub principal: String,
    /// Whether this is a built-in principal, which other principals never equal, whatever their name.
    pub is_built_in: bool,
    /// The negotiated protocol revision.
    pub revision: String,
    /// Whether subscriptions were offered.
    pub may_subscribe: bool,
    /// Whether the client has sent `initialized`.
    pub is_initialized: bool,
    /// The minimum level of log messages, if the client has set one.
    pub log_level: Option<String>,
    /// The newest event stream, if there was one.
    pub stream: Option<StreamPlace>,
    /// The subscribed URIs, in the client's spelling.
    pub subscriptions: BTreeSet<String>,
}

/// The place of a session's newest event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPlace {
    /// The replica that serves it.
    pub replica: ReplicaId,
    /// Its number at this replica.
    pub number: u64,
}

/// A value that is not the record of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionRecordError {
    /// It is too long, or not JSON of a record.
    #[error("not the record of a session: {0}")]
    Json(#[from] JsonError),
    /// It exceeds a bound of the records that hosts write.
    #[error(
        "the record of a session with a name of more than {MAX_PRINCIPAL} bytes, or with more than {MAX_SUBSCRIPTIONS} URIs or {MAX_URI_BYTES} bytes of them"
    )]
    TooMuch,
}

impl SessionRecord {
    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// The bytes are not a record.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionRecordError> {
        let record: Self = bounded_json::decode(bytes, MAX_SESSION_BYTES)?;
        if record.is_bounded() { Ok(record) } else { Err(SessionRecordError::TooMuch) }
    }

    /// Encodes the record.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, SessionRecordError> {
        if self.is_bounded() {
            Ok(bounded_json::encode(self, MAX_SESSION_BYTES)?)
        } else {
            Err(SessionRecordError::TooMuch)
        }
    }

    /// Returns whether both records belong to the same principal.
    pub fn is_of_same_principal(&self, other: &Self) -> bool {
        (&self.principal, self.is_built_in) == (&other.principal, other.is_built_in)
    }

    fn is_bounded(&self) -> bool {
        let bytes = self.subscriptions.iter().fold(0, |sum: usize, uri| sum.saturating_add(uri.len()));
        self.principal.len() <= MAX_PRINCIPAL
            && self.revision.len() <= MAX_NAME
            && self.log_level.as_ref().is_none_or(|level| level.len() <= MAX_NAME)
            && self.subscriptions.len() <= MAX_SUBSCRIPTIONS
            && bytes <= MAX_URI_BYTES
    }
}

/// A change of session records, reported by other replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// The record of this session has changed.
    One(SessionKey),
    /// Any record may have changed: a notice may have been missed.
    Any,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn record() -> SessionRecord {
        SessionRecord {
            principal: "corp/ada".to_owned(),
            is_built_in: false,
            revision: "2025-11-25".to_owned(),
            may_subscribe: true,
            is_initialized: true,
            log_level: Some("warning".to_owned()),
            stream: Some(StreamPlace { replica: ReplicaId::new(1), number: 7 }),
            subscriptions: BTreeSet::from(["a://x".to_owned()]),
        }
    }

    #[test]
    fn a_record_is_read_as_it_is_written_and_what_is_none_or_too_much_is_an_error() {
        assert_eq!(SessionRecord::decode(&record().encode().unwrap()).unwrap(), record());
        assert!(matches!(SessionRecord::decode(b"{}"), Err(SessionRecordError::Json(JsonError::Invalid(_)))));
        let long = vec![b' '; MAX_SESSION_BYTES + 1];
        assert!(matches!(SessionRecord::decode(&long), Err(SessionRecordError::Json(JsonError::TooLong { .. }))));
        let uris = |count: usize, length: usize| (0..count).map(|number| format!("{number:0>length$}")).collect();
        let largest = SessionRecord { subscriptions: uris(MAX_SUBSCRIPTIONS, 256), ..record() };
        assert_eq!(SessionRecord::decode(&largest.encode().unwrap()).unwrap(), largest);
        for record in [
            SessionRecord { subscriptions: uris(MAX_SUBSCRIPTIONS + 1, 4), ..record() },
            SessionRecord { subscriptions: uris(MAX_SUBSCRIPTIONS, 257), ..record() },
            SessionRecord { principal: "x".repeat(MAX_PRINCIPAL + 1), ..record() },
            SessionRecord { revision: "x".repeat(MAX_NAME + 1), ..record() },
            SessionRecord { log_level: Some("x".repeat(MAX_NAME + 1)), ..record() },
        ] {
            assert!(matches!(record.encode(), Err(SessionRecordError::TooMuch)));
            let bytes = serde_json::to_vec(&record).unwrap();
            assert!(matches!(SessionRecord::decode(&bytes), Err(SessionRecordError::TooMuch)));
        }
    }

    #[test]
    fn a_key_is_a_hash_and_nothing_else_is_one() {
        let key = SessionKey::of("0123");
        assert_eq!(SessionKey::try_from(key.as_str().to_owned()).unwrap(), key);
        assert_ne!(key, SessionKey::of("0124"));
        for text in ["", "1", &"g".repeat(32), &"F".repeat(32), &"0".repeat(33), "a.b", &"*".repeat(32)] {
            assert!(SessionKey::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
