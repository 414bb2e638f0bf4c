//! Snippets: the part of a text that best shows why the text was found.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use super::document::Passage;
use super::query::Term;
use super::tokens::for_each_token;

/// The approximate length of a snippet in bytes.
const SNIPPET_LEN: usize = 320;

/// A part of a text with the matches in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snippet {
    /// The text of the resource. An ellipsis marks a cut within a line.
    pub text: String,
    /// The ranges of the matches in `text`, in bytes, in order.
    pub matches: Vec<Range<usize>>,
    /// The first and the last line of the snippet in the resource's text, counted from 1.
    pub lines: (usize, usize),
}

/// Distinct terms in which tokens are looked up. All have the same weight: the frequency of a term in the index depends
/// on documents that the principal may not see, and must not determine which part of another document is shown.
pub(super) struct SoughtTerms<'a> {
    terms: Vec<&'a Term>,
    /// The indices into `terms` by whole token, and the indices of prefixes.
    tokens: HashMap<&'a str, usize>,
    prefixes: Vec<usize>,
}

impl<'a> SoughtTerms<'a> {
    pub(super) fn new(all: impl IntoIterator<Item = &'a Term>) -> Self {
        let mut new = Self { terms: Vec::new(), tokens: HashMap::new(), prefixes: Vec::new() };
        for term in all {
            let (place, text) = (new.terms.len(), term.text.as_str());
            match term.is_prefix {
                true if new.has_prefix(text) => continue,
                true => new.prefixes.push(place),
                false if new.tokens.contains_key(text) => continue,
                false => drop(new.tokens.insert(text, place)),
            }
            new.terms.push(term);
        }
        new
    }

    fn has_prefix(&self, text: &str) -> bool {
        self.prefixes.iter().filter_map(|place| self.terms.get(*place)).any(|term| term.text == text)
    }

    /// The number of terms.
    pub(super) fn count(&self) -> usize {
        self.terms.len()
    }

    /// The indices of the terms that match a token.
    fn find(&self, token: &str) -> impl Iterator<Item = usize> {
        let is_begun = move |place: &&usize| self.terms.get(**place).is_some_and(|term| token.starts_with(&term.text));
        self.tokens.get(token).into_iter().chain(self.prefixes.iter().filter(is_begun)).copied()
    }

    /// The terms in a passage.
    pub(super) fn of_passage(&self, passage: &str) -> Vec<&'a Term> {
        let mut found = BTreeSet::new();
        for_each_token(passage, |token, _, _| found.extend(self.find(token)));
        found.into_iter().filter_map(|place| self.terms.get(place).copied()).collect()
    }
}

/// The matches in a passage.
struct Matches {
    /// The ranges, with the index of the term.
    found: Vec<(Range<usize>, usize)>,
}

/// Returns the number of terms in a passage, and its matches.
fn matches(passage: &str, terms: &SoughtTerms<'_>) -> (usize, Matches) {
    let mut found = Vec::new();
    for_each_token(passage, |token, range, _| {
        found.extend(terms.find(token).map(|place| (range.clone(), place)));
    });
    let distinct: BTreeSet<usize> = found.iter().map(|(_, place)| *place).collect();
    (distinct.len(), Matches { found })
}

/// Finds the snippet of the best added passage: the passage with the most terms; among equal ones, the first.
pub(super) struct SnippetFinder<'a> {
    terms: &'a SoughtTerms<'a>,
    best: Option<(usize, Snippet)>,
}

impl<'a> SnippetFinder<'a> {
    pub(super) fn new(terms: &'a SoughtTerms<'a>) -> Self {
        Self { terms, best: None }
    }

    /// Whether a passage was added.
    pub(super) fn has_snippet(&self) -> bool {
        self.best.is_some()
    }

    /// Adds a passage. Returns whether no other one can be better.
    pub(super) fn add(&mut self, passage: Passage<'_>) -> bool {
        let (count, matches) = matches(passage.text, self.terms);
        if self.best.as_ref().is_none_or(|(best, _)| count > *best) {
            self.best = Some((count, cut(passage, &matches)));
        }
        count >= self.terms.count()
    }

    pub(super) fn finish(self) -> Option<Snippet> {
        self.best.map(|(_, snippet)| snippet)
    }
}

/// Cuts out the part of a passage with the most terms.
fn cut(passage: Passage<'_>, matches: &Matches) -> Snippet {
    let text = passage.text;
    let mut best = (0_usize, 0_usize);
    for (index, (range, _)) in matches.found.iter().enumerate() {
        let end = range.start.saturating_add(SNIPPET_LEN * 3 / 4);
        let inside = matches.found.get(index..).unwrap_or_default();
        let distinct: BTreeSet<usize> =
            inside.iter().take_while(|(other, _)| other.end <= end).map(|(_, term)| *term).collect();
        if distinct.len() > best.0 {
            best = (distinct.len(), range.start);
        }
    }
    let start = window_start(text, best.1);
    let end = window_end(text, start);
    let (start, end) = trim(text, start, end);
    let before = if start > 0 && !text.get(..start).is_some_and(|before| before.ends_with('\n')) { "…" } else { "" };
    let behind = text
        .get(end..)
        .is_some_and(|behind| !behind.trim_start_matches([' ', '\r']).starts_with('\n') && !behind.trim().is_empty());
    let inside = text.get(start..end).unwrap_or_default();
    let shift = |at: usize| at.saturating_sub(start).saturating_add(before.len());
    let visible = matches.found.iter().filter(|(range, _)| range.start >= start && range.end <= end);
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for range in visible.map(|(range, _)| shift(range.start)..shift(range.end)) {
        match ranges.last_mut() {
            // Bigrams overlap.
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => ranges.push(range),
        }
    }
    let lines_before = |at: usize| text.get(..at).map_or(0, |before| before.matches('\n').count());
    let lines = (passage.line.saturating_add(lines_before(start)), passage.line.saturating_add(lines_before(end)));
    Snippet { text: [before, inside, if behind { "…" } else { "" }].concat(), matches: ranges, lines }
}

/// The start of the part that shows a match: the start of its line if it is near, else the start of a word before the
/// match.
fn window_start(text: &str, first_match: usize) -> usize {
    let limit = text.floor_char_boundary(first_match.saturating_sub(SNIPPET_LEN / 4));
    let before = text.get(limit..first_match).unwrap_or_default();
    if let Some(at) = before.find('\n') {
        return limit.saturating_add(at).saturating_add(1);
    }
    if limit == 0 {
        return 0;
    }
    before.find(' ').map_or(limit, |at| limit.saturating_add(at).saturating_add(1))
}

fn window_end(text: &str, start: usize) -> usize {
    let limit = text.floor_char_boundary(start.saturating_add(SNIPPET_LEN));
    if limit == text.len() {
        return limit;
    }
    let window = text.get(start..limit).unwrap_or_default();
    let at = window.rfind(['\n', ' ']).filter(|at| *at > SNIPPET_LEN / 2);
    at.map_or(limit, |at| start.saturating_add(at))
}

/// Trims white space at both ends.
fn trim(text: &str, start: usize, end: usize) -> (usize, usize) {
    let inside = text.get(start..end).unwrap_or_default();
    let start = start.saturating_add(inside.len().saturating_sub(inside.trim_start().len()));
    (start, start.saturating_add(inside.trim().len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::query::Query;

    fn snippet(text: &str, query: &str) -> Snippet {
        let query = Query::parse(query);
        let terms = SoughtTerms::new(query.terms());
        let mut finder = SnippetFinder::new(&terms);
        for passage in super::super::document::passages(text) {
            if finder.add(passage) {
                break;
            }
        }
        finder.finish().unwrap()
    }

    #[test]
    fn a_snippet_shows_the_matches_with_their_lines() {
        let text = "first line\n\nthe second paragraph has a needle in it\nlast\n";
        let found = snippet(text, "needle paragraph");
        assert_eq!(found.lines, (3, 4));
        let marked: Vec<_> = found.matches.iter().map(|range| found.text.get(range.clone()).unwrap()).collect();
        assert_eq!(marked, ["paragraph", "needle"]);
    }

    #[test]
    fn a_long_text_is_cut_around_the_matches() {
        let text = format!("{} 検索エンジン {}", "a b ".repeat(400), "c d ".repeat(400));
        let found = snippet(&text, "検索エンジン");
        assert!(found.text.len() < SNIPPET_LEN + 10 && found.text.starts_with('…') && found.text.ends_with('…'));
        assert_eq!(found.matches.len(), 1);
        assert_eq!(found.text.get(found.matches[0].clone()), Some("検索エンジン"));
    }

    #[test]
    fn the_passage_with_more_of_the_query_is_shown() {
        let filler = "x ".repeat(900);
        let text = format!("alpha\n\n{filler}\n\nalpha beta\n\n{filler}\n");
        let found = snippet(&text, "alpha beta");
        assert!(found.text.contains("alpha beta"), "{found:?}");
        assert_eq!(found.lines.0, 5);
    }

    proptest! {
        #[test]
        fn any_text_has_a_snippet_with_ranges_in_it(text in "[a b\\n日本語é]{1,900}", query in "[a b日本]{1,10}") {
            let found = snippet(&text, &query);
            for range in &found.matches {
                prop_assert!(found.text.get(range.clone()).is_some(), "{:?}", found);
            }
            prop_assert!(found.lines.0 <= found.lines.1);
        }
    }
}
