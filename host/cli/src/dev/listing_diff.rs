//! The difference of two listings: the items that were added, removed and changed, and the changed fields.
//!
//! Bounded: [`MAX_LINES`] lines, each with values of at most [`MAX_VALUE`] characters.

use std::fmt::Write as _;

use bytesize::ByteSize;
use clap::builder::styling::{AnsiColor, Style};

use super::listing::{Item, ItemKey, Listing};
use crate::escape;

/// The maximum number of lines per difference.
const MAX_LINES: usize = 20;
/// The maximum number of characters per value.
const MAX_VALUE: usize = 60;

/// The difference of two listings.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ListingDiff {
    pub(super) added: usize,
    pub(super) removed: usize,
    pub(super) changed: usize,
    lines: Vec<(Sign, String)>,
}

/// The kind of change of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Added,
    Removed,
    Changed,
}

impl Sign {
    fn character(self) -> char {
        match self {
            Self::Added => '+',
            Self::Removed => '-',
            Self::Changed => '~',
        }
    }

    fn color(self) -> AnsiColor {
        match self {
            Self::Added => AnsiColor::Green,
            Self::Removed => AnsiColor::Red,
            Self::Changed => AnsiColor::Yellow,
        }
    }
}

impl ListingDiff {
    /// Compares a listing with the previous one.
    pub(super) fn new(before: &Listing, now: &Listing) -> Self {
        let mut diff = Self::default();
        // In an incomplete listing a missing item does not mean that it was removed.
        let is_whole = !now.is_truncated && now.errors.is_empty();
        for (key, item) in &now.items {
            match before.items.get(key) {
                None => {
                    diff.added = diff.added.saturating_add(1);
                    diff.add(Sign::Added, || describe(key, item));
                }
                Some(old) if old != item => {
                    diff.changed = diff.changed.saturating_add(1);
                    diff.add(Sign::Changed, || changes(key, old, item));
                }
                Some(_) => {}
            }
        }
        for key in before.items.keys().filter(|key| is_whole && !now.items.contains_key(*key)) {
            diff.removed = diff.removed.saturating_add(1);
            diff.add(Sign::Removed, || uri(key));
        }
        diff
    }

    fn add(&mut self, sign: Sign, line: impl FnOnce() -> String) {
        if self.lines.len() < MAX_LINES {
            self.lines.push((sign, line()));
        }
    }

    /// Returns whether the listings are the same.
    pub(super) fn is_empty(&self) -> bool {
        self.total() == 0
    }

    fn total(&self) -> usize {
        self.added.saturating_add(self.removed).saturating_add(self.changed)
    }

    /// `1 added, 2 changed`.
    pub(super) fn summary(&self) -> String {
        let counts = [(self.added, "added"), (self.removed, "removed"), (self.changed, "changed")];
        let counts: Vec<_> =
            counts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
        if counts.is_empty() { "the listing is the same".to_owned() } else { counts.join(", ") }
    }

    /// The lines of the difference, escaped.
    pub(super) fn show(&self, is_colored: bool) -> String {
        let mut shown = String::new();
        for (sign, line) in &self.lines {
            let style = if is_colored { sign.color().on_default() } else { Style::new() };
            // Writing to a string cannot fail.
            let _ = writeln!(shown, "  {style}{}{style:#} {line}", sign.character());
        }
        let hidden = self.total().saturating_sub(self.lines.len());
        if hidden > 0 {
            let _ = writeln!(shown, "    and {hidden} more");
        }
        shown
    }
}

/// The URI of an item, escaped.
fn uri(key: &ItemKey) -> String {
    match key {
        ItemKey::Resource(uri) => escape::line(uri).into_owned(),
        ItemKey::Template(uri) => format!("{} (template)", escape::line(uri)),
    }
}

/// Describes a new item.
fn describe(key: &ItemKey, item: &Item) -> String {
    let size = item.size.map(|size| ByteSize(size).to_string());
    let title = value(item.title.as_deref().unwrap_or(&item.name));
    [Some(uri(key)), item.mime_type.as_deref().map(value), size, Some(title)]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join("  ")
}

/// The changed fields of an item.
fn changes(key: &ItemKey, old: &Item, new: &Item) -> String {
    let quoted = |text: &str| format!("\"{}\"", value(text));
    let mut changes = Vec::new();
    let mut compare = |field: &str, old: Option<String>, new: Option<String>| {
        if old != new {
            let shown = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
            changes.push(format!("{field}: {} → {}", shown(old), shown(new)));
        }
    };
    compare("name", Some(quoted(&old.name)), Some(quoted(&new.name)));
    compare("title", old.title.as_deref().map(quoted), new.title.as_deref().map(quoted));
    compare("type", old.mime_type.as_deref().map(value), new.mime_type.as_deref().map(value));
    let bytes = |size: u64| format!("{size} B");
    compare("size", old.size.map(bytes), new.size.map(bytes));
    let fields: std::collections::BTreeSet<_> = old.fields.keys().chain(new.fields.keys()).copied().collect();
    for field in fields {
        let (old, new) = (old.fields.get(field), new.fields.get(field));
        if old == new {
            continue;
        }
        match (field, old, new) {
            ("annotations" | "icons" | "meta", ..) => changes.push(field.to_owned()),
            (_, old, new) => {
                let shown = |text: Option<&String>| text.map_or_else(|| "none".to_owned(), |text| quoted(text));
                changes.push(format!("{field}: {} → {}", shown(old), shown(new)));
            }
        }
    }
    format!("{}  {}", uri(key), changes.join("; "))
}

/// A provider's value, escaped and truncated.
fn value(text: &str) -> String {
    match text.char_indices().nth(MAX_VALUE) {
        Some((end, _)) => format!("{}…", escape::line(text.get(..end).unwrap_or_default())),
        None => escape::line(text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(items: &[(&str, Item)]) -> Listing {
        let key = |uri: &str| match uri.contains('{') {
            true => ItemKey::Template(uri.to_owned()),
            false => ItemKey::Resource(uri.to_owned()),
        };
        Listing { items: items.iter().map(|(uri, item)| (key(uri), item.clone())).collect(), ..Listing::default() }
    }

    fn item(name: &str) -> Item {
        Item { name: name.to_owned(), ..Item::default() }
    }

    #[test]
    fn a_difference_says_what_is_new_what_is_gone_and_what_changed() {
        let old = Item { size: Some(12), title: Some("A".to_owned()), ..item("a") };
        let mut new = Item { size: Some(2048), mime_type: Some("text/plain".to_owned()), ..item("a") };
        new.fields.insert("description", "what it is".to_owned());
        new.fields.insert("meta", "{}".to_owned());
        let before = listing(&[("x:///a", old), ("x:///b", item("b")), ("x:///{c}", item("c"))]);
        let now = listing(&[("x:///a", new.clone()), ("x:///b", item("b")), ("x:///d", new)]);
        let diff = ListingDiff::new(&before, &now);
        assert_eq!(diff.summary(), "1 added, 1 removed, 1 changed");
        assert_eq!(
            diff.show(false),
            "  ~ x:///a  title: \"A\" → none; type: none → text/plain; size: 12 B → 2048 B; description: none → \"what it is\"; meta\n\
             \x20 + x:///d  text/plain  2.0 KiB  a\n\
             \x20 - x:///{c} (template)\n"
        );
        assert!(ListingDiff::new(&now, &now).is_empty());
    }

    #[test]
    fn a_difference_has_few_lines_of_bounded_values_that_do_not_drive_the_terminal() {
        let items: Vec<_> = (0..100).map(|number| format!("x:///{number}")).collect();
        let items: Vec<_> = items.iter().map(|uri| (uri.as_str(), item(&"\u{1b}[2J".repeat(1000)))).collect();
        let shown = ListingDiff::new(&Listing::default(), &listing(&items)).show(false);
        assert_eq!(shown.lines().count(), MAX_LINES + 1);
        assert!(shown.ends_with("    and 80 more\n"), "{shown}");
        assert!(!shown.contains('\u{1b}') && shown.len() < 10_000);
    }

    #[test]
    fn of_a_listing_that_is_not_whole_nothing_is_known_to_be_gone() {
        let before = listing(&[("x:///a", item("a"))]);
        let partial = Listing { errors: vec!["plugin `x` is unavailable".to_owned()], ..Listing::default() };
        assert!(ListingDiff::new(&before, &partial).is_empty());
    }
}
