//! Log of failed queries: one throttled warning per kind of error, once a minute with the number of occurrences.
//!
//! Errors that the guest causes go through the guest's own log. Errors that only an admin can repair (a server that is
//! down, a role that can write) are logged as the host's, with the reason: a guest that has exhausted its log allowance
//! does not hide them.

use std::sync::Arc;

use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;

use super::error::QueryError;
use crate::guest_log::GuestLog;
use crate::throttled_warning::{LOG_INTERVAL, ThrottledWarning};

/// The throttled warnings about one plugin's failed queries.
#[derive(Debug)]
pub(super) struct RefusalLog {
    plugin: Arc<str>,
    not_granted: ThrottledWarning,
    rejected: ThrottledWarning,
    /// The result is too large, or the query takes too long.
    bound: ThrottledWarning,
    busy: ThrottledWarning,
    /// The database.
    database: Throttle,
}

impl RefusalLog {
    /// Creates the warnings, none of which has occurred.
    pub(super) fn new(plugin: Arc<str>, log: &Arc<GuestLog>) -> Self {
        let warning = || ThrottledWarning::new(log.clone());
        Self {
            plugin,
            not_granted: warning(),
            rejected: warning(),
            bound: warning(),
            busy: warning(),
            database: Throttle::new(LOG_INTERVAL),
        }
    }

    /// Records an error of a query of the database with that name.
    pub(super) fn record(&self, database: &str, error: &QueryError) {
        let warning = match error {
            QueryError::NotGranted(_) => &self.not_granted,
            QueryError::Rejected { .. } => &self.rejected,
            QueryError::TooLarge(_) | QueryError::OutOfMemory | QueryError::Timeout | QueryError::OutOfCpu => {
                &self.bound
            }
            QueryError::Busy(_) => &self.busy,
            QueryError::Refused(reason) | QueryError::Unreachable(reason) | QueryError::Failed(reason) => {
                if let Some(suppressed) = self.database.record() {
                    let (plugin, count) = (&*self.plugin, suppressed.saturating_add(1));
                    tracing::error!(target: log_target::PLUGIN, plugin, database, reason, count, "a database of a plugin cannot be used");
                }
                return;
            }
        };
        warning.warn(format_args!("a query of the database `{database}` failed: {error}"));
    }
}
