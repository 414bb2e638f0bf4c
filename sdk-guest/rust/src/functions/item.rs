//! What a listing gives.

use std::path::PathBuf;

use crate::{Entry, Result};

use super::file;

/// One resource of a listing: the value of its template's variable, or of several variables, and metadata.
///
/// A text, a number and the path of a file are items, too: a listing may be any iterator of those.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    pub(super) values: Vec<(Option<&'static str>, String)>,
    pub(super) file: Option<PathBuf>,
    /// The name, title, description, MIME type, size and the like. A value that is not set is the resource's.
    pub entry: Entry,
}

impl Item {
    /// An item of a template with one variable.
    pub fn new(value: impl ToString) -> Self {
        Self { values: vec![(None, value.to_string())], file: None, entry: Entry::new("", "") }
    }

    /// An item of a template with several variables: `Item::of([("kind", "a"), ("number", "1")])`.
    pub fn of<V: ToString>(values: impl IntoIterator<Item = (&'static str, V)>) -> Self {
        let values = values.into_iter().map(|(name, value)| (Some(name), value.to_string())).collect();
        Self { values, file: None, entry: Entry::new("", "") }
    }

    /// Sets the metadata: `Item::new(uid).with(|entry| entry.title(title))`.
    #[must_use]
    pub fn with(mut self, set: impl FnOnce(Entry) -> Entry) -> Self {
        self.entry = set(self.entry);
        self
    }

    /// Sets the file that the entry takes its size, MIME type and modification time from.
    #[must_use]
    pub fn file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Returns the entry: each value is the one that is set, else the resource's, else the file's.
    pub(super) fn entry(self, of_resource: Entry) -> Result<Entry> {
        let given = self.entry;
        let name = if given.name.is_empty() { of_resource.name } else { given.name };
        let entry = Entry {
            name,
            title: given.title.or(of_resource.title),
            description: given.description.or(of_resource.description),
            mime_type: given.mime_type.or(of_resource.mime_type),
            size: given.size,
            audience: if given.audience.is_empty() { of_resource.audience } else { given.audience },
            priority: given.priority.or(of_resource.priority),
            last_modified: given.last_modified,
            icons: if given.icons.is_empty() { of_resource.icons } else { given.icons },
            ttl: given.ttl.or(of_resource.ttl),
            meta: if given.meta.is_empty() { of_resource.meta } else { given.meta },
            listable: false,
            path: of_resource.path,
            subscribable: of_resource.subscribable,
        };
        match self.file {
            None => Ok(entry),
            Some(file) => file::entry_of(entry, &file),
        }
    }
}

impl From<PathBuf> for Item {
    fn from(file: PathBuf) -> Self {
        // A name that is not UTF-8 becomes another one, whose path is not found.
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self::new(name).file(file)
    }
}

impl From<&str> for Item {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

macro_rules! from_values {
    ($($value:ty),*) => {
        $(impl From<$value> for Item {
            fn from(value: $value) -> Self {
                Self::new(value)
            }
        })*
    };
}

from_values!(String, i32, i64, u32, u64, usize);
