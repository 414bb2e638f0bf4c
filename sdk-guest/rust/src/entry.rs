//! One resource: everything about it but its content.

use crate::{Icon, Role, Timestamp};
use serde_json::{Map, Value};
use std::time::Duration;

/// One resource: everything about it but its content.
///
/// Only the path and the name are needed. The rest is said with methods of the same names as the fields:
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
    /// Its path below the mount, percent-encoded (see [`path`](crate::path)).
    pub path: String,
    /// Its name as programs show it, such as a file name.
    pub name: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What it is, in a sentence that helps a person or a model decide whether to read it.
    pub description: Option<String>,
    /// The MIME type of its content.
    pub mime_type: Option<String>,
    /// The size of its content in bytes.
    pub size: Option<u64>,
    /// For whom it is; empty says nothing.
    pub audience: Vec<Role>,
    /// How important it is, from 0.0 to 1.0.
    pub priority: Option<f64>,
    /// When it last changed.
    pub last_modified: Option<Timestamp>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Whether [`Provider::list`](crate::Provider::list) with this path as parent lists what is below it.
    pub listable: bool,
    /// Whether [`Provider::changes`](crate::Provider::changes) can watch it.
    pub subscribable: bool,
    /// For how long a reader may take it for unchanged.
    pub ttl: Option<Duration>,
    /// More about it for programs.
    pub meta: Map<String, Value>,
}

/// The MIME type of what only holds other resources.
pub(crate) const DIRECTORY: &str = "inode/directory";

impl Entry {
    /// A resource at a percent-encoded path, with its name as programs show it.
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

    /// A resource that holds others: listable, of type `inode/directory`.
    pub fn directory(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(path, name).mime_type(DIRECTORY).listable()
    }

    /// Its name as people read it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What it is, in a sentence that helps decide whether to read it.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The MIME type of its content; [`mime::from_name`](crate::mime::from_name) tells it for files.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// The size of its content in bytes.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = Some(bytes);
        self
    }

    /// For whom it is.
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// How important it is, from 0.0 (entirely optional) to 1.0 (effectively required). Others are brought into that
    /// range; what is no number says nothing.
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = crate::priority::clamp(priority);
        self
    }

    /// When it last changed: a `SystemTime`, or the text of an RFC 3339 timestamp.
    pub fn last_modified(mut self, time: impl Into<Timestamp>) -> Self {
        self.last_modified = Some(time.into());
        self
    }

    /// Another icon, less preferred than those before it.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// It can be listed as a parent.
    pub fn listable(mut self) -> Self {
        self.listable = true;
        self
    }

    /// It can be watched for changes.
    pub fn subscribable(mut self) -> Self {
        self.subscribable = true;
        self
    }

    /// For how long a reader may take it for unchanged; zero is not at all.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// One more thing about it for programs. Names should carry a prefix of the provider's own, as `example.com/branch`
    /// does; those beginning with `mcp-host/` are the host's and are dropped.
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(name.into(), value.into());
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
