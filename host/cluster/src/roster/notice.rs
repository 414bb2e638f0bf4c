//! What replicas tell each other about themselves, as JSON.
//!
//! A notice is input from outside: one that is too large, or is none, is dropped, and nothing that it says is a permission.

use serde::{Deserialize, Serialize};

use crate::replica::ReplicaId;

/// The maximum size of a notice in bytes.
pub const MAX_NOTICE_BYTES: usize = 16 * 1024;
/// The maximum number of plugins that a replica names as those whose lease it holds.
pub const MAX_NAMED_LEASES: usize = 64;
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
        /// The number of [`Stale`](Self::Stale) notices that it has sent.
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
    /// It ends.
    Left {
        /// Which.
        replica: ReplicaId,
        /// The number of [`Stale`](Self::Stale) notices that it has sent.
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
}

/// Bytes are no notice.
#[derive(Debug, thiserror::Error)]
pub enum NoticeError {
    /// There are too many.
    #[error("a notice of {0} bytes; at most {MAX_NOTICE_BYTES} are allowed")]
    TooLong(usize),
    /// They are not the JSON of a notice.
    #[error("not a notice: {0}")]
    Invalid(#[from] serde_json::Error),
    /// One of its texts is longer than any host writes, or it names too many plugins.
    #[error("a notice with a text of more than {MAX_TEXT} bytes, or with more than {MAX_NAMED_LEASES} names")]
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
        if bytes.len() > MAX_NOTICE_BYTES {
            return Err(NoticeError::TooLong(bytes.len()));
        }
        let notice: Self = serde_json::from_slice(bytes)?;
        let is_bounded = match &notice {
            Self::Alive { about, .. } => about.is_bounded(),
            Self::Stale { plugin, .. } => plugin.len() <= MAX_TEXT,
            Self::Left { .. } => true,
        };
        let (Self::Alive { sent: number, .. } | Self::Stale { number, .. } | Self::Left { sent: number, .. }) = &notice;
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
        let bytes = serde_json::to_vec(self)?;
        if bytes.len() > MAX_NOTICE_BYTES { Err(NoticeError::TooLong(bytes.len())) } else { Ok(bytes) }
    }
}

impl About {
    fn is_bounded(&self) -> bool {
        let texts = [&self.config, &self.version, &self.machine];
        let mut all = texts.into_iter().chain(&self.named_leases);
        self.named_leases.len() <= MAX_NAMED_LEASES && all.all(|text| text.len() <= MAX_TEXT)
    }

    /// The same within the bounds of a notice.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.named_leases.truncate(MAX_NAMED_LEASES);
        let Self { config, version, machine, named_leases, .. } = &mut self;
        for text in [config, version, machine].into_iter().chain(named_leases) {
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
        for notice in [alive(about), stale, Notice::Left { replica, sent: 3 }] {
            assert_eq!(Notice::decode(&notice.encode().unwrap()).unwrap(), notice);
        }
    }

    #[test]
    fn what_is_no_notice_or_too_large_is_an_error() {
        assert!(matches!(Notice::decode(b"{\"kind\":\"alive\"}"), Err(NoticeError::Invalid(_))));
        assert!(matches!(Notice::decode(&vec![b' '; MAX_NOTICE_BYTES + 1]), Err(NoticeError::TooLong(_))));
        let long = alive(About { machine: "x".repeat(MAX_TEXT + 1), ..About::default() });
        assert!(matches!(Notice::decode(&long.encode().unwrap()), Err(NoticeError::TooMuch)));
        let many = alive(About { named_leases: vec![String::new(); MAX_NAMED_LEASES + 1], ..About::default() });
        assert!(matches!(Notice::decode(&many.encode().unwrap()), Err(NoticeError::TooMuch)));
        let replica = ReplicaId::new(1);
        for number in [MAX_NUMBER + 1, u64::MAX] {
            let stale = Notice::Stale { replica, number, plugin: String::new() };
            let alive = Notice::Alive { replica, sent: number, about: About::default() };
            for notice in [stale, alive, Notice::Left { replica, sent: number }] {
                assert!(matches!(Notice::decode(&notice.encode().unwrap()), Err(NoticeError::TooGreat(_))));
            }
        }
    }

    #[test]
    fn what_is_said_of_a_replica_is_cut_to_what_a_notice_may_have() {
        let about = About { machine: "é".repeat(200), named_leases: vec!["n".repeat(500); 500], ..About::default() };
        let notice = alive(about.bounded());
        assert_eq!(Notice::decode(&notice.encode().unwrap()).unwrap(), notice);
    }
}
