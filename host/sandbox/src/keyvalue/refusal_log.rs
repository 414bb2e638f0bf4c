//! Log of failed operations: one throttled warning per kind of error, once a minute with the number of occurrences.
//!
//! Errors that the guest causes, or that its quota does, go through the guest's own log. Errors that only an admin can
//! repair (a damaged file, a full disk) are logged as the host's, with the file and the remedy: a guest that has
//! exhausted its log allowance does not hide them.

use std::sync::Arc;

use mcp_host_base::log_target;
use mcp_host_base::throttle::Throttle;

use super::database::DatabasePath;
use super::error::StoreError;
use crate::guest_log::GuestLog;
use crate::throttled_warning::{LOG_INTERVAL, ThrottledWarning};

/// The throttled warnings about one plugin's failed operations.
#[derive(Debug)]
pub(super) struct RefusalLog {
    not_granted: ThrottledWarning,
    quota: ThrottledWarning,
    /// An invalid or oversized key, value, number, cursor or batch; too many handles.
    request: ThrottledWarning,
    busy: ThrottledWarning,
    database: DatabaseErrorLog,
}

impl RefusalLog {
    /// Creates the warnings, none of which has occurred.
    pub(super) fn new(plugin: Arc<str>, log: &Arc<GuestLog>) -> Self {
        let warning = || ThrottledWarning::new(log.clone());
        Self {
            not_granted: warning(),
            quota: warning(),
            request: warning(),
            busy: warning(),
            database: DatabaseErrorLog { plugin, throttle: Throttle::new(LOG_INTERVAL) },
        }
    }

    /// Records an error.
    pub(super) fn record(&self, error: &StoreError, path: Option<&DatabasePath>) {
        let warning = match error {
            StoreError::NotGranted { .. } => &self.not_granted,
            StoreError::ByteQuotaExceeded { .. } | StoreError::KeyQuotaExceeded { .. } => &self.quota,
            StoreError::Busy => &self.busy,
            StoreError::Damaged(reason) => return self.database.log(path, reason, DAMAGED_MESSAGE),
            StoreError::Failed(reason) => return self.database.log(path, reason, UNUSABLE_MESSAGE),
            StoreError::NoStateDir
            | StoreError::InvalidKeyLength(_)
            | StoreError::ValuesTooLarge
            | StoreError::TooManyKeys(_)
            | StoreError::NotANumber
            | StoreError::Overflow
            | StoreError::InvalidCursor
            | StoreError::OutOfMemory
            | StoreError::TooManyHandles => &self.request,
        };
        warning.warn(format_args!("a `wasi:keyvalue` call failed: {error}"));
    }
}

/// An error about one plugin's database, logged at most once a minute.
#[derive(Debug)]
struct DatabaseErrorLog {
    plugin: Arc<str>,
    throttle: Throttle,
}

const DAMAGED_MESSAGE: &str = "the key-value store of a plugin is damaged, and its buckets cannot be used: stop all hosts that use it, \
     then repair it (`sqlite3 FILE .recover`), or move it and its `-wal` file away to start with an empty store";
const UNUSABLE_MESSAGE: &str = "the key-value store of a plugin cannot be used: check that the user who runs the host can write to it and its \
     directory, and that the disk is not full";

impl DatabaseErrorLog {
    fn log(&self, path: Option<&DatabasePath>, reason: &str, message: &str) {
        if let Some(suppressed) = self.throttle.record() {
            let count = suppressed.saturating_add(1);
            let (plugin, file) = (&*self.plugin, path.map(|path| path.file.display().to_string()));
            tracing::error!(target: log_target::PLUGIN, plugin, file, reason, count, "{message}");
        }
    }
}
