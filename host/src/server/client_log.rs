//! Log messages to a client that requested them with `logging/setLevel`.
//!
//! The session-based revisions have them; 2026-07-28 does not, and SEP-2577 deprecates them. The only message is one
//! that an answer of these revisions has no member for: a plugin is missing from a listing.

#![allow(deprecated, reason = "the revisions that have it are still served")]

use parking_lot::Mutex;

use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam, SetLevelRequestParams};
use rmcp::service::Peer;
use serde_json::json;

use crate::resource::MissingPlugin;

/// The log level of one session. Until the client sets it, nothing is sent.
#[derive(Debug, Default)]
pub(super) struct ClientLog {
    level: Mutex<Option<LoggingLevel>>,
}

impl ClientLog {
    /// Sets the least severe level that the client requests.
    pub(super) fn set_level(&self, request: &SetLevelRequestParams) {
        *self.level.lock() = Some(request.level);
    }

    /// Sends a warning for each plugin that is missing from a listing.
    pub(super) async fn warn_missing(&self, client: &Peer<RoleServer>, missing: &[MissingPlugin]) {
        let level = *self.level.lock();
        // All other levels are more severe than a warning (RFC 5424, section 6.2.1), or none has been set.
        if !matches!(
            level,
            Some(LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice | LoggingLevel::Warning)
        ) {
            return;
        }
        for one in missing {
            let data =
                json!({ "message": "a plugin is missing from a listing", "plugin": one.plugin, "reason": one.reason });
            let message =
                LoggingMessageNotificationParam::new(LoggingLevel::Warning, data).with_logger(env!("CARGO_PKG_NAME"));
            // A client that has disconnected needs no message.
            let _ = client.notify_logging_message(message).await;
        }
    }
}
