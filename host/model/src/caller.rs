//! The caller: the client on whose behalf a native provider is called, for providers whose answers depend on the
//! client.
//!
//! A provider gets no principal, because the host decides about access. The exception is a provider whose data is on a
//! server that knows the user: a client of an upstream with a token for each principal. It uses the
//! [caller](Caller::current), and must not reuse an answer for another caller. The host's own calls (probes, the index,
//! polls of what is the same for all) have no caller, so such a provider answers them with no data.
//!
//! The caller is a task-local variable: the façade sets it for the task of a request, and the engine for the call of a
//! native provider, which may run on another thread. Calls by which the host watches for the subscribers of one
//! [`Identity`] have one of those subscribers as their caller. This is another variable ([`Caller::scope_view`]), so
//! that no call of the host for itself, made during a request, has the caller of the request.

use std::fmt;
use std::sync::Arc;

use tokio::task::futures::TaskLocalFuture;

use crate::digest::Digest;

tokio::task_local! {
    /// The caller for which the current task calls a provider.
    static CURRENT: Option<Caller>;
    /// The access token of the current task's request.
    static TOKEN: Option<AccessToken>;
    /// The subscriber on whose behalf the current task of the host watches.
    static VIEW: Option<Caller>;
}

/// The access token that an issuer gave to a client. It may only be exchanged for another one. `Debug` does not show
/// it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AccessToken(Arc<str>);

impl AccessToken {
    /// Wraps a verified token.
    pub fn new(token: &str) -> Self {
        Self(token.into())
    }

    /// Executes a request that came with this token, or with none.
    pub fn scope<F: Future>(token: Option<Self>, request: F) -> TaskLocalFuture<Option<Self>, F> {
        TOKEN.scope(token, request)
    }

    /// Returns the token of the current task's request.
    pub fn current() -> Option<Self> {
        TOKEN.try_with(Option::clone).ok().flatten()
    }

    /// The token itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

/// The key by which a provider distinguishes callers: callers with the same identity see the same data. Only a digest,
/// so that it can be a key for the lifetime of a subscription without being a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity(Digest);

impl Identity {
    /// Creates the identity with this unique description, such as an access token, or the holder of a token of the
    /// config.
    pub fn of(description: &[u8]) -> Self {
        Self(Digest::compute(description))
    }

    /// The 32 bytes of the digest.
    pub fn bytes(&self) -> &[u8; 32] {
        self.0.bytes()
    }
}

/// The client on whose behalf a provider is called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller(Arc<Inner>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Inner {
    name: Option<Box<str>>,
    groups: Vec<Box<str>>,
    token: Option<AccessToken>,
}

impl Caller {
    /// Creates a caller for the principal of the current request, with the request's access token. `name` is the
    /// principal's name in rules: `None` if an application authenticated it under the name of a built-in principal.
    /// `groups` includes the groups of the config.
    pub fn new<'a>(name: Option<&str>, groups: impl IntoIterator<Item = &'a str>) -> Self {
        Self::with_token(name, groups, AccessToken::current())
    }

    /// Like [`new`](Self::new), for a principal with this access token, whatever the current request.
    pub fn with_token<'a>(
        name: Option<&str>,
        groups: impl IntoIterator<Item = &'a str>,
        token: Option<AccessToken>,
    ) -> Self {
        Self(Arc::new(Inner { name: name.map(Box::from), groups: groups.into_iter().map(Box::from).collect(), token }))
    }

    /// The name of the principal in rules.
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// Returns whether rules use this name for the principal.
    pub fn is_named(&self, name: &str) -> bool {
        self.0.name.as_deref() == Some(name)
    }

    /// Its access token, if it came with one from an issuer.
    pub fn access_token(&self) -> Option<&AccessToken> {
        self.0.token.as_ref()
    }

    /// Returns whether it is a member of this group.
    pub fn is_member_of(&self, group: &str) -> bool {
        self.0.groups.iter().any(|name| **name == *group)
    }

    /// Executes a task for this caller, or for none.
    pub fn scope<F: Future>(caller: Option<Self>, task: F) -> TaskLocalFuture<Option<Self>, F> {
        CURRENT.scope(caller, task)
    }

    /// Returns the caller for which the current task calls a provider; none if it is unknown, or the host calls for
    /// itself.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Option::clone).ok().flatten()
    }

    /// Executes a task of the host that watches on behalf of this subscriber, or of none.
    pub fn scope_view<F: Future>(caller: Option<Self>, task: F) -> TaskLocalFuture<Option<Self>, F> {
        VIEW.scope(caller, task)
    }

    /// Returns the subscriber on whose behalf the current task of the host watches. Never the caller of a request.
    pub fn of_view() -> Option<Self> {
        VIEW.try_with(Option::clone).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_has_its_own_caller_and_one_within_it_another() {
        assert_eq!(Caller::current(), None);
        let ada = Caller::new(Some("ada"), ["team"]);
        let within = Caller::scope(Some(ada.clone()), async {
            assert!(Caller::scope(None, async { Caller::current() }).await.is_none());
            Caller::current()
        });
        assert_eq!(within.await, Some(ada.clone()));
        assert!(ada.is_named("ada") && ada.is_member_of("team") && !ada.is_named("team") && !ada.is_member_of("ada"));
        assert_eq!(Caller::current(), None);
    }

    #[tokio::test]
    async fn the_caller_of_a_request_is_none_of_a_view() {
        let ada = Caller::new(Some("ada"), []);
        Caller::scope(Some(ada.clone()), async { assert_eq!(Caller::of_view(), None) }).await;
        let watching = Caller::scope_view(Some(ada.clone()), async { (Caller::of_view(), Caller::current()) });
        assert_eq!(watching.await, (Some(ada), None));
    }
}
