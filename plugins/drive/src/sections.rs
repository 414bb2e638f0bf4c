//! Sections: a text in Markdown by its headings.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// The maximum number of headings. A text with more is one section.
const MAX_HEADINGS: usize = 5000;

/// The maximum amount of markup. A text with more is one section. The parser keeps a tree of the whole text in memory:
/// with this much markup it takes up to 27 MiB, mostly independent of the text's size; with a text of 10 MB, the total
/// is up to 35 MiB. The test `providers/drive/memory` reads such documents with the default of `limits.memory`.
const MAX_MARKUP: usize = 100_000;

/// The maximum length of the text of a heading, in characters.
const MAX_HEADING: usize = 200;

/// A heading, with the text up to the next heading.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) start: usize,
    /// 1 to 6; 0 before the first heading.
    pub(crate) level: usize,
    pub(crate) title: String,
}

impl Section {
    /// Returns the section before the first heading.
    pub(crate) fn preamble() -> Self {
        Self { start: 0, level: 0, title: String::new() }
    }
}

/// Returns an upper bound of the amount of markup: line ends, and bytes that can start or end other markup.
fn markup(text: &str) -> usize {
    let mut before = b'\n';
    let is_markup = |byte: &u8| {
        let before = std::mem::replace(&mut before, *byte);
        match byte {
            b'\r' | b'*' | b'_' | b'`' | b'[' | b']' | b'!' | b'<' | b'&' | b'\\' | b'|' => true,
            b'\n' => before != b'\r',
            b'-' | b'+' | b'>' => !before.is_ascii_alphanumeric(),
            b'.' | b')' => before.is_ascii_digit(),
            _ => false,
        }
    };
    text.bytes().filter(is_markup).count()
}

/// Returns the sections of a Markdown text. The first begins at 0.
pub(crate) fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section::preamble()];
    if markup(text) > MAX_MARKUP {
        return sections;
    }
    let mut heading: Option<Section> = None;
    let mut depth: usize = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                // Headings in quotations and lists do not divide the text.
                heading = Some(Section { start: range.start, level: level as usize, title: String::new() });
                depth = depth.saturating_add(1);
            }
            Event::Start(_) => depth = depth.saturating_add(1),
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                if let (TagEnd::Heading(_), 0, Some(section)) = (end, depth, heading.take_if(|_| depth == 0)) {
                    sections.push(section);
                }
            }
            Event::Text(part) | Event::Code(part) => {
                if let Some(section) = &mut heading {
                    let room = MAX_HEADING.saturating_sub(section.title.chars().count());
                    section.title.extend(part.chars().take(room));
                }
            }
            _ => {}
        }
        if sections.len() > MAX_HEADINGS {
            return vec![Section::preamble()];
        }
    }
    if sections.get(1).is_some_and(|first| first.start == 0) {
        sections.remove(0);
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_heading_in_code_or_a_quotation_is_none() {
        let titles = |text| sections(text).into_iter().map(|section| section.title).collect::<Vec<_>>();
        assert_eq!(titles("# A\n\n```sh\n# no heading\n```\n\n> # Quoted\n\n- # Item\n\n# *B* `c`"), ["A", "B c"]);
    }

    #[test]
    fn a_text_of_too_much_markup_is_not_parsed() {
        let is_parsed = |line: &str, count: usize| {
            let text = format!("# A\n\n{}", line.repeat(count));
            sections(&text).iter().any(|section| section.title == "A")
        };
        for line in ["*a* ", "> a\n", "- - ", "1. 1) ", "a\r", "|a", "[a](b) ", "<a&b\\c", "`a` ", "_a_ "] {
            assert!(is_parsed(line, 1000) && !is_parsed(line, 200_000), "{line:?}");
        }
        assert!(is_parsed("a long text, 1.5 lines, that is well-known (as such); and plain. ", 60_000));
    }
}
