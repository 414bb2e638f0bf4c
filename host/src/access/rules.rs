//! The rules that apply to one principal.

use std::collections::BTreeSet;

use crate::config::{LOCAL, Operation, PrincipalSelector, Rule, UriGlob};

/// The globs that are effective for one operation, to compare two principals: equal globs mean equal access.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EffectiveGlobs<'a> {
    /// None means everything.
    allow: Option<BTreeSet<&'a str>>,
    deny: BTreeSet<&'a str>,
}

/// The glob that matches everything.
const MATCH_ALL: &str = "**";

/// The rules of one principal.
#[derive(Debug)]
pub(super) struct Rules {
    applicable: Vec<Rule>,
    has_deny_globs: bool,
    /// The decision when no glob matches.
    default_allow: bool,
}

impl Rules {
    /// The rules that apply to the principal of that name; without a name, those that apply to any principal.
    pub(super) fn new(name: Option<&str>, rules: &[Rule]) -> Self {
        let applies = |selector: &PrincipalSelector| match selector {
            PrincipalSelector::Any => true,
            PrincipalSelector::Named(named) => Some(named.as_str()) == name,
        };
        let is_named = |selector: &PrincipalSelector| *selector != PrincipalSelector::Any && applies(selector);
        let is_restricted = rules.iter().any(|rule| rule.principals.iter().any(is_named) && !rule.allow.is_empty());
        let applicable: Vec<_> = rules.iter().filter(|rule| rule.principals.iter().any(applies)).cloned().collect();
        let has_deny_globs = applicable.iter().any(|rule| !rule.deny.is_empty());
        Self { applicable, has_deny_globs, default_allow: name == Some(LOCAL) && !is_restricted }
    }

    /// Returns whether the operation is allowed on that URI or template.
    pub(super) fn allows(&self, operation: Operation, subject: &str) -> bool {
        !self.denies(operation, subject)
            && (self.default_allow || self.matches_any(operation, subject, |rule| &rule.allow))
    }

    /// Returns whether a rule denies it: as it is, or without a port and without the trailing dot of its host. Only the
    /// provider knows whether these are the same host.
    pub(super) fn denies(&self, operation: Operation, subject: &str) -> bool {
        let is_denied = |subject: &str| self.matches_any(operation, subject, |rule| &rule.deny);
        self.has_deny_globs
            && (is_denied(subject) || with_bare_host(subject).is_some_and(|subject| is_denied(&subject)))
    }

    /// The effective globs for one operation.
    pub(super) fn effective_globs(&self, operation: Operation) -> EffectiveGlobs<'_> {
        let applicable = || self.applicable.iter().filter(move |rule| rule.operations.contains(&operation));
        let allow: BTreeSet<_> = applicable().flat_map(|rule| &rule.allow).map(UriGlob::as_str).collect();
        let deny = applicable().flat_map(|rule| &rule.deny).map(UriGlob::as_str).collect();
        EffectiveGlobs { allow: Some(allow).filter(|allow| !self.default_allow && !allow.contains(MATCH_ALL)), deny }
    }

    fn matches_any(&self, operation: Operation, subject: &str, globs: impl Fn(&Rule) -> &[UriGlob]) -> bool {
        let mut rules = self.applicable.iter().filter(|rule| rule.operations.contains(&operation));
        rules.any(|rule| globs(rule).iter().any(|glob| glob.matches(subject)))
    }
}

/// The URI without the port of its host, and without dots at its end; none if it has neither.
fn with_bare_host(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once("://")?;
    let (host, path) = rest.split_at_checked(rest.find('/').unwrap_or(rest.len()))?;
    // The colons of an IPv6 address stand in brackets.
    let name_end = host.rfind(']').unwrap_or_default();
    let port = host.rfind(':').filter(|colon| *colon >= name_end);
    let bare = host.get(..port.unwrap_or(host.len()))?.trim_end_matches('.');
    (bare.len() < host.len()).then(|| format!("{scheme}://{bare}{path}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_bare_without_its_port_and_without_dots_at_its_end() {
        for (uri, bare) in [
            ("web://a.example.", Some("web://a.example")),
            ("web://a.example./x", Some("web://a.example/x")),
            ("web://a.example:443/x:1", Some("web://a.example/x:1")),
            ("web://a.example.:443", Some("web://a.example")),
            ("web://[::1]:80/", Some("web://[::1]/")),
            ("web://[::1]/", None),
            ("web://a.example/x.", None),
            ("notes:///a:1", None),
            ("a", None),
        ] {
            assert_eq!(with_bare_host(uri).as_deref(), bare, "{uri}");
        }
    }
}
