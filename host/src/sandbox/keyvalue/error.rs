//! Why an operation on a bucket failed: for the guest in words that a client may read, for the admin with all there is to know.

use rusqlite::ErrorCode;
use wasmtime::component::ResourceTableError;

use super::{Bucket, MAX_KEY, MAX_KEYS, MAX_VALUE};

/// Why an operation failed. Its text is what the guest is told, and through it a client may be: no path, no word of SQLite's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum StoreError {
    /// There is no such bucket, since none is granted.
    #[error("the bucket `{0}` is not granted")]
    NotGranted(String),
    /// The key is empty or too long.
    #[error("a key has 1 to {MAX_KEY} bytes, and not {0}")]
    InvalidKeyLength(usize),
    /// The value is too long, or the values of one call are.
    #[error("the values of one call have at most {} together", bytesize::ByteSize(MAX_VALUE as u64))]
    ValuesTooLarge,
    /// One call is about too many keys.
    #[error("one call is about at most {MAX_KEYS} keys, and not {0}")]
    TooManyKeys(usize),
    /// It would have more bytes than its quota.
    #[error("the bucket `{name}` is full: it may hold {} of keys and values", bytesize::ByteSize(*.quota))]
    ByteQuotaExceeded {
        /// The bucket.
        name: String,
        /// Its quota.
        quota: u64,
    },
    /// It would have more keys than its quota.
    #[error("the bucket `{name}` is full: it may hold {quota} keys")]
    KeyQuotaExceeded {
        /// The bucket.
        name: String,
        /// Its quota.
        quota: u64,
    },
    /// What should be incremented is no number.
    #[error("the value of the key is no whole number in decimal digits")]
    NotANumber,
    /// The sum is too large or too small.
    #[error("the sum is too large or too small a number")]
    Overflow,
    /// The cursor was not made here.
    #[error("the cursor is none that this bucket gave out")]
    InvalidCursor,
    /// The instance holds as many handles as it may.
    #[error("there are too many open handles")]
    TooManyHandles,
    /// The host may keep no more for the plugin: `limits.memory` is used up.
    #[error("there is no memory left for the keys and values of the call")]
    OutOfMemory,
    /// Another process writes for too long.
    #[error("the store is busy; try again")]
    Busy,
    /// There is no directory to keep it in.
    #[error("there is no place to keep it in")]
    NoStateDir,
    /// The file is damaged, or is none of this host's.
    #[error("the store of this plugin is damaged; the log of the host says more")]
    Damaged(String),
    /// The file cannot be read or written.
    #[error("the store of this plugin cannot be used; the log of the host says more")]
    Failed(String),
}

impl StoreError {
    pub(super) fn byte_quota_exceeded(bucket: &Bucket) -> Self {
        Self::ByteQuotaExceeded { name: bucket.name.to_string(), quota: bucket.quota.bytes }
    }

    pub(super) fn key_quota_exceeded(bucket: &Bucket) -> Self {
        Self::KeyQuotaExceeded { name: bucket.name.to_string(), quota: bucket.quota.keys }
    }

    /// Whether the database is at fault, and not the request.
    pub(super) fn is_database_fault(&self) -> bool {
        matches!(self, Self::Damaged(_) | Self::Failed(_))
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(_) => Self::Failed(error.to_string()),
            // SQLite itself found nothing wrong: a value is of a type that nothing here writes, or a table is missing.
            None => Self::Damaged(error.to_string()),
        }
    }
}

impl From<ResourceTableError> for StoreError {
    fn from(_: ResourceTableError) -> Self {
        Self::TooManyHandles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_guest_is_told_has_no_word_of_the_file() {
        for error in [StoreError::Damaged("/secret/place".into()), StoreError::Failed("/secret/place".into())] {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn quotas_are_told_as_they_are_written() {
        let error = StoreError::ByteQuotaExceeded { name: "pages".into(), quota: 64 << 20 };
        assert_eq!(error.to_string(), "the bucket `pages` is full: it may hold 64.0 MiB of keys and values");
    }
}
