//! The domain types: a provider's answers after validation by the host.
//!
//! They are independent of WIT, JSON-RPC and any protocol revision. `plugin` creates them from a component's
//! results and drops invalid parts (a priority of 7, a malformed date); `server` encodes them as objects of
//! the client's protocol revision. Every value of these types is valid for clients.

mod annotations;
mod entry;
mod error;
mod footprint;
mod notice;

use std::time::Duration;

use crate::uri::{Path, UriTemplate};

pub use annotations::{Annotations, Priority, ResourceIcon, Role, Theme, Timestamp};
pub use entry::{Meta, Resource};
pub use error::Error;
pub use footprint::Footprint;
pub use notice::{NOTICES_META_KEY, Notice, NoticeKind};

fn prefixed_title(plugin_title: &str, title: Option<&str>, name: &str) -> String {
    format!("{plugin_title}: {}", title.unwrap_or(name))
}

/// The operations that a resource supports for a principal, in addition to reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceCapabilities {
    /// Listing its children.
    pub list: bool,
    /// Subscribing to it.
    pub subscribe: bool,
}

/// A template variable and its value, neither of them percent-encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// The variable's name.
    pub name: String,
    /// The value, or the prefix to complete.
    pub value: String,
}

impl Argument {
    /// A variable and its value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// Values that complete an argument.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    /// The values, best match first: of a provider at most [`Completion::MAX_OFFERED`], for a client at most
    /// [`Completion::MAX_VALUES`].
    pub values: Vec<String>,
    /// The total number of values, if known.
    pub total: Option<u32>,
    /// Whether there are more values.
    pub has_more: bool,
}

impl Completion {
    /// The maximum number of values in one response (MCP 2025-06-18, "Completion": "Maximum 100 items per response").
    pub const MAX_VALUES: usize = 100;
    /// The maximum number of values that a provider offers. The host removes those that the client may not see before
    /// it truncates the others to [`MAX_VALUES`](Self::MAX_VALUES).
    pub const MAX_OFFERED: usize = 1000;

    /// Returns the `candidates` that begin with `typed`, in order, at most [`MAX_OFFERED`](Self::MAX_OFFERED).
    ///
    /// ```
    /// use mcp_host_model::resource::Completion;
    ///
    /// let completion = Completion::matching(["main", "master", "next"], "ma");
    /// assert_eq!((completion.values.len(), completion.total), (2, Some(2)));
    /// ```
    pub fn matching<S: Into<String> + AsRef<str>>(candidates: impl IntoIterator<Item = S>, typed: &str) -> Self {
        let mut matching = candidates.into_iter().filter(|candidate| candidate.as_ref().starts_with(typed));
        let values: Vec<String> = matching.by_ref().take(Self::MAX_OFFERED).map(Into::into).collect();
        let total = values.len().saturating_add(matching.count());
        Self { has_more: total > values.len(), total: u32::try_from(total).ok(), values }
    }

    /// Truncates the values to the number that one response may have.
    ///
    /// ```
    /// use mcp_host_model::resource::Completion;
    ///
    /// let all = Completion::matching((0..101).map(|number| number.to_string()), "");
    /// assert_eq!((all.values.len(), all.has_more), (101, false));
    /// let first = all.truncated();
    /// assert_eq!((first.values.len(), first.total, first.has_more), (100, Some(101), true));
    /// ```
    #[must_use]
    pub fn truncated(mut self) -> Self {
        self.has_more |= self.values.len() > Self::MAX_VALUES;
        self.values.truncate(Self::MAX_VALUES);
        self
    }
}

/// The maximum length of a provider's token in bytes: of the one of its changes, and of the one of its preparation.
pub const MAX_TOKEN: usize = 65_536;

/// The changes of watched paths since a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedChanges {
    /// The token for the next call, of at most [`MAX_TOKEN`] bytes.
    pub token: String,
    /// The watched paths that changed, each once.
    pub changed: Vec<Path>,
    /// Whether the listing changed.
    pub listing_changed: bool,
    /// The provider's hint for the time of the next poll.
    pub poll_after: Option<Duration>,
}

/// A content, and the resource to which it belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContents {
    /// The resource in this representation: `mime_type` and `size` describe the body.
    pub entry: Resource,
    /// The content.
    pub body: ResourceBody,
}

impl ResourceContents {
    /// Returns the total size of the bodies of contents in bytes.
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

/// One page of the merged listing of all plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct Listing<T> {
    /// The items of this page, in the catalog's order.
    pub items: Vec<T>,
    /// The cursor for the next page; `None` on the last page.
    pub next_cursor: Option<String>,
    /// The plugins whose items are missing because they failed.
    pub missing: Vec<MissingPlugin>,
}

impl<T> Listing<T> {
    /// Returns the same page with other items.
    pub fn map<U>(self, item: impl FnMut(T) -> U) -> Listing<U> {
        let Self { items, next_cursor, missing } = self;
        Listing { items: items.into_iter().map(item).collect(), next_cursor, missing }
    }
}

/// A plugin that is missing from a merged listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPlugin {
    /// The plugin's name in the configuration.
    pub plugin: String,
    /// The reason, without internals.
    pub reason: String,
    /// The time after which to retry, if known.
    pub retry_after: Option<Duration>,
}

/// A template for the URIs of a family of resources.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct ResourceTemplate {
    /// The RFC 6570 template: the mount of the plugin and its path template.
    pub uri_template: UriTemplate,
    /// The name, for programs.
    pub name: String,
    /// The title, for people.
    pub title: Option<String>,
    /// The description of the resources and of the template's variables.
    pub description: Option<String>,
    /// The MIME type of all resources of the family.
    pub mime_type: Option<String>,
    /// Hints that apply to all resources of the family.
    pub annotations: Annotations,
    /// Icons, in order of preference.
    pub icons: Vec<ResourceIcon>,
    /// Additional metadata for programs.
    pub meta: Meta,
}

impl ResourceTemplate {
    /// Prepends the title of its plugin to its own title, or to its name if it has no title.
    pub fn prefix_title(&mut self, plugin_title: &str) {
        self.title = Some(prefixed_title(plugin_title, self.title.as_deref(), &self.name));
    }
}
