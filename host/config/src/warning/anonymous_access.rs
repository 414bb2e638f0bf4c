//! Rules that allow access without credentials, if other machines can reach the server.
//!
//! `*` selects every principal, including `anonymous`. With authentication such a rule makes credentials optional,
//! which is rarely intended: `*` reads like "every authenticated principal".

use super::{RuleRef, Warning};
use crate::rule::ANONYMOUS;
use crate::{Config, PrincipalSelector, Rule};

impl Config {
    /// Returns the warnings about rules that give `*` or `anonymous` access.
    pub(super) fn anonymous_access_warnings(&self) -> impl Iterator<Item = Warning> {
        let is_told = self.http.insecure && !self.has_authentication();
        let rules = self.rules.iter().enumerate().filter(move |_| self.is_public() && !is_told);
        rules.filter_map(|(index, rule)| {
            let name = self.anonymous_by(rule)?.to_owned();
            Some(Warning::AnonymousAccess { rule: RuleRef::new(self, index), name, token_group: self.token_group() })
        })
    }

    /// Whether other machines can reach the HTTP server, directly or through a proxy.
    fn is_public(&self) -> bool {
        let by_proxy = || self.http.public_url.as_ref().is_some_and(|url| !url.origin().host().is_loopback());
        self.server.http.is_some_and(|address| !address.is_loopback() || by_proxy())
    }

    /// The name by which a rule allows access without credentials, if it does: `*`, `anonymous`, or the name of a
    /// group.
    fn anonymous_by<'a>(&'a self, rule: &'a Rule) -> Option<&'a str> {
        if rule.allow.is_empty() {
            return None;
        }
        let is_anonymous = |name: &str| name == ANONYMOUS;
        let mut principals = rule.principals.iter().map(PrincipalSelector::as_str);
        let mut groups = self.groups.iter().filter(|group| rule.groups.iter().any(|name| name == group.name.as_str()));
        principals.find(|name| *name == "*" || is_anonymous(name)).or_else(|| {
            let group = groups.find(|group| group.principals.iter().any(|member| is_anonymous(member)));
            group.map(|group| group.name.as_str())
        })
    }

    /// A group that contains all access tokens of an issuer: a scope that the issuer requires of each token. Without
    /// such a scope, a pattern with `NAME`.
    fn token_group(&self) -> Option<String> {
        let scopes = self.issuers.iter().flat_map(|issuer| issuer.scopes.iter().map(move |scope| (issuer, scope)));
        let mut groups = scopes.map(|(issuer, scope)| format!("{}/scope:{scope}", issuer.name));
        groups.next().or_else(|| self.issuers.first().map(|issuer| format!("{}/scope:NAME", issuer.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::issuer::{Issuer, Jwks};
    use crate::{EndpointUrl, PrincipalGroup};

    fn issuer() -> Issuer {
        let url: EndpointUrl = "https://login.example.com".parse().unwrap();
        Issuer::new("corp".parse().unwrap(), url.clone(), Jwks::Url(url))
    }

    /// The warnings about a server at this address with one rule that allows something.
    fn warnings(address: &str, rule: Rule, change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::new();
        config.server.http = Some(address.parse().unwrap());
        config.issuers.push(issuer());
        config.groups.push(PrincipalGroup {
            name: "guests".parse().unwrap(),
            principals: vec!["anonymous".to_owned()],
            groups: Vec::new(),
        });
        config.rules = vec![Rule { allow: vec!["**".parse().unwrap()], ..rule }];
        change(&mut config);
        config.anonymous_access_warnings().map(|warning| warning.to_string()).collect()
    }

    #[test]
    fn a_rule_for_every_principal_is_told_with_what_to_write_instead() {
        let scoped = |config: &mut Config| config.issuers[0].scopes = vec!["mcp:read".parse().unwrap()];
        assert_eq!(
            warnings("0.0.0.0:8443", Rule::new([PrincipalSelector::Any]), scoped),
            [
                "rule 1 allows something to `*`, which includes clients without credentials, and other machines can reach the server: \
              name principals or groups; `corp/scope:mcp:read` is the group of all access tokens with that scope"
            ]
        );
        let unscoped = warnings("0.0.0.0:8443", Rule::new([PrincipalSelector::Any]), |_| {});
        assert!(unscoped[0].contains("`corp/scope:NAME` is the group"), "{unscoped:?}");
        let without = warnings("0.0.0.0:8443", Rule::new([PrincipalSelector::Any]), |config| config.issuers.clear());
        assert!(without[0].ends_with("name principals or groups"), "{without:?}");
    }

    #[test]
    fn anonymous_is_told_also_as_a_member_of_a_group() {
        let anonymous = || Rule::new([PrincipalSelector::Named("anonymous".to_owned())]);
        let named = warnings("10.0.0.1:80", anonymous(), |_| {});
        assert!(
            named[0].starts_with("rule 1 allows something to `anonymous`, the clients without credentials,"),
            "{named:?}"
        );
        let group = warnings("10.0.0.1:80", Rule::for_groups(["guests"]), |_| {});
        assert!(group[0].contains("the group `guests`, which includes `anonymous`,"), "{group:?}");
        let behind_a_proxy = warnings("127.0.0.1:80", anonymous(), |config| {
            config.http.public_url = Some("https://mcp.example.com/mcp".parse().unwrap());
        });
        assert_eq!(behind_a_proxy, named);
    }

    #[test]
    fn a_server_that_only_this_machine_reaches_and_a_rule_that_allows_them_nothing_are_not() {
        let every = || Rule::new([PrincipalSelector::Any]);
        assert!(warnings("127.0.0.1:80", every(), |_| {}).is_empty());
        assert!(
            warnings("127.0.0.1:80", every(), |config| {
                config.http.public_url = Some("http://localhost/mcp".parse().unwrap());
            })
            .is_empty()
        );
        assert!(warnings("0.0.0.0:80", every(), |config| config.server.http = None).is_empty(), "stdio");
        assert!(warnings("0.0.0.0:80", every(), |config| config.rules[0].allow.clear()).is_empty(), "deny only");
        assert!(warnings("0.0.0.0:80", Rule::for_groups(["corp/staff"]), |_| {}).is_empty());
        let told = warnings("0.0.0.0:80", every(), |config| {
            config.issuers.clear();
            config.http.insecure = true;
        });
        assert!(told.is_empty(), "another warning says that it has no authentication: {told:?}");
    }
}
