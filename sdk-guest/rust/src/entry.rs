//! The metadata of a resource: everything except its content.

use crate::{Icon, Notice, Role, Timestamp};
use serde_json::{Map, Value};
use std::time::Duration;

/// The metadata of a resource: everything except its content.
///
/// Only the path and the name are required. The other fields are set with methods of the same names:
///
/// ```
/// use mcp_provider::{Entry, Role};
///
/// let entry = Entry::new("people/ada.md", "ada.md")
///     .title("Ada Lovelace")
///     .mime_type("text/markdown")
///     .audience([Role::User, Role::Assistant])
///     .priority(0.8);
/// assert_eq!(entry.title.as_deref(), Some("Ada Lovelace"));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Entry {
    /// The path below the mount, percent-encoded (see [`path`](crate::path)).
    pub path: String,
    /// The programmatic name, such as a file name.
    pub name: String,
    /// The human-readable name.
    pub title: Option<String>,
    /// A one-sentence description that helps a person or a model decide whether to read the resource.
    pub description: Option<String>,
    /// The MIME type of the content.
    pub mime_type: Option<String>,
    /// The size of the content in bytes.
    pub size: Option<u64>,
    /// The intended audience; empty means unspecified.
    pub audience: Vec<Role>,
    /// The importance, from 0.0 to 1.0.
    pub priority: Option<f64>,
    /// The time of the last modification.
    pub last_modified: Option<Timestamp>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Whether [`Provider::list`](crate::Provider::list) accepts this path as a parent.
    pub listable: bool,
    /// Whether [`Provider::changes`](crate::Provider::changes) can watch the resource.
    pub subscribable: bool,
    /// The time to live: how long a reader may cache the resource.
    pub ttl: Option<Duration>,
    /// Additional metadata for programs.
    pub meta: Map<String, Value>,
}

/// The MIME type of directories: resources that only contain other resources.
pub(crate) const DIRECTORY: &str = "inode/directory";

impl Entry {
    /// Creates an entry from a percent-encoded path and a programmatic name.
    pub fn new(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            audience: Vec::new(),
            priority: None,
            last_modified: None,
            icons: Vec::new(),
            listable: false,
            subscribable: false,
            ttl: None,
            meta: Map::new(),
        }
    }

    /// Creates a directory entry: listable, with the MIME type `inode/directory`.
    pub fn directory(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(path, name).mime_type(DIRECTORY).listable()
    }

    /// Sets the human-readable name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description: one sentence that helps decide whether to read the resource.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the MIME type of the content; [`mime::from_name`](crate::mime::from_name) guesses it for files.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the size of the content in bytes.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// Sets the intended audience.
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// Sets the importance, from 0.0 (entirely optional) to 1.0 (effectively required). Values outside of the range
    /// are clamped; NaN leaves it unspecified.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = crate::priority::clamp(priority);
        self
    }

    /// Sets the time of the last modification: a `SystemTime`, or the text of an RFC 3339 timestamp.
    pub fn last_modified(mut self, time: impl Into<Timestamp>) -> Self {
        self.last_modified = Some(time.into());
        self
    }

    /// Adds an icon, less preferred than those added before.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Marks the entry as listable: `list` accepts it as a parent.
    pub fn listable(mut self) -> Self {
        self.listable = true;
        self
    }

    /// Marks the entry as subscribable: `changes` can watch it.
    pub fn subscribable(mut self) -> Self {
        self.subscribable = true;
        self
    }

    /// Sets the time to live, for which a reader may cache the resource; zero disables caching.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Adds metadata for programs. Prefix names with a namespace of your own, such as `example.com/branch`; names that
    /// start with `mcp-host/` are reserved for the host and dropped.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(name.into(), value.into());
        self
    }

    /// Adds a notice of what the content is not; of one content at most eight are retained.
    pub fn notice(mut self, notice: Notice) -> Self {
        let notices = self.meta.entry("mcp-host/notices").or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(notices) = notices {
            notices.push(notice.into_value());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_listable_and_says_so_by_its_type() {
        let entry = Entry::directory("people/", "people");
        assert!(entry.listable);
        assert_eq!(entry.mime_type.as_deref(), Some("inode/directory"));
    }

    #[test]
    fn a_priority_out_of_range_is_brought_into_it() {
        assert_eq!(Entry::new("a", "a").priority(7.0).priority, Some(1.0));
        assert_eq!(Entry::new("a", "a").priority(-1.0).priority, Some(0.0));
        assert_eq!(Entry::new("a", "a").priority(f64::NAN).priority, None);
    }

    #[test]
    fn meta_keeps_every_name_once() {
        let entry = Entry::new("a", "a").meta("x/a", 1).meta("x/b", "two").meta("x/a", true);
        assert_eq!(Value::Object(entry.meta), serde_json::json!({"x/a": true, "x/b": "two"}));
    }
}
