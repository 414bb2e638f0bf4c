//! Access control: which principal may perform which operation on which resource. This is the only place that decides
//! it.
//!
//! [`Access::allows`] is called for every operation and for every item of a listing, and again when a notification is
//! delivered. What it denies does not exist for the principal: the response is that of a resource that does not exist.
//!
//! # Evaluation
//!
//! A rule applies to a request if it names the principal (or `*`) and the operation. Among the rules that apply:
//!
//! 1. one with a `deny` glob that matches the URI: denied, regardless of all others;
//! 2. one with an `allow` glob that matches: allowed;
//! 3. otherwise: denied, except for `local`, the principal that started the host: unless a rule allows `local` something
//!    by name, everything is allowed that is not denied.
//!
//! Globs are matched against the URI in normal form without its query, so that no spelling of a URI (`%2eenv`, `?x`)
//! evades a rule. Aliases of a host name are unknown here, so `deny` errs on the safe side: a glob also denies URIs
//! that match without their port, and without the trailing dot of the host name. Templates are matched as written, with
//! their variables.

mod principal;
mod rules;

use std::collections::{BTreeMap, BTreeSet};

use self::rules::Rules;
use crate::config::{ANONYMOUS, LOCAL, Operation, PrincipalSelector, Rule};
use crate::uri::{Uri, UriTemplate};

pub use self::principal::Principal;

/// The rules of a config, compiled per principal that they name.
#[derive(Debug)]
pub struct Access {
    /// By name of the principal: `local`, `anonymous`, and each that a rule names.
    named: BTreeMap<Box<str>, Rules>,
    /// For every other principal: the rules for `*`.
    unnamed: Rules,
}

impl Access {
    /// Compiles the rules.
    pub fn new(rules: &[Rule]) -> Self {
        let selectors = rules.iter().flat_map(|rule| &rule.principals);
        let names = selectors.filter_map(|selector| match selector {
            PrincipalSelector::Named(name) => Some(name.as_str()),
            PrincipalSelector::Any => None,
        });
        let names: BTreeSet<_> = names.chain([LOCAL, ANONYMOUS]).collect();
        let named = names.into_iter().map(|name| (name.into(), Rules::new(Some(name), rules)));
        Self { named: named.collect(), unnamed: Rules::new(None, rules) }
    }

    /// Returns whether the principal may perform the operation on the resource.
    pub fn allows(&self, principal: &Principal, operation: Operation, uri: &Uri) -> bool {
        self.rules(principal).allows(operation, without_query(uri))
    }

    /// Returns whether a rule denies the principal the operation, regardless of `allow` globs: for a URI that is only a
    /// prefix of the one to be decided, so that `allow` cannot be evaluated yet.
    pub fn denies(&self, principal: &Principal, operation: Operation, uri: &Uri) -> bool {
        self.rules(principal).denies(operation, without_query(uri))
    }

    /// Returns whether the principal may see or complete the template.
    pub fn allows_template(&self, principal: &Principal, operation: Operation, template: &UriTemplate) -> bool {
        self.rules(principal).allows(operation, template.as_str())
    }

    /// Returns whether the rules give every principal the same response to the operation, so that it may be cached for
    /// all.
    pub fn is_public(&self, operation: Operation) -> bool {
        let unnamed = self.unnamed.effective_globs(operation);
        self.named.values().all(|rules| rules.effective_globs(operation) == unnamed)
    }

    fn rules(&self, principal: &Principal) -> &Rules {
        self.named.get(principal.name()).unwrap_or(&self.unnamed)
    }
}

fn without_query(uri: &Uri) -> &str {
    let text = uri.as_str();
    text.split('?').next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError};
    use crate::uri::Mount;

    fn access(rules: &str) -> Result<Access, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        let text = format!("[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a://x/'\n{rules}");
        Config::parse(&text, &dir.path().join("mcp-host.toml")).map(|config| Access::new(&config.rules))
    }

    fn uri(path: &str) -> Uri {
        "a://x/".parse::<Mount>().unwrap().compose(path).unwrap().uri
    }

    const LOCAL: Principal = Principal::LOCAL;
    const ANONYMOUS: Principal = Principal::ANONYMOUS;

    #[test]
    fn without_rules_whoever_started_the_host_may_do_all_and_others_nothing() {
        let access = access("").unwrap();
        for operation in Operation::ALL {
            assert!(access.allows(&LOCAL, operation, &uri("f")));
            assert!(!access.allows(&ANONYMOUS, operation, &uri("f")));
        }
    }

    #[test]
    fn a_principal_has_the_rules_that_name_it_and_those_for_all() {
        let everyone = "[[rule]]\nprincipals = ['*']\nallow = ['a://x/docs/**']\ndeny = ['**/.env']\n";
        let ci = "[[rule]]\nprincipals = ['https://id.example/ci']\nallow = ['a://x/build/**']\n";
        let access = access(&format!("{everyone}{ci}")).unwrap();
        let (ci, other) = (Principal::new("https://id.example/ci"), Principal::new("ada"));
        for principal in [&ci, &other, &ANONYMOUS, &LOCAL] {
            assert!(access.allows(principal, Operation::Read, &uri("docs/f")), "{principal}");
            assert!(!access.allows(principal, Operation::Read, &uri("docs/.env")), "{principal}");
        }
        assert!(access.allows(&ci, Operation::Read, &uri("build/f")));
        assert!(!access.allows(&other, Operation::Read, &uri("build/f")));
        assert!(!access.allows(&ANONYMOUS, Operation::Read, &uri("build/f")));
    }

    #[test]
    fn a_principal_named_local_is_local() {
        let access = access("").unwrap();
        assert!(access.allows(&Principal::new("local"), Operation::Read, &uri("f")));
        assert!(!access.allows(&Principal::new("locals"), Operation::Read, &uri("f")));
    }

    #[test]
    fn deny_wins_over_allow_in_whatever_order() {
        let allow = "[[rule]]\nprincipals = ['anonymous']\nallow = ['a://x/**']\n";
        let deny = "[[rule]]\nprincipals = ['*']\ndeny = ['**/.env']\n";
        for rules in [format!("{allow}{deny}"), format!("{deny}{allow}")] {
            let access = access(&rules).unwrap();
            for principal in [&ANONYMOUS, &LOCAL] {
                assert!(access.allows(principal, Operation::Read, &uri("f")));
                assert!(!access.allows(principal, Operation::Read, &uri("d/.env")));
            }
        }
    }

    #[test]
    fn no_spelling_of_a_uri_slips_past_a_rule() {
        let access = access("[[rule]]\nprincipals = ['*']\ndeny = ['**/.env']\n").unwrap();
        for path in [".env", "%2eenv", "%2E%65nv", "./.env", "d/../.env", ".env?x=1", "a/.env?"] {
            assert!(!access.allows(&LOCAL, Operation::Read, &uri(path)), "{path}");
        }
    }

    #[test]
    fn a_denied_host_is_denied_in_every_spelling() {
        let rules = "[[rule]]\nprincipals = ['*']\nallow = ['**']\ndeny = ['web://evil.example/**']\n";
        let access = access(rules).unwrap();
        let web: Mount = "web://".parse().unwrap();
        let allows = |path: &str| access.allows(&ANONYMOUS, Operation::Read, &web.compose(path).unwrap().uri);
        for path in [
            "evil.example",
            "evil.example/",
            "evil.example/x",
            "evil.example?x",
            "evil.example.",
            "evil.example./x",
            "evil.example:443",
            "evil.example:443/x",
            "evil.example:?x",
            "evil.example.:8080/x",
            "EVIL.example./x",
            "evil%2Eexample/x",
        ] {
            assert!(!allows(path), "{path}");
        }
        for path in ["good.example", "evil.example.org/x", "evil.examples", "good.example/evil.example/x"] {
            assert!(allows(path), "{path}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_an_allow_of_a_prefix_matches_its_deny_matches(
            prefix in "web://[a-c.:]{1,6}(/[a-c]{1,3}){0,2}",
            behind in "([.:/?]?[a-c.:/?]{0,6}){0,2}",
        ) {
            let glob = |key: &str| format!("[[rule]]\nprincipals = ['*']\n{key} = ['{prefix}/**']\n");
            let Ok(allow) = access(&glob("allow")) else { return Ok(()) };
            let deny = access(&format!("{}{}", glob("deny"), "[[rule]]\nprincipals = ['*']\nallow = ['**']\n")).unwrap();
            let web: Mount = "web://".parse().unwrap();
            let path = format!("{}{behind}", prefix.trim_start_matches("web://"));
            let Ok(located) = web.compose(&path) else { return Ok(()) };
            if allow.allows(&ANONYMOUS, Operation::Read, &located.uri) {
                proptest::prop_assert!(!deny.allows(&ANONYMOUS, Operation::Read, &located.uri), "{}", located.uri);
            }
        }
    }

    #[test]
    fn a_rule_speaks_of_its_operations_only() {
        let rules = "[[rule]]\nprincipals = ['anonymous']\nallow = ['**']\noperations = ['list']\n";
        let access = access(rules).unwrap();
        assert!(access.allows(&ANONYMOUS, Operation::List, &uri("f")));
        assert!(!access.allows(&ANONYMOUS, Operation::Read, &uri("f")));
    }

    #[test]
    fn once_a_rule_allows_local_something_by_name_that_is_all_it_may() {
        let access = access("[[rule]]\nprincipals = ['local']\nallow = ['a://x/docs/**']\n").unwrap();
        assert!(access.allows(&LOCAL, Operation::Read, &uri("docs/f")));
        assert!(!access.allows(&LOCAL, Operation::Read, &uri("src/f")));
    }

    #[test]
    fn what_is_the_same_for_all_is_known_by_the_rules() {
        let same = |rules: &str, operation| access(rules).unwrap().is_public(operation);
        let everyone = "[[rule]]\nprincipals = ['*']\nallow = ['**']\n";
        let deny = "[[rule]]\nprincipals = ['*']\ndeny = ['**/.env']\n";
        let anonymous = "[[rule]]\nprincipals = ['anonymous']\ndeny = ['**/.env']\noperations = ['read']\n";
        assert!(!same("", Operation::Read), "local may all, others nothing");
        assert!(same(everyone, Operation::Read));
        assert!(same(&format!("{deny}{everyone}"), Operation::Read));
        assert!(!same(&format!("{anonymous}{everyone}"), Operation::Read));
        assert!(same(&format!("{anonymous}{everyone}"), Operation::List));
        assert!(!same("[[rule]]\nprincipals = ['*']\nallow = ['a://x/docs/**']\n", Operation::List));
        let named = "[[rule]]\nprincipals = ['local', 'anonymous']\nallow = ['a://x/docs/**']\n";
        assert!(!same(named, Operation::List), "every other principal gets nothing");
        assert!(same(&format!("{named}{}", named.replace("'local', 'anonymous'", "'*'")), Operation::List));
    }

    #[test]
    fn a_template_is_matched_as_it_is_written() {
        let access = access("[[rule]]\nprincipals = ['anonymous']\nallow = ['a://x/blob/**']\n").unwrap();
        let mount: Mount = "a://x/".parse().unwrap();
        let shown =
            |path| access.allows_template(&ANONYMOUS, Operation::Templates, &mount.compose_template(path).unwrap());
        assert!(shown("blob/{rev}/{+path}"));
        assert!(!shown("log/{rev}"));
    }
}
