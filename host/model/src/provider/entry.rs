//! One resource, without its content.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::Icon;
use super::metadata::metadata_setters;
use crate::resource::Role;

/// The MIME type of a resource that only holds others.
const DIRECTORY: &str = "inode/directory";

/// One resource: all its metadata, without its content.
///
/// The path and the name are required. Everything else is set by methods of the same names as the fields:
///
/// ```
/// use mcp_host_model::provider::Entry;
/// use mcp_host_model::resource::Role;
///
/// let entry = Entry::new("people/ada.md", "ada.md").title("Ada Lovelace").mime_type("text/markdown").audience([Role::User]);
/// assert_eq!(entry.title.as_deref(), Some("Ada Lovelace"));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// Its path below the mount, percent-encoded.
    pub path: String,
    /// Its name for programs, such as a file name.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// A sentence that helps a person or a model decide whether to read it.
    pub description: Option<String>,
    /// The MIME type of its content.
    pub mime_type: Option<String>,
    /// The size of its content in bytes.
    pub size: Option<u64>,
    /// Its audience; empty means unspecified.
    pub audience: Vec<Role>,
    /// Its importance, from 0.0 (entirely optional) to 1.0 (effectively required).
    pub priority: Option<f64>,
    /// The time of its last change, an RFC 3339 timestamp: `2025-01-12T15:00:58Z`.
    pub last_modified: Option<String>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Whether [`Provider::list`](super::Provider::list) with this path as parent lists its children.
    pub listable: bool,
    /// Whether [`Provider::changes`](super::Provider::changes) can watch it.
    pub subscribable: bool,
    /// The time to live of a copy.
    pub ttl: Option<Duration>,
    /// Metadata for programs: the text of one JSON object.
    pub meta: Option<String>,
}

impl Entry {
    /// Creates a resource with a percent-encoded path, and a name for programs.
    pub fn new(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self { path: path.into(), name: name.into(), ..Self::default() }
    }

    /// Creates a resource that holds others: listable, of type `inode/directory`.
    pub fn directory(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(path, name).mime_type(DIRECTORY).listable()
    }

    metadata_setters!();

    /// Sets the size of the content in bytes.
    #[must_use]
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Makes it listable as a parent.
    #[must_use]
    pub fn listable(mut self) -> Self {
        self.listable = true;
        self
    }

    /// Makes it subscribable.
    #[must_use]
    pub fn subscribable(mut self) -> Self {
        self.subscribable = true;
        self
    }

    /// Sets the time to live of a copy; zero means that a copy must not be reused.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
}

/// A family of resources that are read by building a path.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Template {
    /// An RFC 6570 template for paths, such as `blob/{rev}/{+path}`. It does not begin with `/`.
    pub path_template: String,
    /// The name of the family for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// A sentence that helps a person or a model decide whether to read it.
    pub description: Option<String>,
    /// The MIME type of all members.
    pub mime_type: Option<String>,
    /// Its audience; empty means unspecified.
    pub audience: Vec<Role>,
    /// Its importance, from 0.0 (entirely optional) to 1.0 (effectively required).
    pub priority: Option<f64>,
    /// The time of its last change, an RFC 3339 timestamp: `2025-01-12T15:00:58Z`.
    pub last_modified: Option<String>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Metadata for programs: the text of one JSON object.
    pub meta: Option<String>,
}

impl Template {
    /// Creates a family from its RFC 6570 template and its name for programs.
    pub fn new(path_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { path_template: path_template.into(), name: name.into(), ..Self::default() }
    }

    metadata_setters!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listable_and_says_so_by_its_type() {
        let entry = Entry::directory("people/", "people");
        assert_eq!((entry.listable, entry.mime_type.as_deref()), (true, Some("inode/directory")));
    }

    #[test]
    fn times_and_metadata_become_the_texts_of_the_contract() {
        let meta = Map::from_iter([("example.com/n".to_owned(), Value::from(1))]);
        let entry = Entry::new("a", "a").last_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1)).meta(meta);
        assert_eq!(entry.last_modified.as_deref(), Some("1970-01-01T00:00:01Z"));
        assert_eq!(entry.meta.as_deref(), Some(r#"{"example.com/n":1}"#));
    }
}
