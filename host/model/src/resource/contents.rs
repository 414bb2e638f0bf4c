//! The content of a resource.

use super::Resource;

/// A content, and the resource to which it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    /// The resource in this representation: `mime_type` and `size` are those of the body.
    pub entry: Resource,
    /// The content.
    pub body: ResourceBody,
}

impl ResourceContents {
    /// The bytes of the bodies of contents.
    pub fn total_len(contents: &[Self]) -> u64 {
        let len = |one: &Self| u64::try_from(one.body.as_bytes().len()).unwrap_or(u64::MAX);
        contents.iter().map(len).fold(0, u64::saturating_add)
    }
}

/// The body of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResourceBody {
    /// Text.
    Text(String),
    /// Binary data.
    Blob(Vec<u8>),
}

impl ResourceBody {
    /// Returns the content as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Text(text) => text.as_bytes(),
            Self::Blob(bytes) => bytes,
        }
    }
}
