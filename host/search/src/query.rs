//! Queries: search texts as terms.
//!
//! A query consists of words. Text in double quotes is a phrase, which a result must contain; a result contains at
//! least one of the words outside of quotes. There is no other syntax, so a query with a word is never invalid:
//! operators of FTS5 are ordinary words or separators.
//!
//! All words count, and a repeated word counts repeatedly, as in BM25. The bound on the cost of a lookup applies to the
//! matches of its words, not to their number: in a large index the most frequent words of a long query, which are the
//! least significant, are left out, and the result is partial.
//!
//! # Cost
//!
//! FTS5 visits each document with a word, and compares the document with each word of the query, so the cost of n words
//! with p matches in total is p · (c + n) steps. By measurement, a step takes about 20 ns, and c = 100
//! ([`STEPS_PER_MATCH`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::iter;

use super::status::SourceId;
use super::tokens::{TokenKind, for_each_token};

/// The maximum number of different terms of a query that count, which a query of the maximum length usually does not
/// exceed.
const MAX_TERMS: usize = 1024;
/// The maximum number of times that a repeated word counts.
const MAX_REPEATS: usize = 4;
/// The maximum number of steps of a lookup: about 200 ms of one processor.
const MAX_STEPS: u64 = 10_000_000;
/// The steps for a document with a word, in addition to one step for each word of the query.
const STEPS_PER_MATCH: u64 = 100;

/// A term to search for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Term {
    pub(super) text: String,
    /// Whether tokens match that begin with the term: a single character of a script that is indexed by bigrams.
    pub(super) is_prefix: bool,
}

/// A word outside of phrases.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Word {
    term: Term,
    /// The number of times that the word occurs in the query, at most [`MAX_REPEATS`].
    repeats: usize,
}

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    /// The phrases, each a sequence of consecutive tokens.
    phrases: Vec<Vec<Term>>,
    /// The words, without repetitions.
    words: Vec<Word>,
}

/// The phrases and words of a query that are looked up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection<'a> {
    /// The FTS5 expression.
    pub(super) expression: String,
    /// The terms of each phrase of the expression, in order. In the expression, a word is a phrase, too.
    pub(super) phrases: Vec<&'a [Term]>,
    /// Whether some words are not looked up.
    pub(super) is_partial: bool,
}

/// Whether a query contains a term to look up.
pub(crate) fn has_words(query: &str) -> bool {
    !Query::parse(query).is_empty()
}

impl Term {
    /// The FTS5 expression of the term.
    pub(super) fn expression(&self) -> String {
        quoted(std::slice::from_ref(self))
    }
}

impl Query {
    /// Parses a query: its first [`MAX_TERMS`] different terms.
    pub(super) fn parse(text: &str) -> Self {
        let (mut query, mut left) = (Self::default(), MAX_TERMS);
        let (mut places, quotes) = (HashMap::<String, usize>::new(), text.matches('"').count());
        for (index, part) in text.split('"').enumerate() {
            // The opening quote of an unfinished phrase is a separator.
            if index % 2 == 1 && index < quotes {
                let phrase = phrase(part, left);
                left = left.saturating_sub(phrase.len());
                query.phrases.extend(Some(phrase).filter(|phrase| !phrase.is_empty()));
                continue;
            }
            for_each_token(part, |token, _, kind| match places.get(token) {
                _ if kind == TokenKind::Last => {}
                Some(place) => {
                    if let Some(word) = query.words.get_mut(*place) {
                        word.repeats = word.repeats.saturating_add(1).min(MAX_REPEATS);
                    }
                }
                None if left > 0 => {
                    left = left.saturating_sub(1);
                    places.insert(token.to_owned(), query.words.len());
                    let term = Term { text: token.to_owned(), is_prefix: kind == TokenKind::Single };
                    query.words.push(Word { term, repeats: 1 });
                }
                None => {}
            });
        }
        query
    }

    /// Whether there is no term to search for.
    pub(super) fn is_empty(&self) -> bool {
        self.phrases.is_empty() && self.words.is_empty()
    }

    /// Whether the query has a phrase.
    pub(super) fn has_phrase(&self) -> bool {
        !self.phrases.is_empty()
    }

    /// The terms: first the terms of phrases, then words.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.phrases.iter().flatten().chain(self.words.iter().map(|word| &word.term))
    }

    /// Selects the words to look up: all, or the rarest ones within [`MAX_STEPS`] steps, but at least one. `frequency`
    /// is the number of documents with a term; words with an unknown frequency come last.
    pub(super) fn select(&self, frequency: impl Fn(&Term) -> Option<u64>) -> Selection<'_> {
        let mut words: Vec<_> =
            self.words.iter().enumerate().map(|(place, word)| (frequency(&word.term), place, word)).collect();
        words.sort_by_key(|(frequency, place, _)| (frequency.is_none(), *frequency, *place));
        let (mut matches, mut count, mut selected) = (0_u64, 0_u64, Vec::new());
        for (frequency, place, word) in words {
            let repeats = u64::try_from(word.repeats).unwrap_or(u64::MAX);
            matches = matches.saturating_add(frequency.unwrap_or_default().saturating_mul(repeats));
            count = count.saturating_add(repeats);
            if !selected.is_empty() && matches.saturating_mul(STEPS_PER_MATCH.saturating_add(count)) > MAX_STEPS {
                break;
            }
            selected.push((place, word));
        }
        let is_partial = selected.len() < self.words.len();
        selected.sort_by_key(|(place, _)| *place);
        // BM25 counts each occurrence of a word in the expression.
        let words: Vec<&Term> =
            selected.into_iter().flat_map(|(_, word)| iter::repeat_n(&word.term, word.repeats)).collect();
        let alternatives: Vec<_> = words.iter().map(|term| term.expression()).collect();
        let alternatives = (!alternatives.is_empty()).then(|| format!("({})", alternatives.join(" OR ")));
        let required: Vec<_> = self.phrases.iter().map(|terms| quoted(terms)).chain(alternatives).collect();
        let phrases = self.phrases.iter().map(Vec::as_slice).chain(words.into_iter().map(std::slice::from_ref));
        Selection { expression: required.join(" AND "), phrases: phrases.collect(), is_partial }
    }
}

/// The terms of a phrase, at most `max`. The last character of a run is a term, unless the run may continue in the text
/// after the phrase.
fn phrase(text: &str, max: usize) -> Vec<Term> {
    let (mut terms, mut is_last) = (Vec::new(), false);
    for_each_token(text, |token, _, kind| {
        is_last = kind == TokenKind::Last && terms.len() < max;
        if terms.len() < max {
            terms.push(Term { text: token.to_owned(), is_prefix: kind == TokenKind::Single });
        }
    });
    if is_last {
        terms.pop();
    }
    terms
}

/// Consecutive tokens as an FTS5 string. Tokens contain no quotes.
fn quoted(terms: &[Term]) -> String {
    let texts: Vec<_> = terms.iter().map(|term| term.text.as_str()).collect();
    let prefix = if terms.last().is_some_and(|term| term.is_prefix) { "*" } else { "" };
    format!("\"{}\"{prefix}", texts.join(" "))
}

/// The conditions on documents.
#[derive(Clone, Debug, Default)]
pub(super) struct Conditions {
    /// A MIME type, or its part before the slash.
    pub(super) kind: Option<String>,
    pub(super) language: Option<String>,
    /// An audience as bits, as in documents; 0 for all.
    pub(super) audience: u8,
}

/// A match, ordered by rank: the smallest is the best.
#[derive(Debug, PartialEq)]
pub(super) struct Candidate {
    pub(super) score: f64,
    pub(super) uri: String,
    pub(super) id: i64,
    pub(super) source: SourceId,
    pub(super) path: String,
    /// The number of the nearest passage, if the match was found by the vector of the query.
    pub(super) nearest_passage: Option<i64>,
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        // FTS5's scores are negative: the smaller, the better.
        self.score.total_cmp(&other.score).then_with(|| self.uri.cmp(&other.uri))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expression(text: &str) -> String {
        let query = Query::parse(text);
        let Selection { expression, phrases, is_partial } = query.select(|_| Some(1));
        assert!(!is_partial);
        for phrase in phrases {
            assert!(expression.contains(&quoted(phrase)), "{expression}: {phrase:?}");
        }
        expression
    }

    #[test]
    fn words_are_alternatives_and_phrases_are_required() {
        assert_eq!(expression("parse a Config a"), r#"("parse" OR "a" OR "a" OR "config")"#);
        assert_eq!(expression(r#""exact words" other"#), r#""exact words" AND ("other")"#);
        assert_eq!(expression("検索エン"), r#"("検索" OR "索エ" OR "エン")"#);
        assert_eq!(expression("木"), r#"("木"*)"#);
        assert_eq!(expression("\"言語 Rust\""), r#""言語 語 rust""#);
        assert_eq!(expression("\"Rust 言語\""), r#""rust 言語""#);
        assert_eq!(expression(r#"an "open phrase"#), r#"("an" OR "open" OR "phrase")"#);
        assert_eq!(expression(""), "");
        assert_eq!(expression("\"\" ** ()"), "");
    }

    #[test]
    fn operators_are_words() {
        assert_eq!(expression("a AND NOT b*"), r#"("a" OR "and" OR "not" OR "b")"#);
        assert_eq!(expression("name:x NEAR(y z, 3)"), r#"("name" OR "x" OR "near" OR "y" OR "z" OR "3")"#);
    }

    #[test]
    fn all_words_count_as_often_as_the_query_has_them() {
        let query = |words: &[String]| Query::parse(&words.join(" "));
        let words: Vec<_> = (0..100).map(|number| format!("w{number}")).collect();
        assert_eq!(query(&words).terms().count(), 100);
        let again: Vec<_> = words.iter().rev().chain(&words).cloned().collect();
        assert_eq!(query(&again).select(|_| Some(1)).expression.matches("w99").count(), 2);
        assert_eq!(expression(&"a ".repeat(1000)).matches('a').count(), MAX_REPEATS);
    }

    #[test]
    fn a_query_has_a_bounded_number_of_terms_however_long_it_is() {
        let long: String = (0..10_000).map(|number| format!("w{number} ")).collect();
        assert_eq!(Query::parse(&long).terms().count(), MAX_TERMS);
        assert_eq!(Query::parse(&format!("\"{long}\"")).terms().count(), MAX_TERMS);
        assert_eq!(Query::parse(&format!("\"{long}\" {long}")).terms().count(), MAX_TERMS);
    }

    #[test]
    fn the_rarest_words_are_looked_up_within_the_bound() {
        let frequency = |term: &Term| match term.text.as_str() {
            "rare" => Some(10),
            "usual" => Some(10_000),
            "frequent" => Some(90_000),
            "the" => Some(1_000_000),
            _ => None,
        };
        let selected = |query: &str| {
            let query = Query::parse(query);
            let Selection { expression, is_partial, .. } = query.select(frequency);
            (expression, is_partial)
        };
        assert_eq!(selected("usual rare"), (r#"("usual" OR "rare")"#.to_owned(), false));
        assert_eq!(selected("the frequent rare"), (r#"("frequent" OR "rare")"#.to_owned(), true));
        assert_eq!(selected("the"), (r#"("the")"#.to_owned(), false), "one word is always looked up");
        assert_eq!(selected("the the unknown"), (r#"("the" OR "the")"#.to_owned(), true));
        assert_eq!(selected("\"the phrase\" the rare"), (r#""the phrase" AND ("rare")"#.to_owned(), true));
    }

    proptest! {
        #[test]
        fn any_text_is_a_query(text in "[\\PC\"*():^{}+-]{0,60}") {
            let query = Query::parse(&text);
            prop_assert_eq!(query.is_empty(), query.select(|_| None).expression.is_empty());
        }
    }
}
