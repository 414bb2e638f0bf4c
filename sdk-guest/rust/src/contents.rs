//! The content of a resource.

use crate::Entry;

/// The body of a resource: text or bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body {
    /// UTF-8 text.
    Text(String),
    /// Binary data.
    Blob(Vec<u8>),
}

/// The content of a resource together with its metadata.
///
/// The entry's size is set to the body's length.
///
/// ```
/// use mcp_provider::{Body, Contents, Entry};
///
/// let contents = Contents::bytes(Entry::new("a.txt", "a.txt"), b"hello".to_vec());
/// assert_eq!(contents.body, Body::Text("hello".to_owned()));
/// assert_eq!(contents.entry.size, Some(5));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Contents {
    /// The metadata of this representation.
    pub entry: Entry,
    /// The content.
    pub body: Body,
}

impl Contents {
    /// Creates text contents.
    pub fn text(entry: Entry, text: impl Into<String>) -> Self {
        Self::new(entry, Body::Text(text.into()))
    }

    /// Creates binary contents.
    pub fn blob(entry: Entry, bytes: impl Into<Vec<u8>>) -> Self {
        Self::new(entry, Body::Blob(bytes.into()))
    }

    /// Creates the contents of a directory ([`Entry::directory`]), without a body: the host writes the index, of the
    /// children that the client may see. It takes them from [`Provider::list`](crate::Provider::list).
    ///
    /// ```
    /// use mcp_provider::{Contents, Entry};
    ///
    /// let contents = Contents::directory(Entry::directory("src", "src"));
    /// assert_eq!(contents.entry.mime_type.as_deref(), Some("inode/directory"));
    /// assert_eq!((contents.entry.size, contents.as_text()), (None, Some("")));
    /// ```
    pub fn directory(entry: Entry) -> Self {
        Self { entry, body: Body::Text(String::new()) }
    }

    /// Creates contents from bytes of unknown kind: text if they are valid UTF-8, a blob otherwise.
    pub fn bytes(entry: Entry, bytes: impl Into<Vec<u8>>) -> Self {
        match String::from_utf8(bytes.into()) {
            Ok(text) => Self::text(entry, text),
            Err(error) => Self::blob(entry, error.into_bytes()),
        }
    }

    /// Returns the body's bytes, for either kind.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.body {
            Body::Text(text) => text.as_bytes(),
            Body::Blob(bytes) => bytes,
        }
    }

    /// Returns the text, unless the body is a blob.
    pub fn as_text(&self) -> Option<&str> {
        match &self.body {
            Body::Text(text) => Some(text),
            Body::Blob(_) => None,
        }
    }

    fn new(mut entry: Entry, body: Body) -> Self {
        let bytes = match &body {
            Body::Text(text) => text.len(),
            Body::Blob(bytes) => bytes.len(),
        };
        entry.size = u64::try_from(bytes).ok();
        Self { entry, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_when_they_are_utf_8_and_a_blob_when_not() {
        let entry = Entry::new("a", "a");
        let text = Contents::bytes(entry.clone(), "日本".as_bytes());
        assert_eq!((text.as_text(), text.as_bytes()), (Some("日本"), "日本".as_bytes()));
        let blob = Contents::bytes(entry, b"\xff\xfe".to_vec());
        assert_eq!((blob.as_text(), blob.as_bytes()), (None, b"\xff\xfe".as_slice()));
    }

    #[test]
    fn the_size_is_that_of_the_body_whatever_the_entry_said() {
        assert_eq!(Contents::text(Entry::new("a", "a").size(99), "four").entry.size, Some(4));
    }
}
