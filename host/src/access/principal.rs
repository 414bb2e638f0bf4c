//! The principal: the identity on whose behalf a request is made.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::config::{ANONYMOUS, LOCAL};

/// The identity on whose behalf a request is made: whoever started the host, or whoever an application authenticated.
///
/// A principal is its name. Rules name principals ([`config::Rule`](crate::config::Rule)), and a principal that no rule
/// names gets what the rules for `*` give. It is cheap to clone.
///
/// ```
/// use mcp_resource_host::access::Principal;
///
/// let ada = Principal::new("ada@example.com");
/// assert_eq!(ada.name(), "ada@example.com");
/// assert_eq!(Principal::new("local"), Principal::LOCAL);
/// ```
#[derive(Clone)]
pub struct Principal(Name);

#[derive(Clone)]
enum Name {
    Static(&'static str),
    Shared(Arc<str>),
}

impl Principal {
    /// Whoever started the host: a client over stdio, the command line, an embedding application. Without a rule that allows
    /// it something by name, it may do everything that is not denied.
    pub const LOCAL: Self = Self(Name::Static(LOCAL));
    /// A client over HTTP that has not been authenticated.
    pub const ANONYMOUS: Self = Self(Name::Static(ANONYMOUS));

    /// Creates the principal with that name. `local` and `anonymous` are [`Principal::LOCAL`] and [`Principal::ANONYMOUS`]: an
    /// application must not take these from what a client says about itself.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self(Name::Shared(name.into()))
    }

    /// Its name, as rules name it.
    pub fn name(&self) -> &str {
        match &self.0 {
            Name::Static(name) => name,
            Name::Shared(name) => name,
        }
    }
}

impl PartialEq for Principal {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Principal {}

impl Hash for Principal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl fmt::Debug for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Principal").field(&self.name()).finish()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
