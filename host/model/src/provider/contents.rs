//! The content of a resource.

use super::Entry;

/// The content of a resource: text, or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Text.
    Text(String),
    /// Text as UTF-8 bytes, served like `Text`. Bytes that are not UTF-8 fail the call.
    TextBytes(Vec<u8>),
    /// Any other content.
    Blob(Vec<u8>),
}

impl Body {
    /// The size in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::TextBytes(bytes) | Self::Blob(bytes) => bytes.len(),
        }
    }
}

/// One content with the resource that it belongs to.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Contents {
    /// The resource, in this representation: `mime_type` and `size` describe the body.
    pub entry: Entry,
    /// The content.
    pub body: Body,
}

impl Contents {
    /// Creates a content, and sets the entry's size to the size of the body.
    pub fn new(entry: Entry, body: Body) -> Self {
        let size = u64::try_from(body.size()).ok();
        Self { entry: Entry { size, ..entry }, body }
    }

    /// Creates a content with the entry unchanged.
    pub fn from_parts(entry: Entry, body: Body) -> Self {
        Self { entry, body }
    }

    /// Creates a text content.
    pub fn text(entry: Entry, text: impl Into<String>) -> Self {
        Self::new(entry, Body::Text(text.into()))
    }

    /// Creates a content of bytes that are not text.
    pub fn blob(entry: Entry, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(entry, Body::Blob(bytes.into()))
    }

    /// Creates a content of bytes of unknown kind: a text if they are UTF-8, else a blob.
    pub fn bytes(entry: Entry, bytes: impl Into<Vec<u8>>) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => Self::text(entry, text),
            Err(error) => Self::blob(entry, error.into_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_when_they_are_utf8_and_a_blob_when_not() {
        let entry = Entry::new("a", "a").size(99);
        let text = Contents::bytes(entry.clone(), "日本".as_bytes());
        assert_eq!((text.entry.size, text.body), (Some(6), Body::Text("日本".to_owned())));
        assert_eq!(Contents::bytes(entry, b"\xff".as_slice()).body, Body::Blob(b"\xff".to_vec()));
    }
}
