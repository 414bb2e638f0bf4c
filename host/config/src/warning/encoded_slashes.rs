//! Globs with a slash where the URI of a resource has `%2F`, because a name with a slash is one segment in the URI.
//!
//! A glob is reported if it has no wildcards but a final `/**`, matches no resource of a listing, and would match one if `%2F`
//! were a slash.

use super::{RuleGlob, RuleRef, Warning};
use crate::Config;

/// A slash that is part of a segment, in normal form.
const ENCODED_SLASH: &str = "%2F";
/// The maximum number of globs that are compared with a listing.
const MAX_GLOBS: usize = 1000;

impl Config {
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
    use crate::{Config, PrincipalSelector, Rule};

    /// The reported globs for this listing.
    fn reported(globs: &[&str], uris: &[&str]) -> Vec<String> {
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
            let found = reported(&[glob], &uris);
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
            assert!(reported(&[glob], &uris).is_empty(), "{glob}");
        }
        assert!(reported(&["git://r/tree/a/b"], &["git://r/tree/a"]).is_empty());
    }
}
