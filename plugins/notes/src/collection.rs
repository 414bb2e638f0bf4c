//! Tags and languages: collections of notes by what their front matter says.
//!
//! There is no index, because nothing of an instance lasts: to know who has a tag, the front matter of every note is
//! read. A page of a collection reads no further than the page needs.

use crate::folder::Folder;
use crate::front_matter::FrontMatter;
use crate::note;
use crate::place::Place;
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
    pub(crate) fn place(self, value: &str) -> Place {
        match self {
            Self::Tags => Place::Tag(value.to_owned()),
            Self::Language => Place::Language(value.to_owned()),
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
    for names in folder.files()? {
        for value in values_of(folder, field, &names) {
            let count: &mut usize = values.entry(value).or_default();
            *count = count.saturating_add(1);
        }
    }
    Ok(values)
}

/// Whether any note has this value.
pub(crate) fn is_in_use(folder: &Folder, field: Field, value: &str) -> Result<bool> {
    Ok(folder.files()?.iter().any(|names| has(folder, field, value, names)))
}

/// Whether this file is a note with this value.
pub(crate) fn has(folder: &Folder, field: Field, value: &str, names: &str) -> bool {
    values_of(folder, field, names).iter().any(|of_note| of_note == value)
}

fn values_of(folder: &Folder, field: Field, names: &str) -> Vec<String> {
    if !note::is_note(names) {
        return Vec::new();
    }
    match note::front_matter(folder, names) {
        Ok(front_matter) => field.values(front_matter),
        Err(failure) => {
            log::warn!("{names:?} is left out of collections: {failure}");
            Vec::new()
        }
    }
}

/// The collection of all values of a field.
pub(crate) fn all_entry(field: Field) -> Entry {
    let (place, title, description) = match field {
        Field::Tags => (Place::Tags, "Tags", "All tags that notes have."),
        Field::Language => (Place::Languages, "Languages", "All languages that notes are in."),
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
    Entry::directory(field.place(value).path(), value).title(value).description(description).subscribable()
}
