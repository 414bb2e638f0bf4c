//! Resource templates.

use super::{Annotations, Meta, ResourceIcon};
use crate::uri::UriTemplate;

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
    /// Puts the title of its plugin in front of its own title, or of its name if it has none.
    pub fn prefix_title(&mut self, plugin_title: &str) {
        self.title = Some(super::prefixed_title(plugin_title, self.title.as_deref(), &self.name));
    }
}
