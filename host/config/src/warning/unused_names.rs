//! Principals and groups of the config to which no rule gives access.

use std::collections::HashSet;

use super::Warning;
use crate::rule::LOCAL;
use crate::{Config, PrincipalGroup, PrincipalSelector};

/// The principals and groups to whom rules with `allow` give access.
struct Allowed<'a> {
    /// Whether a rule selects `*`.
    everyone: bool,
    /// The principals by name, including members of groups of the config.
    principals: HashSet<&'a str>,
    /// The groups by name, including members of groups of the config.
    groups: HashSet<&'a str>,
}

impl<'a> Allowed<'a> {
    fn new(config: &'a Config) -> Self {
        let rules = || config.rules.iter().filter(|rule| !rule.allow.is_empty());
        let selectors = || rules().flat_map(|rule| &rule.principals);
        let mut groups: HashSet<_> = rules().flat_map(|rule| &rule.groups).map(String::as_str).collect();
        let is_allowed = |group: &&PrincipalGroup| groups.contains(group.name.as_str());
        let declared: Vec<_> = config.groups.iter().filter(is_allowed).collect();
        let members = declared.iter().flat_map(|group| &group.principals).map(String::as_str);
        let principals = selectors().map(PrincipalSelector::as_str).chain(members).collect();
        groups.extend(declared.iter().flat_map(|group| &group.groups).map(String::as_str));
        Self { everyone: selectors().any(|selector| *selector == PrincipalSelector::Any), principals, groups }
    }

    fn is_allowed(&self, principal: &str) -> bool {
        self.everyone || self.principals.contains(principal)
    }

    /// Whether a member can be a client over HTTP. A group with an issuer's principals has such members.
    fn has_http_client(&self) -> bool {
        self.everyone
            || self.principals.iter().any(|name| *name != LOCAL)
            || self.groups.iter().any(|name| name.contains('/'))
    }
}

impl Config {
    /// Returns the warnings about clients over HTTP in general, and about principals and groups without access.
    pub(super) fn unused_name_warnings(&self) -> impl Iterator<Item = Warning> {
        let allowed = Allowed::new(self);
        let in_rules: HashSet<_> = self.rules.iter().flat_map(|rule| &rule.groups).map(String::as_str).collect();
        let unused_groups =
            self.groups.iter().map(|group| group.name.as_str()).filter(move |name| !in_rules.contains(name));
        let is_for_nobody = self.server.http.is_some() && !allowed.has_http_client();
        // If no rule allows anything, there is another warning.
        let principals =
            self.principals.iter().filter(move |_| !is_for_nobody).map(|principal| principal.name.as_str());
        let unused_principals = principals.filter(move |name| !allowed.is_allowed(name));
        let nothing = is_for_nobody.then_some(Warning::NothingAllowed);
        nothing
            .into_iter()
            .chain(unused_groups.map(|name| Warning::UnusedGroup { name: name.to_owned() }))
            .chain(unused_principals.map(|name| Warning::UnusedPrincipal { name: name.to_owned() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Rule, TokenDigest, TokenDigests, TokenPrincipal};

    fn rule(names: &[&str], groups: &[&str], allow: &[&str]) -> Rule {
        let selector = |name: &&str| match *name {
            "*" => PrincipalSelector::Any,
            name => PrincipalSelector::Named(name.to_owned()),
        };
        let mut rule = Rule::new(names.iter().map(selector));
        rule.groups = groups.iter().map(|name| (*name).to_owned()).collect();
        rule.allow = allow.iter().map(|glob| glob.parse().unwrap()).collect();
        rule.deny = vec!["**/.env".parse().unwrap()];
        rule
    }

    /// The warnings about a server with the principals `ci` and `ops`, the group `staff` with `ci`, and these rules.
    fn warnings(rules: &[Rule]) -> Vec<Warning> {
        let principal = |name: &str| TokenPrincipal {
            name: name.parse().unwrap(),
            token_sha256: TokenDigests::new([TokenDigest::of(name)]),
        };
        let mut config = Config::new();
        config.server.http = Some("127.0.0.1:80".parse().unwrap());
        config.principals = vec![principal("ci"), principal("ops")];
        config.groups = vec![PrincipalGroup {
            name: "staff".parse().unwrap(),
            principals: vec!["ci".to_owned()],
            groups: vec!["corp/staff".to_owned()],
        }];
        config.rules = rules.to_vec();
        config.unused_name_warnings().collect()
    }

    fn unused_principals(names: &[&str]) -> Vec<Warning> {
        names.iter().map(|name| Warning::UnusedPrincipal { name: (*name).to_owned() }).collect()
    }

    #[test]
    fn a_server_that_allows_nobody_anything_is_told_once() {
        let unused = Warning::UnusedGroup { name: "staff".to_owned() };
        assert_eq!(warnings(&[]), [Warning::NothingAllowed, unused.clone()]);
        assert_eq!(warnings(&[rule(&["local"], &[], &["**"])]), [Warning::NothingAllowed, unused]);
        assert_eq!(warnings(&[rule(&["*"], &["staff"], &[])]), [Warning::NothingAllowed]);
    }

    #[test]
    fn a_principal_that_no_rule_allows_anything_is_told() {
        let deny_only = rule(&["ops"], &[], &[]);
        assert_eq!(warnings(&[rule(&[], &["staff"], &["**"]), deny_only]), unused_principals(&["ops"]));
        assert_eq!(
            warnings(&[rule(&["corp/ada"], &["staff"], &[]), rule(&["corp/ada"], &[], &["**"])]),
            unused_principals(&["ci", "ops"])
        );
        assert_eq!(warnings(&[rule(&["ops"], &["staff"], &["**"])]), []);
        assert_eq!(warnings(&[rule(&["*"], &[], &["**"]), rule(&[], &["staff"], &[])]), []);
    }

    #[test]
    fn a_group_in_no_rule_is_told() {
        let unused = Warning::UnusedGroup { name: "staff".to_owned() };
        assert_eq!(warnings(&[rule(&["ci", "ops"], &["corp/staff"], &["**"])]), [unused]);
    }
}
