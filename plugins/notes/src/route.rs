//! The routes: the mapping from paths to resources.
//!
//! | path | resource |
//! |---|---|
//! | the empty path | the folder of notes |
//! | `tag`, `lang` | the tags and the languages in use |
//! | `tag/{tag}`, `lang/{lang}` | the notes with that tag, in that language |
//! | `file/tag/…`, `file/lang/…`, `file/file/…` | an item in a real folder of that name, or the folder itself |
//! | any other path | the file or folder with that name |
//!
//! Each file has one path, which equals its path on disk unless its first name is one of the three words. A hidden
//! name, at any level, is not found.

use folder::is_hidden;
use mcp_provider::{Failure, Result, path};
use unicode_normalization::UnicodeNormalization;

const TAG: &str = "tag";
const LANG: &str = "lang";
/// The prefix of the path of a file whose first name is a reserved word.
const FILE: &str = "file";

/// A parsed path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Route {
    /// A file or folder, by its names below the folder of notes, separated by `/`; empty for the folder itself.
    Item(String),
    /// All tags.
    Tags,
    /// The notes with a tag, in NFC.
    Tag(String),
    /// All languages.
    Languages,
    /// The notes in a language.
    Language(String),
}

impl Route {
    /// Parses a path, whether or not the resource exists.
    pub(crate) fn parse(path: &str) -> Result<Self> {
        let (first, rest) = match path.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (path, None),
        };
        match (path::decode_segment(first)?.as_str(), rest) {
            (TAG, None) => Ok(Self::Tags),
            (TAG, Some(tag)) => Ok(Self::Tag(path::decode_segment(tag)?.nfc().collect())),
            (LANG, None) => Ok(Self::Languages),
            (LANG, Some(language)) => Ok(Self::Language(path::decode_segment(language)?.nfc().collect())),
            (FILE, rest) => {
                let names = path::decode(rest.unwrap_or_default())?;
                if is_reserved(&names) { Self::item(names) } else { Err(Failure::NotFound) }
            }
            _ => Self::item(path::decode(path)?),
        }
    }

    fn item(names: String) -> Result<Self> {
        if names.split('/').any(is_hidden) { Err(Failure::NotFound) } else { Ok(Self::Item(names)) }
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Item(names) if is_reserved(names) => format!("{FILE}/{}", path::encode(names)),
            Self::Item(names) => path::encode(names),
            Self::Tags => TAG.to_owned(),
            Self::Tag(tag) => format!("{TAG}/{}", path::encode_segment(tag)),
            Self::Languages => LANG.to_owned(),
            Self::Language(language) => format!("{LANG}/{}", path::encode_segment(language)),
        }
    }
}

impl Route {
    /// Returns the value of `{+path}` that expands to this path, if there is one. RFC 6570 (section 3.2.3) copies some
    /// characters verbatim that have another meaning in a path.
    pub(crate) fn template_value(&self) -> Option<String> {
        let value = path::decode(&self.path()).ok()?;
        (!value.contains(['?', '#', '[', ']', '%'])).then_some(value)
    }
}

/// Returns whether a tag or language can be a path segment. Dots alone would be a dot segment.
pub(crate) fn is_expressible(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && !name.contains('\0')
}

fn is_reserved(names: &str) -> bool {
    matches!(names.split('/').next(), Some(TAG | LANG | FILE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn item(names: &str) -> Route {
        Route::Item(names.to_owned())
    }

    #[test]
    fn a_file_has_its_own_path() {
        assert_eq!(Route::parse("guide/a%20b.md"), Ok(item("guide/a b.md")));
        assert_eq!(item("guide/a b.md").path(), "guide/a%20b.md");
        assert_eq!(Route::parse(""), Ok(item("")));
    }

    #[test]
    fn collections_are_found_by_their_word() {
        assert_eq!(Route::parse("tag"), Ok(Route::Tags));
        assert_eq!(Route::parse("tag/a%2Fb"), Ok(Route::Tag("a/b".to_owned())));
        assert_eq!(Route::parse("lang/ja"), Ok(Route::Language("ja".to_owned())));
        assert!(matches!(Route::parse("tag/a/b"), Err(Failure::InvalidRequest(_))));
    }

    #[test]
    fn a_real_folder_with_the_name_of_a_collection_is_not_shadowed() {
        for (names, path) in [("tag", "file/tag"), ("lang/x.md", "file/lang/x.md"), ("file/y", "file/file/y")] {
            assert_eq!(item(names).path(), path);
            assert_eq!(Route::parse(path), Ok(item(names)));
        }
    }

    #[test]
    fn a_file_has_no_second_path() {
        for path in ["file", "file/guide/a.md", "file/tagged"] {
            assert_eq!(Route::parse(path), Err(Failure::NotFound), "{path}");
        }
        assert!(matches!(Route::parse("guide//a.md"), Err(Failure::InvalidRequest(_))));
        assert!(matches!(Route::parse("guide/"), Err(Failure::InvalidRequest(_))));
    }

    #[test]
    fn a_hidden_name_names_nothing_at_any_level() {
        for path in [".git", "a/.b/c.md", "file/tag/.x", "%2Egit"] {
            assert_eq!(Route::parse(path), Err(Failure::NotFound), "{path}");
        }
    }

    proptest! {
        #[test]
        fn every_place_comes_back_from_its_path(
            names in proptest::collection::vec("tag|lang|file|[^/\0.][^/\0]{0,6}", 0..4), tag in "[^\0]{1,6}",
        ) {
            let places =
                [item(&names.join("/")), Route::Tags, Route::Tag(tag.nfc().collect()), Route::Languages, Route::Language(tag.nfc().collect())];
            for place in places {
                prop_assert_eq!(Route::parse(&place.path()), Ok(place));
            }
        }
    }
}
