//! Pages of files and folders.
//!
//! A page starts after the name in its cursor. It ends when it is full, or when its budget is used up: [`MAX_PARSED`]
//! bytes read from files, [`MAX_BYTES`] or [`MAX_VALUES`] values of entries, or the names of a [walk](crate::Walk).
//! Every page processes at least one name, whatever its cost, so a file with large metadata cannot prevent others from
//! being listed. A page that ends early may be empty and have a cursor.

use crate::{Found, Walk};
use mcp_provider::{Entry, Failure, Page, Result};
use serde_json::Value;

/// The maximum number of bytes of files that are parsed for one page. The last file may exceed it.
const MAX_PARSED: usize = 512 * 1024;

/// The approximate maximum size of the entries of one page, in bytes.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// The maximum number of values in the entries of one page. The last entry may exceed it. The host counts values, too
/// (`limits.response-items`, 100,000 by default), and rejects a page with more. Two hundred tags are two hundred
/// values.
const MAX_VALUES: usize = 20_000;

/// The approximate size of an entry without its texts, in bytes.
const ENTRY_OVERHEAD: usize = 300;

/// The accumulated cost of a page.
#[derive(Debug, Default)]
pub struct PageCost {
    parsed: usize,
    bytes: usize,
    values: usize,
}

impl PageCost {
    /// Adds bytes of a file that were read and parsed.
    pub fn add_parsed(&mut self, bytes: usize) {
        self.parsed = self.parsed.saturating_add(bytes);
    }

    fn add_entry(&mut self, entry: &Entry) {
        let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let meta: usize = entry.meta.values().map(|value| value.to_string().len()).sum();
        let parts =
            [entry.path.len(), entry.name.len(), text(&entry.title), text(&entry.description), meta, ENTRY_OVERHEAD];
        self.bytes = parts.iter().fold(self.bytes, |bytes, part| bytes.saturating_add(*part));
        self.values = self.values.saturating_add(values_of(entry));
    }

    fn is_exhausted(&self) -> bool {
        self.parsed >= MAX_PARSED || self.bytes >= MAX_BYTES || self.values >= MAX_VALUES
    }
}

/// Counts an entry and its annotations, each role of its audience, and the members and elements of its metadata.
fn values_of(entry: &Entry) -> usize {
    let meta = entry.meta.values().map(|value| values_within(value).saturating_add(1));
    meta.fold(entry.audience.len().saturating_add(2), usize::saturating_add)
}

/// Counts the members and elements of a value, at any depth.
fn values_within(value: &Value) -> usize {
    let all = |sum: usize, value: &Value| sum.saturating_add(1).saturating_add(values_within(value));
    match value {
        Value::Array(elements) => elements.iter().fold(0, all),
        Value::Object(members) => members.values().fold(0, all),
        _ => 0,
    }
}

/// Returns the position after which a page starts.
///
/// # Errors
///
/// [`Failure::InvalidRequest`] if the cursor was not created by this module.
pub fn parse_cursor(cursor: Option<&str>) -> Result<&str> {
    match cursor {
        None => Ok(""),
        Some(cursor) => {
            cursor.strip_prefix(':').ok_or_else(|| Failure::invalid("expected a cursor that this provider returned"))
        }
    }
}

/// Collects a page from a walk. `entry` converts items; items without an entry are skipped.
///
/// # Errors
///
/// The failures of the walk.
pub fn page(
    mut walk: Walk<'_>,
    limit: usize,
    mut entry: impl FnMut(&Found, &mut PageCost) -> Option<Entry>,
) -> Result<Page> {
    let mut cost = PageCost::default();
    let mut entries = Vec::new();
    loop {
        let place = walk.position().to_owned();
        let Some(found) = walk.next_found()? else {
            let next_cursor = walk.is_paused().then(|| format_cursor(walk.position()));
            return Ok(Page { entries, next_cursor });
        };
        if entries.len() >= limit.max(1) || cost.is_exhausted() {
            return Ok(Page { entries, next_cursor: Some(format_cursor(&place)) });
        }
        if let Some(entry) = entry(&found, &mut cost) {
            cost.add_entry(&entry);
            entries.push(entry);
        }
    }
}

fn format_cursor(place: &str) -> String {
    format!(":{place}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_provider::Role;
    use serde_json::json;

    #[test]
    fn members_elements_and_roles_are_values() {
        let plain = Entry::new("a.md", "a.md");
        assert_eq!(values_of(&plain), 2);
        let described =
            plain.audience([Role::User]).meta("tags", json!(["a", "b"])).meta("deep", json!({ "x": [1, {}] }));
        assert_eq!(values_of(&described), 2 + 1 + 3 + 4);
    }

    #[test]
    fn a_page_is_full_with_so_many_values_however_short_they_are() {
        let tags = vec!["t"; 200];
        let note = Entry::new("a.md", "a.md").meta("notes/tags", json!(tags));
        let mut cost = PageCost::default();
        let mut count = 0;
        while !cost.is_exhausted() {
            cost.add_entry(&note);
            count += 1;
        }
        assert!((90..=100).contains(&count), "{count}");
    }
}
