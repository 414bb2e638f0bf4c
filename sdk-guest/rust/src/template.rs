//! Resource templates.

use crate::{Icon, Role};
use serde_json::{Map, Value};

/// A template for resources that can be read by building a path.
///
/// ```
/// use mcp_provider::Template;
///
/// let template = Template::new("blob/{rev}/{+path}", "blob")
///     .title("A file at a revision")
///     .description("`rev` is a branch, a tag or a commit; `path` a file in it.");
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Template {
    /// An RFC 6570 template for paths, without a leading `/`. Its literals follow the rules for paths.
    pub path_template: String,
    /// The programmatic name.
    pub name: String,
    /// The human-readable name.
    pub title: Option<String>,
    /// A description of the resources and of the variables.
    pub description: Option<String>,
    /// The MIME type, if all resources share it.
    pub mime_type: Option<String>,
    /// The intended audience of all resources; empty means unspecified.
    pub audience: Vec<Role>,
    /// The importance of all resources, from 0.0 to 1.0.
    pub priority: Option<f64>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Additional metadata for programs.
    pub meta: Map<String, Value>,
}

impl Template {
    /// Creates a template from an RFC 6570 template and a programmatic name.
    pub fn new(path_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            path_template: path_template.into(),
            name: name.into(),
            title: None,
            description: None,
            mime_type: None,
            audience: Vec::new(),
            priority: None,
            icons: Vec::new(),
            meta: Map::new(),
        }
    }

    /// Sets the human-readable name.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description of the resources and of the variables.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the MIME type that all resources share.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// Sets the intended audience of all resources.
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// Sets the importance of all resources; see [`Entry::priority`](crate::Entry::priority).
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = crate::priority::clamp(priority);
        self
    }

    /// Adds an icon, less preferred than those added before.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// Adds metadata for programs; see [`Entry::meta`](crate::Entry::meta).
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(name.into(), value.into());
        self
    }
}
