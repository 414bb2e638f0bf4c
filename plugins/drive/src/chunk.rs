//! Chunks: parts of a text that fit into a prompt or an embedding.
//!
//! Markdown is divided by its headings: a section with all that is below it is one chunk if it fits; otherwise its own
//! text is one, and so is each section below it. What is still too large is cut at the end of a paragraph, a line, a
//! sentence or a word, whichever there is; then each piece but the first repeats the end of the one before. So the chunks
//! of a section depend on that section alone: an edit of another one changes neither their text nor their ids. Other
//! text is one section.
//!
//! The chunks without what they repeat are the whole text, in order.

use crate::session::digest;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// The maximum number of headings by which a text is divided. With more, it is one section.
const MAX_HEADINGS: usize = 5000;

/// The maximum amount of markup in a text that is divided by its headings. With more, it is one section. The parser keeps a tree
/// of the whole text in memory: up to three nodes of 32 bytes for each piece of markup, and twice that while it grows.
const MAX_MARKUP: usize = 100_000;

/// The maximum length of the text of a heading, in characters.
const MAX_HEADING: usize = 200;

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// Its first byte, behind what it repeats.
    start: usize,
    /// Behind its last byte.
    end: usize,
    /// The number of bytes that it repeats of the chunk before.
    overlap: usize,
    /// The headings of its section, from the highest level.
    pub(crate) headings: Vec<String>,
    /// The id, from the headings and the text; the same as long as these are.
    pub(crate) id: String,
}

/// The sizes of chunks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    /// The maximum size, without what is repeated.
    pub(crate) chunk: usize,
    /// The maximum size of what is repeated.
    pub(crate) overlap: usize,
}

impl Chunk {
    /// Returns the text of the chunk.
    pub(crate) fn text<'t>(&self, text: &'t str) -> &'t str {
        text.get(self.start.saturating_sub(self.overlap)..self.end).unwrap_or_default()
    }

    /// Returns the number of bytes at its beginning that it repeats of the chunk before.
    pub(crate) fn overlap(&self) -> usize {
        self.overlap
    }
}

/// Divides a text into chunks. An empty text is one empty chunk.
pub(crate) fn chunks(text: &str, is_markdown: bool, sizes: Sizes) -> Vec<Chunk> {
    let sections = if is_markdown { sections(text) } else { vec![Section::preamble()] };
    let mut division = Division { text, sizes, sections: &sections, path: Vec::new(), chunks: Vec::new() };
    if text.len() <= sizes.chunk {
        let headings = division.only_top_heading();
        division.push(0..text.len(), 0, headings);
    } else {
        division.divide();
    }
    let mut chunks = division.chunks;
    // A chunk that occurs several times has several ids.
    let mut seen: HashMap<u64, usize> = HashMap::new();
    for chunk in &mut chunks {
        let hash = digest(&(&chunk.headings, text.get(chunk.start..chunk.end)));
        let occurrence = seen.entry(hash).or_default();
        chunk.id = if *occurrence == 0 { format!("{hash:016x}") } else { format!("{hash:016x}-{occurrence}") };
        *occurrence = occurrence.saturating_add(1);
    }
    chunks
}

/// A heading with the text behind it, up to the next heading.
#[derive(Debug, PartialEq, Eq)]
struct Section {
    start: usize,
    /// 1 to 6; 0 before the first heading.
    level: usize,
    title: String,
}

impl Section {
    fn preamble() -> Self {
        Self { start: 0, level: 0, title: String::new() }
    }
}

/// Returns an upper bound of the amount of markup: ends of lines, and bytes that can begin or end anything else.
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
fn sections(text: &str) -> Vec<Section> {
    let mut sections = vec![Section::preamble()];
    if markup(text) > MAX_MARKUP {
        return sections;
    }
    let mut heading: Option<Section> = None;
    let mut depth: usize = 0;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Heading { level, .. }) if depth == 0 => {
                // Headings in quotations and lists divide nothing.
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

/// A text while it is divided.
struct Division<'a> {
    text: &'a str,
    sizes: Sizes,
    sections: &'a [Section],
    /// The sections above the current one.
    path: Vec<&'a Section>,
    chunks: Vec<Chunk>,
}

impl Division<'_> {
    /// The heading of a text that is one chunk: if it has one at the beginning, and no other of that level.
    fn only_top_heading(&self) -> Vec<String> {
        match self.sections.split_first() {
            Some((first, rest)) if first.level > 0 && rest.iter().all(|section| section.level > first.level) => {
                vec![first.title.clone()]
            }
            _ => Vec::new(),
        }
    }

    fn divide(&mut self) {
        let mut index: usize = 0;
        while let Some(section) = self.sections.get(index) {
            self.path.retain(|above| above.level < section.level);
            if section.level > 0 {
                self.path.push(section);
            }
            let headings: Vec<String> = self.path.iter().map(|above| above.title.clone()).collect();
            let next = index.saturating_add(1);
            let below = self.sections.get(next..).unwrap_or_default();
            // The preamble has nothing below it.
            let count = below.iter().take_while(|other| section.level > 0 && other.level > section.level).count();
            let behind = next.saturating_add(count);
            let whole = section.start..self.start_of(behind);
            if whole.len() <= self.sizes.chunk {
                self.push(whole, 0, headings);
                index = behind;
            } else {
                self.cut(section.start..self.start_of(next), &headings);
                index = next;
            }
        }
    }

    fn start_of(&self, index: usize) -> usize {
        self.sections.get(index).map_or(self.text.len(), |section| section.start)
    }

    /// Cuts a range into pieces.
    fn cut(&mut self, range: Range<usize>, headings: &[String]) {
        let mut start = range.start;
        while start < range.end {
            let rest = self.text.get(start..range.end).unwrap_or_default();
            let end = start.saturating_add(piece(rest, self.sizes.chunk)).min(range.end);
            let overlap = if start == range.start { 0 } else { self.overlap(range.start..start) };
            self.push(start..end, overlap, headings.to_vec());
            start = end;
        }
    }

    /// Returns how much of the end of a range is repeated: whole lines or words, if there is a beginning of one.
    fn overlap(&self, before: Range<usize>) -> usize {
        let before = self.text.get(before).unwrap_or_default();
        let from = before.ceil_char_boundary(before.len().saturating_sub(self.sizes.overlap));
        let window = before.get(from..).unwrap_or_default();
        let behind = |at: Option<usize>| at.map(|at| at.saturating_add(1)).filter(|at| *at < window.len());
        let start = behind(window.find('\n')).or_else(|| behind(window.find(' '))).unwrap_or(0);
        window.len().saturating_sub(start)
    }

    fn push(&mut self, range: Range<usize>, overlap: usize, headings: Vec<String>) {
        if !range.is_empty() || self.text.is_empty() {
            self.chunks.push(Chunk { start: range.start, end: range.end, overlap, headings, id: String::new() });
        }
    }
}

/// Returns the length of the first piece of a text: at most `max` bytes, and at least one character.
fn piece(text: &str, max: usize) -> usize {
    if text.len() <= max {
        return text.len();
    }
    let end = text.floor_char_boundary(max);
    let window = text.get(..end).unwrap_or_default();
    // A piece of less than half of the size would be mostly overlap.
    let least = max.checked_div(2).unwrap_or_default();
    let behind = |separator: &str| {
        let end = window.rfind(separator)?.saturating_add(separator.len());
        (end > least).then_some(end)
    };
    let cut = ["\n\n", "\n", ". ", "。", " "].into_iter().find_map(behind).unwrap_or(end);
    // `end` is 0 if the first character alone is larger.
    if cut > 0 { cut } else { text.ceil_char_boundary(max.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes { chunk: 100, overlap: 20 };

    fn texts<'t>(text: &'t str, chunks: &[Chunk]) -> Vec<&'t str> {
        chunks.iter().map(|chunk| chunk.text(text)).collect()
    }

    fn prose(words: usize) -> String {
        (0..words).map(|n| format!("word{n} ")).collect()
    }

    #[test]
    fn a_text_that_fits_is_one_chunk() {
        for (text, headings) in
            [("# A\n\nb\n\n## C\nd", vec!["A"]), ("", vec![]), ("a\n# B\n", vec![]), ("# A\n# B\n", vec![])]
        {
            let chunks = chunks(text, true, SIZES);
            assert_eq!(
                (texts(text, &chunks), &chunks[0].headings),
                (vec![text], &headings.iter().map(|h| (*h).to_owned()).collect())
            );
        }
    }

    #[test]
    fn a_section_is_one_chunk_with_what_is_below_it_if_that_fits() {
        let (a, b) = (format!("intro {}\n\n", prose(5)), "# One\n\nshort\n\n## Below\n\nshort too\n\n");
        let c = format!("# *Two* `x`\n\n{}\n\n## Small\n\nend\n", prose(20));
        let text = format!("{a}{b}{c}");
        let chunks = chunks(&text, true, SIZES);
        let headings: Vec<_> = chunks.iter().map(|chunk| chunk.headings.join(" / ")).collect();
        assert_eq!(headings, ["", "One", "Two x", "Two x", "Two x / Small"]);
        assert_eq!(texts(&text, &chunks)[1], b);
    }

    #[test]
    fn what_looks_like_a_heading_in_code_or_a_quotation_divides_nothing() {
        let text = format!("# A\n\n```sh\n# no heading\n```\n\n> # Quoted\n\n- # Item\n\n{}", prose(40));
        assert!(chunks(&text, true, SIZES).iter().all(|chunk| chunk.headings == ["A"]));
        assert!(chunks(&text, false, SIZES).iter().all(|chunk| chunk.headings.is_empty()));
    }

    #[test]
    fn a_piece_repeats_the_end_of_the_one_before() {
        let text = prose(60);
        let chunks = chunks(&text, true, SIZES);
        assert!(chunks.len() > 3 && chunks[0].overlap == 0);
        for (one, two) in chunks.iter().zip(&chunks[1..]) {
            let repeated = two.text(&text).get(..two.overlap).unwrap();
            assert!(one.text(&text).ends_with(repeated) && repeated.starts_with("word"), "{repeated:?}");
        }
    }

    #[test]
    fn an_edit_of_a_section_changes_no_chunk_of_another() {
        let section = |title: &str, words| format!("# {title}\n\n{}\n\n", prose(words));
        let before = [section("A", 30), section("B", 30), section("C", 30)].concat();
        let after = [section("A", 44), section("New", 3), section("B", 30), section("C", 30)].concat();
        let ids = |text: &str, title: &str| -> Vec<String> {
            let chunks = chunks(text, true, SIZES);
            chunks.into_iter().filter(|chunk| chunk.headings == [title]).map(|chunk| chunk.id).collect()
        };
        assert_ne!(ids(&before, "A"), ids(&after, "A"));
        for title in ["B", "C"] {
            assert_eq!(ids(&before, title), ids(&after, title));
        }
    }

    #[test]
    fn a_text_of_headings_alone_is_bounded() {
        let text = "# a\n".repeat(100_000);
        let chunks = chunks(&text, true, Sizes { chunk: 4000, overlap: 200 });
        assert!(chunks.len() < 1000, "{}", chunks.len());
    }

    #[test]
    fn a_text_of_too_much_markup_is_not_parsed() {
        let sizes = Sizes { chunk: 4000, overlap: 200 };
        let is_parsed = |line: &str, count: usize| {
            let text = format!("# A\n\n{}", line.repeat(count));
            chunks(&text, true, sizes).iter().any(|chunk| chunk.headings == ["A"])
        };
        for line in ["*a* ", "> a\n", "- - ", "1. 1) ", "a\r", "|a", "[a](b) ", "<a&b\\c", "`a` ", "_a_ "] {
            assert!(is_parsed(line, 1000) && !is_parsed(line, 200_000), "{line:?}");
        }
        assert!(is_parsed("a long text, 1.5 lines, that is well-known (as such); and plain. ", 60_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn chunks_are_the_text_in_order_and_none_is_too_large(
            text in r"((#{1,3} |> |- |```|\n|\n\n|[a-c日。. ]{1,40}){0,60})",
            is_markdown: bool,
            chunk in 8..200_usize,
        ) {
            let sizes = Sizes { chunk, overlap: chunk / 2 };
            let chunks = chunks(&text, is_markdown, sizes);
            let whole: String = chunks.iter().map(|chunk| text.get(chunk.start..chunk.end).unwrap()).collect();
            prop_assert_eq!(&whole, &text);
            for chunk in &chunks {
                prop_assert!((chunk.start..chunk.end).len() <= sizes.chunk && chunk.overlap <= sizes.overlap);
                let text = chunk.text(&text).len();
                prop_assert_eq!(text.checked_sub(chunk.overlap), Some((chunk.start..chunk.end).len()));
            }
            let ids: std::collections::HashSet<_> = chunks.iter().map(|chunk| &chunk.id).collect();
            prop_assert_eq!(ids.len(), chunks.len());
        }
    }
}
