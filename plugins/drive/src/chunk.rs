//! Chunks: parts of a text that fit into a prompt or an embedding.
//!
//! Markdown is divided by its headings. A section with everything below it is one chunk if it fits. If not, its own
//! text is one chunk, and each section below it is divided in turn. A text that is still too large is cut at the end of
//! a paragraph, else of a line, a sentence or a word; each piece but the first repeats the end of the previous one
//! (overlap). The chunks of a section depend only on that section: an edit elsewhere changes neither their text nor
//! their ids. Other text is one section.
//!
//! The chunks without their overlap are the whole text, in order.

use crate::sections::{Section, sections};
use crate::store::digest;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ops::Range;

/// The number of levels of headings.
const MAX_LEVELS: usize = 6;

/// The chunks of a text, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunks {
    headings: Vec<Heading>,
    chunks: Vec<Chunk>,
}

/// A heading of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Heading {
    title: String,
    /// The index of the heading above it.
    parent: Option<usize>,
}

/// A chunk of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    /// The start of the chunk, after its overlap.
    start: usize,
    /// The end of the chunk.
    end: usize,
    /// The number of bytes repeated from the previous chunk.
    overlap: usize,
    /// The index of its section's heading.
    heading: Option<usize>,
    /// The id: a hash of the headings and the text.
    pub(crate) id: String,
}

/// The sizes of chunks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sizes {
    /// The maximum size, without the overlap.
    pub(crate) chunk: usize,
    /// The maximum size of the overlap.
    pub(crate) overlap: usize,
}

impl Chunks {
    /// Divides a text into chunks. An empty text is one empty chunk.
    pub(crate) fn of(text: &str, is_markdown: bool, sizes: Sizes) -> Self {
        let sections = if is_markdown { sections(text) } else { vec![Section::preamble()] };
        let mut division = Division { text, sizes, sections: &sections, chunks: Vec::new() };
        if text.len() <= sizes.chunk {
            let heading = division.only_top_heading();
            division.push(0..text.len(), 0, heading);
        } else {
            division.divide();
        }
        let mut chunks = division.chunks;
        let mut divided = Self { headings: headings(sections), chunks: Vec::new() };
        // Equal chunks get different ids.
        let mut seen: HashMap<u64, usize> = HashMap::new();
        for chunk in &mut chunks {
            let hash = digest(&(divided.headings(chunk), text.get(chunk.start..chunk.end)));
            let occurrence = seen.entry(hash).or_default();
            chunk.id = if *occurrence == 0 { format!("{hash:016x}") } else { format!("{hash:016x}-{occurrence}") };
            *occurrence = occurrence.saturating_add(1);
        }
        divided.chunks = chunks;
        divided
    }

    pub(crate) fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Returns a chunk by its index.
    pub(crate) fn get(&self, index: usize) -> Option<&Chunk> {
        self.chunks.get(index)
    }

    /// Returns the titles of the headings above a chunk, highest level first.
    pub(crate) fn headings(&self, chunk: &Chunk) -> Vec<&str> {
        let mut titles = Vec::new();
        let mut next = chunk.heading;
        while let Some(heading) = next.and_then(|index| self.headings.get(index)).filter(|_| titles.len() < MAX_LEVELS)
        {
            titles.push(heading.title.as_str());
            next = heading.parent;
        }
        titles.reverse();
        titles
    }
}

impl Chunk {
    /// Returns the range of bytes, with the overlap.
    pub(crate) fn range(&self) -> Range<usize> {
        self.start.saturating_sub(self.overlap)..self.end
    }

    /// Returns the length of the overlap with the previous chunk, in bytes.
    pub(crate) fn overlap(&self) -> usize {
        self.overlap
    }
}

/// Returns the headings of sections, each with its parent.
fn headings(sections: Vec<Section>) -> Vec<Heading> {
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut headings = Vec::with_capacity(sections.len());
    for (index, section) in sections.into_iter().enumerate() {
        path.retain(|(_, level)| *level < section.level);
        headings.push(Heading { title: section.title, parent: path.last().map(|(above, _)| *above) });
        if section.level > 0 {
            path.push((index, section.level));
        }
    }
    headings
}

/// The state of a division into chunks.
struct Division<'a> {
    text: &'a str,
    sizes: Sizes,
    sections: &'a [Section],
    chunks: Vec<Chunk>,
}

impl Division<'_> {
    /// Returns the heading of a text that is one chunk: the text must begin with it, and all other headings must be
    /// below it.
    fn only_top_heading(&self) -> Option<usize> {
        let (first, rest) = self.sections.split_first()?;
        (first.level > 0 && rest.iter().all(|section| section.level > first.level)).then_some(0)
    }

    fn divide(&mut self) {
        let mut index: usize = 0;
        while let Some(section) = self.sections.get(index) {
            let heading = (section.level > 0).then_some(index);
            let next = index.saturating_add(1);
            let below = self.sections.get(next..).unwrap_or_default();
            // No section is below the preamble.
            let count = below.iter().take_while(|other| section.level > 0 && other.level > section.level).count();
            let behind = next.saturating_add(count);
            let whole = section.start..self.start_of(behind);
            if whole.len() <= self.sizes.chunk {
                self.push(whole, 0, heading);
                index = behind;
            } else {
                self.cut(section.start..self.start_of(next), heading);
                index = next;
            }
        }
    }

    fn start_of(&self, index: usize) -> usize {
        self.sections.get(index).map_or(self.text.len(), |section| section.start)
    }

    /// Cuts a range into pieces.
    fn cut(&mut self, range: Range<usize>, heading: Option<usize>) {
        let mut start = range.start;
        while start < range.end {
            let rest = self.text.get(start..range.end).unwrap_or_default();
            let end = start.saturating_add(piece(rest, self.sizes.chunk)).min(range.end);
            let overlap = if start == range.start { 0 } else { self.overlap(range.start..start) };
            self.push(start..end, overlap, heading);
            start = end;
        }
    }

    /// Returns the length of the overlap at the end of a range: whole lines or words, if one starts there.
    fn overlap(&self, before: Range<usize>) -> usize {
        let before = self.text.get(before).unwrap_or_default();
        let from = before.ceil_char_boundary(before.len().saturating_sub(self.sizes.overlap));
        let window = before.get(from..).unwrap_or_default();
        let behind = |at: Option<usize>| at.map(|at| at.saturating_add(1)).filter(|at| *at < window.len());
        let start = behind(window.find('\n')).or_else(|| behind(window.find(' '))).unwrap_or(0);
        window.len().saturating_sub(start)
    }

    fn push(&mut self, range: Range<usize>, overlap: usize, heading: Option<usize>) {
        if !range.is_empty() || self.text.is_empty() {
            self.chunks.push(Chunk { start: range.start, end: range.end, overlap, heading, id: String::new() });
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
    // A piece of less than half the size would consist mostly of overlap.
    let least = max.checked_div(2).unwrap_or_default();
    let behind = |separator: &str| {
        let end = window.rfind(separator)?.saturating_add(separator.len());
        (end > least).then_some(end)
    };
    let cut = ["\n\n", "\n", ". ", "。", " "].into_iter().find_map(behind).unwrap_or(end);
    // `end` is 0 if the first character exceeds `max`.
    if cut > 0 { cut } else { text.ceil_char_boundary(max.max(1)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: Sizes = Sizes { chunk: 100, overlap: 20 };

    fn chunks(text: &str, is_markdown: bool, sizes: Sizes) -> Chunks {
        Chunks::of(text, is_markdown, sizes)
    }

    fn text<'t>(text: &'t str, chunk: &Chunk) -> &'t str {
        text.get(chunk.range()).unwrap()
    }

    fn texts<'t>(whole: &'t str, chunks: &Chunks) -> Vec<&'t str> {
        chunks.chunks.iter().map(|chunk| text(whole, chunk)).collect()
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
            assert_eq!((texts(text, &chunks), chunks.headings(&chunks.chunks[0])), (vec![text], headings));
        }
    }

    #[test]
    fn a_section_is_one_chunk_with_what_is_below_it_if_that_fits() {
        let (a, b) = (format!("intro {}\n\n", prose(5)), "# One\n\nshort\n\n## Below\n\nshort too\n\n");
        let c = format!("# *Two* `x`\n\n{}\n\n## Small\n\nend\n", prose(20));
        let text = format!("{a}{b}{c}");
        let chunks = chunks(&text, true, SIZES);
        let headings: Vec<_> = chunks.chunks.iter().map(|chunk| chunks.headings(chunk).join(" / ")).collect();
        assert_eq!(headings, ["", "One", "Two x", "Two x", "Two x / Small"]);
        assert_eq!(texts(&text, &chunks)[1], b);
    }

    #[test]
    fn a_text_that_is_not_markdown_has_no_headings() {
        let text = format!("# A\n\n{}", prose(40));
        let all = |is_markdown| {
            let chunks = chunks(&text, is_markdown, SIZES);
            chunks.chunks.iter().map(|chunk| chunks.headings(chunk).concat()).collect::<Vec<_>>()
        };
        assert!(all(true).iter().all(|title| title == "A"));
        assert!(all(false).iter().all(String::is_empty));
    }

    #[test]
    fn a_piece_repeats_the_end_of_the_one_before() {
        let whole = prose(60);
        let chunks = chunks(&whole, true, SIZES).chunks;
        assert!(chunks.len() > 3 && chunks[0].overlap == 0);
        for (one, two) in chunks.iter().zip(&chunks[1..]) {
            let repeated = text(&whole, two).get(..two.overlap).unwrap();
            assert!(text(&whole, one).ends_with(repeated) && repeated.starts_with("word"), "{repeated:?}");
        }
    }

    #[test]
    fn an_edit_of_a_section_changes_no_chunk_of_another() {
        let section = |title: &str, words| format!("# {title}\n\n{}\n\n", prose(words));
        let before = [section("A", 30), section("B", 30), section("C", 30)].concat();
        let after = [section("A", 44), section("New", 3), section("B", 30), section("C", 30)].concat();
        let ids = |text: &str, title: &str| -> Vec<String> {
            let chunks = chunks(text, true, SIZES);
            let of_section = chunks.chunks.iter().filter(|chunk| chunks.headings(chunk) == [title]);
            of_section.map(|chunk| chunk.id.clone()).collect()
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

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        #[test]
        fn chunks_are_the_text_in_order_and_none_is_too_large(
            text in r"((#{1,3} |> |- |```|\n|\n\n|[a-c日。. ]{1,40}){0,60})",
            is_markdown: bool,
            chunk in 8..200_usize,
        ) {
            let sizes = Sizes { chunk, overlap: chunk / 2 };
            let chunks = chunks(&text, is_markdown, sizes).chunks;
            let whole: String = chunks.iter().map(|chunk| text.get(chunk.start..chunk.end).unwrap()).collect();
            prop_assert_eq!(&whole, &text);
            for chunk in &chunks {
                prop_assert!((chunk.start..chunk.end).len() <= sizes.chunk && chunk.overlap <= sizes.overlap);
                let len = super::tests::text(&text, chunk).len();
                prop_assert_eq!(len.checked_sub(chunk.overlap), Some((chunk.start..chunk.end).len()));
            }
            let ids: std::collections::HashSet<_> = chunks.iter().map(|chunk| &chunk.id).collect();
            prop_assert_eq!(ids.len(), chunks.len());
        }
    }
}
