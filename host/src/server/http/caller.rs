//! The client of a request.

use std::sync::Arc;

use crate::access::Principal;
use crate::server::budget::Account;

/// The client of a request.
pub(super) struct Caller {
    /// The principal on whose behalf the request is made.
    pub(super) principal: Principal,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
}
