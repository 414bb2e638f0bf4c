//! The policy of one principal: the rules that apply to it, compiled for each operation.
//!
//! The globs of an operation are compiled into one matcher, on first use, so a decision costs about the same for one rule
//! and for a thousand.

use std::sync::{Arc, OnceLock};

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};

use crate::config::{Operation, Rule, UriGlob};
use crate::uri::{Uri, UriTemplate};

/// The access of one principal to all resources. Principals to which the same rules apply share one.
#[derive(Debug)]
pub struct Policy {
    /// The rules that apply, with their indices in the config.
    rules: Vec<(usize, Rule)>,
    /// The decision when no glob matches.
    default_allow: bool,
    /// For the operations that every rule has.
    shared: OnceLock<OperationPolicy>,
    /// For each operation; none if every rule has it.
    own: [Option<OnceLock<OperationPolicy>>; Operation::ALL.len()],
}

/// The compiled globs of one operation.
#[derive(Debug)]
struct OperationPolicy {
    allow: GlobIndex,
    deny: GlobIndex,
}

/// Globs that are matched together.
#[derive(Debug)]
struct GlobIndex {
    /// Usually one, with the offset of its first pattern.
    sets: Vec<(usize, GlobSet)>,
    /// The glob of each pattern.
    origins: Vec<MatchedGlob>,
}

/// A glob of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedGlob {
    /// The index of the rule in [`Config::rules`](crate::config::Config::rules).
    pub rule: usize,
    /// The glob as written.
    pub glob: Arc<str>,
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

impl Policy {
    /// The policy of those rules, in the order of the config.
    pub(super) fn new(rules: Vec<(usize, Rule)>, default_allow: bool) -> Self {
        let is_in_all = |operation| rules.iter().all(|(_, rule)| rule.operations.contains(&operation));
        let own = Operation::ALL.map(|operation| (!is_in_all(operation)).then(OnceLock::new));
        Self { rules, default_allow, shared: OnceLock::new(), own }
    }

    /// Returns whether the operation is allowed on the resource.
    pub fn allows(&self, operation: Operation, uri: &Uri) -> bool {
        self.allows_text(operation, without_query(uri))
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

    /// Returns the decision on a resource with the glob that it is based on: of several, the first of the config.
    pub fn decide(&self, operation: Operation, uri: &Uri) -> Decision {
        let subject = without_query(uri);
        let globs = self.globs(operation);
        let bare = with_bare_host(subject);
        let denied = globs.deny.first(subject).or_else(|| globs.deny.first(bare.as_deref()?));
        if let Some(glob) = denied {
            return Decision::Denied(glob.clone());
        }
        match globs.allow.first(subject) {
            Some(glob) => Decision::Allowed(glob.clone()),
            None if self.default_allow => Decision::AllowedByDefault,
            None => Decision::DeniedByDefault,
        }
    }

    /// The indices of the rules that apply, in the order of the config.
    pub fn rules(&self) -> impl Iterator<Item = usize> {
        self.rules.iter().map(|(index, _)| *index)
    }

    /// Whether everything is allowed that no rule denies.
    pub fn allows_by_default(&self) -> bool {
        self.default_allow
    }

    fn allows_text(&self, operation: Operation, subject: &str) -> bool {
        !self.denies_text(operation, subject) && (self.default_allow || self.globs(operation).allow.is_match(subject))
    }

    /// Returns whether a rule denies it: as it is, or without a port and without the trailing dot of its host. Only the
    /// provider knows whether these are the same host.
    fn denies_text(&self, operation: Operation, subject: &str) -> bool {
        let deny = &self.globs(operation).deny;
        !deny.is_empty()
            && (deny.is_match(subject) || with_bare_host(subject).is_some_and(|subject| deny.is_match(&subject)))
    }

    fn globs(&self, operation: Operation) -> &OperationPolicy {
        let own = self.own.get(operation as usize).and_then(Option::as_ref);
        own.unwrap_or(&self.shared).get_or_init(|| self.compile(operation))
    }

    fn compile(&self, operation: Operation) -> OperationPolicy {
        let applicable = || self.rules.iter().filter(move |(_, rule)| rule.operations.contains(&operation));
        let globs = |key: fn(&Rule) -> &[UriGlob]| {
            GlobIndex::new(applicable().flat_map(|(index, rule)| key(rule).iter().map(move |glob| (*index, glob))))
        };
        OperationPolicy { allow: globs(|rule| &rule.allow), deny: globs(|rule| &rule.deny) }
    }
}

impl GlobIndex {
    fn new<'g>(globs: impl Iterator<Item = (usize, &'g UriGlob)>) -> Self {
        let (mut patterns, mut origins) = (Vec::new(), Vec::new());
        for (rule, glob) in globs {
            for pattern in glob.patterns() {
                patterns.push(pattern);
                origins.push(MatchedGlob { rule, glob: glob.as_str().into() });
            }
        }
        let mut sets = Vec::new();
        compile(&patterns, 0, &mut sets);
        Self { sets, origins }
    }

    fn is_empty(&self) -> bool {
        self.origins.is_empty()
    }

    fn is_match(&self, subject: &str) -> bool {
        let candidate = Candidate::new(subject);
        self.sets.iter().any(|(_, set)| set.is_match_candidate(&candidate))
    }

    /// Returns the first glob of the config that matches.
    fn first(&self, subject: &str) -> Option<&MatchedGlob> {
        let candidate = Candidate::new(subject);
        let first = self.sets.iter().find_map(|(offset, set)| {
            let matched = set.matches_candidate(&candidate).into_iter().min()?;
            Some(offset.saturating_add(matched))
        });
        self.origins.get(first?)
    }
}

/// Compiles patterns into one set; into several, if one would exceed the size limit of a regular expression. Each pattern
/// alone has been compiled before.
fn compile(patterns: &[Glob], offset: usize, sets: &mut Vec<(usize, GlobSet)>) {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(pattern.clone());
    }
    match builder.build() {
        Ok(set) => sets.push((offset, set)),
        Err(_) => {
            let (first, second) = patterns.split_at(patterns.len() / 2);
            if !first.is_empty() {
                compile(first, offset, sets);
                compile(second, offset.saturating_add(first.len()), sets);
            }
        }
    }
}

fn without_query(uri: &Uri) -> &str {
    let text = uri.as_str();
    text.split('?').next().unwrap_or(text)
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

    proptest::proptest! {
        #[test]
        fn globs_match_together_what_one_of_them_matches_alone(
            globs in proptest::collection::vec(r"(a://x|\*\*)(/([ab.]{1,3}|\*|\*\*|\?|[ab]\*|\{a,b\}))(/([ab.]{1,3}|\*|\*\*)){0,2}", 1..6),
            subject in r"a://x(/[ab.]{0,3}){0,3}",
        ) {
            let globs: Vec<UriGlob> = globs.iter().filter_map(|glob| glob.parse().ok()).collect();
            let index = GlobIndex::new(globs.iter().enumerate());
            let alone = globs.iter().position(|glob| glob.matches(&subject));
            proptest::prop_assert_eq!(index.is_match(&subject), alone.is_some());
            proptest::prop_assert_eq!(index.first(&subject).map(|glob| glob.rule), alone);
        }
    }
}
