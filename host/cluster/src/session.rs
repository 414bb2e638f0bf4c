//! What replicas keep of a session that each of them continues: a record in a bucket of its own, by a hash of the session's id.
//!
//! A record is input from outside, and no permission: it does not authenticate, and it gives nothing that whoever it names could not have by
//! opening a session and subscribing. The caller compares the principal of each request with that of the record, and asks its rules
//! about each subscription. A record is bounded ([`MAX_SESSION_BYTES`], [`MAX_SUBSCRIPTIONS`]), and the engine drops one that nobody writes for
//! the time that its writer names.
//!
//! Writes are compare-and-swaps, so of two replicas that change a session at once none undoes the other's change. Deletion leaves an empty
//! value behind for a while: a replica that has not heard of it cannot write the record again, and one that finds nothing at all knows that the
//! engine has lost it.

mod store;

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;

pub use self::store::{SessionStore, StoreError, Stored};

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

/// What a session is known by to replicas: a hash of its id, from which the id cannot be found.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SessionKey(String);

/// A text is not the key of a session.
#[derive(Debug, thiserror::Error)]
#[error("a session is known by 32 hexadecimal digits")]
pub struct SessionKeyError;

impl SessionKey {
    /// The key of the session with that id.
    pub fn of(id: &str) -> Self {
        let digest = Sha256::new().chain_update(b"mcp-host session ").chain_update(id).finalize();
        Self(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect())
    }

    /// As text: the key of the record.
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
    /// Whether that is a built-in principal: no name makes another one equal to it.
    pub is_built_in: bool,
    /// The revision of the protocol that was agreed on.
    pub revision: String,
    /// Whether subscriptions were offered.
    pub may_subscribe: bool,
    /// Whether the client has said that it is initialized.
    pub is_initialized: bool,
    /// The least severe level of log messages that the client wants, if it has said so.
    pub log_level: Option<String>,
    /// The newest event stream, if there was one.
    pub stream: Option<StreamPlace>,
    /// The URIs that it is subscribed to, as the client has spelled them.
    pub subscriptions: BTreeSet<String>,
}

/// Where the newest event stream of a session was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPlace {
    /// At which replica.
    pub replica: ReplicaId,
    /// Its number there.
    pub number: u64,
}

/// What was read is no record of a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionRecordError {
    /// It is too long, or no JSON of a record.
    #[error("not the record of a session: {0}")]
    Json(#[from] JsonError),
    /// It has more than any host writes.
    #[error(
        "the record of a session with a name of more than {MAX_PRINCIPAL} bytes, or with more than {MAX_SUBSCRIPTIONS} URIs or {MAX_URI_BYTES} bytes of them"
    )]
    TooMuch,
}

impl SessionRecord {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, SessionRecordError> {
        let record: Self = bounded_json::decode(bytes, MAX_SESSION_BYTES)?;
        if record.is_bounded() { Ok(record) } else { Err(SessionRecordError::TooMuch) }
    }

    /// Writes the record.
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

    /// Whether both are of the same principal.
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

/// What has changed of the records of sessions, as other replicas say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// That one.
    One(SessionKey),
    /// Any of them: something that was said may not have been heard.
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
