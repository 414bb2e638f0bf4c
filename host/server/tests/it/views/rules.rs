//! Random rules, the principals that they name, and their decisions.

use std::fmt::Write as _;

use mcp_resource_host::access::Principal;
use mcp_resource_host::config::{Operation, UriGlob};
use proptest::prelude::*;
use proptest::sample::subsequence;

const NAMES: [&str; 5] = ["*", "local", "anonymous", "corp/ada", "corp/bob"];
const GROUPS: [&str; 3] = ["team", "corp/g", "corp/h"];
const ALLOW: [&str; 10] = [
    "**",
    "a://x/**",
    "b:///**",
    "a://x/d/*",
    "**/f",
    "b:///e/**",
    "a://x/{d,e}/**",
    "**/.env",
    "a://x/d/?name?",
    "b:///{+path}",
];
/// No glob matches a witness.
const DENY: [&str; 8] =
    ["**/.env", "a://x/d/**", "**/e/**", "b:///d/?", "a://x/*", "**/f", "b:///?+path?", "a://x/d/e"];

/// A rule.
#[derive(Clone, Debug)]
pub(crate) struct RuleText {
    principals: Vec<&'static str>,
    groups: Vec<&'static str>,
    allow: Vec<&'static str>,
    deny: Vec<&'static str>,
    operations: Vec<Operation>,
}

/// A principal, and the names by which rules can match it.
pub(crate) struct Who {
    pub(crate) principal: Principal,
    names: &'static [&'static str],
    groups: &'static [&'static str],
}

/// One principal of each kind.
pub(crate) fn everybody() -> Vec<Who> {
    let ada = Principal::new("corp/ada").with_groups(["corp/h"]);
    let bob = Principal::new("corp/bob").with_groups(["corp/g", "corp/none"]);
    vec![
        Who { principal: Principal::LOCAL, names: &["*", "local"], groups: &[] },
        Who { principal: Principal::ANONYMOUS, names: &["*", "anonymous"], groups: &["team"] },
        Who { principal: ada, names: &["*", "corp/ada"], groups: &["team", "corp/h"] },
        Who { principal: bob, names: &["*", "corp/bob"], groups: &["team", "corp/g"] },
        Who { principal: Principal::new("corp/eve"), names: &["*"], groups: &[] },
        Who { principal: Principal::new("local"), names: &["*"], groups: &[] },
    ]
}

/// A principal that may do everything that the rules for all do not deny.
pub(crate) fn witness() -> Who {
    Who { principal: Principal::new("test/witness"), names: &["*", "test/witness"], groups: &[] }
}

/// Random rules, and a rule that allows the witness everything.
pub(crate) fn rule_texts() -> impl Strategy<Value = Vec<RuleText>> {
    proptest::collection::vec(rule_text(), 0..6).prop_map(|mut rules| {
        rules.push(RuleText {
            principals: vec!["test/witness"],
            groups: Vec::new(),
            allow: vec!["**"],
            deny: Vec::new(),
            operations: Operation::ALL.to_vec(),
        });
        rules
    })
}

fn rule_text() -> impl Strategy<Value = RuleText> {
    let some_operations = subsequence(Operation::ALL.to_vec(), 1..=Operation::ALL.len());
    let operations = prop_oneof![Just(Operation::ALL.to_vec()), some_operations];
    let principals = subsequence(NAMES.to_vec(), 0..=2);
    let groups = subsequence(GROUPS.to_vec(), 0..=1);
    let globs = (subsequence(ALLOW.to_vec(), 0..=3), subsequence(DENY.to_vec(), 0..=1));
    (principals, groups, globs, operations).prop_map(|(mut principals, groups, (mut allow, deny), operations)| {
        if principals.is_empty() && groups.is_empty() {
            principals.push("*");
        }
        if allow.is_empty() && deny.is_empty() {
            allow.push("**");
        }
        RuleText { principals, groups, allow, deny, operations }
    })
}

/// A config with these rules.
pub(crate) fn to_toml(rules: &[RuleText]) -> String {
    let mut text = "[[plugin]]\nname = 'x'\ncomponent = 'x.wasm'\nmount = 'x:///'\n".to_owned();
    text.push_str("[[group]]\nname = 'team'\nprincipals = ['anonymous', 'corp/ada']\ngroups = ['corp/g']\n");
    for rule in rules {
        text.push_str("[[rule]]\n");
        let lists =
            [("principals", &rule.principals), ("groups", &rule.groups), ("allow", &rule.allow), ("deny", &rule.deny)];
        for (key, values) in lists.into_iter().filter(|(_, values)| !values.is_empty()) {
            writeln!(text, "{key} = {values:?}").unwrap();
        }
        let operations: Vec<_> = rule.operations.iter().map(|operation| operation.name()).collect();
        writeln!(text, "operations = {operations:?}").unwrap();
    }
    text
}

impl Who {
    /// The decision of the rules on a URI, or on an unexpanded template.
    pub(crate) fn is_allowed(&self, rules: &[RuleText], operation: Operation, uri: &str) -> bool {
        let applicable: Vec<_> =
            rules.iter().filter(|rule| self.is_named_by(rule) && rule.operations.contains(&operation)).collect();
        let matches = |globs: &[&str]| globs.iter().any(|glob| glob.parse::<UriGlob>().unwrap().matches(uri));
        if applicable.iter().any(|rule| matches(&rule.deny)) {
            return false;
        }
        let is_restricted = rules.iter().any(|rule| rule.principals.contains(&"local") && !rule.allow.is_empty());
        let is_allowed_by_default = self.principal == Principal::LOCAL && !is_restricted;
        is_allowed_by_default || applicable.iter().any(|rule| matches(&rule.allow))
    }

    /// Whether a rule denies the operation on a URI.
    pub(crate) fn is_denied(&self, rules: &[RuleText], operation: Operation, uri: &str) -> bool {
        let mut applicable = rules.iter().filter(|rule| self.is_named_by(rule) && rule.operations.contains(&operation));
        applicable.any(|rule| rule.deny.iter().any(|glob| glob.parse::<UriGlob>().unwrap().matches(uri)))
    }

    fn is_named_by(&self, rule: &RuleText) -> bool {
        let is_one_of = |names: &[&str], all: &[&str]| names.iter().any(|name| all.contains(name));
        is_one_of(&rule.principals, self.names) || is_one_of(&rule.groups, self.groups)
    }
}
