//! Tags and languages: collections of notes by a front matter field.
//!
//! There is no index, because instances keep no state: the notes with a tag are found by reading the front matter of
//! every note. A page of a collection reads only as many notes as it needs.

use crate::Notes;
use crate::front_matter::FrontMatter;
use crate::markup::Markup;
use crate::note::{self, Head};
use crate::route::Route;
use folder::{Found, WalkBudget};
use mcp_provider::{Entry, Result, log};
use std::collections::BTreeMap;

/// The front matter field of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `tags`.
    Tags,
    /// `language`.
    Language,
}

impl Field {
    /// Returns the route of the collection of notes with a value.
    pub(crate) fn route(self, value: &str) -> Route {
        match self {
            Self::Tags => Route::Tag(value.to_owned()),
            Self::Language => Route::Language(value.to_owned()),
        }
    }

    /// Returns whether a note with this front matter has the value.
    pub(crate) fn matches(self, front_matter: &FrontMatter, value: &str) -> bool {
        match self {
            Self::Tags => front_matter.tags.iter().any(|tag| tag == value),
            Self::Language => front_matter.language.as_deref() == Some(value),
        }
    }

    fn values(self, front_matter: FrontMatter) -> Vec<String> {
        match self {
            Self::Tags => front_matter.tags,
            Self::Language => front_matter.language.into_iter().collect(),
        }
    }
}

/// Returns all values in use, sorted, each with its number of notes.
pub(crate) fn values(notes: &Notes, field: Field) -> Result<BTreeMap<String, usize>> {
    let mut values = BTreeMap::new();
    let mut walk = notes.folder.files("", "", WalkBudget::UNLIMITED)?;
    while let Some(found) = walk.next_found()? {
        for value in head(notes, &found).map(|head| field.values(head.front_matter)).unwrap_or_default() {
            let count: &mut usize = values.entry(value).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(values)
}

/// Returns whether a note has this value.
pub(crate) fn is_in_use(notes: &Notes, field: Field, value: &str) -> Result<bool> {
    let mut walk = notes.folder.files("", "", WalkBudget::UNLIMITED)?;
    while let Some(found) = walk.next_found()? {
        if head(notes, &found).is_some_and(|head| field.matches(&head.front_matter, value)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the beginning of a note; `None` if the file is not a note or cannot be read.
pub(crate) fn head(notes: &Notes, found: &Found) -> Option<Head> {
    Markup::of(&found.names)?;
    let left_out = |failure: &_| log::warn!("{:?} omitted from collections: {failure}", found.names);
    note::head(notes, found).inspect_err(left_out).ok()
}

/// Returns the entry of the collection of all values of a field.
pub(crate) fn all_entry(field: Field) -> Entry {
    let (place, title, description) = match field {
        Field::Tags => (Route::Tags, "Tags", "All tags in use."),
        Field::Language => (Route::Languages, "Languages", "All languages in use."),
    };
    let path = place.path();
    Entry::directory(path.clone(), path).title(title).description(description).subscribable()
}

/// Returns the entry of the collection of notes with one value.
pub(crate) fn entry(field: Field, value: &str) -> Entry {
    let description = match field {
        Field::Tags => format!("The notes with the tag “{value}”."),
        Field::Language => format!("The notes in the language “{value}”."),
    };
    Entry::directory(field.route(value).path(), value).title(value).description(description).subscribable()
}
