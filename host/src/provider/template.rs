//! A family of resources, named by a URI template.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::{Icon, Role};

/// A family of resources that are read by building a path.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Template {
    /// An RFC 6570 template for paths, such as `blob/{rev}/{+path}`. It does not begin with `/`.
    pub path_template: String,
    /// The name of the family for programs.
    pub name: String,
    /// Its name for people.
    pub title: Option<String>,
    /// A sentence that helps a person or a model decide whether to read it.
    pub description: Option<String>,
    /// The MIME type that all members have.
    pub mime_type: Option<String>,
    /// For whom it is; empty means unspecified.
    pub audience: Vec<Role>,
    /// Its importance, from 0.0 (entirely optional) to 1.0 (effectively required).
    pub priority: Option<f64>,
    /// The time of its last change, an RFC 3339 timestamp: `2025-01-12T15:00:58Z`.
    pub last_modified: Option<String>,
    /// Icons, in order of preference.
    pub icons: Vec<Icon>,
    /// Metadata for programs: the text of one JSON object.
    pub meta: Option<String>,
}

impl Template {
    /// A family by its RFC 6570 template and its name for programs.
    pub fn new(path_template: impl Into<String>, name: impl Into<String>) -> Self {
        Self { path_template: path_template.into(), name: name.into(), ..Self::default() }
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
}
