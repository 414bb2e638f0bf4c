//! Who makes a request: what its connection supplies, and what its credentials say.

use std::sync::Arc;

use mcp_host_config::Config;

use super::authentication::{Authenticated, ClientCertificate};
use super::request_body::BodyLimiter;
use crate::budget::Account;

/// What a connection supplies of its requests.
pub(super) struct Peer {
    /// The account of its client.
    pub(super) account: Arc<Account>,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// The bodies that it receives; none if it is a connection of another server.
    pub(super) bodies: Option<BodyLimiter>,
}

/// Who makes a request, and the config that the request sees, determined once.
pub(super) struct RequestSource {
    pub(super) peer: Arc<Peer>,
    /// The config when the request arrived.
    pub(super) config: Arc<Config>,
    pub(super) authenticated: Authenticated,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
}
