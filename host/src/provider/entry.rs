//! One resource, without its content.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value};

use super::{Icon, Role};

/// The MIME type of a resource that only holds others.
const DIRECTORY: &str = "inode/directory";

/// One resource: everything about it but its content.
///
/// The path and the name are required. Everything else is set by methods of the same names as the fields:
///
/// ```
/// use mcp_resource_host::provider::{Entry, Role};
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
    /// For whom it is; empty means unspecified.
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
    /// A resource at a percent-encoded path, with its name for programs.
    pub fn new(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self { path: path.into(), name: name.into(), ..Self::default() }
    }

    /// A resource that holds others: listable, of type `inode/directory`.
    pub fn directory(path: impl Into<String>, name: impl Into<String>) -> Self {
        Self::new(path, name).mime_type(DIRECTORY).listable()
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the MIME type.
    #[must_use]
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the audience.
    #[must_use]
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// Sets the priority, from 0.0 (entirely optional) to 1.0 (effectively required). The host drops any other value.
    #[must_use]
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = Some(priority);
        self
    }

    /// Sets the time of the last change. A time beyond the year 9999 is left out.
    #[must_use]
    pub fn last_modified(mut self, time: SystemTime) -> Self {
        self.last_modified = jiff::Timestamp::try_from(time).ok().map(|time| time.to_string());
        self
    }

    /// Adds an icon, less preferred than those before it.
    #[must_use]
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Sets the metadata for programs. Names should carry a prefix of the provider's own, such as `example.com/branch`; those
    /// that begin with `mcp-host/` are reserved and dropped.
    #[must_use]
    pub fn meta(mut self, meta: Map<String, Value>) -> Self {
        self.meta = Some(Value::Object(meta).to_string());
        self
    }

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

    /// Makes it possible to subscribe to it.
    #[must_use]
    pub fn subscribable(mut self) -> Self {
        self.subscribable = true;
        self
    }

    /// Sets the time to live of a copy; zero means that it must not be reused.
    #[must_use]
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }
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
