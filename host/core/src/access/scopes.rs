//! The scopes of a request's credentials (RFC 6749, section 3.3): the operations that an access token is for.
//!
//! The server rejects a request whose credentials are not for its operations (RFC 6750, section 3.1,
//! `insufficient_scope`). Optional parts of a response that need another operation, such as the index of a directory
//! that is read, are omitted here instead. The access rules apply in addition.
//!
//! The scopes are a task-local variable, because only the transport knows the credentials, and everything between the
//! transport and a plugin runs on the task of the request. The host's own work has no credentials and is not
//! restricted.

use mcp_host_config::Operation;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    /// The scopes of the request that the current task executes.
    static CURRENT: CredentialScopes;
}

/// The operations that the credentials of a request do not cover; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CredentialScopes {
    /// By operation, in the order of [`Operation::ALL`].
    missing: [bool; Operation::ALL.len()],
}

impl CredentialScopes {
    /// Credentials for all operations except those that `allows` rejects.
    pub fn new(allows: impl Fn(Operation) -> bool) -> Self {
        Self { missing: Operation::ALL.map(|operation| !allows(operation)) }
    }

    /// Executes a request that came with these credentials.
    pub fn scope<F: Future>(self, request: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, request)
    }

    /// Returns the credentials of the current request; credentials for all operations outside of a request.
    pub fn current() -> Self {
        CURRENT.try_with(|scopes| *scopes).unwrap_or_default()
    }

    /// Returns whether the credentials of the current request are for an operation.
    pub fn current_include(operation: Operation) -> bool {
        Self::current().include(operation)
    }

    /// Returns whether the credentials are for an operation.
    pub fn include(self, operation: Operation) -> bool {
        !Operation::ALL.into_iter().zip(self.missing).any(|(one, is_missing)| one == operation && is_missing)
    }

    /// Returns whether the credentials are for every operation that the others are for.
    pub fn cover(self, others: Self) -> bool {
        Operation::ALL.into_iter().all(|operation| self.include(operation) || !others.include(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_cover_others_that_are_for_nothing_else() {
        let all = CredentialScopes::default();
        let scopes: Vec<_> = Operation::ALL.map(|operation| CredentialScopes::new(|one| one == operation)).into();
        for (number, one) in scopes.iter().enumerate() {
            assert!(all.cover(*one) && one.cover(*one) && !one.cover(all));
            for other in scopes.iter().skip(number + 1) {
                assert!(!one.cover(*other) && !other.cover(*one));
            }
        }
    }

    #[tokio::test]
    async fn a_request_has_the_operations_of_its_credentials_and_the_host_has_all() {
        let allowed = || Operation::ALL.into_iter().filter(|one| CredentialScopes::current_include(*one)).count();
        assert_eq!(allowed(), Operation::ALL.len(), "the host has no credentials");
        for operation in Operation::ALL {
            let scopes = CredentialScopes::new(|one| one == operation);
            let includes = scopes.scope(async { (allowed(), CredentialScopes::current_include(operation)) }).await;
            assert_eq!(includes, (1, true), "{operation:?}");
            // A task of the host itself has no credentials, even if a request has started it.
            let spawned = scopes.scope(async { tokio::spawn(async move { allowed() }).await }).await;
            assert_eq!(spawned.unwrap(), Operation::ALL.len());
        }
    }
}
