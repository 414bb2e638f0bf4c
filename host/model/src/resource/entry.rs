//! A resource without its content.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Annotations, ResourceIcon};
use crate::uri::Uri;

/// Additional metadata of a resource for programs: a JSON object.
pub type Meta = serde_json::Map<String, serde_json::Value>;

/// The MIME type of a resource that only contains others.
const DIRECTORY_MIME_TYPE: &str = "inode/directory";

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
    /// Creates a resource with only a URI and a name.
    pub fn named(uri: Uri, name: &str) -> Self {
        Self {
            uri,
            name: name.to_owned(),
            title: None,
            description: None,
            mime_type: None,
            size: None,
            annotations: Annotations::default(),
            icons: Vec::new(),
            listable: false,
            subscribable: false,
            ttl: None,
            meta: Meta::new(),
        }
    }

    /// Returns whether it only contains others: it is listable and has the type `inode/directory`.
    pub fn is_directory(&self) -> bool {
        self.listable && self.mime_type.as_deref() == Some(DIRECTORY_MIME_TYPE)
    }

    /// Returns the metadata for programs and models, as the members of a JSON object.
    pub fn to_json(&self) -> Meta {
        let Self { uri, name, title, description, mime_type, size, annotations, .. } = self;
        let optional = [
            ("title", title.as_ref().map(|title| json!(title))),
            ("description", description.as_ref().map(|description| json!(description))),
            ("mimeType", mime_type.as_ref().map(|mime_type| json!(mime_type))),
            ("size", size.map(Value::from)),
            ("lastModified", annotations.last_modified.as_ref().map(|time| json!(time.as_str()))),
        ];
        let mut members = Meta::from_iter([("uri".to_owned(), json!(uri)), ("name".to_owned(), json!(name))]);
        members.extend(optional.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
        members
    }

    /// Prepends the title of its plugin to its own title, or to its name if it has no title.
    pub fn prefix_title(&mut self, plugin_title: &str) {
        self.title = Some(super::prefixed_title(plugin_title, self.title.as_deref(), &self.name));
    }

    /// Returns the smallest time to live; zero if one of the resources has none, or if there are no resources.
    pub fn min_ttl<'a>(resources: impl Iterator<Item = &'a Self>) -> Duration {
        resources.map(|resource| resource.ttl.unwrap_or_default()).min().unwrap_or_default()
    }
}
