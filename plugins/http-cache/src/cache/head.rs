//! What is kept of a page beside its body.
//!
//! A head is kept as JSON under a key of its own, so that listing pages reads no bodies. What another version wrote, or what is
//! damaged, is no head: the page is fetched again.

use super::policy::Response;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher};
use std::hash::Hasher;
use std::time::SystemTime;

/// The form that heads are written in.
const VERSION: u32 = 1;

/// What is kept of a response beside its body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    version: u32,
    /// What the rules of caching need.
    pub(crate) response: Response,
    /// What it says, unless it only leads elsewhere.
    pub(crate) content: Option<Content>,
    /// Until when its origin is left alone after it failed, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) backoff_until: u64,
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// How it is served.
    pub(crate) kind: Kind,
    /// Its MIME type, without parameters.
    pub(crate) mime: String,
    /// The bytes of its body, which is UTF-8 where it is text. Unknown where only headers were asked for.
    pub(crate) size: Option<u64>,
    /// The [`digest`] of its body; empty where only headers were asked for.
    pub(crate) digest: String,
    /// The title that it gives itself.
    pub(crate) title: Option<String>,
    /// The description that it gives itself.
    pub(crate) description: Option<String>,
}

/// How a page is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// As HTML, and as Markdown made of it.
    Html,
    /// As text.
    Text,
    /// As bytes.
    Blob,
}

impl Head {
    pub(crate) fn new(response: Response, content: Option<Content>) -> Self {
        Self { version: VERSION, response, content, backoff_until: 0 }
    }

    /// Reads a head of this version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|head| head.version == VERSION)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Where it leads, if it only leads elsewhere.
    pub(crate) fn location(&self) -> Option<&str> {
        if self.content.is_some() { None } else { self.response.header(&LOCATION) }
    }

    /// When its origin was last heard of it.
    pub(crate) fn received(&self) -> SystemTime {
        self.response.received()
    }
}

/// A number that tells one body from another, the same in every build.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let mut hasher = SipHasher::new();
    hasher.write(bytes);
    format!("{:032x}", hasher.finish128().as_u128())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderMap;

    #[test]
    fn a_head_comes_back_as_it_was_written() {
        let response = Response::new(200, &HeaderMap::new(), SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        let content = Content {
            kind: Kind::Html,
            mime: "text/html".to_owned(),
            size: Some(3),
            digest: digest(b"abc"),
            title: Some("日本".to_owned()),
            description: None,
        };
        let head = Head::new(response, Some(content));
        assert_eq!(Head::parse(&head.to_bytes()), Some(head));
    }

    #[test]
    fn a_head_that_is_damaged_or_of_another_version_is_none() {
        let response = Response::new(301, &HeaderMap::new(), SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
        let whole = Head::new(response, None);
        let mut other = whole.clone();
        other.version = VERSION + 1;
        let bytes = whole.to_bytes();
        for damaged in [&b""[..], b"{}", b"\xff", &bytes[..bytes.len() - 1], &other.to_bytes()] {
            assert_eq!(Head::parse(damaged), None);
        }
    }

    #[test]
    fn the_digest_of_a_body_is_the_same_in_every_build() {
        assert_eq!(digest(b""), digest(b""));
        assert_ne!(digest(b"a"), digest(b"b"));
        assert_eq!(digest(b"abc").len(), 32);
    }
}
