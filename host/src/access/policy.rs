//! The policy of one principal: which rules apply to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::globs::{MatchedGlob, RuleGlobs, Subject};
use crate::config::{Operation, Rule};
use crate::uri::{Mount, Uri, UriTemplate};

/// The access of one principal to all resources. Principals to which the same rules apply share one.
#[derive(Debug)]
pub struct Policy {
    /// Unique among all policies of the process.
    #[cfg_attr(not(any(feature = "http", feature = "stdio")), allow(dead_code, reason = "only servers cache pages"))]
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
    /// The policy of the rules at those indices, in the order of the config.
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
        }
    }

    /// A number that no other policy of the process has. The decisions of a policy never change.
    #[cfg_attr(not(any(feature = "http", feature = "stdio")), allow(dead_code, reason = "only servers cache pages"))]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether the operation is allowed on the resource.
    pub fn allows(&self, operation: Operation, uri: &Uri) -> bool {
        self.allows_text(operation, without_query(uri))
    }

    /// Returns whether the operation is allowed on a resource whose URI is in normal form.
    #[cfg(feature = "search")]
    pub(crate) fn allows_normalized(&self, operation: Operation, uri: &str) -> bool {
        self.allows_text(operation, strip_query(uri))
    }

    /// Returns whether a rule denies the operation, regardless of `allow` globs: for a URI that is only a prefix of the one
    /// to be decided, so that `allow` cannot be evaluated yet.
    pub fn denies(&self, operation: Operation, uri: &Uri) -> bool {
        self.denies_text(operation, without_query(uri))
    }

    /// Returns whether the template may be seen or completed.
    pub fn allows_template(&self, operation: Operation, template: &UriTemplate) -> bool {
        self.allows_text(operation, template.as_str())
    }

    /// Returns whether the principal may be notified of changes of the resource: it may subscribe to it, and read it.
    pub fn allows_updates(&self, uri: &Uri) -> bool {
        self.allows(Operation::Subscribe, uri) && self.allows(Operation::Read, uri)
    }

    /// Returns the decision on a resource with the glob that it is based on: of several, the first of the config.
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

    /// Returns whether it may allow the operation on something below the mount. False positives are possible. It costs as
    /// much as there are rules.
    pub(crate) fn may_allow_below(&self, operation: Operation, mount: &Mount) -> bool {
        let applicable = || self.rules.iter().filter_map(|index| self.all.get(*index));
        let rules = || applicable().filter(|rule| rule.operations.contains(&operation));
        let is_denied = rules().flat_map(|rule| &rule.deny).any(|glob| glob.covers(mount));
        !is_denied && (self.default_allow || rules().flat_map(|rule| &rule.allow).any(|glob| glob.reaches(mount)))
    }

    /// Whether there is something that it may allow.
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

    fn denies_text(&self, operation: Operation, subject: &str) -> bool {
        self.denying_glob(operation, &Subject::new(subject)).is_some()
    }

    /// Returns the first glob that denies it: as it is, or without a port and without the trailing dot of its host. Only the
    /// provider knows whether these are the same host.
    fn denying_glob(&self, operation: Operation, subject: &Subject<'_>) -> Option<&MatchedGlob> {
        if !self.has_deny_globs {
            return None;
        }
        let first = |subject: &Subject<'_>| self.globs.deny.first(subject, |rule| self.applies(rule, operation));
        first(subject).or_else(|| first(&Subject::new(&with_bare_host(subject.as_str())?)))
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
