//! The globs of all rules, matched together: a decision costs about the same for one rule and for a thousand.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

use crate::config::{Config, Rule, UriGlob};

/// The globs of a config, compiled once for all principals.
#[derive(Debug)]
pub(super) struct RuleGlobs {
    pub(super) allow: GlobIndex,
    pub(super) deny: GlobIndex,
}

/// Globs that are matched together.
#[derive(Debug)]
pub(super) struct GlobIndex {
    /// Usually one, with the offset of its first pattern.
    sets: Vec<(usize, GlobSet)>,
    /// The glob of each pattern.
    origins: Vec<MatchedGlob>,
}

/// A glob of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedGlob {
    /// The index of the rule in [`Config::rules`](crate::config::Config::rules).
    pub rule: usize,
    /// The glob as written.
    pub glob: Arc<str>,
    /// Where the config has the rule: `FILE:LINE`, with the name of the file. None for a rule that an application made.
    pub location: Option<Arc<str>>,
}

impl RuleGlobs {
    pub(super) fn new(config: &Config) -> Self {
        let file = config.file.as_deref().and_then(Path::file_name).map(OsStr::to_string_lossy);
        let location = |rule: &Rule| Some(format!("{}:{}", file.as_deref()?, rule.line.get()?).into());
        let locations: Vec<Option<Arc<str>>> = config.rules.iter().map(location).collect();
        let globs = |key: fn(&Rule) -> &[UriGlob]| {
            let globs = config.rules.iter().enumerate();
            GlobIndex::new(globs.flat_map(|(index, rule)| key(rule).iter().map(move |glob| (index, glob))), &locations)
        };
        Self { allow: globs(|rule| &rule.allow), deny: globs(|rule| &rule.deny) }
    }
}

impl GlobIndex {
    /// Compiles globs with the index of the rule of each. `locations` are those of the rules.
    fn new<'g>(globs: impl Iterator<Item = (usize, &'g UriGlob)>, locations: &[Option<Arc<str>>]) -> Self {
        let (mut patterns, mut origins) = (Vec::new(), Vec::new());
        for (rule, glob) in globs {
            let location = locations.get(rule).cloned().flatten();
            let origin = MatchedGlob { rule, glob: glob.as_str().into(), location };
            for pattern in glob.patterns() {
                patterns.push(pattern);
                origins.push(origin.clone());
            }
        }
        let mut sets = Vec::new();
        compile(&patterns, 0, &mut sets);
        Self { sets, origins }
    }

    /// Returns the first glob of the config that matches, of the rules that `applies` selects by their indices.
    pub(super) fn first(&self, subject: &str, applies: impl Fn(usize) -> bool) -> Option<&MatchedGlob> {
        let candidate = Candidate::new(subject);
        let mut matched = Vec::new();
        self.sets.iter().find_map(|(offset, set)| {
            // In ascending order.
            set.matches_candidate_into(&candidate, &mut matched);
            let origins = matched.iter().filter_map(|pattern| self.origins.get(offset.saturating_add(*pattern)));
            origins.into_iter().find(|origin| applies(origin.rule))
        })
    }
}

/// Compiles patterns into one set; into several, if one would exceed the size limit of a regular expression. Each pattern
/// alone has been compiled before.
fn compile(patterns: &[Glob], offset: usize, sets: &mut Vec<(usize, GlobSet)>) {
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
            let index = GlobIndex::new(globs.iter().enumerate(), &[]);
            let applies = |rule: usize| selected & (1 << rule) != 0;
            let alone = globs.iter().enumerate().find(|(rule, glob)| applies(*rule) && glob.matches(&subject));
            let together = index.first(&subject, applies).map(|glob| glob.rule);
            proptest::prop_assert_eq!(together, alone.map(|(rule, _)| rule));
        }
    }
}
