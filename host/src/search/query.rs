//! Queries: the text that a person or a model searches for, as terms.
//!
//! A query is words. Text in double quotes is a phrase, which a result must have; of the words outside of quotes it has at
//! least one. There is no other syntax, so no query is invalid: operators of FTS5 are words or separators like any other.

use super::tokens::{TokenKind, for_each_token};

/// The terms of a query that count.
const MAX_TERMS: usize = 32;

/// A term that occurs in a text, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Term {
    pub(super) text: String,
    /// Whether tokens match that begin with it: a single character of a script that is indexed by bigrams.
    pub(super) is_prefix: bool,
}

/// A part of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Clause {
    /// Consecutive tokens.
    Phrase(Vec<Term>),
    /// One token.
    Word(Term),
}

/// A parsed query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    clauses: Vec<Clause>,
}

impl Term {
    /// Whether a token of a text is it.
    pub(super) fn matches(&self, token: &str) -> bool {
        if self.is_prefix { token.starts_with(&self.text) } else { token == self.text }
    }
}

impl Query {
    /// Parses a query: its first [`MAX_TERMS`] terms.
    pub(super) fn parse(text: &str) -> Self {
        let mut query = Self::default();
        let quotes = text.matches('"').count();
        for (index, part) in text.split('"').enumerate() {
            // The quote of a phrase without an end is a separator.
            let is_phrase = index % 2 == 1 && index < quotes;
            let terms = terms(part, is_phrase);
            match is_phrase {
                true if !terms.is_empty() => query.clauses.push(Clause::Phrase(terms)),
                true => {}
                false => terms.into_iter().map(Clause::Word).for_each(|word| {
                    if !query.clauses.contains(&word) {
                        query.clauses.push(word);
                    }
                }),
            }
        }
        query.truncate();
        query
    }

    /// Whether there is nothing to search for.
    pub(super) fn is_empty(&self) -> bool {
        self.clauses.is_empty()
    }

    /// Whether it has a phrase.
    pub(super) fn has_phrase(&self) -> bool {
        self.clauses.iter().any(|clause| matches!(clause, Clause::Phrase(_)))
    }

    /// The terms, those of phrases included.
    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        self.clauses.iter().flat_map(|clause| match clause {
            Clause::Phrase(terms) => terms.as_slice(),
            Clause::Word(term) => std::slice::from_ref(term),
        })
    }

    /// The words outside of phrases.
    pub(super) fn words(&self) -> impl Iterator<Item = &Term> {
        self.clauses.iter().filter_map(|clause| match clause {
            Clause::Phrase(_) => None,
            Clause::Word(term) => Some(term),
        })
    }

    /// The expression of FTS5.
    pub(super) fn expression(&self) -> String {
        let mut required: Vec<String> = Vec::new();
        for clause in &self.clauses {
            if let Clause::Phrase(terms) = clause {
                required.push(quoted(terms));
            }
        }
        let words: Vec<String> = self.words().map(|word| quoted(std::slice::from_ref(word))).collect();
        if !words.is_empty() {
            required.push(format!("({})", words.join(" OR ")));
        }
        required.join(" AND ")
    }

    fn truncate(&mut self) {
        let mut left = MAX_TERMS;
        for clause in &mut self.clauses {
            match clause {
                Clause::Phrase(terms) => {
                    terms.truncate(left);
                    left = left.saturating_sub(terms.len());
                }
                Clause::Word(_) => left = left.saturating_sub(1),
            }
            if left == 0 {
                break;
            }
        }
        let mut count = 0_usize;
        self.clauses.retain(|clause| {
            let is_first = count < MAX_TERMS;
            count = count.saturating_add(match clause {
                Clause::Phrase(terms) => terms.len(),
                Clause::Word(_) => 1,
            });
            is_first
        });
    }
}

/// The terms of a text that is searched for. In a phrase, the last character of a run is one of them unless the phrase may
/// continue in the text behind it.
fn terms(text: &str, is_phrase: bool) -> Vec<Term> {
    let (mut terms, mut is_last) = (Vec::new(), false);
    for_each_token(text, |token, _, kind| {
        is_last = kind == TokenKind::Last;
        if terms.len() <= MAX_TERMS && (is_phrase || !is_last) {
            terms.push(Term { text: token.to_owned(), is_prefix: kind == TokenKind::Single });
        }
    });
    if is_phrase && is_last {
        terms.pop();
    }
    terms
}

/// Consecutive tokens as a string of FTS5. Tokens have no quotes.
fn quoted(terms: &[Term]) -> String {
    let texts: Vec<_> = terms.iter().map(|term| term.text.as_str()).collect();
    let prefix = if terms.last().is_some_and(|term| term.is_prefix) { "*" } else { "" };
    format!("\"{}\"{prefix}", texts.join(" "))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expression(text: &str) -> String {
        Query::parse(text).expression()
    }

    #[test]
    fn words_are_alternatives_and_phrases_are_required() {
        assert_eq!(expression("parse a Config a"), r#"("parse" OR "a" OR "config")"#);
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
    fn a_query_has_few_terms_however_long_it_is() {
        let long: String = (0..10_000).map(|number| format!("w{number} ")).collect();
        assert_eq!(Query::parse(&long).terms().count(), MAX_TERMS);
        assert_eq!(Query::parse(&format!("\"{long}\"")).terms().count(), MAX_TERMS);
    }

    proptest! {
        #[test]
        fn any_text_is_a_query(text in "[\\PC\"*():^{}+-]{0,60}") {
            let query = Query::parse(&text);
            prop_assert_eq!(query.is_empty(), query.expression().is_empty());
        }
    }
}
