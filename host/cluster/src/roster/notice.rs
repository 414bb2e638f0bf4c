//! Notices of replicas about themselves, as JSON.
//!
//! A notice is untrusted input: one that is too large or invalid is dropped, and no notice grants access.

use serde::{Deserialize, Serialize};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;
use crate::session::SessionKey;

/// The maximum size of a notice in bytes.
pub const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// The maximum number of plugins that a replica names because it holds their lease.
pub const MAX_NAMED_LEASES: usize = 64;
/// The maximum number of keys in a notice.
const MAX_CURSOR_KEYS: usize = 8;
/// The maximum length of a text in a notice, in bytes.
const MAX_TEXT: usize = 128;
/// The maximum valid number of notices: no host sends as many.
const MAX_NUMBER: u64 = crate::message::MAX_NUMBER;

/// A notice of a replica to the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Notice {
    /// The replica is alive.
    Alive {
        /// The replica.
        replica: ReplicaId,
        /// The number of [`Stale`](Self::Stale) and [`Session`](Self::Session) notices that it has sent.
        sent: u64,
        /// Its description of itself.
        about: About,
    },
    /// Earlier cached responses of a plugin are stale.
    Stale {
        /// The sender.
        replica: ReplicaId,
        /// The number of this notice, one more than the previous one's; the first is 1.
        number: u64,
        /// The [shard](crate::share::ShardName) of the plugin.
        plugin: String,
    },
    /// The record of a session that replicas share has changed or is deleted.
    Session {
        /// The sender.
        replica: ReplicaId,
        /// The number of this notice, in one sequence with [`Stale`](Self::Stale).
        number: u64,
        /// The session.
        session: SessionKey,
    },
    /// The replica ends.
    Left {
        /// The replica.
        replica: ReplicaId,
        /// The number of [`Stale`](Self::Stale) and [`Session`](Self::Session) notices that it has sent.
        sent: u64,
    },
}

/// A replica's description of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// The digest of its config.
    pub config: String,
    /// The version of the program.
    pub version: String,
    /// The name of its machine.
    pub machine: String,
    /// The id of its process.
    pub process: u32,
    /// The number of plugins that it polls for all.
    pub leases: usize,
    /// The names of these plugins, at most [`MAX_NAMED_LEASES`].
    pub named_leases: Vec<String>,
    /// A keyed digest of each key that it opens cursors with, which identifies the key and reveals nothing
    /// else. The first belongs to the key that it seals cursors with. Empty if it does not publish them.
    #[serde(default)]
    pub cursor_keys: Vec<String>,
    /// Whether the replica has opened a shared session whose record it could not write yet. False in a replica of an
    /// earlier version.
    #[serde(default)]
    pub has_unwritten_sessions: bool,
}

/// Bytes that are not a notice.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// They are too long, or not JSON of a notice.
    #[error("not a notice: {0}")]
    Json(#[from] JsonError),
    /// One of its texts is longer than a host writes, or it names too many plugins or keys.
    #[error(
        "a notice with a text of more than {MAX_TEXT} bytes, or with more than {MAX_NAMED_LEASES} plugins or {MAX_CURSOR_KEYS} keys"
    )]
    TooMuch,
    /// A number is greater than any host can count.
    #[error("a notice with the number {0}; at most {MAX_NUMBER} is allowed")]
    TooGreat(u64),
}

impl Notice {
    /// Decodes a notice.
    ///
    /// # Errors
    ///
    /// The bytes are not a notice.
    pub fn decode(bytes: &[u8]) -> Result<Self, NoticeError> {
        let notice: Self = bounded_json::decode(bytes, MAX_NOTICE_BYTES)?;
        let is_bounded = match &notice {
            Self::Alive { about, .. } => about.is_bounded(),
            Self::Stale { plugin, .. } => plugin.len() <= MAX_TEXT,
            Self::Session { .. } | Self::Left { .. } => true,
        };
        let (Self::Alive { sent: number, .. }
        | Self::Stale { number, .. }
        | Self::Session { number, .. }
        | Self::Left { sent: number, .. }) = &notice;
        match *number {
            _ if !is_bounded => Err(NoticeError::TooMuch),
            number if number > MAX_NUMBER => Err(NoticeError::TooGreat(number)),
            _ => Ok(notice),
        }
    }

    /// Encodes the notice.
    ///
    /// # Errors
    ///
    /// It is too long.
    pub fn encode(&self) -> Result<Vec<u8>, NoticeError> {
        Ok(bounded_json::encode(self, MAX_NOTICE_BYTES)?)
    }
}

impl About {
    fn is_bounded(&self) -> bool {
        let texts = [&self.config, &self.version, &self.machine];
        let mut all = texts.into_iter().chain(&self.named_leases).chain(&self.cursor_keys);
        self.named_leases.len() <= MAX_NAMED_LEASES
            && self.cursor_keys.len() <= MAX_CURSOR_KEYS
            && all.all(|text| text.len() <= MAX_TEXT)
    }

    /// Returns whether the cursors of each are valid at the other, as far as both publish their keys.
    pub(super) fn shares_cursors(&self, other: &Self) -> bool {
        let opens = |one: &Self, other: &Self| match other.cursor_keys.first() {
            Some(seals) => one.cursor_keys.is_empty() || one.cursor_keys.contains(seals),
            None => true,
        };
        opens(self, other) && opens(other, self)
    }

    /// Truncates the description to the bounds of a notice.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.named_leases.truncate(MAX_NAMED_LEASES);
        self.cursor_keys.truncate(MAX_CURSOR_KEYS);
        let Self { config, version, machine, named_leases, cursor_keys, .. } = &mut self;
        for text in [config, version, machine].into_iter().chain(named_leases).chain(cursor_keys) {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(about: About) -> Notice {
        Notice::Alive { replica: ReplicaId::new(1), sent: 2, about }
    }

    #[test]
    fn a_notice_is_read_as_it_is_written() {
        let replica = ReplicaId::new(5);
        let about = About { machine: "a".to_owned(), named_leases: vec!["notes".to_owned()], ..About::default() };
        let stale = Notice::Stale { replica, number: 1, plugin: "prod.00.0".to_owned() };
        let session = Notice::Session { replica, number: 2, session: SessionKey::of("s") };
        for notice in [alive(about), stale, session, Notice::Left { replica, sent: 3 }] {
            assert_eq!(Notice::decode(&notice.encode().unwrap()).unwrap(), notice);
        }
    }

    #[test]
    fn what_is_no_notice_or_too_large_is_an_error() {
        assert!(matches!(Notice::decode(b"{\"kind\":\"alive\"}"), Err(NoticeError::Json(JsonError::Invalid(_)))));
        assert!(matches!(
            Notice::decode(&vec![b' '; MAX_NOTICE_BYTES + 1]),
            Err(NoticeError::Json(JsonError::TooLong { .. }))
        ));
        let long = alive(About { machine: "x".repeat(MAX_TEXT + 1), ..About::default() });
        assert!(matches!(Notice::decode(&long.encode().unwrap()), Err(NoticeError::TooMuch)));
        let many = alive(About { named_leases: vec![String::new(); MAX_NAMED_LEASES + 1], ..About::default() });
        assert!(matches!(Notice::decode(&many.encode().unwrap()), Err(NoticeError::TooMuch)));
        let replica = ReplicaId::new(1);
        for number in [MAX_NUMBER + 1, u64::MAX] {
            let stale = Notice::Stale { replica, number, plugin: String::new() };
            let alive = Notice::Alive { replica, sent: number, about: About::default() };
            let session = Notice::Session { replica, number, session: SessionKey::of("s") };
            for notice in [stale, alive, session, Notice::Left { replica, sent: number }] {
                assert!(matches!(Notice::decode(&notice.encode().unwrap()), Err(NoticeError::TooGreat(_))));
            }
        }
    }

    #[test]
    fn cursors_are_shared_while_each_opens_what_the_other_seals() {
        let about = |keys: &[&str]| About {
            cursor_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            ..About::default()
        };
        for (one, other, shares) in [
            (&["a"][..], &["a"][..], true),
            (&["a"], &["b"], false),
            // A key rotation: first all replicas open cursors with the new key, then they seal with it, then
            // the old key is removed.
            (&["a"], &["a", "b"], true),
            (&["b", "a"], &["a", "b"], true),
            (&["b", "a"], &["b"], true),
            (&["a"], &["b", "a"], false),
            (&["b"], &["a", "b"], false),
            // A replica of an earlier version.
            (&[], &["a"], true),
        ] {
            assert_eq!(about(one).shares_cursors(&about(other)), shares, "{one:?} {other:?}");
            assert_eq!(about(other).shares_cursors(&about(one)), shares, "{other:?} {one:?}");
        }
    }

    #[test]
    fn what_is_said_of_a_replica_is_cut_to_what_a_notice_may_have() {
        let about = About { machine: "é".repeat(200), named_leases: vec!["n".repeat(500); 500], ..About::default() };
        let notice = alive(about.bounded());
        assert_eq!(Notice::decode(&notice.encode().unwrap()).unwrap(), notice);
    }
}
