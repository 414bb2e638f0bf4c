//! The source of a request: its connection and its credentials.

use std::sync::Arc;

use mcp_host_config::Config;

use super::authentication::{Authenticated, ClientCertificate};
use super::request_body::BodyLimiter;
use crate::budget::Account;

/// The properties of a connection.
pub(super) struct Peer {
    /// The account of the connection's client.
    pub(super) account: Arc<Account>,
    pub(super) certificate: Option<Arc<ClientCertificate>>,
    /// The bodies that the connection receives. None for a connection of another server.
    pub(super) bodies: Option<BodyLimiter>,
}

/// The source of a request and the config that the request uses, determined once.
pub(super) struct RequestSource {
    pub(super) peer: Arc<Peer>,
    /// The config at the arrival of the request.
    pub(super) config: Arc<Config>,
    pub(super) authenticated: Authenticated,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
}
