//! Conditions in Drive's query language.

use crate::api::{FOLDER, SHORTCUT};
use crate::id::Id;

/// Quotes a text as a literal: `'it\'s'`.
fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Matches files and folders in one of the folders.
pub(crate) fn in_folders<'a>(folders: impl IntoIterator<Item = &'a Id>) -> String {
    any_of(folders.into_iter().map(|id| format!("{} in parents", quote(id.as_str()))))
}

/// Matches folders, and shortcuts if they are followed.
pub(crate) fn folders(follow_shortcuts: bool) -> String {
    let folder = format!("mimeType = '{FOLDER}'");
    if follow_shortcuts { format!("({folder} or mimeType = '{SHORTCUT}')") } else { folder }
}

/// Matches files, and shortcuts if they are followed.
pub(crate) fn files(follow_shortcuts: bool) -> String {
    let file = format!("mimeType != '{FOLDER}'");
    if follow_shortcuts { file } else { format!("{file} and {}", no_shortcuts()) }
}

pub(crate) fn no_shortcuts() -> String {
    format!("mimeType != '{SHORTCUT}'")
}

/// Matches files that match one of the queries.
pub(crate) fn any_of(queries: impl IntoIterator<Item = impl std::fmt::Display>) -> String {
    let queries: Vec<String> = queries.into_iter().map(|query| query.to_string()).collect();
    match queries.as_slice() {
        [one] => format!("({one})"),
        many => format!("({})", many.iter().map(|one| format!("({one})")).collect::<Vec<_>>().join(" or ")),
    }
}

pub(crate) fn named(name: &str) -> String {
    format!("name = {}", quote(name))
}

pub(crate) fn name_begins_with(text: &str) -> String {
    format!("name contains {}", quote(text))
}

pub(crate) fn contains_text(text: &str) -> String {
    format!("fullText contains {}", quote(text))
}

/// Matches files that fulfil all conditions and are not in the trash.
pub(crate) fn not_trashed_and<'a>(conditions: impl IntoIterator<Item = &'a str>) -> String {
    std::iter::once("trashed = false").chain(conditions).collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_does_not_leave_its_literal() {
        assert_eq!(contains_text("it's \\' or 1"), r"fullText contains 'it\'s \\\' or 1'");
        assert_eq!(named("a\\"), r"name = 'a\\'");
    }

    #[test]
    fn conditions_are_combined_with_parentheses() {
        let ids = ["a", "b"].map(|id| Id::parse(id).unwrap());
        assert_eq!(in_folders(&ids), "(('a' in parents) or ('b' in parents))");
        assert_eq!(in_folders(&ids[..1]), "('a' in parents)");
        assert_eq!(not_trashed_and(["x", "y"]), "trashed = false and x and y");
    }
}
