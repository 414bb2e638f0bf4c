//! Tags and languages: collections of notes by what their front matter says.
//!
//! There is no index, because nothing of an instance lasts: to know who has a tag, the front matter of every note is
//! read. A page of a collection reads no further than the page needs.

use crate::folder::{Folder, WalkBudget};
use crate::front_matter::FrontMatter;
use crate::note;
use crate::route::Route;
use mcp_provider::{Entry, Result, log};
use std::collections::BTreeMap;

/// By which field notes are collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// `tags`.
    Tags,
    /// `language`.
    Language,
}

impl Field {
    /// The collection of the notes with this value.
    pub(crate) fn route(self, value: &str) -> Route {
        match self {
            Self::Tags => Route::Tag(value.to_owned()),
            Self::Language => Route::Language(value.to_owned()),
        }
    }

    /// Whether a note with this front matter has the value.
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

/// All values in use, with how many notes have each, in order of the values.
pub(crate) fn values(folder: &Folder, field: Field) -> Result<BTreeMap<String, usize>> {
    let mut values = BTreeMap::new();
    let mut walk = folder.files("", "", WalkBudget::UNLIMITED)?;
    while let Some(names) = walk.next_path()? {
        for value in front_matter(folder, &names).map(|read| field.values(read)).unwrap_or_default() {
            let count: &mut usize = values.entry(value).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(values)
}

/// Whether any note has this value.
pub(crate) fn is_in_use(folder: &Folder, field: Field, value: &str) -> Result<bool> {
    let mut walk = folder.files("", "", WalkBudget::UNLIMITED)?;
    while let Some(names) = walk.next_path()? {
        if front_matter(folder, &names).is_some_and(|read| field.matches(&read, value)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a note says of itself; none of what is no note, or cannot be read.
pub(crate) fn front_matter(folder: &Folder, names: &str) -> Option<FrontMatter> {
    if !note::is_note(names) {
        return None;
    }
    let left_out = |failure: &_| log::warn!("{names:?} is left out of collections: {failure}");
    note::front_matter(folder, names).inspect_err(left_out).ok()
}

/// The collection of all values of a field.
pub(crate) fn all_entry(field: Field) -> Entry {
    let (place, title, description) = match field {
        Field::Tags => (Route::Tags, "Tags", "All tags that notes have."),
        Field::Language => (Route::Languages, "Languages", "All languages that notes are in."),
    };
    let path = place.path();
    Entry::directory(path.clone(), path).title(title).description(description).subscribable()
}

/// The collection of the notes with one value.
pub(crate) fn entry(field: Field, value: &str) -> Entry {
    let description = match field {
        Field::Tags => format!("The notes with the tag “{value}”."),
        Field::Language => format!("The notes in the language “{value}”."),
    };
    Entry::directory(field.route(value).path(), value).title(value).description(description).subscribable()
}
