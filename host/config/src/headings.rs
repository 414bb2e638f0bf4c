//! Headings with the wrong number of brackets: `[plugin]` for `[[plugin]]`, and `[[server]]` for `[server]`.
//!
//! If both forms occur with one name, the parser reports the *other*, correct heading as a key that is defined twice,
//! and again each key below it. [`MixedBrackets`] reports the wrong heading once and suppresses the resulting errors.
//! The config's schema shows which names are lists of tables, so this works for every table.

use std::ops::Range;

use serde_json::Value;

use super::Config;
use super::diagnostic::{Diagnostic, truncated};

/// A heading: a line such as `[plugin.limits]` or `[[plugin]]`.
struct Heading {
    /// The names between the brackets.
    path: Vec<String>,
    /// Whether the heading has two brackets on each side.
    is_list: bool,
    /// The span from the first to the last bracket, in bytes.
    span: Range<usize>,
}

impl Heading {
    /// Parses a line that begins at this offset of the text.
    fn parse(line: &str, offset: usize) -> Option<Self> {
        let trimmed = line.trim_start();
        let start = offset.checked_add(line.len().checked_sub(trimmed.len())?)?;
        let is_list = trimmed.starts_with("[[");
        let close = if is_list { "]]" } else { "]" };
        let (inner, _) = trimmed.trim_start_matches('[').split_once(close)?;
        let brackets = close.len().checked_mul(2)?;
        let end = start.checked_add(inner.len())?.checked_add(brackets)?;
        let path = inner.split('.').map(|name| name.trim().trim_matches(['"', '\'']).to_owned()).collect();
        trimmed.starts_with('[').then_some(Self { path, is_list, span: start..end })
    }
}

/// The headings of a text, for the explanation of its syntax errors.
pub(super) struct MixedBrackets {
    headings: Vec<Heading>,
    schema: Value,
    /// The paths that have been reported.
    reported: Vec<Vec<String>>,
}

impl MixedBrackets {
    /// Finds the headings. Lines of a string that look like a heading are included: headings only matter at the
    /// position of an error.
    pub(super) fn new(text: &str) -> Self {
        let mut offset = 0_usize;
        let mut headings = Vec::new();
        for line in text.split_inclusive('\n') {
            headings.extend(Heading::parse(line, offset));
            offset = offset.saturating_add(line.len());
        }
        Self { headings, schema: Config::json_schema(), reported: Vec::new() }
    }

    /// Returns whether the duplicate key at this offset results from a reported heading: it is in the same table, or
    /// below it.
    pub(super) fn is_reported(&self, offset: usize) -> bool {
        let section = self.headings.iter().rev().find(|heading| heading.span.start <= offset);
        section.is_some_and(|heading| self.reported.iter().any(|path| heading.path.starts_with(path)))
    }

    /// Explains the duplicate key at this offset, if it is in a heading, and this heading or an earlier one of the same
    /// name has the wrong number of brackets.
    pub(super) fn explain(&mut self, offset: usize) -> Option<Diagnostic> {
        let heading = self.headings.iter().find(|heading| heading.span.contains(&offset))?;
        let path = &heading.path;
        let is_list = self.is_list(path)?;
        let name = truncated(&path.join("."));
        let earlier = || self.headings.iter().filter(|other| other.span.start <= offset);
        let wrong = earlier().find(|other| other.path == *path && other.is_list != is_list);
        let problem = match wrong {
            Some(wrong) if is_list => {
                let help =
                    format!("write `[[{name}]]`, with two brackets on each side: one for every {}", path.last()?);
                Diagnostic::new(format!("`{name}` must be a list, not a table"), help).at(wrong.span.clone())
            }
            Some(wrong) => {
                let help = format!("write `[{name}]`, with one bracket on each side, and only once");
                Diagnostic::new(format!("`{name}` must be a table, not a list"), help).at(wrong.span.clone())
            }
            // `[plugin.limits]` before the first `[[plugin]]` begins a table named `plugin`.
            None => {
                let below = earlier().find(|other| other.path.len() > path.len() && other.path.starts_with(path));
                let below = below.filter(|_| is_list && heading.is_list)?;
                let message = format!("`[{}]` stands above the first `[[{name}]]`", truncated(&below.path.join(".")));
                let help = format!("move it below the `[[{name}]]` that it belongs to");
                Diagnostic::new(message, help).at(below.span.clone())
            }
        };
        self.reported.push(path.clone());
        Some(problem)
    }

    /// Returns whether a table of the config is an entry of a list; `None` if the config has no such table.
    fn is_list(&self, path: &[String]) -> Option<bool> {
        let mut schema = &self.schema;
        for name in path {
            let table = schema.get("items").unwrap_or(schema);
            schema = table.get("properties")?.get(name)?;
        }
        Some(schema.get("type")? == "array")
    }
}
