//! What is known of a client from its `initialize` on, beside the connection where its requests are answered.

use std::sync::{Arc, OnceLock};

use rmcp::RoleServer;
use rmcp::service::Peer;

use super::client_log::ClientLog;
use super::revision::Revision;
use crate::resource::MissingPlugin;

/// The client of a session.
pub(super) struct Client {
    /// What was agreed on.
    pub(super) revision: Revision,
    /// What it wants to be told.
    pub(super) log: Arc<ClientLog>,
    /// The way to it.
    pub(super) peer: Peer<RoleServer>,
}

/// Where the client of a session is put when it begins: a transport has it go beside `initialize` ([`super::handler`]).
#[derive(Clone, Default)]
pub(super) struct ClientCell(Arc<OnceLock<Client>>);

impl ClientCell {
    /// Its session has begun.
    pub(super) fn set(&self, client: Client) {
        // A session begins once.
        let _ = self.0.set(client);
    }

    /// The client, if the session has begun.
    pub(super) fn get(&self) -> Option<&Client> {
        self.0.get()
    }
}

impl Client {
    /// Tells it of the plugins that an answer lacks, if it wants that.
    pub(super) async fn warn_missing(&self, missing: &[MissingPlugin]) {
        self.log.warn_missing(&self.peer, missing).await;
    }
}
