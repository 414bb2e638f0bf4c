//! One resource, without its content.

use std::time::Duration;

use super::{Annotations, Icon};
use crate::uri::Uri;

/// More about a resource for programs: a JSON object.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// One resource of the catalog: everything about it but its content.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Entry {
    /// Its URI: the mount of its plugin and its path, normalised.
    pub uri: Uri,
    /// Its name as programs show it.
    pub name: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What it is.
    pub description: Option<String>,
    /// The MIME type of its content.
    pub mime_type: Option<String>,
    /// The size of its content in bytes, before any encoding.
    pub size: Option<u64>,
    /// Hints for clients.
    pub annotations: Annotations,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Whether what is below it can be listed.
    pub listable: bool,
    /// Whether it can be subscribed to.
    pub subscribable: bool,
    /// For how long a reader may take it for unchanged; without one, nothing is known.
    pub ttl: Option<Duration>,
    /// More about it for programs.
    pub meta: Meta,
}
