//! The client of a session, as direct answers need it: known from `initialize` on.

use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::service::Peer;
#[cfg(feature = "http")]
use tokio::time::Instant;

use super::client_log::ClientLog;
#[cfg(feature = "http")]
use super::notifications::SessionSubscriptions;
#[cfg(feature = "http")]
use super::revision::Revision;
#[cfg(feature = "http")]
use crate::access::Principal;
use crate::resource::MissingPlugin;

/// The client of a session.
pub(super) struct Client {
    /// The negotiated revision.
    #[cfg(feature = "http")]
    pub(super) revision: Revision,
    /// The log messages that it has requested.
    pub(super) log: Arc<ClientLog>,
    /// The subscriptions of the session.
    #[cfg(feature = "http")]
    pub(super) subscriptions: Arc<SessionSubscriptions>,
    /// rmcp's handle, for notifications.
    pub(super) peer: Peer<RoleServer>,
}

/// A cell that a transport attaches to `initialize`, and that the [handler](super::handler) sets when the session
/// opens.
#[derive(Clone, Default)]
pub(super) struct ClientCell(Arc<OnceLock<Client>>);

impl ClientCell {
    /// Sets the client, when its session opens.
    pub(super) fn set(&self, client: Client) {
        // A session opens once.
        let _ = self.0.set(client);
    }

    /// Returns the client, if the session is open.
    pub(super) fn get(&self) -> Option<&Client> {
        self.0.get()
    }
}

impl Client {
    /// Replaces the principal of the session's subscriptions: the same identity with other groups, and until when it has them.
    #[cfg(feature = "http")]
    pub(super) fn set_principal(&self, principal: &Principal, until: Option<Instant>) {
        self.subscriptions.set_principal(principal, until);
    }

    /// Sends log messages about the plugins that are missing from an answer, if the client has requested warnings.
    pub(super) async fn warn_missing(&self, missing: &[MissingPlugin]) {
        self.log.warn_missing(&self.peer, missing).await;
    }
}
