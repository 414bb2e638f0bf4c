//! The allowlist and denylist of served refs: the config key `refs`.
//!
//! A pattern is the full name of a ref, and matches the ref and all refs below it, as in git's `transfer.hideRefs`; or
//! it contains one `*`, which matches any text. A ref is served if no pattern in `hide` matches it, and a pattern in
//! `allow` does or there is no `allow`. `HEAD` is served by default; other names outside of `refs/` (`ORIG_HEAD`,
//! `FETCH_HEAD` …) only if `allow` matches them, because their targets may be unreachable from any ref.
//!
//! A symbolic ref is served only if its target is served, too. `HEAD` needs no permission to point to a branch.

use bstr::{BStr, BString, ByteSlice};
use mcp_provider::{Failure, Result};
use serde_json::Value;

/// The rules for which refs are served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RefFilter {
    allow: Option<Vec<Pattern>>,
    hide: Vec<Pattern>,
}

/// A set of refs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    /// A ref, and all refs below it.
    Below(BString),
    /// The refs that start with the first text and end with the second.
    Glob(BString, BString),
}

impl RefFilter {
    /// Parses the value of the config key `refs`.
    pub(crate) fn parse(value: &Value) -> Result<Self> {
        let fault = |found: &str| {
            Failure::internal(format!(
                "config key `refs`: expected a table with the lists `allow` and `hide` of full ref names such as \
                 \"refs/heads/main\" or \"refs/tags/v*\", found {found}"
            ))
        };
        let pattern_fault = |key: &str, found: &Value| {
            Failure::internal(format!(
                "config key `refs.{key}`: expected full names of refs such as \"refs/heads/main\", with at most one `*`, \
                 found {found}"
            ))
        };
        let table = value.as_object().ok_or_else(|| fault(&value.to_string()))?;
        let mut filter = Self::default();
        for (key, list) in table {
            let list = list.as_array().ok_or_else(|| fault(&list.to_string()))?;
            let patterns = list
                .iter()
                .map(|value| value.as_str().and_then(Pattern::parse).ok_or_else(|| pattern_fault(key, value)));
            let patterns = patterns.collect::<Result<Vec<_>>>()?;
            match key.as_str() {
                "allow" => filter.allow = Some(patterns),
                "hide" => filter.hide = patterns,
                key => return Err(fault(&format!("the key `{key}`"))),
            }
        }
        Ok(filter)
    }

    /// Returns whether all refs are served.
    pub(crate) fn allows_all(&self) -> bool {
        self.allow.is_none() && self.hide.is_empty()
    }

    /// Returns whether the ref with a full name is served.
    pub(crate) fn allows(&self, name: &BStr) -> bool {
        if self.allows_all() {
            return true;
        }
        let matches = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(name));
        let is_allowed = match &self.allow {
            Some(allow) => matches(allow),
            None => name.starts_with_str("refs/") || name == "HEAD",
        };
        is_allowed && !matches(&self.hide)
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let is_name = text.starts_with("refs/") || text.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        if !is_name || text.is_empty() {
            return None;
        }
        match text.split_once('*') {
            Some((start, end)) if !end.contains('*') => Some(Self::Glob(start.into(), end.into())),
            Some(_) => None,
            None => Some(Self::Below(text.trim_end_matches('/').into())),
        }
    }

    fn matches(&self, name: &BStr) -> bool {
        match self {
            Self::Below(top) => {
                name.strip_prefix(top.as_slice()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
            }
            Self::Glob(start, end) => {
                name.strip_prefix(start.as_slice()).is_some_and(|rest| rest.ends_with(end.as_slice()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn allowed(filter: Value, names: &[&str]) -> Vec<bool> {
        let filter = RefFilter::parse(&filter).unwrap();
        names.iter().map(|name| filter.allows((*name).into())).collect()
    }

    const NAMES: [&str; 6] =
        ["refs/heads/main", "refs/heads/secret", "refs/heads/secret/x", "refs/heads/secrets", "HEAD", "ORIG_HEAD"];

    #[test]
    fn all_but_one_branch() {
        let filter = json!({ "hide": ["refs/heads/secret"] });
        assert_eq!(allowed(filter, &NAMES), [true, false, false, true, true, false]);
        assert_eq!(allowed(json!({}), &NAMES), [true; 6]);
    }

    #[test]
    fn one_branch_only_and_what_is_hidden_of_it_stays_hidden() {
        let filter = json!({ "allow": ["refs/heads/main", "refs/heads/s*"], "hide": ["refs/heads/secret/"] });
        assert_eq!(allowed(filter, &NAMES), [true, false, false, true, false, false]);
    }

    #[test]
    fn a_short_name_is_refused_with_the_list_that_it_is_in() {
        let fault = RefFilter::parse(&json!({ "hide": ["secret"] })).unwrap_err().to_string();
        let expected = "config key `refs.hide`: expected full names of refs such as \"refs/heads/main\", with at most one `*`, \
                        found \"secret\"";
        assert_eq!(fault, format!("internal: {expected}"));
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for filter in [
            json!([]),
            json!({ "allow": "x" }),
            json!({ "hide": ["main"] }),
            json!({ "show": [] }),
            json!({ "hide": ["refs/*/*"] }),
        ] {
            assert!(RefFilter::parse(&filter).is_err(), "{filter}");
        }
    }
}
