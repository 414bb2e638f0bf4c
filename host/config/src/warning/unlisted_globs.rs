//! Globs that could match below a mount, but match no listed resource: after a typo, a `deny` hides nothing.
//!
//! Only `mcp-host check` knows the listings. This module selects the globs to compare, and suggests corrections. Globs
//! for whole mounts are never reported. A glob without a place (`**/.env`) may be a precaution, and is reported only if
//! a resource with a similar name is listed.
//!
//! A frequent mistake has a warning of its own: a slash where the URI of a resource has `%2F`, because a name with a
//! slash is one segment in the URI. It is reported for a glob that has no wildcards but a final `/**`, matches no
//! listed resource, and would match one if `%2F` were a slash.

use std::collections::BTreeSet;
use std::fmt;

use mcp_host_model::uri::UriPattern;

use super::{RuleGlob, RuleRef, Warning};
use crate::{Config, UriGlob};

/// The maximum number of globs that are compared with listings.
const MAX_GLOBS: usize = 1000;
/// A slash that is part of a segment, in normal form.
const ENCODED_SLASH: &str = "%2F";
/// The maximum length of a compared text, in bytes.
const MAX_TEXT: usize = 256;
/// The maximum number of texts that are compared with one glob.
const MAX_TEXTS: usize = 5000;

/// A glob of a rule. `Display` includes the rule: `` `deny` of rule 2 (line 14) has `notes:///private/**` ``.
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

    /// Whether the glob is for a place: its URIs have a fixed beginning. A glob without a place may be a precaution for
    /// all mounts.
    pub fn names_place(&self) -> bool {
        !self.glob.normalized().starts_with('*')
    }

    /// Whether a warning concerns this glob.
    pub fn is_of(&self, warning: &Warning) -> bool {
        matches!(warning, Warning::EncodedSlash { rule, key, glob, .. }
            if *rule == self.rule && *key == self.key && glob == self.glob.as_str())
    }

    /// Returns the text of a listing that the author probably meant: for a glob with a place, a URI or a common
    /// beginning of URIs; for other globs, a URI with a segment of a similar name. Only the first part of a long
    /// listing is searched.
    pub fn nearest<'u>(&self, uris: impl Iterator<Item = &'u str>) -> Option<String> {
        let uris = uris.map(|uri| uri.split('?').next().unwrap_or(uri));
        if self.names_place() { self.nearest_place(uris) } else { self.nearest_name(uris) }
    }

    /// Compares the segments before the first wildcard with the same number of segments of each URI.
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

    /// Compares a name without wildcards with each segment.
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

/// The text with the smallest distance up to the maximum. An equal text does not count.
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
    /// The globs of rules to compare with listings: globs that could match below a mount, and are not for a whole
    /// mount.
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

    /// Returns the warnings about globs that have slashes where these URIs have `%2F`.
    pub fn encoded_slash_warnings<'a>(&'a self, uris: &'a [String]) -> impl Iterator<Item = Warning> + 'a {
        let encoded: Vec<_> = uris.iter().filter(|uri| uri.contains(ENCODED_SLASH)).collect();
        let literal = self.rule_globs().filter_map(|glob| Some((glob, glob.glob.literal_prefix()?)));
        let globs = literal.take(if encoded.is_empty() { 0 } else { MAX_GLOBS });
        globs.filter_map(move |(RuleGlob { rule, key, glob }, prefix)| {
            if uris.iter().any(|uri| is_below(uri, prefix)) {
                return None;
            }
            let found = encoded.iter().find(|uri| is_below(&uri.replace(ENCODED_SLASH, "/"), prefix))?;
            let (rule, glob) = (RuleRef::new(self, rule), glob.as_str().to_owned());
            Some(Warning::EncodedSlash { rule, key, glob, found: (*found).clone() })
        })
    }
}

/// Whether a URI equals this prefix, or is below it.
fn is_below(uri: &str, prefix: &str) -> bool {
    let uri = uri.split('?').next().unwrap_or(uri);
    uri.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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

    /// The globs that are reported for this listing.
    fn encoded_slashes(globs: &[&str], uris: &[&str]) -> Vec<String> {
        let mut rule = Rule::new([PrincipalSelector::Any]);
        rule.allow = globs.iter().map(|glob| glob.parse().unwrap()).collect();
        let config = Config::new().rule(rule);
        let uris: Vec<_> = uris.iter().map(|uri| (*uri).to_owned()).collect();
        config.encoded_slash_warnings(&uris).map(|warning| warning.to_string()).collect()
    }

    #[test]
    fn a_glob_that_matches_only_with_slashes_for_encoded_ones_is_told() {
        let uris = ["git://r/tree/main", "git://r/tree/feature%2Fx?a=b"];
        for glob in ["git://r/tree/feature/x", "git://r/tree/feature/x/**", "git://r/tree/feature/**"] {
            let found = encoded_slashes(&[glob], &uris);
            assert_eq!(found.len(), 1, "{glob}");
            assert!(found[0].contains(glob) && found[0].contains("`git://r/tree/feature%2Fx?a=b`"), "{found:?}");
        }
    }

    #[test]
    fn a_glob_that_matches_something_or_has_wildcards_is_not() {
        let uris = ["git://r/tree/main", "git://r/tree/feature%2Fx", "git://r/tree/release/1"];
        for glob in [
            "git://r/tree/**",
            "git://r/tree/feature%2fx",
            "git://r/tree/release/**",
            "git://r/*/feature/x",
            "git://r/x",
        ] {
            assert!(encoded_slashes(&[glob], &uris).is_empty(), "{glob}");
        }
        assert!(encoded_slashes(&["git://r/tree/a/b"], &["git://r/tree/a"]).is_empty());
    }
}
