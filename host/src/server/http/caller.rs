//! The client of a request.

use std::sync::Arc;

use super::authentication::Authenticated;
use crate::access::Principal;
use crate::server::budget::Account;

/// The client of a request.
pub(super) struct Caller {
    /// Who makes the request.
    pub(super) authenticated: Authenticated,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
}

impl Caller {
    /// The principal on whose behalf the request is made.
    pub(super) fn principal(&self) -> &Principal {
        &self.authenticated.principal
    }
}
