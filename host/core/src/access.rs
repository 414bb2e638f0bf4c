//! Access control: which principal may perform which operation on which resource. No other module makes access
//! decisions.
//!
//! A [`Policy`] decides about every operation and for every item of a listing, and again when a notification is
//! delivered. What it denies does not exist for the principal: the response is the same as for a resource that does not
//! exist.
//!
//! # Evaluation
//!
//! A rule applies to a request if it names the principal, one of its groups or `*`, and the operation. Among the rules
//! that apply:
//!
//! 1. a `deny` glob matches the URI: denied, regardless of all other rules;
//! 2. an `allow` glob matches: allowed;
//! 3. no glob matches: denied. Exception: `local`, the principal that started the host, may do everything that no rule
//!    denies, unless a rule for `local` by name has an `allow` glob.
//!
//! Globs are matched against the URI in normal form without its query, so that no spelling of a URI (`%2eenv`, `?x`)
//! evades a rule. Aliases are unknown here, so `deny` errs on the safe side: a glob also denies URIs that match without
//! their port, without the trailing dot of the host name, and with their characters in canonical composition (NFC).
//! Templates are matched as written, with their variables.
//!
//! # What is known in part
//!
//! Some decisions are needed before a URI is known: whether a plugin can list anything for a principal, or whether a
//! completion may be offered while other variables have no value. Such decisions are made for a pattern of URIs
//! (`uri::UriPattern`): `Policy::may_allow` is true if the operation may be allowed on one of the URIs, and
//! `Policy::allows_all` only if it is allowed on all of them. A plugin is not called for a principal that may see
//! nothing below its mount (`catalog`, `watch`).

mod globs;
mod policy;
pub mod rate;
mod scopes;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use mcp_host_config::{ANONYMOUS, Config, LOCAL, Operation, Plugin, PrincipalGroup, PrincipalSelector, Rule, UriGlob};
use mcp_host_model::caller::{AccessToken, Caller};
use mcp_host_model::uri::{Uri, UriTemplate};
use quick_cache::sync::Cache;

use self::globs::RuleGlobs;

pub use self::globs::MatchedGlob;
pub use self::policy::{Decision, Policy};
pub use self::scopes::CredentialScopes;
pub use mcp_host_model::principal::Principal;

/// The capacity of the cache of policies, and of the cache that maps principals to policies. Principals with the same
/// rules share a policy. Eviction prefers rarely used entries.
const MAX_POLICIES: usize = 1024;

/// The rules of a config.
#[derive(Debug)]
pub struct Access {
    rules: Arc<[Rule]>,
    globs: Arc<RuleGlobs>,
    /// The rules for `*`.
    for_all: Vec<usize>,
    /// The rules that name a principal, by its name.
    by_principal: HashMap<Box<str>, Vec<usize>>,
    /// The rules that name a group, by its name.
    by_group: HashMap<Box<str>, Vec<usize>>,
    /// The groups of the config that name a principal as a member, by its name.
    groups_of_principal: HashMap<Box<str>, Vec<Box<str>>>,
    /// The groups of the config that have the members of another group, by its name.
    groups_of_group: HashMap<Box<str>, Vec<Box<str>>>,
    /// Whether any plugin has views: responses that depend on the principal.
    has_views: bool,
    /// For each operation, whether every principal gets the same response.
    public: [bool; Operation::ALL.len()],
    policies: Cache<PolicyKey, Arc<Policy>>,
    /// The policies of principals: collecting the rules of a principal with many groups takes long.
    by_identity: Cache<Principal, Arc<Policy>>,
    /// The number of look-ups of a policy.
    #[cfg(test)]
    lookups: std::sync::atomic::AtomicUsize,
}

/// Principals with the same key have the same policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PolicyKey {
    is_local: bool,
    /// The rules that name the principal or one of its groups, in the order of the config.
    own: Box<[usize]>,
}

impl Access {
    /// The rules and groups of a config. Compiles all globs: about 0.1 ms of processor time for each.
    pub fn new(config: &Config) -> Self {
        let mut access = Self {
            rules: config.rules.as_slice().into(),
            globs: Arc::new(RuleGlobs::new(config)),
            for_all: Vec::new(),
            by_principal: HashMap::new(),
            by_group: HashMap::new(),
            groups_of_principal: HashMap::new(),
            groups_of_group: HashMap::new(),
            has_views: config.plugins.iter().any(Plugin::has_views),
            public: [false; Operation::ALL.len()],
            policies: Cache::new(MAX_POLICIES),
            by_identity: Cache::new(MAX_POLICIES),
            #[cfg(test)]
            lookups: std::sync::atomic::AtomicUsize::new(0),
        };
        for (index, rule) in config.rules.iter().enumerate() {
            for selector in &rule.principals {
                match selector {
                    PrincipalSelector::Any => access.for_all.push(index),
                    PrincipalSelector::Named(name) => push(&mut access.by_principal, name, index),
                }
            }
            rule.groups.iter().for_each(|group| push(&mut access.by_group, group, index));
        }
        for PrincipalGroup { name, principals, groups, .. } in &config.groups {
            let name = || Box::from(name.as_str());
            principals.iter().for_each(|member| push(&mut access.groups_of_principal, member, name()));
            groups.iter().for_each(|member| push(&mut access.groups_of_group, member, name()));
        }
        let has_views = access.has_views;
        access.public = Operation::ALL.map(|operation| !has_views && access.has_same_globs_for_all(operation));
        access
    }

    /// Returns the policy of a principal.
    pub fn policy(&self, principal: &Principal) -> Arc<Policy> {
        #[cfg(test)]
        self.lookups.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if let Some(policy) = self.by_identity.get(principal) {
            return policy;
        }
        let policy = self.policy_of_rules(principal);
        self.by_identity.insert(principal.clone(), policy.clone());
        policy
    }

    /// Returns how often a policy was looked up.
    #[cfg(test)]
    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// Returns the policy that all principals with the same rules share.
    fn policy_of_rules(&self, principal: &Principal) -> Arc<Policy> {
        let mut own: Vec<usize> = Vec::new();
        if let Some(name) = self.rule_name(principal) {
            own.extend(self.by_principal.get(name).into_iter().flatten());
        }
        for group in self.groups(principal) {
            own.extend(self.by_group.get(group).into_iter().flatten());
        }
        own.sort_unstable();
        own.dedup();
        let key = PolicyKey { is_local: *principal == Principal::LOCAL, own: own.into() };
        let policy =
            self.policies.get_or_insert_with::<_, std::convert::Infallible>(&key, || Ok(self.create_policy(&key)));
        match policy {
            Ok(policy) => policy,
            Err(never) => match never {},
        }
    }

    /// Returns the groups of a principal: the groups it was created with, and the groups of the config.
    pub fn groups<'a>(&'a self, principal: &'a Principal) -> impl Iterator<Item = &'a str> {
        let of_name = self.rule_name(principal).and_then(|name| self.groups_of_principal.get(name));
        let of_groups = principal.groups().filter_map(|group| self.groups_of_group.get(group));
        let configured = of_name.into_iter().chain(of_groups).flatten().map(|name| &**name);
        principal.groups().chain(configured)
    }

    /// Returns the caller that providers are called for on behalf of this principal, if any plugin has views.
    pub(crate) fn caller(&self, principal: &Principal) -> Option<Caller> {
        self.has_views.then(|| Caller::new(self.rule_name(principal), self.groups(principal)))
    }

    /// Like [`caller`](Self::caller), with this access token instead of the token of the current request: for a
    /// principal that watches.
    pub(crate) fn caller_with_token(&self, principal: &Principal, token: Option<AccessToken>) -> Option<Caller> {
        self.has_views.then(|| Caller::with_token(self.rule_name(principal), self.groups(principal), token))
    }

    /// Returns whether any plugin has views.
    pub(crate) fn has_views(&self) -> bool {
        self.has_views
    }

    /// Returns whether the principal may perform the operation on the resource.
    pub fn allows(&self, principal: &Principal, operation: Operation, uri: &Uri) -> bool {
        self.policy(principal).allows(operation, uri)
    }

    /// Returns whether the principal may see or complete the template.
    pub fn allows_template(&self, principal: &Principal, operation: Operation, template: &UriTemplate) -> bool {
        self.policy(principal).allows_template(operation, template)
    }

    /// Returns whether the rules give every principal the same response to the operation, so that one cached response
    /// serves all principals.
    pub fn is_public(&self, operation: Operation) -> bool {
        self.public.get(operation as usize).copied().unwrap_or_default()
    }

    /// Returns whether rules for single principals and groups add nothing to the rules for all principals.
    fn has_same_globs_for_all(&self, operation: Operation) -> bool {
        let is_for_all = |rule: &&Rule| rule.principals.contains(&PrincipalSelector::Any);
        let applicable = || self.rules.iter().filter(|rule| rule.operations.contains(&operation));
        let (mut allow, mut deny) = (BTreeSet::new(), BTreeSet::new());
        for rule in applicable().filter(is_for_all) {
            allow.extend(rule.allow.iter().map(UriGlob::as_str));
            deny.extend(rule.deny.iter().map(UriGlob::as_str));
        }
        let allows_everything = allow.contains(MATCH_ALL);
        let mut others = applicable().filter(|rule| !is_for_all(rule));
        let adds_nothing = others.all(|rule| {
            (allows_everything || rule.allow.iter().all(|glob| allow.contains(glob.as_str())))
                && rule.deny.iter().all(|glob| deny.contains(glob.as_str()))
        });
        adds_nothing && (allows_everything || self.is_local_restricted())
    }

    fn create_policy(&self, key: &PolicyKey) -> Arc<Policy> {
        let mut indices: Vec<_> = self.for_all.iter().chain(&key.own).copied().collect();
        indices.sort_unstable();
        indices.dedup();
        let default_allow = key.is_local && !self.is_local_restricted();
        Arc::new(Policy::new(self.rules.clone(), self.globs.clone(), indices.into(), default_allow))
    }

    /// Returns whether a rule for `local` by name has an `allow` glob.
    fn is_local_restricted(&self) -> bool {
        let named = self.by_principal.get(LOCAL).into_iter().flatten();
        named.filter_map(|index| self.rules.get(*index)).any(|rule| !rule.allow.is_empty())
    }

    /// Returns the name by which rules and groups can name the principal. None for an authenticated principal with the
    /// name of a built-in one.
    fn rule_name<'a>(&self, principal: &'a Principal) -> Option<&'a str> {
        let name = principal.name();
        (principal.is_built_in() || !is_built_in_name(name)).then_some(name)
    }
}

/// The glob that matches everything.
const MATCH_ALL: &str = "**";

fn push<T: PartialEq>(map: &mut HashMap<Box<str>, Vec<T>>, name: &str, item: T) {
    let items = map.entry(name.into()).or_default();
    if items.last() != Some(&item) {
        items.push(item);
    }
}

fn is_built_in_name(name: &str) -> bool {
    name == LOCAL || name == ANONYMOUS
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::{Config, ConfigError};
    use mcp_host_model::uri::Mount;

    fn access(rules: &str) -> Result<Access, ConfigError> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        let text = format!("[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a://x/'\n{rules}");
        Config::parse(&text, &dir.path().join("mcp-host.toml")).map(|config| Access::new(&config))
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
        let ci = "[[rule]]\nprincipals = ['id.example/ci']\nallow = ['a://x/build/**']\n";
        let access = access(&format!("{everyone}{ci}")).unwrap();
        let (ci, other) = (Principal::new("id.example/ci"), Principal::new("ada"));
        for principal in [&ci, &other, &ANONYMOUS, &LOCAL] {
            assert!(access.allows(principal, Operation::Read, &uri("docs/f")), "{principal}");
            assert!(!access.allows(principal, Operation::Read, &uri("docs/.env")), "{principal}");
        }
        assert!(access.allows(&ci, Operation::Read, &uri("build/f")));
        assert!(!access.allows(&other, Operation::Read, &uri("build/f")));
        assert!(!access.allows(&ANONYMOUS, Operation::Read, &uri("build/f")));
    }

    #[test]
    fn a_user_with_the_name_of_a_built_in_principal_has_nothing_of_it() {
        let rules = "[[rule]]\nprincipals = ['anonymous']\nallow = ['**']\n";
        let access = access(rules).unwrap();
        assert!(access.allows(&LOCAL, Operation::Read, &uri("f")));
        assert!(access.allows(&ANONYMOUS, Operation::Read, &uri("f")));
        for name in ["local", "anonymous", "*", ""] {
            assert!(!access.allows(&Principal::new(name), Operation::Read, &uri("f")), "{name}");
        }
    }

    #[test]
    fn members_of_a_group_have_its_rules_whoever_says_that_they_are_members() {
        let groups =
            "[[group]]\nname = 'developers'\nprincipals = ['users/ada', 'local']\ngroups = ['corp/engineering']\n";
        let rules = "[[rule]]\ngroups = ['developers']\nallow = ['a://x/src/**']\n\
                     [[rule]]\ngroups = ['corp/audit']\nallow = ['a://x/log/**']\ndeny = ['a://x/src/secret/**']\n";
        let access = access(&format!("{groups}{rules}")).unwrap();
        let (ada, engineer) =
            (Principal::new("users/ada"), Principal::new("corp/bob").with_groups(["corp/engineering"]));
        let auditor = engineer.clone().with_groups(["corp/audit"]);
        for member in [&ada, &engineer, &auditor] {
            assert!(access.allows(member, Operation::Read, &uri("src/f")), "{member}");
        }
        assert!(access.allows(&auditor, Operation::Read, &uri("log/f")));
        assert!(
            !access.allows(&auditor, Operation::Read, &uri("src/secret/f")),
            "deny wins over the allow of another group"
        );
        assert!(access.allows(&engineer, Operation::Read, &uri("src/secret/f")));
        assert!(!access.allows(&engineer, Operation::Read, &uri("log/f")));
        let stranger = Principal::new("corp/bob").with_groups(["engineering", "corp/engineering/x"]);
        assert!(!access.allows(&stranger, Operation::Read, &uri("src/f")));
        assert_eq!(access.groups(&engineer).collect::<Vec<_>>(), ["corp/engineering", "developers"]);
    }

    #[test]
    fn a_decision_names_the_first_glob_of_the_config_that_decides() {
        let rules = "[[rule]]\nprincipals = ['*']\nallow = ['a://x/docs/**', '**']\noperations = ['read']\n\
                     [[rule]]\nprincipals = ['anonymous']\ndeny = ['**/.env']\n";
        let access = access(rules).unwrap();
        let decide = |principal: &Principal, operation, path| access.policy(principal).decide(operation, &uri(path));
        let glob = |rule: usize, glob: &str| {
            // The plugin takes four lines, and so does the first rule.
            let location = Some(format!("mcp-host.toml:{}", 5 + 4 * rule).into());
            MatchedGlob { rule, glob: glob.into(), location }
        };
        assert_eq!(decide(&ANONYMOUS, Operation::Read, "docs/f"), Decision::Allowed(glob(0, "a://x/docs/**")));
        assert_eq!(decide(&ANONYMOUS, Operation::Read, "f?q"), Decision::Allowed(glob(0, "**")));
        assert_eq!(decide(&ANONYMOUS, Operation::Read, "d/.env"), Decision::Denied(glob(1, "**/.env")));
        assert_eq!(decide(&ANONYMOUS, Operation::List, "f"), Decision::DeniedByDefault);
        assert_eq!(decide(&LOCAL, Operation::List, "f"), Decision::AllowedByDefault);
    }

    #[test]
    fn principals_with_the_same_rules_share_a_policy() {
        let access = access("[[rule]]\nprincipals = ['corp/ada', '*']\nallow = ['**']\n").unwrap();
        let (bob, eve) = (Principal::new("corp/bob"), Principal::new("corp/eve").with_groups(["corp/x"]));
        assert!(Arc::ptr_eq(&access.policy(&bob), &access.policy(&eve)));
        assert!(!Arc::ptr_eq(&access.policy(&bob), &access.policy(&LOCAL)));
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

    #[test]
    fn a_name_is_denied_in_both_compositions_and_allowed_in_the_one_of_the_rule() {
        const COMPOSED: &str = "%C3%84/f";
        const DECOMPOSED: &str = "A%CC%88/f";
        for (of_rule, other) in [(COMPOSED, DECOMPOSED), (DECOMPOSED, COMPOSED)] {
            let rule = |key: &str, glob: &str| format!("[[rule]]\nprincipals = ['*']\n{key} = ['{glob}']\n");
            // Each form of a glob has its own kind of lookup.
            for (of_rule, end) in [(of_rule, ""), (of_rule.trim_end_matches("/f"), "/**"), (of_rule, "*")] {
                let allow = access(&rule("allow", &format!("a://x/{of_rule}{end}"))).unwrap();
                let may_read = |path: &str| allow.allows(&ANONYMOUS, Operation::Read, &uri(path));
                assert!(may_read(&format!("{}/f", of_rule.trim_end_matches("/f"))));
                assert!(!may_read(other), "{of_rule}{end} does not allow {other}");
                let all = rule("allow", "**");
                let deny = access(&format!("{all}{}", rule("deny", &format!("a://x/{of_rule}{end}")))).unwrap();
                for path in [COMPOSED, DECOMPOSED] {
                    assert!(!deny.allows(&ANONYMOUS, Operation::Read, &uri(path)), "{of_rule}{end} denies {path}");
                }
            }
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
