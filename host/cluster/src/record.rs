//! The record of one shard of a plugin in the key-value bucket: who polls, and up to which state changes were told.
//!
//! There is one record, and it is both the lease and the token: each write is a compare-and-swap on its revision, so a replica
//! that has lost the lease cannot move the token. The sequence number only grows within one history.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;

/// The maximum size of a record in bytes: NATS allows 1 MiB for one message.
pub const MAX_RECORD_BYTES: usize = 512 * 1024;
/// The maximum number of replicas of which a record, or a message, speaks.
pub const MAX_REPLICAS: usize = 1024;
/// The maximum number of tokens of a record.
pub const MAX_TOKENS: usize = 64;
/// The greatest number in a record that is valid. Replicas add 1 to numbers of a record: that many times until a
/// [message](crate::message::MAX_NUMBER) cannot say them any more. No host counts as far.
pub const MAX_NUMBER: u64 = 1 << 52;

/// For each replica whose paths were polled, the version of them.
pub type Covers = BTreeMap<ReplicaId, u64>;

/// Who polls one shard of a plugin, and up to which state changes were told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// A random number, made with the record: a bucket that was lost and created anew has another history.
    pub history: u64,
    /// The number of times that the lease was taken.
    pub epoch: u64,
    /// The replica that polls for all; none if it has given the lease back.
    pub holder: Option<ReplicaId>,
    /// The number of writes that only confirmed the lease.
    pub renewals: u64,
    /// The number of the last round of polls whose changes were told.
    pub round: Round,
    /// Whose paths that round covered.
    pub covers: Covers,
    /// The provider's tokens after that round, one for each group of paths.
    pub tokens: Vec<Option<String>>,
}

/// A round of polls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Round {
    /// The epoch in which it was made.
    pub epoch: u64,
    /// Its number: each is one more than that before.
    pub seq: u64,
    /// The number of messages with its changes.
    pub parts: u32,
}

/// What was read from the bucket is not a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// They are too many, or no JSON of a record.
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
    /// One of its numbers is greater than any host counts.
    #[error("a record with the number {0}; at most {MAX_NUMBER} is allowed")]
    TooGreat(u64),
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    ///
    /// It is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let record: Self = bounded_json::decode(bytes, MAX_RECORD_BYTES)?;
        let (replicas, tokens) = (record.covers.len(), record.tokens.len());
        if replicas > MAX_REPLICAS || tokens > MAX_TOKENS {
            return Err(RecordError::TooMany { replicas, tokens });
        }
        let Self { epoch, renewals, round, covers, .. } = &record;
        let numbers = [*epoch, *renewals, round.epoch, round.seq].into_iter().chain(covers.values().copied());
        match numbers.max() {
            Some(number) if number > MAX_NUMBER => Err(RecordError::TooGreat(number)),
            _ => Ok(record),
        }
    }

    /// Writes the record.
    ///
    /// # Errors
    ///
    /// It is too long: a provider gives long tokens.
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
