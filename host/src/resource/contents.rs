//! The content of a resource.

use super::Entry;

/// One content with what it belongs to.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The resource, in this representation: `mime_type` and `size` are the body's.
    pub entry: Entry,
    /// The content.
    pub body: Body,
}

/// The content itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Anything else.
    Blob(Vec<u8>),
}

impl Body {
    /// The content as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Blob(bytes) => bytes,
        }
    }
}
