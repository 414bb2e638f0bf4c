//! What tools return: their outputs and errors.

use serde_json::{Value, json};

use crate::escape;
use crate::resource::{Error, MissingPlugin, Resource};
use crate::server::revision::Revision;

/// What a tool returns.
#[derive(Default)]
pub(super) struct Output {
    pub(super) text: String,
    /// Further items of the content.
    pub(super) items: Vec<Value>,
    pub(super) structured: Option<Value>,
    pub(super) footprint: usize,
    pub(super) missing: Vec<MissingPlugin>,
}

/// Why a tool has no output.
#[derive(Debug)]
pub(super) enum ToolError {
    /// Its arguments are not valid.
    Arguments(String),
    /// The façade's error.
    Host(Error),
}

impl From<Error> for ToolError {
    fn from(error: Error) -> Self {
        Self::Host(error)
    }
}

/// A resource in one line.
pub(super) fn summary(resource: &Resource) -> String {
    let Resource { uri, name, title, description, .. } = resource;
    one_line(uri.as_str(), title.as_ref().unwrap_or(name), description.as_deref())
}

/// A URI or a template with its name in one line, in which line breaks of the provider's texts are escaped: no provider can add a line
/// that looks like the host's, or another resource's.
pub(super) fn one_line(uri: &str, name: &str, description: Option<&str>) -> String {
    let name = escape::line(name);
    match description.map(escape::line) {
        Some(description) => format!("{uri} - {name}: {description}"),
        None => format!("{uri} - {name}"),
    }
}

/// A link to a resource, in revisions that have links.
pub(super) fn link(resource: &Resource, revision: Revision) -> Option<Value> {
    if !revision.has_titles() {
        return None;
    }
    let mut members = resource.to_json();
    // It is part of `annotations` there.
    members.remove("lastModified");
    members.insert("type".to_owned(), json!("resource_link"));
    Some(Value::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_adds_no_line() {
        let line = one_line("a:///b", "B\na:///c - C", Some("d\u{2028}e"));
        assert_eq!(line.lines().count(), 1);
        assert!(line.starts_with("a:///b - B") && !line.contains('\u{2028}'), "{line}");
    }
}
