//! A family of resources, named by a URI template.

use std::time::SystemTime;

use serde_json::{Map, Value};

use super::Icon;
use super::metadata::metadata_setters;
use crate::resource::Role;

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

    metadata_setters!();
}
