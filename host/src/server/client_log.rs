//! Log messages to a client that requested them with `logging/setLevel`.
//!
//! The session-based revisions have them; 2026-07-28 does not, and SEP-2577 deprecates them. The only message is one
//! that an answer of these revisions has no member for: a plugin is missing from a listing.

#![allow(deprecated, reason = "the revisions that have it are still served")]

#[cfg(feature = "http")]
use std::collections::BTreeMap;

use parking_lot::Mutex;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use serde_json::json;
#[cfg(feature = "http")]
use tokio::sync::Notify;

#[cfg(feature = "http")]
use crate::resource::MissingPlugin;

/// The log level of one session. Until the client sets it, nothing is sent.
#[derive(Debug, Default)]
pub(super) struct ClientLog {
    level: Mutex<Option<LoggingLevel>>,
}

impl ClientLog {
    /// Sets the least severe level that the client requests.
    pub(super) fn set_level(&self, level: LoggingLevel) {
        *self.level.lock() = Some(level);
    }

    /// Returns whether the client has requested warnings.
    pub(super) fn has_warnings(&self) -> bool {
        // All other levels are more severe than a warning (RFC 5424, section 6.2.1), or none has been set.
        matches!(
            *self.level.lock(),
            Some(LoggingLevel::Debug | LoggingLevel::Info | LoggingLevel::Notice | LoggingLevel::Warning)
        )
    }
}

/// Returns the warning that a plugin is missing from a listing.
pub(super) fn missing_plugin(plugin: &str, reason: &str) -> LoggingMessageNotificationParam {
    let data = json!({ "message": "a plugin is missing from a listing", "plugin": plugin, "reason": reason });
    LoggingMessageNotificationParam::new(LoggingLevel::Warning, data).with_logger(env!("CARGO_PKG_NAME"))
}

/// The warnings of one session that wait for an event stream: the last reason of each plugin.
#[cfg(feature = "http")]
#[derive(Debug, Default)]
pub(super) struct PendingWarnings {
    reasons: Mutex<BTreeMap<String, String>>,
    added: Notify,
}

#[cfg(feature = "http")]
impl PendingWarnings {
    /// The maximum number of plugins: names of plugins change with reloads.
    const MAX_PLUGINS: usize = 64;

    /// Adds the plugins that are missing from an answer.
    pub(super) fn add(&self, missing: &[MissingPlugin]) {
        let mut reasons = self.reasons.lock();
        for one in missing {
            if reasons.len() < Self::MAX_PLUGINS || reasons.contains_key(&one.plugin) {
                reasons.insert(one.plugin.clone(), one.reason.clone());
            }
        }
        drop(reasons);
        self.added.notify_waiters();
    }

    /// Waits for a warning about a plugin that `is_visible` allows, and removes it, as well as those about others: the client
    /// may have been allowed to know of them when they were added. Cancel safe.
    pub(super) async fn next(&self, is_visible: impl Fn(&str) -> bool) -> LoggingMessageNotificationParam {
        loop {
            let added = self.added.notified();
            while let Some((plugin, reason)) = self.pop() {
                if is_visible(&plugin) {
                    return missing_plugin(&plugin, &reason);
                }
            }
            added.await;
        }
    }

    fn pop(&self) -> Option<(String, String)> {
        self.reasons.lock().pop_first()
    }
}
