//! Ids of files, folders and shared drives.
//!
//! An id is part of URLs and queries, so only the characters that Drive uses are accepted, from clients, from the
//! config and from the server: an id needs no escaping, and cannot inject anything.

use mcp_provider::Failure;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The maximum length of an id. Drive's ids have 19 to 44 characters.
const MAX_LEN: usize = 128;

/// An id of a file, a folder or a shared drive.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Id(String);

impl Id {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_valid = (1..=MAX_LEN).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Parses the id in a client's path. An invalid id is not found, like an id that does not exist.
    pub(crate) fn of_path(text: &str) -> Result<Self, Failure> {
        Self::parse(text).ok_or(Failure::NotFound)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Id {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("expected an id of letters, digits, `-` and `_`")
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_have_to_be_escaped_is_no_id() {
        for text in ["1AbC-_9", "root", "0APiVOd9lZx3mUk9PVA"] {
            assert_eq!(Id::parse(text).unwrap().as_str(), text);
        }
        for text in ["", "a b", "a'b", "../a", "a/b", "a?b", "日", &"a".repeat(129)] {
            assert_eq!(Id::parse(text), None, "{text}");
        }
    }
}
