//! Documents: resources in the index.

use std::hash::{DefaultHasher, Hash, Hasher};

use mcp_host_model::resource::{Annotations, Meta, Notice, Priority, Resource, Role, Timestamp};
use mcp_host_model::uri::Uri;
use serde::{Deserialize, Serialize};

use super::{language, tokens};

/// The size in bytes after which a passage ends at the next empty line, and the size after which it ends
/// at the next line.
const MIN_PASSAGE: usize = 800;
const MAX_PASSAGE: usize = 1600;
/// The size in bytes after which a passage ends within a line.
const MAX_LINE: usize = 4096;

/// The metadata of a resource that results show.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DocumentEntry {
    pub(super) name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_modified: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) for_user: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) for_assistant: bool,
    /// The provider's notice about the indexed part of the text. None if the whole text is indexed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part: Option<String>,
}

impl DocumentEntry {
    pub(super) fn new(resource: &Resource) -> Self {
        let Annotations { audience, priority, last_modified } = &resource.annotations;
        Self {
            name: resource.name.clone(),
            title: resource.title.clone(),
            description: resource.description.clone(),
            mime_type: resource.mime_type.clone(),
            size: resource.size,
            priority: priority.map(Priority::value),
            last_modified: last_modified.as_ref().map(ToString::to_string),
            for_user: audience.contains(&Role::User),
            for_assistant: audience.contains(&Role::Assistant),
            part: None,
        }
    }

    /// The audience as bits: 1 for people, 2 for models; 0 if it is not specified.
    pub(super) fn audience(&self) -> u8 {
        u8::from(self.for_user) | u8::from(self.for_assistant) << 1
    }

    /// The resource at this URI, with a notice if only a part of its text is indexed.
    pub(super) fn into_resource(self, uri: Uri) -> Resource {
        let mut meta = Meta::new();
        if let Some(part) = self.part {
            Notice::cut(format!("only a part of it is indexed: {part}")).push_to(&mut meta);
        }
        let roles = [(self.for_user, Role::User), (self.for_assistant, Role::Assistant)];
        let audience = roles.into_iter().filter(|(is_there, _)| *is_there).map(|(_, role)| role).collect();
        Resource {
            title: self.title,
            description: self.description,
            mime_type: self.mime_type,
            size: self.size,
            annotations: Annotations {
                audience,
                priority: self.priority.and_then(Priority::new),
                last_modified: self.last_modified.and_then(Timestamp::new),
            },
            meta,
            ..Resource::named(uri, &self.name)
        }
    }
}

/// A resource to index.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) path: String,
    pub(super) entry: DocumentEntry,
    /// The hash of the whole entry.
    pub(super) entry_hash: i64,
    /// The text. Empty if only the metadata are indexed.
    pub(super) text: String,
    /// Whether the text was truncated to `max-document`.
    pub(super) is_cut: bool,
}

impl Document {
    /// The hash of the text.
    pub(super) fn text_hash(&self) -> i64 {
        hash(&self.text)
    }

    /// The tokens of the name, the title, the description and the path.
    pub(super) fn name_tokens(&self) -> String {
        let DocumentEntry { name, title, description, .. } = &self.entry;
        let texts = [Some(name), title.as_ref(), description.as_ref()];
        let mut all: String = texts.into_iter().flatten().flat_map(|text| [text, "\n"]).collect();
        all.push_str(&percent_encoding::percent_decode_str(&self.path).decode_utf8_lossy());
        tokens::index_text(&all)
    }

    /// The code of the text's language.
    pub(super) fn language(&self) -> Option<&'static str> {
        language::detect(&self.text)
    }
}

/// Returns a hash that is the same in every process of this version.
pub(super) fn hash(value: impl Hash) -> i64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish().cast_signed()
}

/// A part of a text: whole lines, unless a line is very long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage<'a> {
    /// The number of its first line, from 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// Splits a text into passages, at empty lines where possible.
pub(super) fn passages(text: &str) -> impl Iterator<Item = Passage<'_>> {
    let (mut rest, mut line) = (text, 1_usize);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let (passage, behind) = rest.split_at_checked(passage_len(rest)).unwrap_or((rest, ""));
        let first_line = line;
        line = line.saturating_add(passage.matches('\n').count());
        rest = behind;
        Some(Passage { line: first_line, text: passage })
    })
}

fn passage_len(text: &str) -> usize {
    let mut len = 0_usize;
    for line in text.split_inclusive('\n') {
        let is_blank = line.trim().is_empty();
        if len > 0 && ((is_blank && len >= MIN_PASSAGE) || len.saturating_add(line.len()) > MAX_PASSAGE) {
            return len;
        }
        if line.len() > MAX_LINE {
            return len.saturating_add(line.floor_char_boundary(MAX_LINE));
        }
        len = len.saturating_add(line.len());
    }
    len
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn passages_end_at_empty_lines_and_have_the_number_of_their_first_line() {
        let paragraph = format!("{}\n", "word ".repeat(180));
        let text = format!("{paragraph}\n{paragraph}\n{paragraph}");
        let found: Vec<_> = passages(&text).map(|passage| passage.line).collect();
        assert_eq!(found, [1, 2, 4]);
    }

    proptest! {
        #[test]
        fn passages_are_the_whole_text_in_bounded_parts(
            lines in proptest::collection::vec("[a-zé日]{0,3}", 0..40), count in 1_usize..900,
        ) {
            let text = lines.iter().map(|line| format!("{}\n", line.repeat(count))).collect::<String>();
            let parts: Vec<_> = passages(&text).collect();
            prop_assert_eq!(parts.iter().map(|passage| passage.text).collect::<String>(), text.as_str());
            prop_assert!(parts.iter().all(|passage| !passage.text.is_empty() && passage.text.len() <= MAX_PASSAGE + MAX_LINE));
        }
    }
}
