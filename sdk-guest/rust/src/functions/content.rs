//! What a function returns as the content of a resource.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::Value;

use super::file;
use crate::changes::digest;
use crate::{Body, Contents, Entry, Failure, Result};

/// The content of a resource, as a function returns it. A function may also return a type that converts to `Content`: a
/// text, bytes, a JSON value, the path of a file, contents, or an option of one of these types.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Content {
    /// There is no such resource.
    None,
    /// Text.
    Text(String),
    /// Binary data.
    Bytes(Vec<u8>),
    /// JSON.
    Json(Value),
    /// A file of a granted directory: text if it is UTF-8, else binary.
    File(PathBuf),
    /// Contents with metadata of their own.
    Contents(Vec<Contents>),
}

impl Content {
    /// Returns a value as JSON.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] if it has no form in JSON.
    pub fn json(value: &impl Serialize) -> Result<Self> {
        Ok(Self::Json(serde_json::to_value(value)?))
    }

    pub(super) fn into_contents(self, entry: Entry) -> Result<Vec<Contents>> {
        let of_type = |entry: Entry, kind: &str| match entry.mime_type {
            None => entry.mime_type(kind),
            Some(_) => entry,
        };
        match self {
            Self::None => Err(Failure::NotFound),
            Self::Text(text) => Ok(vec![Contents::text(of_type(entry, "text/plain"), text)]),
            Self::Bytes(bytes) => Ok(vec![Contents::blob(of_type(entry, "application/octet-stream"), bytes)]),
            Self::Json(value) => {
                let text = serde_json::to_string_pretty(&value)?;
                Ok(vec![Contents::text(of_type(entry, "application/json"), text)])
            }
            Self::File(path) => {
                let entry = file::entry_of(entry, &path)?;
                Ok(vec![Contents::bytes(entry, std::fs::read(path)?)])
            }
            Self::Contents(contents) => Ok(contents),
        }
    }

    /// What differs when the content does: of a file its size and time, of anything else a digest.
    pub(super) fn fingerprint(self) -> Result<String> {
        if let Self::File(path) = self {
            return file::file_state(path);
        }
        let contents = self.into_contents(Entry::new("", ""))?;
        let texts = contents.iter().map(|one| {
            let body = match &one.body {
                Body::Text(text) => digest(text.as_bytes()),
                Body::Blob(bytes) => digest(bytes),
            };
            format!("{:?}{body}", one.entry)
        });
        Ok(digest(texts.collect::<String>().as_bytes()))
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<Value> for Content {
    fn from(value: Value) -> Self {
        Self::Json(value)
    }
}

impl From<PathBuf> for Content {
    fn from(file: PathBuf) -> Self {
        Self::File(file)
    }
}

impl From<Contents> for Content {
    fn from(contents: Contents) -> Self {
        Self::Contents(vec![contents])
    }
}

impl From<Vec<Contents>> for Content {
    fn from(contents: Vec<Contents>) -> Self {
        Self::Contents(contents)
    }
}

impl<T: Into<Self>> From<Option<T>> for Content {
    fn from(content: Option<T>) -> Self {
        content.map_or(Self::None, Into::into)
    }
}
