//! Globs that could match below a mount, and match nothing that is listed there: a word may be misspelled, so that a `deny` hides nothing.
//!
//! Whether something is listed is known to `mcp-host check` only; here is which globs it compares, and what was probably meant by one.
//! Nothing is said of a glob for whole mounts, and of one that names no place (`**/.env`), which may be a precaution, unless something
//! with a similar name is listed.

use std::collections::BTreeSet;
use std::fmt;

use mcp_host_model::uri::UriPattern;

use super::{RuleGlob, RuleRef, Warning};
use crate::{Config, UriGlob};

/// The maximum number of globs that are compared with listings.
const MAX_GLOBS: usize = 1000;
/// The longest text that is compared, in bytes.
const MAX_TEXT: usize = 256;
/// The most texts that are compared with one glob.
const MAX_TEXTS: usize = 5000;

/// A glob of a rule. Its text names the rule: `` `deny` of rule 2 (line 14) has `notes:///private/**` ``.
#[derive(Clone, Debug)]
pub struct PlacedGlob {
    rule: RuleRef,
    key: &'static str,
    glob: UriGlob,
}

impl fmt::Display for PlacedGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` of {} has `{}`", self.key, self.rule, self.glob.as_str())
    }
}

impl PlacedGlob {
    /// The glob.
    pub fn glob(&self) -> &UriGlob {
        &self.glob
    }

    /// Whether it is for a place: its URIs have a beginning. Otherwise it may be a precaution for all mounts.
    pub fn names_place(&self) -> bool {
        !self.glob.normalized().starts_with('*')
    }

    /// Whether a warning is about it.
    pub fn is_of(&self, warning: &Warning) -> bool {
        matches!(warning, Warning::EncodedSlash { rule, key, glob, .. }
            if *rule == self.rule && *key == self.key && glob == self.glob.as_str())
    }

    /// Returns the text of a listing that was probably meant: a URI, or the beginning of some, for a glob that names a place; for another
    /// one a URI with a segment of a similar name. Of long listings the first part is looked at.
    pub fn nearest<'u>(&self, uris: impl Iterator<Item = &'u str>) -> Option<String> {
        let uris = uris.map(|uri| uri.split('?').next().unwrap_or(uri));
        if self.names_place() { self.nearest_place(uris) } else { self.nearest_name(uris) }
    }

    /// The segments before the first one with a wildcard are compared with as many of each URI.
    fn nearest_place<'u>(&self, uris: impl Iterator<Item = &'u str>) -> Option<String> {
        let segments = self.glob.normalized().split('/').take_while(|segment| !segment.contains(['*', '?', '{']));
        let written = segments.collect::<Vec<_>>().join("/");
        let count = written.split('/').count();
        let beginning = |uri: &'u str| {
            uri.match_indices('/').nth(count.saturating_sub(1)).map_or(uri, |(at, _)| uri.get(..at).unwrap_or(uri))
        };
        let known: BTreeSet<_> = uris.map(beginning).take(MAX_TEXTS).collect();
        closest(&written, known, written.len().div_euclid(4).clamp(1, 6)).map(str::to_owned)
    }

    /// A name without wildcards is compared with each segment.
    fn nearest_name<'u>(&self, uris: impl Iterator<Item = &'u str>) -> Option<String> {
        let glob = self.glob.normalized();
        let name = glob.strip_prefix("**/")?;
        let name = name.strip_suffix("/**").unwrap_or(name);
        if name.len() < 3 || name.contains(['*', '?', '{', '/']) {
            return None;
        }
        let max = if name.len() < 6 { 1 } else { 2 };
        let is_similar = |uri: &&str| closest(name, uri.split('/').skip(2), max).is_some();
        uris.take(MAX_TEXTS).find(is_similar).map(str::to_owned)
    }
}

/// The text with the smallest distance, if that is not above the maximum. The same text is none.
fn closest<'t>(written: &str, known: impl IntoIterator<Item = &'t str>, max: usize) -> Option<&'t str> {
    if written.len() > MAX_TEXT {
        return None;
    }
    // The distance is at least the difference of the lengths.
    let may_be_close = |text: &&str| text.len() <= MAX_TEXT && text.len().abs_diff(written.len()) <= max;
    let distances =
        known.into_iter().filter(may_be_close).map(|text| (strsim::damerau_levenshtein(written, text), text));
    distances
        .filter(|(distance, _)| (1..=max).contains(distance))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, text)| text)
}

impl Config {
    /// The globs of rules that are to be compared with what is listed: those that could match below a mount, and are not for all of it.
    pub fn globs_below_mounts(&self) -> Vec<PlacedGlob> {
        let mounts: Vec<_> = self.plugins.iter().map(|plugin| UriPattern::below(&plugin.mount)).collect();
        let is_of_part = |RuleGlob { glob, .. }: &RuleGlob<'_>| {
            mounts.iter().any(|mount| glob.reaches(mount)) && !mounts.iter().any(|mount| glob.covers(mount))
        };
        let globs = self.rule_globs().filter(is_of_part).take(MAX_GLOBS);
        globs
            .map(|RuleGlob { rule, key, glob }| PlacedGlob { rule: RuleRef::new(self, rule), key, glob: glob.clone() })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Plugin, PrincipalSelector, Rule};

    fn globs(deny: &[&str]) -> Vec<PlacedGlob> {
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.deny = deny.iter().map(|glob| glob.parse().unwrap()).collect();
        let plugin = Plugin::new("a".parse().unwrap(), "a.wasm", "notes:///".parse().unwrap());
        Config::new().plugin(plugin).unwrap().rule(rule).globs_below_mounts()
    }

    #[test]
    fn globs_for_whole_mounts_and_for_other_mounts_are_not_compared() {
        let found = globs(&["**", "notes:///**", "gti://x/**", "notes:///a/**", "**/.env"]);
        let shown: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["`deny` of rule 1 has `notes:///a/**`", "`deny` of rule 1 has `**/.env`"]);
        assert_eq!(found.iter().map(PlacedGlob::names_place).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn what_was_probably_meant_is_found_among_what_is_listed() {
        let uris = ["notes:///private/keys/a.md", "notes:///plan.md", "notes:///prod.env"];
        for (glob, meant) in [
            ("notes:///privte/**", Some("notes:///private")),
            ("notes:///private/kyes/*.md", Some("notes:///private/keys")),
            ("notes:///paln.md", Some("notes:///plan.md")),
            ("notes:///entirely/different/**", None),
            ("**/privaet/**", Some("notes:///private/keys/a.md")),
            ("**/prod.evn", Some("notes:///prod.env")),
            ("**/id_rsa", None),
            ("**/*.evn", None),
        ] {
            let [found] = globs(&[glob]).try_into().unwrap();
            assert_eq!(found.nearest(uris.into_iter()).as_deref(), meant, "{glob}");
        }
    }
}
