//! Families of resources.

use super::{Annotations, Icon, Meta};
use crate::uri::Template;

/// A family of resources that are read by building a URI.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct EntryTemplate {
    /// The RFC 6570 template of the members' URIs: the mount of the plugin and its path template.
    pub uri_template: Template,
    /// The name of the family as programs show it.
    pub name: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What it holds and what its variables mean.
    pub description: Option<String>,
    /// The MIME type that all members have.
    pub mime_type: Option<String>,
    /// Hints that hold for all members.
    pub annotations: Annotations,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// More about it for programs.
    pub meta: Meta,
}
