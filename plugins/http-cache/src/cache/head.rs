//! The head of a stored page: everything except its body.
//!
//! A head is stored as JSON under a separate key, so a listing reads no bodies. A head that is damaged or of another
//! version is ignored: the page is fetched again.

use super::policy::Response;
use http::header::LOCATION;
use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128, SipHasher};
use std::hash::Hasher;
use std::time::SystemTime;

/// The version of the stored format.
const VERSION: u32 = 1;

/// The head of a stored response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    version: u32,
    /// The state for the caching rules.
    pub(crate) response: Response,
    /// The content's metadata; `None` for a redirect.
    pub(crate) content: Option<Content>,
    /// The end of the origin's back-off after a failure, in milliseconds since 1970.
    #[serde(default)]
    pub(crate) backoff_until: u64,
}

/// The metadata of a page's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    /// The kind of content.
    pub(crate) kind: Kind,
    /// The MIME type, without parameters.
    pub(crate) mime: String,
    /// The size of the body in bytes; text is counted in UTF-8. Unknown after a HEAD request.
    pub(crate) size: Option<u64>,
    /// The [`digest`] of the body; empty after a HEAD request.
    pub(crate) digest: String,
    /// The title in the page.
    pub(crate) title: Option<String>,
    /// The description in the page.
    pub(crate) description: Option<String>,
}

/// The kind of a page's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    /// HTML, which is also converted to Markdown.
    Html,
    /// Text.
    Text,
    /// Binary content.
    Blob,
}

impl Head {
    pub(crate) fn new(response: Response, content: Option<Content>) -> Self {
        Self { version: VERSION, response, content, backoff_until: 0 }
    }

    /// Parses a head of this version.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(bytes).ok().filter(|head| head.version == VERSION)
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns the target of a redirect.
    pub(crate) fn location(&self) -> Option<&str> {
        if self.content.is_some() { None } else { self.response.header(&LOCATION) }
    }

    /// Returns the time of the origin's last response for the page.
    pub(crate) fn received(&self) -> SystemTime {
        self.response.received()
    }
}

/// Returns a digest of a body, the same in every build.
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
