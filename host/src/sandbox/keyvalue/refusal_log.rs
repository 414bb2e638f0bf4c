//! What was refused, in the log: each kind once a minute, with how often it was.
//!
//! What the guest is at fault for, or what its quota does not let it do, goes through the guest's own log. What only an admin
//! can mend (a damaged file, a full disk) is an error of the host's, with the file and with what to do: a guest that has used
//! up its log does not hide it.

use std::sync::Arc;

use super::database::DatabasePath;
use super::error::StoreError;
use crate::log_target;
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::throttled_warning::{LOG_INTERVAL, ThrottledWarning};
use crate::throttle::Throttle;

/// What one plugin was refused.
#[derive(Debug)]
pub(super) struct RefusalLog {
    not_granted: ThrottledWarning,
    quota: ThrottledWarning,
    /// A key, a value, a number, a cursor, a batch that is none or too large; too many handles.
    request: ThrottledWarning,
    busy: ThrottledWarning,
    database: DatabaseErrorLog,
}

impl RefusalLog {
    /// None so far.
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

    /// Takes note of one.
    pub(super) fn record(&self, error: &StoreError, path: Option<&DatabasePath>) {
        let warning = match error {
            StoreError::NotGranted(_) => &self.not_granted,
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
        warning.warn(format_args!("wasi:keyvalue refused: {error}"));
    }
}

/// An error about one plugin's database, which stands in the log at most once a minute.
#[derive(Debug)]
struct DatabaseErrorLog {
    plugin: Arc<str>,
    throttle: Throttle,
}

const DAMAGED_MESSAGE: &str = "the key-value store of a plugin is damaged, and its buckets cannot be used: end all hosts that use it, \
                       then mend it (`sqlite3 FILE .recover`), or move it and its `-wal` file away to begin anew";
const UNUSABLE_MESSAGE: &str = "the key-value store of a plugin cannot be used: see that the user principal runs the host can write it and its \
                      directory, and that the disk has room";

impl DatabaseErrorLog {
    fn log(&self, path: Option<&DatabasePath>, reason: &str, message: &str) {
        if let Some(suppressed) = self.throttle.record() {
            let count = suppressed.saturating_add(1);
            let (plugin, file) = (&*self.plugin, path.map(|path| path.file.display().to_string()));
            tracing::error!(target: log_target::PLUGIN, plugin, file, reason, count, "{message}");
        }
    }
}
