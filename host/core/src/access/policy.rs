//! The policy of one principal: which rules apply to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_host_config::{Operation, Rule, UriGlob};
use mcp_host_model::uri::{Mount, Uri, UriPattern, UriTemplate, composed};
use parking_lot::RwLock;

use super::globs::{MatchedGlob, RuleGlobs, Subject};

/// The access of one principal to all resources. Principals to which the same rules apply share one.
#[derive(Debug)]
pub struct Policy {
    /// Unique among all policies of the process.
    id: u64,
    /// The rules of the config.
    all: Arc<[Rule]>,
    globs: Arc<RuleGlobs>,
    /// The indices of the rules that apply, in the order of the config.
    rules: Box<[usize]>,
    /// For each rule of the config, the operations for which it applies, as bits.
    operations: Box<[u8]>,
    has_deny_globs: bool,
    has_allow_globs: bool,
    /// The decision when no glob matches.
    default_allow: bool,
    /// The decisions about everything below a mount, by mount: one entry per plugin.
    below: RwLock<HashMap<Mount, BelowMount>>,
}

/// The decisions about everything below a mount, each as bits of the operations.
#[derive(Clone, Copy, Debug, Default)]
struct BelowMount {
    /// Something may be allowed.
    some: u8,
    /// Everything is allowed.
    all: u8,
}

/// A decision, and what it is based on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// A glob of `allow` matches, and none of `deny`.
    Allowed(MatchedGlob),
    /// No glob matches, and the principal may do what no rule denies.
    AllowedByDefault,
    /// A glob of `deny` matches.
    Denied(MatchedGlob),
    /// No glob matches.
    DeniedByDefault,
}

impl Decision {
    /// Whether the operation is allowed.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_) | Self::AllowedByDefault)
    }

    /// The glob that decided; none for a default.
    pub fn glob(&self) -> Option<&MatchedGlob> {
        match self {
            Self::Allowed(glob) | Self::Denied(glob) => Some(glob),
            Self::AllowedByDefault | Self::DeniedByDefault => None,
        }
    }
}

/// The bit of an operation.
fn bit(operation: Operation) -> u8 {
    1_u8.checked_shl(operation as u32).unwrap_or_default()
}

impl Policy {
    /// Creates the policy of the rules at these indices, which are in the order of the config.
    pub(super) fn new(all: Arc<[Rule]>, globs: Arc<RuleGlobs>, rules: Box<[usize]>, default_allow: bool) -> Self {
        let mut operations = vec![0; all.len()];
        for (index, rule) in rules.iter().filter_map(|index| Some((*index, all.get(*index)?))) {
            if let Some(bits) = operations.get_mut(index) {
                *bits = rule.operations.iter().fold(0, |bits, operation| bits | bit(*operation));
            }
        }
        let applicable = || rules.iter().filter_map(|index| all.get(*index));
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            has_deny_globs: applicable().any(|rule| !rule.deny.is_empty()),
            has_allow_globs: applicable().any(|rule| !rule.allow.is_empty()),
            operations: operations.into(),
            all,
            globs,
            rules,
            default_allow,
            below: RwLock::default(),
        }
    }

    /// A number that no other policy of the process has. The decisions of a policy never change.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the operation is allowed on the resource.
    pub fn allows(&self, operation: Operation, uri: &Uri) -> bool {
        self.allows_normalized(operation, uri.as_str())
    }

    /// Returns whether the operation is allowed on a resource whose URI is in normal form.
    pub(crate) fn allows_normalized(&self, operation: Operation, uri: &str) -> bool {
        self.allows_text(operation, strip_query(uri))
    }

    /// Returns whether the template may be seen or completed.
    pub fn allows_template(&self, operation: Operation, template: &UriTemplate) -> bool {
        self.allows_text(operation, template.as_str())
    }

    /// Returns whether the principal may be notified of changes of the resource: it may subscribe to it, and read it.
    pub fn allows_updates(&self, uri: &Uri) -> bool {
        self.allows(Operation::Subscribe, uri) && self.allows(Operation::Read, uri)
    }

    /// Returns the decision on a request for a resource, and the operation that decided: a subscription also requires
    /// read access.
    pub fn decide_request(&self, operation: Operation, uri: &Uri) -> (Operation, Decision) {
        match self.decide(operation, uri) {
            decision if operation == Operation::Subscribe && decision.is_allowed() => {
                match self.decide(Operation::Read, uri) {
                    reading if !reading.is_allowed() => (Operation::Read, reading),
                    _ => (operation, decision),
                }
            }
            decision => (operation, decision),
        }
    }

    /// Returns the decision on a resource, with the glob that decided. If several globs match, this is the first one of
    /// the config.
    pub fn decide(&self, operation: Operation, uri: &Uri) -> Decision {
        self.decide_text(operation, without_query(uri))
    }

    /// Returns the decision on a template, as [`decide`](Self::decide) does on a resource.
    pub fn decide_template(&self, operation: Operation, template: &UriTemplate) -> Decision {
        self.decide_text(operation, template.as_str())
    }

    fn decide_text(&self, operation: Operation, subject: &str) -> Decision {
        let subject = &Subject::new(subject);
        if let Some(glob) = self.denying_glob(operation, subject) {
            return Decision::Denied(glob.clone());
        }
        let allow = self.has_allow_globs.then_some(&self.globs.allow);
        match allow.and_then(|globs| globs.first(subject, |rule| self.applies(rule, operation))) {
            Some(glob) => Decision::Allowed(glob.clone()),
            None if self.default_allow => Decision::AllowedByDefault,
            None => Decision::DeniedByDefault,
        }
    }

    /// The indices of the rules that apply, in the order of the config.
    pub fn rules(&self) -> impl Iterator<Item = usize> {
        self.rules.iter().copied()
    }

    /// Whether everything is allowed that no rule denies.
    pub fn allows_by_default(&self) -> bool {
        self.default_allow
    }

    /// Returns whether the policy may allow the operation on something below the mount. False positives are possible.
    /// The decision is cached.
    pub(crate) fn may_allow_below(&self, operation: Operation, mount: &Mount) -> bool {
        self.below(mount).some & bit(operation) != 0
    }

    /// Returns whether the policy allows the operation on everything below the mount. False negatives are possible. The
    /// decision is cached.
    pub(crate) fn allows_all_below(&self, operation: Operation, mount: &Mount) -> bool {
        self.below(mount).all & bit(operation) != 0
    }

    /// Returns whether the policy allows listing and reading everything below the mount, so that nothing is hidden.
    /// False negatives are possible.
    pub(crate) fn shows_all_below(&self, mount: &Mount) -> bool {
        [Operation::List, Operation::Read].into_iter().all(|operation| self.allows_all_below(operation, mount))
    }

    fn below(&self, mount: &Mount) -> BelowMount {
        if let Some(below) = self.below.read().get(mount) {
            return *below;
        }
        let pattern = UriPattern::below(mount);
        let bits = |is_so: &dyn Fn(Operation) -> bool| {
            Operation::ALL.into_iter().filter(|operation| is_so(*operation)).fold(0, |bits, one| bits | bit(one))
        };
        let below = BelowMount {
            some: bits(&|operation| self.may_allow(operation, &pattern)),
            all: bits(&|operation| self.allows_all(operation, &pattern)),
        };
        self.below.write().insert(mount.clone(), below);
        below
    }

    /// Returns whether the policy may allow the operation on a URI of the pattern. False positives are possible. Unless
    /// the pattern is one URI, the cost is proportional to the number of rules.
    pub(crate) fn may_allow(&self, operation: Operation, pattern: &UriPattern) -> bool {
        match pattern.as_text() {
            Some(uri) => self.allows_text(operation, uri),
            None => {
                let forms = denied_pattern_forms(pattern);
                let covers = |glob: &UriGlob| forms.iter().any(|form| glob.covers(form));
                !self
                    .deny_globs(operation)
                    .any(|glob| covers(glob) || glob.composed().is_some_and(|glob| covers(&glob)))
                    && (self.default_allow || self.allow_globs(operation).any(|glob| glob.reaches(pattern)))
            }
        }
    }

    /// Returns whether the policy allows the operation on all URIs of the pattern. False negatives are possible. Unless
    /// the pattern is one URI, the cost is proportional to the number of rules.
    pub fn allows_all(&self, operation: Operation, pattern: &UriPattern) -> bool {
        match pattern.as_text() {
            Some(uri) => self.allows_text(operation, uri),
            None => {
                self.denies_none(operation, pattern)
                    && (self.default_allow || self.allow_globs(operation).any(|glob| glob.covers(pattern)))
            }
        }
    }

    /// Returns whether no rule denies the operation on any URI of the pattern. False negatives are possible.
    pub(crate) fn denies_none(&self, operation: Operation, pattern: &UriPattern) -> bool {
        match pattern.as_text() {
            Some(uri) => self.denying_glob(operation, &Subject::new(uri)).is_none(),
            None => {
                let forms = denied_pattern_forms(pattern);
                let reaches = |glob: &UriGlob| forms.iter().any(|form| glob.reaches(form));
                !self
                    .deny_globs(operation)
                    .any(|glob| reaches(glob) || glob.composed().is_some_and(|glob| reaches(&glob)))
            }
        }
    }

    fn deny_globs(&self, operation: Operation) -> impl Iterator<Item = &UriGlob> {
        self.rules_for(operation).flat_map(|rule| &rule.deny)
    }

    fn allow_globs(&self, operation: Operation) -> impl Iterator<Item = &UriGlob> {
        self.rules_for(operation).flat_map(|rule| &rule.allow)
    }

    fn rules_for(&self, operation: Operation) -> impl Iterator<Item = &Rule> {
        let applicable = self.rules.iter().filter_map(|index| self.all.get(*index));
        applicable.filter(move |rule| rule.operations.contains(&operation))
    }

    /// Returns whether the policy may allow anything at all.
    pub fn may_allow_anything(&self) -> bool {
        self.default_allow || self.has_allow_globs
    }

    fn allows_text(&self, operation: Operation, subject: &str) -> bool {
        let subject = &Subject::new(subject);
        self.denying_glob(operation, subject).is_none()
            && (self.default_allow
                || (self.has_allow_globs
                    && self.globs.allow.first(subject, |rule| self.applies(rule, operation)).is_some()))
    }

    /// Returns the first glob that denies the operation, in any [form](denied_forms) of the URI.
    fn denying_glob(&self, operation: Operation, subject: &Subject<'_>) -> Option<&MatchedGlob> {
        if !self.has_deny_globs {
            return None;
        }
        let first = |subject: &Subject<'_>| self.globs.deny.first(subject, |rule| self.applies(rule, operation));
        first(subject).or_else(|| denied_forms(subject.as_str()).find_map(|form| first(&Subject::new(&form))))
    }

    fn applies(&self, rule: usize, operation: Operation) -> bool {
        self.operations.get(rule).is_some_and(|bits| bits & bit(operation) != 0)
    }
}

fn without_query(uri: &Uri) -> &str {
    strip_query(uri.as_str())
}

fn strip_query(uri: &str) -> &str {
    uri.split('?').next().unwrap_or(uri)
}

/// Returns the other forms of a URI that `deny` globs are matched against: without the port and without the trailing
/// dot of the host, and with characters in canonical composition. Only the provider knows whether these forms mean the
/// same resource.
fn denied_forms(uri: &str) -> impl Iterator<Item = String> {
    let bare = with_bare_host(uri);
    let both = bare.as_deref().and_then(composed);
    [composed(uri), both, bare].into_iter().flatten()
}

/// Returns a pattern and its other forms, as [`denied_forms`] returns them for a URI.
fn denied_pattern_forms(pattern: &UriPattern) -> Vec<UriPattern> {
    // If the literal prefix ends within the host, there is no form without the port.
    let has_host = pattern.literal_prefix().split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    let bare = pattern.map_texts(|index, text| with_bare_host(text).filter(|_| index == 0 && has_host));
    let in_composition = |pattern: &UriPattern| pattern.map_texts(|_, text| composed(text));
    let both = bare.as_ref().and_then(in_composition);
    [Some(pattern.clone()), in_composition(pattern), both, bare].into_iter().flatten().collect()
}

/// Returns the URI without the port of its host and without the host's trailing dots; none if it has neither.
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
