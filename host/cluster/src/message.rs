//! Messages between replicas about one shard of a plugin, as JSON.
//!
//! | message | from | meaning |
//! |---|---|---|
//! | [`Want`](Message::Want) | a replica | the paths that it wants polled, as a whole or as a difference |
//! | [`Leave`](Message::Leave) | a replica | it wants nothing any more |
//! | [`Ask`](Message::Ask) | the holder | requests the wants of replicas |
//! | [`Changes`](Message::Changes) | the holder | the changes that a round of polls found, before the token is moved |
//! | [`Counted`](Message::Counted) | the holder | the token was moved, or the lease confirmed: the covered replicas |
//! | [`Resigned`](Message::Resigned) | the holder | another replica may take the lease |
//!
//! A message is untrusted input: one that is too large or invalid is dropped, and no message grants access.
//! Its paths are only compared with paths that are watched here, or passed to the provider of the same
//! plugin.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::bounded_json::{self, JsonError};
use crate::record::{Covers, MAX_REPLICAS, Round, one_shard};
use crate::replica::ReplicaId;

/// The maximum size of a message in bytes.
pub const MAX_MESSAGE_BYTES: usize = 512 * 1024;
/// The size of the paths in one message, in bytes, above which another message is begun.
pub const PART_BYTES: usize = 128 * 1024;
/// The maximum number of paths in one message.
const MAX_MESSAGE_PATHS: usize = 8192;
/// The maximum length of a path in bytes. No URI is longer.
pub const MAX_PATH_BYTES: usize = 8 * 1024;
/// The maximum valid number in a message: far below the maximum of a `u64`, so that no addition to it
/// overflows.
pub const MAX_NUMBER: u64 = 1 << 53;

/// A message about one shard of a plugin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Message {
    /// The paths that a replica wants polled.
    Want(Want),
    /// A replica wants nothing any more.
    Leave {
        /// The replica.
        replica: ReplicaId,
    },
    /// The holder does not know the wants of replicas.
    Ask {
        /// The epoch of the holder.
        epoch: u64,
        /// The replica that must respond; none for all.
        replica: Option<ReplicaId>,
    },
    /// The findings of a round of polls.
    Changes {
        /// The history of the record.
        history: u64,
        /// The epoch of the holder.
        epoch: u64,
        /// The number of the round.
        seq: u64,
        /// The number of this part, from 0.
        part: u32,
        /// The paths that have changed.
        changed: Vec<Arc<str>>,
        /// Whether the listing has changed.
        listing: bool,
    },
    /// The record was written.
    Counted {
        /// The history of the record.
        history: u64,
        /// The epoch of the holder.
        epoch: u64,
        /// The revision of the record.
        revision: u64,
        /// The last round whose changes were published.
        round: Round,
        /// The covered replicas.
        covers: Covers,
        /// The number of shards of the plugin; only the first shard's counts.
        #[serde(default = "one_shard")]
        shards: u32,
    },
    /// The holder has given the lease back.
    Resigned {
        /// Its epoch.
        epoch: u64,
    },
}

/// The paths that a replica wants polled, as the difference from an earlier version of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Want {
    /// The replica.
    pub replica: ReplicaId,
    /// The version that this is a difference from; none for no paths.
    pub base: Option<u64>,
    /// The number of this version.
    pub version: u64,
    /// Whether subscribers wait for a poll that covers this version.
    pub waits: bool,
    /// The number of this part, from 0.
    pub part: u32,
    /// Whether it is the last part.
    pub is_last: bool,
    /// The paths that are added.
    pub add: Vec<Arc<str>>,
    /// The paths that are removed.
    pub remove: Vec<Arc<str>>,
    /// The number of shards that the replica's paths of the plugin need; only the first shard's counts.
    #[serde(default = "one_shard")]
    pub shards: u32,
}

/// Bytes that are not a message.
#[derive(Debug, thiserror::Error)]
pub enum MessageError {
    /// They are too long, or not JSON of a message.
    #[error("not a message: {0}")]
    Json(#[from] JsonError),
    /// It names too many paths or replicas.
    #[error("a message with {0} paths or replicas")]
    TooMany(usize),
    /// One of its paths is longer than any URI.
    #[error("a message with a path of {0} bytes; at most {MAX_PATH_BYTES} are allowed")]
    LongPath(usize),
    /// One of its numbers is greater than any host can count.
    #[error("a message with the number {0}; at most {MAX_NUMBER} is allowed")]
    TooGreat(u64),
}

impl Message {
    /// Decodes a message.
    ///
    /// # Errors
    ///
    /// The bytes are not a message.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        let message: Self = bounded_json::decode(bytes, MAX_MESSAGE_BYTES)?;
        let (count, max) = match &message {
            Self::Want(want) => (want.add.len().max(want.remove.len()), MAX_MESSAGE_PATHS),
            Self::Changes { changed, .. } => (changed.len(), MAX_MESSAGE_PATHS),
            Self::Counted { covers, .. } => (covers.len(), MAX_REPLICAS),
            Self::Leave { .. } | Self::Ask { .. } | Self::Resigned { .. } => (0, 0),
        };
        if count > max {
            return Err(MessageError::TooMany(count));
        }
        if let Some(long) = message.paths().map(|path| path.len()).max().filter(|length| *length > MAX_PATH_BYTES) {
            return Err(MessageError::LongPath(long));
        }
        match message.greatest_number() {
            number if number > MAX_NUMBER => Err(MessageError::TooGreat(number)),
            _ => Ok(message),
        }
    }

    fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        let (some, more): (&[_], &[_]) = match self {
            Self::Want(want) => (&want.add, &want.remove),
            Self::Changes { changed, .. } => (changed, &[]),
            Self::Leave { .. } | Self::Ask { .. } | Self::Counted { .. } | Self::Resigned { .. } => (&[], &[]),
        };
        some.iter().chain(more)
    }

    /// Returns the maximum of the numbers that count something. A history is random, and a part has another
    /// type.
    fn greatest_number(&self) -> u64 {
        match self {
            Self::Want(want) => want.version.max(want.base.unwrap_or(0)),
            Self::Leave { .. } => 0,
            Self::Ask { epoch, .. } | Self::Resigned { epoch } => *epoch,
            Self::Changes { epoch, seq, .. } => *epoch.max(seq),
            Self::Counted { epoch, revision, round, covers, .. } => {
                let numbers = [*epoch, *revision, round.epoch, round.seq];
                numbers.into_iter().chain(covers.values().copied()).max().unwrap_or(0)
            }
        }
    }

    /// Encodes the message.
    ///
    /// # Errors
    ///
    /// It is too long. Messages are divided into parts, so this happens only with paths far beyond the
    /// maximum length of a URI.
    pub fn encode(&self) -> Result<Vec<u8>, MessageError> {
        Ok(bounded_json::encode(self, MAX_MESSAGE_BYTES)?)
    }
}

/// Divides paths into parts that each fit into one message. No part is empty.
pub(crate) fn parts(paths: Vec<Arc<str>>) -> Vec<Vec<Arc<str>>> {
    let mut parts: Vec<Vec<Arc<str>>> = Vec::new();
    let mut room = 0_usize;
    for path in paths {
        let len = path.len().saturating_add(8);
        match parts.last_mut() {
            Some(part) if len <= room && part.len() < MAX_MESSAGE_PATHS => {
                room = room.saturating_sub(len);
                part.push(path);
            }
            _ => {
                room = PART_BYTES.saturating_sub(len);
                parts.push(vec![path]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_is_written() {
        let replica = ReplicaId::new(5);
        let paths = || vec!["a".into(), "b?q".into()];
        let messages = [
            Message::Want(Want {
                replica,
                base: Some(1),
                version: 2,
                waits: true,
                part: 0,
                is_last: true,
                add: paths(),
                remove: vec![],
                shards: 2,
            }),
            Message::Leave { replica },
            Message::Ask { epoch: 1, replica: None },
            Message::Changes { history: 1, epoch: 1, seq: 2, part: 0, changed: paths(), listing: true },
            Message::Counted {
                history: 1,
                epoch: 2,
                revision: 8,
                round: Round { epoch: 1, seq: 2, parts: 3 },
                covers: Covers::from([(replica, 2)]),
                shards: 4,
            },
            Message::Resigned { epoch: 3 },
        ];
        for message in messages {
            assert_eq!(Message::decode(&message.encode().unwrap()).unwrap(), message);
        }
    }

    #[test]
    fn a_message_of_a_version_without_shards_means_one() {
        let want = Want {
            replica: ReplicaId::new(5),
            base: None,
            version: 1,
            waits: false,
            part: 0,
            is_last: true,
            add: vec![],
            remove: vec![],
            shards: 1,
        };
        let counted = Message::Counted {
            history: 1,
            epoch: 1,
            revision: 1,
            round: Round::default(),
            covers: Covers::new(),
            shards: 1,
        };
        for message in [Message::Want(want), counted] {
            let mut value = serde_json::to_value(&message).unwrap();
            value.as_object_mut().unwrap().remove("shards").unwrap();
            assert_eq!(Message::decode(value.to_string().as_bytes()).unwrap(), message);
        }
    }

    #[test]
    fn what_is_no_message_or_too_large_is_an_error() {
        assert!(matches!(Message::decode(b"{\"kind\":\"want\"}"), Err(MessageError::Json(JsonError::Invalid(_)))));
        assert!(matches!(
            Message::decode(&vec![b' '; MAX_MESSAGE_BYTES + 1]),
            Err(MessageError::Json(JsonError::TooLong { .. }))
        ));
        let changed = vec!["".into(); MAX_MESSAGE_PATHS + 1];
        let many = Message::Changes { history: 0, epoch: 0, seq: 0, part: 0, changed, listing: false };
        assert!(matches!(Message::decode(&many.encode().unwrap()), Err(MessageError::TooMany(_))));
        let changed = vec!["x".repeat(MAX_PATH_BYTES + 1).into()];
        let long = Message::Changes { history: 0, epoch: 0, seq: 0, part: 0, changed, listing: false };
        assert!(matches!(Message::decode(&long.encode().unwrap()), Err(MessageError::LongPath(_))));
    }

    #[test]
    fn a_message_with_a_number_that_no_host_counts_to_is_an_error() {
        let replica = ReplicaId::new(5);
        let with = |number: u64| {
            let want = Want {
                replica,
                base: None,
                version: 1,
                waits: false,
                part: 0,
                is_last: true,
                add: Vec::new(),
                remove: Vec::new(),
                shards: u32::MAX,
            };
            let counted = |epoch, revision, round, version| {
                let covers = Covers::from([(replica, version)]);
                Message::Counted { history: u64::MAX, epoch, revision, round, covers, shards: u32::MAX }
            };
            let changes = |epoch, seq| {
                let (history, changed) = (u64::MAX, Vec::new());
                Message::Changes { history, epoch, seq, part: u32::MAX, changed, listing: false }
            };
            let round = Round { epoch: 1, seq: 1, parts: u32::MAX };
            [
                Message::Want(Want { version: number, ..want.clone() }),
                Message::Want(Want { base: Some(number), ..want }),
                Message::Ask { epoch: number, replica: None },
                changes(number, 1),
                changes(1, number),
                counted(number, 1, round, 1),
                counted(1, number, round, 1),
                counted(1, 1, Round { epoch: number, ..round }, 1),
                counted(1, 1, Round { seq: number, ..round }, 1),
                counted(1, 1, round, number),
                Message::Resigned { epoch: number },
            ]
        };
        for message in with(MAX_NUMBER) {
            assert_eq!(Message::decode(&message.encode().unwrap()).unwrap(), message);
        }
        for message in [MAX_NUMBER + 1, u64::MAX].into_iter().flat_map(with) {
            assert!(
                matches!(Message::decode(&message.encode().unwrap()), Err(MessageError::TooGreat(_))),
                "{message:?}"
            );
        }
    }

    #[test]
    fn parts_have_all_paths_in_order_and_fit_into_a_message() {
        let paths: Vec<Arc<str>> = (0..20_000).map(|number| format!("{number:0>90}").into()).collect();
        let divided = parts(paths.clone());
        assert!(divided.len() > 1 && divided.iter().all(|part| !part.is_empty()));
        assert_eq!(divided.concat(), paths);
        for changed in divided {
            Message::Changes { history: 0, epoch: 0, seq: 0, part: 0, changed, listing: false }.encode().unwrap();
        }
        assert!(parts(Vec::new()).is_empty());
    }
}
