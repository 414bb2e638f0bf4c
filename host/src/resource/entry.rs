//! A resource without its content.

use std::time::Duration;

use super::{Annotations, ResourceIcon};
use crate::uri::Uri;

/// Additional metadata of a resource for programs: a JSON object.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// A resource of the catalog: all its metadata, without the content.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Resource {
    /// The URI: the mount of the plugin and the path, normalized.
    pub uri: Uri,
    /// The name, for programs.
    pub name: String,
    /// The title, for people.
    pub title: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The MIME type of its content.
    pub mime_type: Option<String>,
    /// The size of its content in bytes, before any encoding.
    pub size: Option<u64>,
    /// Hints for clients.
    pub annotations: Annotations,
    /// Icons, in order of preference.
    pub icons: Vec<ResourceIcon>,
    /// Whether its children can be listed.
    pub listable: bool,
    /// Whether it can be subscribed to.
    pub subscribable: bool,
    /// The time for which a client may consider the content unchanged (TTL); `None` if unknown.
    pub ttl: Option<Duration>,
    /// Additional metadata for programs.
    pub meta: Meta,
}

impl Resource {
    /// Returns the smallest time to live; zero if one of the resources has none, or if there are no resources.
    pub(crate) fn min_ttl<'a>(resources: impl Iterator<Item = &'a Self>) -> Duration {
        resources.map(|resource| resource.ttl.unwrap_or_default()).min().unwrap_or_default()
    }
}
