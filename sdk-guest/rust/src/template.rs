//! A family of resources, named by a template.

use crate::{Icon, Role};
use serde_json::{Map, Value};

/// A family of resources that can be read by building a path.
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
    /// An RFC 6570 template for paths. It begins with no `/`, and its literals follow the rules for paths.
    pub path_template: String,
    /// The name of the family as programs show it.
    pub name: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What the family holds and what its variables mean.
    pub description: Option<String>,
    /// The MIME type, where all members have the same.
    pub mime_type: Option<String>,
    /// For whom all members are; empty says nothing.
    pub audience: Vec<Role>,
    /// How important all members are, from 0.0 to 1.0.
    pub priority: Option<f64>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// More about it for programs.
    pub meta: Map<String, Value>,
}

impl Template {
    /// A family by its RFC 6570 template and its name as programs show it.
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

    /// Its name as people read it.
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// What the family holds and what its variables mean.
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// The MIME type that all members have.
    pub fn mime_type(mut self, mime_type: impl Into<String>) -> Self {
        self.mime_type = Some(mime_type.into());
        self
    }

    /// For whom all members are.
    pub fn audience(mut self, roles: impl IntoIterator<Item = Role>) -> Self {
        self.audience = roles.into_iter().collect();
        self
    }

    /// How important all members are; see [`Entry::priority`](crate::Entry::priority).
    pub fn priority(mut self, priority: f64) -> Self {
        self.priority = crate::priority::clamp(priority);
        self
    }

    /// Another icon, less preferred than those before it.
    pub fn icon(mut self, icon: Icon) -> Self {
        self.icons.push(icon);
        self
    }

    /// One more thing about it for programs; see [`Entry::meta`](crate::Entry::meta).
    pub fn meta(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.meta.insert(name.into(), value.into());
        self
    }
}
