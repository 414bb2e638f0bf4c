//! All globs of all rules, matched together: a decision costs about the same for one rule and for a thousand.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

use mcp_host_config::{Config, GlobLookup, Rule, UriGlob};

/// The globs of a config, compiled once for all principals.
#[derive(Debug)]
pub(super) struct RuleGlobs {
    pub(super) allow: GlobIndex,
    pub(super) deny: GlobIndex,
}

/// Globs that are matched together: the forms `**` and `P/**` by looking up prefixes of the URI, all others as sets of
/// regular expressions.
#[derive(Debug)]
pub(super) struct GlobIndex {
    /// All globs, in the order of the config.
    globs: Vec<MatchedGlob>,
    /// The indices of the globs `**`.
    everything: Vec<usize>,
    /// The indices of the globs `P/**`, by `P`.
    below: HashMap<Box<str>, Vec<usize>>,
    /// For each length, whether there is a `P` of this length: most prefixes of a URI need no lookup.
    lengths: Vec<bool>,
    /// The pattern sets of all other globs, each with the offset of its first pattern. Usually there is one set.
    sets: Vec<(usize, GlobSet)>,
    /// The index of the glob of each pattern.
    of_pattern: Vec<usize>,
}

/// What globs are matched against: a URI in normal form without its query, or a template.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    text: &'a str,
    candidate: OnceCell<Candidate<'a>>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, candidate: OnceCell::new() }
    }

    pub(super) fn as_str(&self) -> &'a str {
        self.text
    }
}

/// A glob of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedGlob {
    /// The index of the rule in [`Config::rules`](mcp_host_config::Config::rules).
    pub rule: usize,
    /// The glob as written.
    pub glob: Arc<str>,
    /// The location of the rule in the config: `FILE:LINE`, with the name of the file. None for a rule that an
    /// application made.
    pub location: Option<Arc<str>>,
}

impl RuleGlobs {
    pub(super) fn new(config: &Config) -> Self {
        let file = config.file.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
        let location = |rule: &Rule| Some(format!("{}:{}", file.as_deref()?, rule.line.get()?).into());
        let locations: Vec<Option<Arc<str>>> = config.rules.iter().map(location).collect();
        let globs = |key: fn(&Rule) -> &[UriGlob], other_form: fn(&UriGlob) -> Option<UriGlob>| {
            let rules = config.rules.iter().enumerate();
            let globs = rules.flat_map(|(index, rule)| key(rule).iter().map(move |glob| (index, glob)));
            GlobIndex::new(globs, &locations, other_form)
        };
        // `deny` errs on the safe side; `allow` is taken literally.
        Self { allow: globs(|rule| &rule.allow, |_| None), deny: globs(|rule| &rule.deny, UriGlob::composed) }
    }
}

impl GlobIndex {
    /// Compiles globs, each given with the index of its rule. `locations` are the locations of the rules. The
    /// `other_form` of a glob counts as the glob itself.
    fn new<'g>(
        globs: impl Iterator<Item = (usize, &'g UriGlob)>,
        locations: &[Option<Arc<str>>],
        other_form: fn(&UriGlob) -> Option<UriGlob>,
    ) -> Self {
        let mut index = Self {
            globs: Vec::new(),
            everything: Vec::new(),
            below: HashMap::new(),
            lengths: Vec::new(),
            sets: Vec::new(),
            of_pattern: Vec::new(),
        };
        let mut patterns = Vec::new();
        for (rule, glob) in globs {
            let number = index.globs.len();
            let location = locations.get(rule).cloned().flatten();
            index.globs.push(MatchedGlob { rule, glob: glob.as_str().into(), location });
            index.add(number, glob, &mut patterns);
            other_form(glob).iter().for_each(|glob| index.add(number, glob, &mut patterns));
        }
        compile(&patterns, 0, &mut index.sets);
        index
    }

    /// Adds a glob, or another form of it, with the index of the glob.
    fn add(&mut self, number: usize, glob: &UriGlob, patterns: &mut Vec<Glob>) {
        match glob.lookup() {
            GlobLookup::Everything => self.everything.push(number),
            GlobLookup::Below(prefix) => {
                self.below.entry(prefix.into()).or_default().push(number);
                let len = self.lengths.len().max(prefix.len().saturating_add(1));
                self.lengths.resize(len, false);
                self.lengths.get_mut(prefix.len()).into_iter().for_each(|is_there| *is_there = true);
            }
            GlobLookup::Pattern => {
                patterns.extend(glob.patterns());
                self.of_pattern.resize(patterns.len(), number);
            }
        }
    }

    /// Returns the first matching glob, in the order of the config, among the rules that `applies` selects by index.
    pub(super) fn first(&self, subject: &Subject<'_>, applies: impl Fn(usize) -> bool) -> Option<&MatchedGlob> {
        let is_applicable = |index: &usize| self.globs.get(*index).is_some_and(|glob| applies(glob.rule));
        let everything = self.everything.iter().copied().find(is_applicable);
        let below = || {
            let text = subject.text;
            let ends = text.match_indices('/').map(|(end, _)| end).chain([text.len()]);
            let ends = ends.filter(|end| self.lengths.get(*end).copied().unwrap_or_default());
            let prefixes = ends.filter_map(|end| self.below.get(text.get(..end)?));
            prefixes.filter_map(|globs| globs.iter().copied().find(is_applicable)).min()
        };
        let below = if self.below.is_empty() { None } else { below() };
        let pattern = self.first_pattern(subject, is_applicable);
        [everything, below, pattern].into_iter().flatten().min().and_then(|index| self.globs.get(index))
    }

    /// Returns the index of the first glob that is matched as a pattern.
    fn first_pattern(&self, subject: &Subject<'_>, is_applicable: impl Fn(&usize) -> bool) -> Option<usize> {
        if self.sets.is_empty() {
            return None;
        }
        let candidate = subject.candidate.get_or_init(|| Candidate::new(subject.text));
        let mut matched = Vec::new();
        // `is_match` takes a fraction of the time that collecting all matching patterns takes.
        self.sets.iter().filter(|(_, set)| set.is_match_candidate(candidate)).find_map(|(offset, set)| {
            // In ascending order.
            set.matches_candidate_into(candidate, &mut matched);
            let globs = matched.iter().filter_map(|pattern| self.of_pattern.get(offset.saturating_add(*pattern)));
            globs.copied().find(|index| is_applicable(index))
        })
    }
}

/// Compiles patterns into one set, or into several if one set would exceed the size limit of a regular expression. Each
/// pattern has been compiled alone before.
fn compile(patterns: &[Glob], offset: usize, sets: &mut Vec<(usize, GlobSet)>) {
    if patterns.is_empty() {
        return;
    }
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(pattern.clone());
    }
    match builder.build() {
        Ok(set) => sets.push((offset, set)),
        Err(_) => {
            let (first, second) = patterns.split_at(patterns.len() / 2);
            if !first.is_empty() {
                compile(first, offset, sets);
                compile(second, offset.saturating_add(first.len()), sets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn globs_match_together_what_one_of_them_matches_alone(
            globs in proptest::collection::vec(r"(a://x|\*\*)(/([ab.]{1,3}|\*|\*\*|\?|[ab]\*|\{a,b\}))(/([ab.]{1,3}|\*|\*\*)){0,2}", 1..6),
            subject in r"a://x(/[ab.]{0,3}){0,3}",
            selected in 0_usize..64,
        ) {
            let globs: Vec<UriGlob> = globs.iter().filter_map(|glob| glob.parse().ok()).collect();
            let index = GlobIndex::new(globs.iter().enumerate(), &[], |_| None);
            let applies = |rule: usize| selected & (1 << rule) != 0;
            let alone = globs.iter().enumerate().find(|(rule, glob)| applies(*rule) && glob.matches(&subject));
            let together = index.first(&Subject::new(&subject), applies).map(|glob| glob.rule);
            proptest::prop_assert_eq!(together, alone.map(|(rule, _)| rule));
        }
    }
}
