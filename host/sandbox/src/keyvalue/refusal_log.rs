//! The log of bucket operations that failed, with all details for the admin.
//!
//! Each kind of error is logged once a minute, with the number of occurrences. Errors that the guest or its quota causes go through
//! the guest's own log. Errors that only an admin can repair (a damaged file, a full disk) are logged as the host's, with the file
//! and the remedy: a guest that has exhausted its log allowance does not hide them.

use std::sync::Arc;

use mcp_host_base::log_target;

use super::database::DatabasePath;
use super::error::StoreError;
use crate::guest_log::{GuestLog, ThrottledWarnings};

const DAMAGED_MESSAGE: &str = "the key-value store of a plugin is damaged, and its buckets cannot be used: stop all hosts that use it, \
     then repair it (`sqlite3 FILE .recover`), or move it and its `-wal` file away to start with an empty store";
const UNUSABLE_MESSAGE: &str = "the key-value store of a plugin cannot be used: check that the user who runs the host can write to it and its \
     directory, and that the disk is not full";
const UNREACHABLE_MESSAGE: &str = "the shared buckets of a plugin cannot be reached: check the servers of `cluster.nats` and that JetStream has a \
     leader; calls on shared buckets fail until then";
const REFUSED_MESSAGE: &str = "NATS refuses requests about the shared buckets of a plugin: check the permissions in docs/cluster.md, and the storage \
     of JetStream";
const FOREIGN_MESSAGE: &str = "a shared bucket of a plugin has values that no host writes: check who may publish to its subjects (docs/cluster.md)";
const NO_CLUSTER_MESSAGE: &str = "a shared bucket of a plugin cannot be used: add `[cluster]` to the config and start the host again, or \
     remove `shared = true`";

/// The throttled warnings about one plugin's failed operations.
#[derive(Debug)]
pub(super) struct RefusalLog {
    plugin: Arc<str>,
    warnings: ThrottledWarnings,
}

impl RefusalLog {
    /// Creates the warnings, without occurrences.
    pub(super) fn new(plugin: Arc<str>, log: &Arc<GuestLog>) -> Self {
        Self { plugin, warnings: ThrottledWarnings::new(log.clone()) }
    }

    /// Records an error.
    pub(super) fn record(&self, error: &StoreError, path: Option<&DatabasePath>) {
        let reason = match error {
            StoreError::NotGranted { .. } => "not granted",
            StoreError::ByteQuotaExceeded { .. }
            | StoreError::SharedByteQuotaExceeded { .. }
            | StoreError::KeyQuotaExceeded { .. } => "quota",
            StoreError::Busy => "busy",
            StoreError::Damaged(reason) => return self.record_unusable(path, reason, DAMAGED_MESSAGE),
            StoreError::Failed(reason) => return self.record_unusable(path, reason, UNUSABLE_MESSAGE),
            StoreError::Unreachable(reason) => return self.record_shared(reason, UNREACHABLE_MESSAGE),
            StoreError::Refused(reason) => return self.record_shared(reason, REFUSED_MESSAGE),
            StoreError::Foreign(reason) => return self.record_shared(reason, FOREIGN_MESSAGE),
            StoreError::NoCluster(_) => return self.record_shared(&error.to_string(), NO_CLUSTER_MESSAGE),
            StoreError::NoStateDir
            | StoreError::SharedValueTooLarge { .. }
            | StoreError::InvalidKeyLength(_)
            | StoreError::ValuesTooLarge
            | StoreError::TooManyKeys(_)
            | StoreError::NotANumber
            | StoreError::Overflow
            | StoreError::InvalidCursor
            | StoreError::OutOfMemory
            | StoreError::TooManyHandles => "request",
        };
        self.warnings.warn(reason, format_args!("a `wasi:keyvalue` call failed: {error}"));
    }

    fn record_shared(&self, reason: &str, message: &'static str) {
        if let Some(count) = self.warnings.record(message) {
            let plugin = &*self.plugin;
            tracing::warn!(target: log_target::PLUGIN, plugin, reason, count, "{message}");
        }
    }

    fn record_unusable(&self, path: Option<&DatabasePath>, reason: &str, message: &str) {
        if let Some(count) = self.warnings.record("database") {
            let (plugin, file) = (&*self.plugin, path.map(|path| path.file.display().to_string()));
            tracing::error!(target: log_target::PLUGIN, plugin, file, reason, count, "{message}");
        }
    }
}
