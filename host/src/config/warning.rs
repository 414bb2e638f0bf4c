//! Warnings about a valid config.

use std::fmt;

use super::{Config, UriGlob};
use crate::uri::Mount;

/// A warning about a valid config. `Display` says what is suspicious, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A glob of a rule matches nothing below any mount: a plugin may have been removed, or a mount misspelled.
    UnmatchedGlob {
        /// The number of the `[[rule]]`, counted from 1.
        rule: usize,
        /// `allow` or `deny`.
        key: &'static str,
        /// The glob as written.
        glob: String,
        /// The most similar mount.
        nearest: Option<String>,
    },
}

/// A glob and its position.
struct RuleGlob<'a> {
    rule: usize,
    key: &'static str,
    glob: &'a UriGlob,
}

impl Config {
    /// Returns the warnings.
    pub fn warnings(&self) -> Vec<Warning> {
        self.unmatched_globs(&[]).map(|idle| self.warning(&idle)).collect()
    }

    /// Returns the first warnings, and the number of others, which cost little.
    pub(crate) fn first_warnings(&self, limit: usize, other_mounts: &[&Mount]) -> (Vec<Warning>, usize) {
        let mut unmatched = self.unmatched_globs(other_mounts);
        let first = unmatched.by_ref().take(limit).map(|idle| self.warning(&idle)).collect();
        (first, unmatched.count())
    }

    /// Returns the globs that match nothing below any mount.
    fn unmatched_globs<'a>(&'a self, other_mounts: &'a [&Mount]) -> impl Iterator<Item = RuleGlob<'a>> {
        let rules = (1..).zip(&self.rules);
        let globs = rules.flat_map(|(rule, entry)| {
            let with = move |key| move |glob| RuleGlob { rule, key, glob };
            entry.allow.iter().map(with("allow")).chain(entry.deny.iter().map(with("deny")))
        });
        globs.filter(|RuleGlob { glob, .. }| {
            let mut mounts = self.plugins.iter().map(|plugin| &plugin.mount).chain(other_mounts.iter().copied());
            !mounts.any(|mount| glob.reaches(mount))
        })
    }

    fn warning(&self, &RuleGlob { rule, key, glob }: &RuleGlob<'_>) -> Warning {
        Warning::UnmatchedGlob { rule, key, glob: glob.as_str().to_owned(), nearest: self.nearest_mount(glob) }
    }

    fn nearest_mount(&self, glob: &UriGlob) -> Option<String> {
        let mounts = self.plugins.iter().map(|plugin| &plugin.mount);
        mounts.min_by_key(|mount| glob.distance(mount)).map(|mount| mount.as_str().to_owned())
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::UnmatchedGlob { rule, key, glob, nearest } = self;
        write!(f, "`{key}` of rule {rule} has `{glob}`, which matches nothing below any mount")?;
        match nearest {
            Some(nearest) => write!(f, "; the most similar mount is `{nearest}`"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Plugin, PrincipalSelector, Rule};
    use super::*;

    #[test]
    fn a_glob_that_matches_below_no_mount_is_named_with_the_nearest() {
        let plugin = |name: &str, mount: &str| Plugin::new(name.parse().unwrap(), "a.wasm", mount.parse().unwrap());
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow = vec!["git://linux/**".parse().unwrap(), "**/.env".parse().unwrap()];
        rule.deny = vec!["gti://linux/secrets/**".parse().unwrap()];
        let config = Config::new().plugin(plugin("a", "git://linux/")).unwrap();
        let config = config.plugin(plugin("b", "notes:///")).unwrap().rule(Rule::new([])).rule(rule);
        let warnings: Vec<_> = config.warnings().iter().map(ToString::to_string).collect();
        assert_eq!(
            warnings,
            ["`deny` of rule 2 has `gti://linux/secrets/**`, which matches nothing below any mount; the \
              most similar mount is `git://linux/`"]
        );
        assert_eq!(config.first_warnings(1, &[]), (config.warnings(), 0));
        let native: Mount = "gti://linux/".parse().unwrap();
        assert_eq!(config.first_warnings(1, &[&native]), (Vec::new(), 0), "native plugins have mounts, too");
        assert_eq!(config.first_warnings(0, &[]), (Vec::new(), 1));
    }
}
