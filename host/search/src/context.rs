//! Context: the best selection of passages within a budget of tokens.
//!
//! Candidates are the passages of the resources that a search finds, or, without a query, the beginnings of the
//! resources with the highest priority. Each has a score from 0 to 1. It consists of the relevance (the rank of its
//! resource, and the share of the query that the passage contains), the priority of its resource, and the recency of
//! the resource's last change, relative to the newest candidate. Candidates are chosen in the order of their scores, if
//! they fit the budget and are not near-copies of chosen ones. The result depends only on the index and the request.

use std::collections::HashSet;
use std::time::Instant;

use mcp_host_model::resource::{Resource, Role, Timestamp};
use mcp_host_model::uri::Uri;

use super::document::hash;
use super::tokens::for_each_token;

/// The weights of the parts of a score.
const RELEVANCE: f64 = 0.8;
const PRIORITY: f64 = 0.15;
const RECENCY: f64 = 0.05;
/// The half-life of recency in days.
const HALF_LIFE_DAYS: f64 = 30.0;
/// The number of consecutive tokens in a shingle, the unit for comparing texts.
const SHINGLE: usize = 4;
/// Two texts are near-copies if they have more than this share of their shingles in common.
const MAX_SIMILARITY: f64 = 0.7;

/// A request for context.
///
/// ```
/// use mcp_host_search::ContextRequest;
///
/// let request = ContextRequest::new(2000).query("How does the circuit breaker recover?");
/// assert_eq!(request.budget, 2000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest {
    /// The question. Without one, resources are chosen by their priority alone.
    pub query: Option<String>,
    /// The maximum number of tokens, estimated as a quarter of the ASCII bytes plus one for each other character.
    pub budget: usize,
    /// Only resources for this audience, or for everyone, are chosen.
    pub audience: Option<Role>,
}

impl ContextRequest {
    /// The default budget.
    pub const DEFAULT_BUDGET: usize = 4000;
    /// The maximum budget.
    pub const MAX_BUDGET: usize = 200_000;

    /// A request by priority alone.
    pub fn new(budget: usize) -> Self {
        Self { query: None, budget, audience: None }
    }

    /// Sets the question.
    #[must_use]
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets the audience.
    #[must_use]
    pub fn audience(mut self, audience: Role) -> Self {
        self.audience = Some(audience);
        self
    }
}

/// The maximum number of named passages that do not fit the budget.
const MAX_LEFT_OUT: usize = 20;

/// A selection within a budget, for one principal.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ContextSelection {
    /// The chosen passages, the best first.
    pub passages: Vec<ContextPassage>,
    /// The estimated number of tokens of all passages.
    pub tokens: usize,
    /// The number of candidates that were left out because they do not fit the budget.
    pub over_budget: usize,
    /// The best of these candidates, at most 20.
    pub left_out: Vec<ContextPassage>,
    /// The number of candidates that were left out because they are near-copies of chosen ones.
    pub near_copies: usize,
    /// Whether there may be better passages: the search was interrupted, or plugins are `incomplete`.
    pub is_partial: bool,
    /// The searched plugins that are not completely indexed.
    pub incomplete: Vec<String>,
}

/// A passage of a selection.
#[derive(Clone, Debug, PartialEq)]
pub struct ContextPassage {
    /// The resource, in its indexed state.
    pub resource: Resource,
    /// The URI of these lines, where the provider has lines.
    pub lines_uri: Option<Uri>,
    /// The text.
    pub text: String,
    /// The first and the last line, counted from 1.
    pub lines: (usize, usize),
    /// The estimated number of tokens.
    pub tokens: usize,
    /// The reason for the choice: the words of the query that the passage contains, and the priority of its resource.
    pub reason: String,
}

/// A passage that may be chosen.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) passage: ContextPassage,
    /// The relevance, from 0 to 1.
    pub(super) relevance: f64,
}

/// Returns the estimated number of tokens of a text: a quarter of the ASCII bytes plus one for each other character.
pub fn estimate_tokens(text: &str) -> usize {
    mcp_host_base::text::estimate_tokens(text)
}

/// Chooses passages within a budget, until a deadline.
pub(super) fn select(candidates: Vec<Candidate>, budget: usize, deadline: Instant) -> ContextSelection {
    let newest = candidates.iter().filter_map(|candidate| modified(&candidate.passage.resource)).reduce(f64::max);
    let mut scored: Vec<_> =
        candidates.into_iter().map(|candidate| (score(&candidate, newest), candidate.passage)).collect();
    let place = |passage: &ContextPassage| (passage.resource.uri.clone(), passage.lines);
    scored.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| place(a).cmp(&place(b))));
    let (mut selection, mut chosen) = (ContextSelection::default(), Vec::<HashSet<i64>>::new());
    for (_, passage) in scored {
        let tokens = selection.tokens.saturating_add(passage.tokens);
        if tokens > budget {
            selection.over_budget = selection.over_budget.saturating_add(1);
            if selection.left_out.len() < MAX_LEFT_OUT {
                selection.left_out.push(passage);
            }
            continue;
        }
        if Instant::now() >= deadline {
            selection.is_partial = true;
            break;
        }
        let shingles = shingles(&passage.text);
        if chosen.iter().any(|other| similarity(other, &shingles) > MAX_SIMILARITY) {
            selection.near_copies = selection.near_copies.saturating_add(1);
            continue;
        }
        chosen.push(shingles);
        selection.tokens = tokens;
        selection.passages.push(passage);
    }
    selection
}

fn score(candidate: &Candidate, newest: Option<f64>) -> f64 {
    let resource = &candidate.passage.resource;
    let priority = resource.annotations.priority.map_or(0.0, |priority| priority.value());
    let age = newest.zip(modified(resource)).map(|(newest, modified)| (newest - modified).max(0.0));
    let recency = age.map_or(0.0, |days| (-days / HALF_LIFE_DAYS).exp2());
    RELEVANCE * candidate.relevance + PRIORITY * priority + RECENCY * recency
}

/// The time of the resource's last change, in days.
#[allow(clippy::cast_precision_loss, reason = "seconds are precise enough")]
fn modified(resource: &Resource) -> Option<f64> {
    const SECONDS_PER_DAY: f64 = 86_400.0;
    let time: jiff::Timestamp = resource.annotations.last_modified.as_ref().map(Timestamp::as_str)?.parse().ok()?;
    Some(time.as_second() as f64 / SECONDS_PER_DAY)
}

/// The hashes of all runs of [`SHINGLE`] consecutive tokens. A shorter text has one hash.
fn shingles(text: &str) -> HashSet<i64> {
    let mut tokens = Vec::new();
    for_each_token(text, |token, _, _| tokens.push(hash(token)));
    if tokens.len() < SHINGLE {
        return HashSet::from([hash(&tokens)]);
    }
    tokens.windows(SHINGLE).map(hash).collect()
}

/// The share of the smaller set that is also in the other one.
#[allow(clippy::cast_precision_loss, reason = "a share")]
fn similarity(one: &HashSet<i64>, other: &HashSet<i64>) -> f64 {
    let smaller = one.len().min(other.len()).max(1);
    one.intersection(other).count() as f64 / smaller as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use mcp_host_model::resource::{Annotations, Priority};
    use mcp_host_model::uri::Mount;

    fn candidate(path: &str, text: &str, relevance: f64, priority: f64) -> Candidate {
        let uri = "a:///".parse::<Mount>().unwrap().compose(path).unwrap().uri;
        let annotations = Annotations { priority: Priority::new(priority), ..Annotations::default() };
        let resource = Resource { annotations, ..Resource::named(uri, path) };
        let passage = ContextPassage {
            resource,
            lines_uri: None,
            text: text.to_owned(),
            lines: (1, 1),
            tokens: estimate_tokens(text),
            reason: String::new(),
        };
        Candidate { passage, relevance }
    }

    fn far() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn chosen(candidates: &[Candidate], budget: usize) -> Vec<String> {
        let selection = select(candidates.to_vec(), budget, far());
        assert!(!selection.is_partial);
        assert!(selection.tokens <= budget);
        selection.passages.into_iter().map(|passage| passage.resource.name).collect()
    }

    #[test]
    fn tokens_are_estimated_for_each_script() {
        assert_eq!(estimate_tokens("four"), 1);
        assert_eq!(estimate_tokens("five!"), 2);
        assert_eq!(estimate_tokens("日本語"), 3);
        assert_eq!(estimate_tokens(""), 0);
    }

    #[test]
    fn the_best_passages_are_chosen_as_long_as_they_fit() {
        let words = |word: &str| format!("{word} ").repeat(20);
        let all = [
            candidate("good", &words("alpha"), 0.9, 0.0),
            candidate("better", &words("beta"), 1.0, 0.0),
            candidate("important", &words("gamma"), 0.9, 1.0),
            candidate("short", "delta", 0.1, 0.0),
        ];
        assert_eq!(chosen(&all, 1000), ["important", "better", "good", "short"]);
        assert_eq!(chosen(&all, 60), ["important", "better", "short"]);
        assert_eq!(chosen(&all, 0), [""; 0]);
    }

    #[test]
    fn near_copies_are_left_out() {
        let text = "the quick brown fox jumps over the lazy dog and runs away from the hunter";
        let copy = format!("{text} again");
        let all =
            [candidate("a", text, 1.0, 0.0), candidate("b", &copy, 0.9, 0.0), candidate("c", "another text", 0.1, 0.0)];
        assert_eq!(chosen(&all, 1000), ["a", "c"]);
        assert_eq!(select(all.to_vec(), 1000, far()).near_copies, 1);
    }

    #[test]
    fn without_time_the_selection_is_partial() {
        let selection = select(vec![candidate("a", "a text", 1.0, 0.0)], 1000, Instant::now());
        assert!(selection.is_partial && selection.passages.is_empty());
    }

    #[test]
    fn the_order_of_the_candidates_does_not_matter() {
        let mut all: Vec<_> =
            (0..20).map(|number| candidate(&format!("f{number:02}"), &format!("text {number}"), 0.5, 0.0)).collect();
        let first = chosen(&all, 10);
        all.reverse();
        assert_eq!(chosen(&all, 10), first);
    }
}
