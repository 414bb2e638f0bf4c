//! The client of a connection over stdio, as direct answers need it: known from `initialize` on.

use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::service::Peer;

use super::client_log::{self, ClientLog};
use crate::resource::MissingPlugin;

/// The client of a connection.
pub(super) struct Client {
    /// The log messages that it has requested.
    pub(super) log: Arc<ClientLog>,
    /// rmcp's handle, for notifications.
    pub(super) peer: Peer<RoleServer>,
}

/// A cell that the transport attaches to `initialize`, and that the [handler](super::handler) sets when the session
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
    /// Sends log messages about the plugins that are missing from an answer, if the client has requested warnings.
    #[allow(deprecated, reason = "the revisions that have it are still served")]
    pub(super) async fn warn_missing(&self, missing: &[MissingPlugin]) {
        if !self.log.has_warnings() {
            return;
        }
        for one in missing {
            // A client that has disconnected needs no message.
            let _ = self.peer.notify_logging_message(client_log::missing_plugin(&one.plugin, &one.reason)).await;
        }
    }
}
