//! Rules that have no effect because of other rules.
//!
//! | found | example |
//! |---|---|
//! | a rule whose globs are all covered by rules that apply to the same principals and operations, `allow` by `allow` and `deny` by `deny` | `allow` of `notes:///a/**` beside one of `notes:///**` |
//! | an `allow` glob that is covered by `deny` globs for all principals and operations of its rule | `allow` of `git://linux/.env` beside `deny` of `**/.env` |
//!
//! A glob covers another if both are equal, if it is `**`, if it is `P/**` and the other begins with `P/` where `P` has
//! no wildcards, or if it is `**/S` and the other ends with `/S`. These criteria have no false positives, so nothing
//! with an effect is reported; other pairs of globs are not compared. A rule that gives `local` access by name is never
//! reported as redundant: it changes the default.
//!
//! Bounded: [`MAX_COMPARISONS`] of rules; beyond that the search stops.

use std::collections::HashMap;

use crate::rule::LOCAL;
use crate::{Config, PrincipalSelector, Rule, UriGlob};

/// The maximum number of comparisons of rules for one config.
const MAX_COMPARISONS: usize = 1_000_000;

/// A rule or a glob that has no effect. Rules are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Redundancy<'a> {
    /// Other rules have the same effect as this rule; `by` is one of them.
    Rule { rule: usize, by: usize },
    /// An `allow` glob of a rule, and one of the `deny` globs that cover it.
    Allow { rule: usize, glob: &'a UriGlob, by: usize, deny: &'a UriGlob },
}

/// Finds rules and globs without effect.
struct Finder<'a> {
    config: &'a Config,
    allow: GlobsByText<'a>,
    deny: GlobsByText<'a>,
    /// Marks redundant rules, which must not cover others.
    redundant: Vec<bool>,
    comparisons: usize,
}

/// The globs of rules by their normalized text.
type GlobsByText<'a> = HashMap<&'a str, Vec<(usize, &'a UriGlob)>>;

/// Returns the redundant rules and globs, in the order of the rules.
pub(super) fn find(config: &Config) -> Vec<Redundancy<'_>> {
    let globs = |key: fn(&Rule) -> &[UriGlob]| {
        let mut by_text = GlobsByText::new();
        for (index, rule) in config.rules.iter().enumerate() {
            key(rule).iter().for_each(|glob| by_text.entry(glob.normalized()).or_default().push((index, glob)));
        }
        by_text
    };
    let mut finder = Finder {
        config,
        allow: globs(|rule| &rule.allow),
        deny: globs(|rule| &rule.deny),
        redundant: vec![false; config.rules.len()],
        comparisons: 0,
    };
    let mut found = Vec::new();
    // Among equal rules the last one is redundant.
    for (index, rule) in config.rules.iter().enumerate().rev() {
        match finder.covering_rule(index, rule) {
            Some(by) => {
                if let Some(is_redundant) = finder.redundant.get_mut(index) {
                    *is_redundant = true;
                }
                found.push(Redundancy::Rule { rule: index, by });
            }
            None => found.extend(rule.allow.iter().rev().filter_map(|glob| {
                let (by, deny) = finder.covering(None, rule, glob, true)?;
                Some(Redundancy::Allow { rule: index, glob, by, deny })
            })),
        }
    }
    found.reverse();
    found
}

impl<'a> Finder<'a> {
    /// Returns one of the rules that cover the globs of this rule, if all globs are covered.
    fn covering_rule(&mut self, index: usize, rule: &'a Rule) -> Option<usize> {
        let names_local = rule.principals.iter().any(|selector| selector.as_str() == LOCAL);
        if names_local && !rule.allow.is_empty() {
            return None;
        }
        let mut first = None;
        for (glob, is_deny) in
            rule.allow.iter().map(|glob| (glob, false)).chain(rule.deny.iter().map(|glob| (glob, true)))
        {
            let (by, _) = self.covering(Some(index), rule, glob, is_deny)?;
            first = first.or(Some(by));
        }
        first
    }

    /// Returns a glob of `deny` or `allow` that covers the glob of this rule, if there is one for each of its
    /// principals and operations, in rules other than `except`.
    fn covering(
        &mut self,
        except: Option<usize>,
        rule: &Rule,
        glob: &UriGlob,
        by_deny: bool,
    ) -> Option<(usize, &'a UriGlob)> {
        let candidates = if by_deny { &self.deny } else { &self.allow };
        let candidates: Vec<_> = covering_texts(glob.normalized())
            .filter_map(|text| candidates.get(&*text))
            .flatten()
            .filter(|(other, _)| Some(*other) != except && !self.redundant.get(*other).copied().unwrap_or_default())
            .copied()
            .collect();
        let mut first: Option<(usize, &UriGlob)> = None;
        for selector in rule.principals.iter().map(Selected::Principal).chain(rule.groups.iter().map(Selected::Group)) {
            for operation in &rule.operations {
                let covering = candidates.iter().find(|(other, _)| {
                    self.comparisons = self.comparisons.saturating_add(1);
                    self.comparisons <= MAX_COMPARISONS
                        && self.config.rules.get(*other).is_some_and(|other| {
                            other.operations.contains(operation) && self.config.applies_to_all(other, &selector)
                        })
                })?;
                first = first.filter(|(rule, _)| *rule <= covering.0).or(Some(*covering));
            }
        }
        first
    }
}

/// The principals that one name of a rule selects.
enum Selected<'a> {
    Principal(&'a PrincipalSelector),
    Group(&'a String),
}

impl Config {
    /// Whether a rule applies to all principals that the name selects.
    fn applies_to_all(&self, rule: &Rule, selected: &Selected<'_>) -> bool {
        if rule.principals.contains(&PrincipalSelector::Any) {
            return true;
        }
        match selected {
            Selected::Principal(selector) => {
                let is_member = |group: &String| {
                    let mut groups = self.groups.iter().filter(|declared| declared.name.as_str() == group);
                    groups.any(|declared| declared.principals.iter().any(|member| member == selector.as_str()))
                };
                rule.principals.contains(selector) || rule.groups.iter().any(is_member)
            }
            Selected::Group(group) => rule.groups.contains(group),
        }
    }
}

/// The texts of the globs that cover a glob.
fn covering_texts(glob: &str) -> impl Iterator<Item = std::borrow::Cow<'_, str>> {
    let slashes = || glob.match_indices('/').map(|(at, _)| at);
    let above = slashes().filter_map(|at| {
        let prefix = glob.get(..at)?;
        // Two slashes follow a scheme, with no segment between them.
        let is_literal = !prefix.contains(['*', '?', '{', '}']) && prefix.contains("//");
        is_literal.then(|| format!("{prefix}/**").into())
    });
    let behind = slashes().filter_map(|at| {
        let suffix = glob.get(at.saturating_add(1)..)?;
        let is_whole = !suffix.is_empty() && !suffix.contains("**") && is_balanced(suffix);
        is_whole.then(|| format!("**/{suffix}").into())
    });
    [glob.into(), "**".into()].into_iter().chain(above).chain(behind)
}

/// Whether all braces in a part of a glob are balanced.
fn is_balanced(part: &str) -> bool {
    let braces = part.chars().filter(|character| matches!(character, '{' | '}'));
    braces.enumerate().all(|(index, brace)| (brace == '{') == index.is_multiple_of(2))
        && part.matches(['{', '}']).count().is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(names: &[&str], allow: &[&str], deny: &[&str]) -> Rule {
        let selector = |name: &&str| match *name {
            "*" => PrincipalSelector::Any,
            name => PrincipalSelector::Named(name.to_owned()),
        };
        let mut rule = Rule::new(names.iter().filter(|name| !name.starts_with('@')).map(selector));
        rule.groups = names.iter().filter_map(|name| name.strip_prefix('@')).map(str::to_owned).collect();
        rule.allow = allow.iter().map(|glob| glob.parse().unwrap()).collect();
        rule.deny = deny.iter().map(|glob| glob.parse().unwrap()).collect();
        rule
    }

    /// The found redundancies, as text.
    fn found(rules: &[Rule]) -> Vec<String> {
        let mut config = Config::new();
        config.rules = rules.to_vec();
        config.groups.push(crate::PrincipalGroup {
            name: "staff".parse().unwrap(),
            principals: vec!["ci".to_owned()],
            groups: Vec::new(),
        });
        let text = |one: &Redundancy<'_>| match one {
            Redundancy::Rule { rule, by } => format!("{rule} by {by}"),
            Redundancy::Allow { rule, glob, by, deny } => format!("{rule} {glob} by {by} {deny}"),
        };
        find(&config).iter().map(text).collect()
    }

    #[test]
    fn an_allow_that_is_denied_as_a_whole_has_no_effect() {
        for (allow, deny) in [
            ("a://x/.env", "**/.env"),
            ("a://x/**/.env", "**/.env"),
            ("a://x/b/*.txt", "a://x/b/**"),
            ("a://x/b", "a://x/b"),
            ("a://x/{b,c}/d", "a://x/**"),
            ("A://X/%62", "a://x/b"),
            ("a://x/b", "**"),
        ] {
            let rules = [rule(&["ci"], &[allow, "a://x/z"], &[]), rule(&["*"], &["a://x/y"], &[deny])];
            let expected = if deny == "**" || deny == "a://x/**" { 3 } else { 1 };
            assert_eq!(found(&rules).len(), expected, "{allow} {deny} {:?}", found(&rules));
            assert!(found(&rules).contains(&format!("0 {allow} by 1 {deny}")), "{:?}", found(&rules));
        }
    }

    #[test]
    fn an_allow_of_which_something_is_left_has_an_effect() {
        for (allow, deny) in [
            ("a://x/**", "**/.env"),
            ("a://x/b*", "a://x/b/**"),
            ("a://x/b", "a://x/b/*"),
            ("a://x/bc", "a://x/b/**"),
            ("a://x/b/c.env", "**/.env"),
            ("a://x/{b,c/d}", "**/d"),
            ("a://{x,y}/d", "a://x/**"),
        ] {
            assert!(found(&[rule(&["ci"], &[allow], &[]), rule(&["*"], &[], &[deny])]).is_empty(), "{allow} {deny}");
        }
        let of_others = [rule(&["ci", "ops"], &["a://x/b"], &[]), rule(&["ci"], &[], &["**"])];
        assert!(found(&of_others).is_empty(), "it allows another principal");
        let mut reads = rule(&["*"], &[], &["**"]);
        reads.operations = [crate::Operation::Read].into();
        assert!(found(&[rule(&["ci"], &["a://x/b"], &[]), reads]).is_empty(), "it allows other operations");
    }

    #[test]
    fn principals_are_covered_one_by_one_also_as_members_of_groups() {
        let rules = [
            rule(&["ci", "ops"], &["a://x/b"], &[]),
            rule(&["@staff"], &[], &["a://x/**"]),
            rule(&["ops"], &[], &["**/b"]),
        ];
        assert_eq!(found(&rules), ["0 a://x/b by 1 a://x/**"]);
        assert!(found(&[rule(&["@staff"], &["a://x/b"], &[]), rule(&["ci"], &[], &["**"])]).is_empty());
        assert_eq!(found(&[rule(&["@staff"], &["a://x/b"], &[]), rule(&["@staff"], &[], &["**"])]).len(), 1);
    }

    #[test]
    fn a_rule_is_redundant_if_others_give_all_that_it_gives() {
        let same = rule(&["ci"], &["a://x/b"], &["a://x/c"]);
        assert_eq!(found(&[same.clone(), same.clone()]), ["1 by 0"], "one of two equal ones has an effect");
        let split = [rule(&["*"], &["a://x/**"], &[]), rule(&["@staff"], &[], &["**/c"]), same.clone()];
        assert_eq!(found(&split), ["2 by 0"]);
        let more = [rule(&["*"], &["a://x/**"], &[]), same];
        assert!(found(&more).is_empty(), "it denies something");
        let local = rule(&["local"], &["a://x/b"], &[]);
        assert!(found(&[rule(&["*"], &["**"], &[]), local]).is_empty(), "it changes what `local` may do by default");
    }

    #[test]
    fn thousands_of_rules_take_a_bounded_time() {
        let rules: Vec<_> =
            (0..5000).map(|number| rule(&[&format!("corp/{number}")], &["a://x/**"], &["**/.env"])).collect();
        let began = std::time::Instant::now();
        assert!(found(&rules).is_empty());
        assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    }
}
