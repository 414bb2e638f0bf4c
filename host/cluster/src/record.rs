//! The record of one shard of a plugin in the key-value bucket: which replica polls, and up to which state
//! changes were published.
//!
//! There is one record, which is both the lease and the token: each write is a compare-and-swap on its
//! revision, so a replica that has lost the lease cannot move the token. The sequence number only increases
//! within one history.

use std::collections::BTreeMap;

use mcp_host_model::resource::MAX_TOKEN;
use serde::{Deserialize, Serialize};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;

/// The maximum size of a record in bytes: NATS allows 1 MiB for one message.
pub const MAX_RECORD_BYTES: usize = 512 * 1024;
/// The maximum number of replicas in a record or a message.
pub const MAX_REPLICAS: usize = 1024;
/// The maximum number of tokens of a record.
pub const MAX_TOKENS: usize = 64;
/// The maximum valid number in a record. Replicas add 1 to numbers of a record; it takes as many additions to
/// exceed the maximum of a [message](crate::message::MAX_NUMBER), more than any host makes.
pub const MAX_NUMBER: u64 = 1 << 52;

/// The replicas whose paths were polled, each with the version of its paths.
pub type Covers = BTreeMap<ReplicaId, u64>;

/// Which replica polls one shard of a plugin, and up to which state changes were published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// A random number, created with the record: a bucket that was lost and created again has another
    /// history.
    pub history: u64,
    /// The number of times that the lease was taken.
    pub epoch: u64,
    /// The replica that polls for all; none if it has given the lease back.
    pub holder: Option<ReplicaId>,
    /// The number of writes that only confirmed the lease.
    pub renewals: u64,
    /// The last round of polls whose changes were published.
    pub round: Round,
    /// The replicas that this round covered.
    pub covers: Covers,
    /// The provider's tokens after that round, one for each group of paths.
    pub tokens: Vec<Option<String>>,
    /// The number of shards of the plugin; only the first shard's counts.
    #[serde(default = "one_shard")]
    pub shards: u32,
}

/// A round of polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The epoch in which it was made.
    pub epoch: u64,
    /// Its number, one more than the previous round's.
    pub seq: u64,
    /// The number of messages with its changes.
    pub parts: u32,
}

/// A value in the bucket that is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is too long, or not JSON of a record.
    #[error("not a record: {0}")]
    Json(#[from] JsonError),
    /// It has more tokens, or names more replicas, than any host writes.
    #[error("a record of {replicas} replicas and {tokens} tokens; at most {MAX_REPLICAS} and {MAX_TOKENS} are allowed")]
    TooMany {
        /// The number of replicas.
        replicas: usize,
        /// The number of tokens.
        tokens: usize,
    },
    /// One of its tokens is longer than any provider's.
    #[error("a record with a token of {0} bytes; at most {MAX_TOKEN} are allowed")]
    LongToken(usize),
    /// One of its numbers is greater than any host can count.
    #[error("a record with the number {0}; at most {MAX_NUMBER} is allowed")]
    TooGreat(u64),
}

/// The number of shards of a replica whose version does not divide plugins.
pub(crate) fn one_shard() -> u32 {
    1
}

impl Record {
    /// Decodes a record.
    ///
    /// # Errors
    ///
    /// The bytes are not a record.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: Self = bounded_json::decode(bytes, MAX_RECORD_BYTES)?;
        let (replicas, tokens) = (record.covers.len(), record.tokens.len());
        if replicas > MAX_REPLICAS || tokens > MAX_TOKENS {
            return Err(RecordError::TooMany { replicas, tokens });
        }
        let longest = record.tokens.iter().flatten().map(String::len).max();
        if let Some(length) = longest.filter(|length| *length > MAX_TOKEN) {
            return Err(RecordError::LongToken(length));
        }
        let Self { epoch, renewals, round, covers, .. } = &record;
        let numbers = [*epoch, *renewals, round.epoch, round.seq].into_iter().chain(covers.values().copied());
        match numbers.max() {
            Some(number) if number > MAX_NUMBER => Err(RecordError::TooGreat(number)),
            _ => Ok(record),
        }
    }

    /// Encodes the record.
    ///
    /// # Errors
    ///
    /// It is too long: a provider returns long tokens.
    pub fn encode(&self) -> Result<Vec<u8>, RecordError> {
        Ok(bounded_json::encode(self, MAX_RECORD_BYTES)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        Record {
            history: 7,
            epoch: 2,
            holder: Some(ReplicaId::new(1)),
            renewals: 3,
            round: Round { epoch: 1, seq: 9, parts: 2 },
            covers: Covers::from([(ReplicaId::new(1), 4)]),
            tokens: vec![Some("t".to_owned()), None],
            shards: 2,
        }
    }

    #[test]
    fn a_record_is_read_as_it_is_written() {
        let bytes = record().encode().unwrap();
        assert_eq!(Record::decode(&bytes).unwrap(), record());
    }

    #[test]
    fn what_is_no_record_or_too_large_is_an_error() {
        let long = Record { tokens: vec![Some("x".repeat(MAX_RECORD_BYTES))], ..record() };
        assert!(matches!(long.encode(), Err(RecordError::Json(JsonError::TooLong { .. }))));
        assert!(matches!(
            Record::decode(&vec![b' '; MAX_RECORD_BYTES + 1]),
            Err(RecordError::Json(JsonError::TooLong { .. }))
        ));
        assert!(matches!(Record::decode(b"{}"), Err(RecordError::Json(JsonError::Invalid(_)))));
        let many = Record { tokens: vec![None; MAX_TOKENS + 1], ..record() };
        assert!(matches!(Record::decode(&many.encode().unwrap()), Err(RecordError::TooMany { .. })));
    }

    #[test]
    fn a_record_with_a_token_that_no_provider_may_return_is_an_error() {
        let with = |length: usize| Record { tokens: vec![None, Some("t".repeat(length))], ..record() };
        assert_eq!(Record::decode(&with(MAX_TOKEN).encode().unwrap()).unwrap(), with(MAX_TOKEN));
        let decoded = Record::decode(&with(MAX_TOKEN + 1).encode().unwrap());
        assert!(matches!(decoded, Err(RecordError::LongToken(length)) if length == MAX_TOKEN + 1), "{decoded:?}");
    }

    #[test]
    fn a_record_with_a_number_that_no_host_counts_to_is_an_error() {
        let round = record().round;
        let with = |number: u64| {
            [
                Record { epoch: number, ..record() },
                Record { renewals: number, ..record() },
                Record { round: Round { epoch: number, ..round }, ..record() },
                Record { round: Round { seq: number, ..round }, ..record() },
                Record { covers: Covers::from([(ReplicaId::new(1), number)]), ..record() },
            ]
        };
        for record in with(MAX_NUMBER) {
            assert_eq!(Record::decode(&record.encode().unwrap()).unwrap(), record);
        }
        for record in [MAX_NUMBER + 1, u64::MAX].into_iter().flat_map(with) {
            assert!(matches!(Record::decode(&record.encode().unwrap()), Err(RecordError::TooGreat(_))), "{record:?}");
        }
        let any = Record { history: u64::MAX, ..record() };
        assert_eq!(Record::decode(&any.encode().unwrap()).unwrap(), any, "a history is random and is not counted");
    }
}
