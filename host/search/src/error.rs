//! Errors of the index and of searches.

use std::io;

use rusqlite::{ErrorCode, ffi};

use mcp_host_base::private_file::PrivateError;

/// The reason why an operation on the index failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum IndexError {
    /// The file is damaged, or is not an index of this version.
    #[error("it is damaged: {0}")]
    Damaged(String),
    /// A newer version of this program has written the file.
    #[error(
        "a newer version of mcp-host has written it (format {found}; this one has {expected}): use that version, give this one a \
         separate state directory (`server.state`), or rebuild the index with `mcp-host index rebuild`"
    )]
    Newer {
        /// The version of the file's tables.
        found: i32,
        /// The version of this program's tables.
        expected: i32,
    },
    /// The disk is full.
    #[error("the disk is full")]
    DiskFull,
    /// Another process has held the write lock for too long.
    #[error("another process writes to it")]
    Busy,
    /// The operation was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// The file cannot be read or written.
    #[error("{0}")]
    Failed(String),
    /// The host is shutting down.
    #[error("the host is shutting down")]
    Closed,
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error().map(|error| error.extended_code) {
            // Without space, the shared memory of the processes cannot be extended either.
            Some(ffi::SQLITE_IOERR_SHMSIZE) => return Self::DiskFull,
            // The tables are inconsistent: a row exists, and the row that it belongs to does not.
            Some(ffi::SQLITE_CONSTRAINT_UNIQUE | ffi::SQLITE_CONSTRAINT_PRIMARYKEY | ffi::SQLITE_CONSTRAINT_ROWID) => {
                return Self::Damaged(error.to_string());
            }
            _ => {}
        }
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.to_string()),
            Some(ErrorCode::DiskFull) => Self::DiskFull,
            Some(ErrorCode::OperationInterrupted) => Self::Interrupted,
            Some(_) => Self::Failed(error.to_string()),
            // The error is not SQLite's: a value has a type that this program never writes.
            None => Self::Damaged(error.to_string()),
        }
    }
}

impl From<PrivateError> for IndexError {
    fn from(error: PrivateError) -> Self {
        match error {
            PrivateError::Io(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Failed(error.to_string()),
        }
    }
}

/// The reason why a search has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum SearchError {
    /// No plugin is searched.
    #[error("no plugin is searched")]
    Off,
    /// There is no index. The reason has been logged.
    #[error("there is no search index: {0}")]
    NoIndex(String),
    /// Too many searches are running.
    #[error("too many searches run at the moment")]
    Busy,
    /// The index cannot be used.
    #[error("the search index cannot be used: {0}")]
    Index(String),
}

impl From<IndexError> for SearchError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Busy => Self::Busy,
            error => Self::Index(error.to_string()),
        }
    }
}

/// Returns `None` if the operation was interrupted.
pub(super) fn interruptible<T>(result: Result<T, IndexError>) -> Result<Option<T>, IndexError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(IndexError::Interrupted) => Ok(None),
        Err(error) => Err(error),
    }
}
