//! The rules that speak of one principal.

use std::collections::BTreeSet;

use crate::config::{LOCAL, Operation, Rule, UriGlob, Who};

/// What rules come to for one operation, so that two principals can be compared: none is allowed and denied other things if
/// these are the same.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decisions<'a> {
    /// None is everything.
    allow: Option<BTreeSet<&'a str>>,
    deny: BTreeSet<&'a str>,
}

/// The glob that matches everything.
const EVERYTHING: &str = "**";

/// What the rules say of one principal.
#[derive(Debug)]
pub(super) struct Rules {
    speaking: Vec<Rule>,
    /// What holds when no glob matches.
    otherwise: bool,
}

impl Rules {
    /// The rules that name that principal, or everyone.
    pub(super) fn of(name: &str, rules: &[Rule]) -> Self {
        let speaks = |rule: &&Rule| rule.principals.iter().any(|who| who.includes(name));
        let by_name =
            |rule: &Rule| rule.principals.iter().any(|who| matches!(who, Who::Principal(named) if named == name));
        let is_restricted = rules.iter().any(|rule| by_name(rule) && !rule.allow.is_empty());
        Self { speaking: rules.iter().filter(speaks).cloned().collect(), otherwise: name == LOCAL && !is_restricted }
    }

    /// Whether that operation on that URI or template is allowed.
    pub(super) fn allow(&self, operation: Operation, subject: &str) -> bool {
        !self.deny(operation, subject) && (self.otherwise || self.any(operation, subject, |rule| &rule.allow))
    }

    /// Whether a rule denies it.
    pub(super) fn deny(&self, operation: Operation, subject: &str) -> bool {
        self.any(operation, subject, |rule| &rule.deny)
    }

    /// What they come to for one operation.
    pub(super) fn decisions(&self, operation: Operation) -> Decisions<'_> {
        let speaking = || self.speaking.iter().filter(move |rule| rule.operations.contains(&operation));
        let allow: BTreeSet<_> = speaking().flat_map(|rule| &rule.allow).map(UriGlob::as_str).collect();
        let deny = speaking().flat_map(|rule| &rule.deny).map(UriGlob::as_str).collect();
        Decisions { allow: Some(allow).filter(|allow| !self.otherwise && !allow.contains(EVERYTHING)), deny }
    }

    fn any(&self, operation: Operation, subject: &str, globs: impl Fn(&Rule) -> &[UriGlob]) -> bool {
        let mut rules = self.speaking.iter().filter(|rule| rule.operations.contains(&operation));
        rules.any(|rule| globs(rule).iter().any(|glob| glob.matches(subject)))
    }
}
