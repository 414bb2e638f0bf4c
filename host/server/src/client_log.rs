//! Log messages to a client that requested them with `logging/setLevel`.
//!
//! The session-based revisions have them; 2026-07-28 does not, and SEP-2577 deprecates them. The only message says that
//! a plugin is missing from a listing, because the answers of these revisions have no member for that.

use std::collections::BTreeMap;

use mcp_host_model::resource::MissingPlugin;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::notification::notification;

/// The severity of a log message (RFC 5424, section 6.2.1), the least severe first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogLevel {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl LogLevel {
    /// Returns its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// Returns the level of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "debug" => Self::Debug,
            "info" => Self::Info,
            "notice" => Self::Notice,
            "warning" => Self::Warning,
            "error" => Self::Error,
            "critical" => Self::Critical,
            "alert" => Self::Alert,
            "emergency" => Self::Emergency,
            _ => return None,
        })
    }
}

/// The log of one session: the level that its client requested, and the pending warnings, which are the last reason for
/// each missing plugin. Nothing is sent until the client sets the level.
#[derive(Debug, Default)]
pub(super) struct ClientLog {
    level: Mutex<Option<LogLevel>>,
    warnings: Mutex<BTreeMap<String, String>>,
    added: Notify,
}

impl ClientLog {
    /// The maximum number of plugins with a warning. A bound is needed because reloads change the names of plugins.
    const MAX_PLUGINS: usize = 64;

    /// Sets the least severe level that the client requests.
    pub(super) fn set_level(&self, level: LogLevel) {
        *self.level.lock() = Some(level);
    }

    /// Adds warnings about the plugins that are missing from an answer, if the client has requested warnings.
    pub(super) fn warn_missing(&self, missing: &[MissingPlugin]) {
        if missing.is_empty() || self.level.lock().is_none_or(|level| level > LogLevel::Warning) {
            return;
        }
        let mut warnings = self.warnings.lock();
        for one in missing {
            if warnings.len() < Self::MAX_PLUGINS || warnings.contains_key(&one.plugin) {
                warnings.insert(one.plugin.clone(), one.reason.clone());
            }
        }
        drop(warnings);
        self.added.notify_waiters();
    }

    /// Waits for a warning about a plugin that `is_visible` allows, and returns it as a notification. Warnings about
    /// other plugins are dropped: the client may have lost access to them since the warnings were added. Cancel safe.
    pub(super) async fn next(&self, is_visible: impl Fn(&str) -> bool) -> Value {
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
        self.warnings.lock().pop_first()
    }
}

/// Returns the notification that a plugin is missing from a listing.
fn missing_plugin(plugin: &str, reason: &str) -> Value {
    let data = json!({ "message": "a plugin is missing from a listing", "plugin": plugin, "reason": reason });
    let params = [
        ("level".to_owned(), json!("warning")),
        ("logger".to_owned(), json!(env!("CARGO_PKG_NAME"))),
        ("data".to_owned(), data),
    ];
    notification("message", params.into_iter().collect())
}
