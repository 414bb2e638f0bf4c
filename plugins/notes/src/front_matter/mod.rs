//! Front matter: a note's metadata, in YAML between two lines of `---` at its top. Names of fields, digits and dates
//! may be Japanese.
//!
//! Only the first [`MAX_BYTES`] of a file are read. `yaml` and `fields` limit the number of values, fields and words;
//! front matter that exceeds the limits is faulty. Faults are never errors: the faulty field, or all fields, are
//! dropped, and [`FrontMatter::faults`] lists cause and location. Unknown fields are ignored.

mod fields;
mod japanese;
mod split;
mod title;
mod yaml;

use crate::markup::Markup;
use mcp_provider::{Entry, Role};
use serde_json::json;
use split::Split;

/// The maximum number of bytes of a file that are searched for front matter.
pub(crate) const MAX_BYTES: usize = 64 * 1024;

/// The size of the first read, in bytes. Most front matter is much shorter.
pub(crate) const FIRST_READ_BYTES: usize = 4 * 1024;

/// The metadata of a note.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct FrontMatter {
    /// `title`, or the heading at the beginning of the note.
    pub(crate) title: Option<String>,
    /// `description`.
    pub(crate) description: Option<String>,
    /// `tags`: a list, or words separated by commas.
    pub(crate) tags: Vec<String>,
    /// `audience`: `user`, `assistant` or both.
    pub(crate) audience: Vec<Role>,
    /// `priority`, from 0.0 to 1.0.
    pub(crate) priority: Option<f64>,
    /// `date`, as an RFC 3339 timestamp.
    pub(crate) date: Option<String>,
    /// `language`, such as `ja` or `en-GB`.
    pub(crate) language: Option<String>,
    /// `reading`: the pronunciation of the title, by which listings may be sorted.
    pub(crate) reading: Option<String>,
    /// The faults of the front matter.
    pub(crate) faults: Vec<String>,
    /// The number of bytes of YAML parsed, which determines the cost.
    pub(crate) cost: usize,
}

impl FrontMatter {
    /// Parses the beginning of a note; `None` if more is needed. `is_all` states that there is no more, or that the
    /// rest is irrelevant.
    pub(crate) fn parse_beginning(markup: Markup, beginning: &[u8], is_all: bool) -> Option<Self> {
        let (mut front_matter, body) = match split::split(beginning) {
            Split::Unclosed if !is_all => return None,
            Split::Unclosed => {
                return Some(Self::with_fault("it has no closing line `---` within the first 64 KiB"));
            }
            Split::Absent => (Self::default(), beginning),
            Split::Closed { yaml, body } => {
                let read = Self::parse(yaml).unwrap_or_else(|fault| Self::with_fault(&fault));
                (Self { cost: yaml.len(), ..read }, body)
            }
        };
        if front_matter.title.is_none() {
            front_matter.title =
                title::title(markup, body, is_all)?.map(|text| fields::truncate(&text, fields::MAX_TITLE));
        }
        Some(front_matter)
    }

    fn parse(yaml: &[u8]) -> Result<Self, String> {
        let yaml = std::str::from_utf8(yaml).map_err(|error| format!("expected UTF-8 text: {error}"))?;
        yaml::parse(yaml).map(fields::read)
    }

    fn with_fault(fault: &str) -> Self {
        Self { faults: vec![format!("front matter: {fault}")], ..Self::default() }
    }

    /// Adds the note's metadata to an entry.
    pub(crate) fn describe(&self, mut entry: Entry) -> Entry {
        if let Some(title) = &self.title {
            entry = entry.title(title);
        }
        if let Some(description) = &self.description {
            entry = entry.description(description);
        }
        if let Some(priority) = self.priority {
            entry = entry.priority(priority);
        }
        if let Some(date) = &self.date {
            entry = entry.last_modified(date.as_str());
        }
        if let Some(language) = &self.language {
            entry = entry.meta("notes/language", language.as_str());
        }
        if let Some(reading) = &self.reading {
            entry = entry.meta("notes/reading", reading.as_str());
        }
        if !self.tags.is_empty() {
            entry = entry.meta("notes/tags", json!(self.tags));
        }
        if !self.faults.is_empty() {
            entry = entry.meta("notes/faults", json!(self.faults));
        }
        if self.audience.is_empty() { entry } else { entry.audience(self.audience.iter().copied()) }
    }
}
