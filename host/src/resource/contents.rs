//! The content of a resource.

use super::Entry;

/// A content, and the resource to which it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents {
    /// The resource in this representation: `mime_type` and `size` are those of the body.
    pub entry: Entry,
    /// The content.
    pub body: Body,
}

/// The body of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Binary data.
    Blob(Vec<u8>),
}

impl Body {
    /// Returns the content as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Blob(bytes) => bytes,
        }
    }
}
