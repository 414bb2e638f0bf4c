//! The principal: the identity on whose behalf a request is made.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The name of the principal that started the host.
pub const LOCAL: &str = "local";

/// The name of the principal of HTTP requests without authentication.
pub const ANONYMOUS: &str = "anonymous";

/// The identity on whose behalf a request is made: the user who started the host, or a user that the host or an
/// application authenticated.
///
/// A principal is its name and its groups. Rules of the config name both; a principal that no rule names gets the
/// access of the rules for `*`. It is cheap to clone.
///
/// The built-in principals are constants. No name makes a principal equal to one of them, so a user named `local` has
/// none of the rights of [`Principal::LOCAL`]. Prefix names with an issuer, as in `users/ada`: rules of a config file
/// can name only such names, and the principals that the file itself declares.
///
/// ```
/// use mcp_host_model::principal::Principal;
///
/// let ada = Principal::new("users/ada").with_groups(["users/engineering"]);
/// assert_eq!(ada.name(), "users/ada");
/// assert_ne!(Principal::new("local"), Principal::LOCAL);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Principal {
    name: Name,
    /// None means no group.
    groups: Option<Arc<Groups>>,
}

/// The names of groups.
#[derive(PartialEq, Eq)]
struct Groups {
    /// Sorted, without duplicates.
    names: Box<[Box<str>]>,
    /// The hash of the names: policies are looked up by principal for each request, and a principal may have many
    /// groups.
    hash: u64,
}

impl Hash for Groups {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Name {
    Local,
    Anonymous,
    Authenticated(Arc<str>),
}

impl Principal {
    /// The principal that started the host: a client over stdio, the command line, an embedding application. Unless a
    /// rule allows it something by name, it may do everything that is not denied.
    pub const LOCAL: Self = Self { name: Name::Local, groups: None };
    /// A client over HTTP that has not been authenticated.
    pub const ANONYMOUS: Self = Self { name: Name::Anonymous, groups: None };

    /// Creates the principal with this name, in no group.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self { name: Name::Authenticated(name.into()), groups: None }
    }

    /// Adds the principal to the groups that its issuer asserts. The host adds the groups of a config file.
    #[must_use]
    pub fn with_groups(self, groups: impl IntoIterator<Item = impl Into<Box<str>>>) -> Self {
        let mut all: Vec<Box<str>> = self.groups().map(Box::from).chain(groups.into_iter().map(Into::into)).collect();
        all.sort_unstable();
        all.dedup();
        let mut hasher = DefaultHasher::new();
        all.hash(&mut hasher);
        let groups = Groups { names: all.into(), hash: hasher.finish() };
        Self { groups: (!groups.names.is_empty()).then(|| groups.into()), ..self }
    }

    /// Its name in rules.
    pub fn name(&self) -> &str {
        match &self.name {
            Name::Local => LOCAL,
            Name::Anonymous => ANONYMOUS,
            Name::Authenticated(name) => name,
        }
    }

    /// The groups that it was created with, in alphabetical order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|groups| &groups.names).map(|group| &**group)
    }

    /// Whether it is a built-in principal.
    pub fn is_built_in(&self) -> bool {
        !matches!(self.name, Name::Authenticated(_))
    }

    /// Returns the same identity, in no group.
    pub fn identity(&self) -> Self {
        Self { name: self.name.clone(), groups: None }
    }

    /// Returns whether both are the same identity, whatever their groups: a renewed token may name other groups.
    pub fn is_same_identity(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Principal");
        debug.field("name", &self.name());
        if self.groups.is_some() {
            debug.field("groups", &self.groups().collect::<Vec<_>>());
        }
        debug.finish()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_makes_a_built_in_principal() {
        for (named, built_in) in
            [(Principal::new("local"), Principal::LOCAL), (Principal::new("anonymous"), Principal::ANONYMOUS)]
        {
            assert_ne!(named, built_in);
            assert!(!named.is_same_identity(&built_in) && !named.is_built_in());
        }
    }

    #[test]
    fn groups_are_a_set_and_do_not_change_the_identity() {
        let ada = Principal::new("users/ada");
        let member = ada.clone().with_groups(["b", "a"]).with_groups(["b"]);
        assert_eq!(member.groups().collect::<Vec<_>>(), ["a", "b"]);
        assert!(member.is_same_identity(&ada));
        assert_ne!(member, ada);
        assert_eq!(ada.clone().with_groups(Vec::<String>::new()), ada);
    }
}
