//! Errors of bucket operations: without internals for the guest and its clients, and with all details for the admin.
//!
//! Each kind of error is logged once a minute, with the number of occurrences ([`StoreError::log`]). Errors that the
//! guest or its quota causes go through the guest's own log. Errors that only an admin can repair (a damaged file, a
//! full disk) are logged as the host's, with the file and the remedy: a guest that has exhausted its log allowance does
//! not hide them.

use std::path::Path;

use mcp_host_base::log_target;
use wasmtime::component::{Resource, ResourceTableError};

use super::{Bucket, Cas, MAX_KEY, MAX_KEYS, MAX_VALUE};
use crate::guest_log::ThrottledWarnings;

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

/// The reason why an operation failed. Its text is returned to the guest, which may pass it on to a client: it contains
/// no path and no message of SQLite.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    /// The bucket does not exist, because it is not granted.
    #[error("the bucket `{name}` is not granted; {}", list_granted(.granted))]
    NotGranted {
        /// The requested bucket.
        name: String,
        /// The granted buckets.
        granted: Vec<String>,
    },
    /// The key is empty or too long.
    #[error("a key has 1 to {MAX_KEY} bytes, not {0}")]
    InvalidKeyLength(usize),
    /// A value is too large, or the total of all values of one call.
    #[error("the values of one call have at most {} together", bytesize::ByteSize(MAX_VALUE as u64))]
    ValuesTooLarge,
    /// One call names too many keys.
    #[error("one call takes at most {MAX_KEYS} keys, not {0}")]
    TooManyKeys(usize),
    /// The bucket would exceed its quota of bytes.
    #[error("quota exceeded: the bucket `{name}` may hold {} of keys and values", bytesize::ByteSize(*.quota))]
    ByteQuotaExceeded {
        /// The bucket.
        name: String,
        /// The quota.
        quota: u64,
    },
    /// The bucket would exceed its quota of keys.
    #[error("quota exceeded: the bucket `{name}` may hold {quota} keys")]
    KeyQuotaExceeded {
        /// The bucket.
        name: String,
        /// The quota.
        quota: u64,
    },
    /// The shared bucket would exceed its quota of bytes.
    #[error(
        "quota exceeded: the shared bucket `{name}` may hold {} as NATS stores it, with about 150 bytes for each key",
        bytesize::ByteSize(*.quota)
    )]
    SharedByteQuotaExceeded {
        /// The bucket.
        name: String,
        /// The quota.
        quota: u64,
    },
    /// A value is too large for a shared bucket.
    #[error(
        "a value of {length} bytes, and in a shared bucket one value has at most {max}, as the maximum message of NATS permits \
         (`max_payload`); all values of one call have at most {} together", bytesize::ByteSize(MAX_VALUE as u64)
    )]
    SharedValueTooLarge {
        /// The size of the value.
        length: usize,
        /// The maximum.
        max: usize,
    },
    /// The value to be incremented is not a number.
    #[error("the value of the key is not an integer in decimal digits")]
    NotANumber,
    /// The sum is out of range.
    #[error("the sum is out of range")]
    Overflow,
    /// The cursor is invalid.
    #[error("the cursor was not issued by this bucket")]
    InvalidCursor,
    /// The instance has reached its limit of handles.
    #[error("too many open handles")]
    TooManyHandles,
    /// `limits.memory` is exhausted.
    #[error("out of memory: the keys and values of the call exceed `limits.memory`")]
    OutOfMemory,
    /// Another process has held the write lock for too long, or other hosts have written the key each time.
    #[error("the store is busy; try again")]
    Busy,
    /// The bucket is shared, and the host has no cluster.
    #[error("the bucket `{0}` is shared between replicas, and this host has no `[cluster]`")]
    NoCluster(String),
    /// The store of shared buckets does not answer in time. A write may have been carried out.
    #[error("the store of shared buckets cannot be reached; try again")]
    Unreachable(String),
    /// The store of shared buckets rejects the request.
    #[error("the store of shared buckets refuses the request")]
    Refused(String),
    /// The stored value, or the answer, is not one of a host.
    #[error("the value of the key cannot be used: no host has written it")]
    Foreign(String),
    /// The host has no state directory.
    #[error("the host has no state directory to store it in")]
    NoStateDir,
    /// The file is damaged, or was not created by this host.
    #[error("the store of this plugin is damaged")]
    Damaged(String),
    /// The file cannot be read or written.
    #[error("the store of this plugin cannot be used")]
    Failed(String),
}

fn list_granted(granted: &[String]) -> String {
    match granted {
        [] => "no bucket is granted".to_owned(),
        granted => format!("granted are `{}`", granted.join("`, `")),
    }
}

impl StoreError {
    pub(super) fn byte_quota_exceeded(bucket: &Bucket) -> Self {
        Self::ByteQuotaExceeded { name: bucket.name.to_string(), quota: bucket.quota.bytes }
    }

    pub(super) fn key_quota_exceeded(bucket: &Bucket) -> Self {
        Self::KeyQuotaExceeded { name: bucket.name.to_string(), quota: bucket.quota.keys }
    }

    /// Returns the text for an admin, with the file if the error is about it.
    pub(super) fn for_admin(&self, file: &Path) -> String {
        match self {
            Self::Damaged(reason) => format!("{} is damaged: {reason}", file.display()),
            Self::Failed(reason) => format!("{}: {reason}", file.display()),
            Self::Busy => format!("{}: {self}", file.display()),
            Self::Unreachable(reason) | Self::Refused(reason) | Self::Foreign(reason) => format!("{self}: {reason}"),
            error => error.to_string(),
        }
    }

    /// Returns whether the error is a fault of the database, not of the request.
    pub(super) fn is_database_fault(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Failed(_))
    }

    /// Logs the error, unless it is throttled. `file` is the database of the plugin.
    pub(super) fn log(&self, file: Option<&Path>, warnings: &ThrottledWarnings) {
        let reason = match self {
            Self::NotGranted { .. } => "not granted",
            Self::ByteQuotaExceeded { .. } | Self::SharedByteQuotaExceeded { .. } | Self::KeyQuotaExceeded { .. } => {
                "quota"
            }
            Self::Busy => "busy",
            Self::Damaged(reason) => return log_unusable(file, reason, DAMAGED_MESSAGE, warnings),
            Self::Failed(reason) => return log_unusable(file, reason, UNUSABLE_MESSAGE, warnings),
            Self::Unreachable(reason) => return log_shared(reason, UNREACHABLE_MESSAGE, warnings),
            Self::Refused(reason) => return log_shared(reason, REFUSED_MESSAGE, warnings),
            Self::Foreign(reason) => return log_shared(reason, FOREIGN_MESSAGE, warnings),
            Self::NoCluster(_) => return log_shared(&self.to_string(), NO_CLUSTER_MESSAGE, warnings),
            Self::NoStateDir
            | Self::SharedValueTooLarge { .. }
            | Self::InvalidKeyLength(_)
            | Self::ValuesTooLarge
            | Self::TooManyKeys(_)
            | Self::NotANumber
            | Self::Overflow
            | Self::InvalidCursor
            | Self::OutOfMemory
            | Self::TooManyHandles => "request",
        };
        warnings.warn(reason, format_args!("a `wasi:keyvalue` call failed: {self}"));
    }
}

fn log_shared(reason: &str, message: &'static str, warnings: &ThrottledWarnings) {
    if let Some(count) = warnings.record(message) {
        let plugin = warnings.plugin();
        tracing::warn!(target: log_target::PLUGIN, plugin, reason, count, "{message}");
    }
}

fn log_unusable(file: Option<&Path>, reason: &str, message: &str, warnings: &ThrottledWarnings) {
    if let Some(count) = warnings.record("database") {
        let (plugin, file) = (warnings.plugin(), file.map(|file| file.display().to_string()));
        tracing::error!(target: log_target::PLUGIN, plugin, file, reason, count, "{message}");
    }
}

impl From<ResourceTableError> for StoreError {
    fn from(_: ResourceTableError) -> Self {
        Self::TooManyHandles
    }
}

/// The reason why a swap did not happen.
#[derive(Debug)]
pub(super) enum SwapError {
    /// The operation failed.
    Store(StoreError),
    /// The key was written after the handle was created. The new handle has the key's current state.
    Failed(Resource<Cas>),
}

impl<E: Into<StoreError>> From<E> for SwapError {
    fn from(error: E) -> Self {
        Self::Store(error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_is_told_has_no_word_of_the_file_nor_of_the_log_that_it_ends_in() {
        let of_shared = [StoreError::Unreachable, StoreError::Refused, StoreError::Foreign];
        let of_file = [StoreError::Damaged, StoreError::Failed];
        for error in of_shared.into_iter().chain(of_file).map(|error: fn(String) -> _| error("/secret/place".into())) {
            let text = error.to_string();
            assert!(!text.contains("secret") && !text.contains("log"), "{text}");
        }
    }

    #[test]
    fn an_ungranted_bucket_is_told_with_what_is_granted() {
        let error = |granted: &[&str]| StoreError::NotGranted {
            name: "pages".into(),
            granted: granted.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(error(&[]).to_string(), "the bucket `pages` is not granted; no bucket is granted");
        assert_eq!(error(&["a", "b"]).to_string(), "the bucket `pages` is not granted; granted are `a`, `b`");
    }

    #[test]
    fn quotas_are_told_as_they_are_written() {
        let error = StoreError::ByteQuotaExceeded { name: "pages".into(), quota: 64 << 20 };
        assert_eq!(error.to_string(), "quota exceeded: the bucket `pages` may hold 64.0 MiB of keys and values");
    }
}
