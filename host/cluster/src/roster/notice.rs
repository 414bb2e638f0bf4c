//! What replicas tell each other about themselves, as JSON.
//!
//! A notice is input from outside: one that is too large, or is none, is dropped, and nothing that it says is a permission.

use serde::{Deserialize, Serialize};

use crate::bounded_json::{self, JsonError};
use crate::replica::ReplicaId;
use crate::session::SessionKey;

/// The maximum size of a notice in bytes.
pub const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// The maximum number of plugins that a replica names as those whose lease it holds.
pub const MAX_NAMED_LEASES: usize = 64;
/// The maximum number of keys that a replica names.
const MAX_CURSOR_KEYS: usize = 8;
/// The maximum length of a text in a notice, in bytes.
const MAX_TEXT: usize = 128;
/// The greatest number of notices that is valid: no host sends as many.
const MAX_NUMBER: u64 = crate::message::MAX_NUMBER;

/// What a replica tells the others.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Notice {
    /// It runs.
    Alive {
        /// Which.
        replica: ReplicaId,
        /// The number of [`Stale`](Self::Stale) and [`Session`](Self::Session) notices that it has sent.
        sent: u64,
        /// What else it says about itself.
        about: About,
    },
    /// Responses of a plugin that were cached before are stale.
    Stale {
        /// Who says it.
        replica: ReplicaId,
        /// The number of this notice: each is one more than that before, and the first is 1.
        number: u64,
        /// The [shard](crate::share::ShardName) of the plugin.
        plugin: String,
    },
    /// The record of a session that replicas share is another one, or is deleted.
    Session {
        /// Who says it.
        replica: ReplicaId,
        /// The number of this notice, in one sequence with [`Stale`](Self::Stale).
        number: u64,
        /// Which session.
        session: SessionKey,
    },
    /// It ends.
    Left {
        /// Which.
        replica: ReplicaId,
        /// The number of [`Stale`](Self::Stale) and [`Session`](Self::Session) notices that it has sent.
        sent: u64,
    },
}

/// What a replica says about itself.
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
    /// The names of these plugins, [`MAX_NAMED_LEASES`] at most.
    pub named_leases: Vec<String>,
    /// For each key by which it opens cursors, what says which key it is and nothing else of it: a keyed digest. The first is that of the
    /// key by which it seals cursors. None if it does not say.
    #[serde(default)]
    pub cursor_keys: Vec<String>,
}

/// Bytes are no notice.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// They are too many, or no JSON of a notice.
    #[error("not a notice: {0}")]
    Json(#[from] JsonError),
    /// One of its texts is longer than any host writes, or it names too many plugins or keys.
    #[error(
        "a notice with a text of more than {MAX_TEXT} bytes, or with more than {MAX_NAMED_LEASES} plugins or {MAX_CURSOR_KEYS} keys"
    )]
    TooMuch,
    /// It counts further than any host does.
    #[error("a notice with the number {0}; at most {MAX_NUMBER} is allowed")]
    TooGreat(u64),
}

impl Notice {
    /// Reads a notice.
    ///
    /// # Errors
    ///
    /// It is none.
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

    /// Writes the notice.
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

    /// Whether the cursors of each are valid at the other, as far as both say what keys they have.
    pub(super) fn shares_cursors(&self, other: &Self) -> bool {
        let opens = |one: &Self, other: &Self| match other.cursor_keys.first() {
            Some(seals) => one.cursor_keys.is_empty() || one.cursor_keys.contains(seals),
            None => true,
        };
        opens(self, other) && opens(other, self)
    }

    /// The same within the bounds of a notice.
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
            // A key is replaced: first all learn to open with it, then they seal with it, then the earlier one is removed.
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
