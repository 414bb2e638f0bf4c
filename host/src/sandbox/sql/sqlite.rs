//! Databases of SQLite: a file of the host, which guests read.
//!
//! # Why a guest only reads
//!
//! | means | against |
//! |---|---|
//! | the file is opened read-only, with `query_only` | every write to it |
//! | an [authorizer] that allows what a query needs | `ATTACH` (which creates files), `VACUUM INTO`, `PRAGMA`, transactions, temporary tables, extensions |
//! | at most 0 attached databases | `ATTACH`, once more |
//! | `SQLITE_DBCONFIG_DEFENSIVE`, and no `trusted_schema` | a file that was made to harm its reader |
//! | [`Statement::readonly`](rusqlite::Statement::readonly) | a statement that all of these would have missed |
//!
//! # Bounds
//!
//! SQLite blocks, so it is called on the runtime's blocking threads, one per query under way; a query waits for one of
//! the grant's `connections` before it takes such a thread. A progress handler ends the query at its deadline, and soon
//! after its caller is gone. Between two calls of the handler are 20 steps at most, and a step, such as the call of a
//! function, is not interrupted. Functions take time in proportion to their values, which have at most `max-bytes`; some
//! take the product of two lengths, so in statements that call these, values are shorter (see [authorizer] and
//! [generated_columns]).
//!
//! Sorting and temporary tables use [`CACHE_KIB`] of memory each, and temporary files beyond that. SQLite does not count
//! the memory of one connection, and a statement has many values at once. So [`MAX_HEAP`] bounds all connections of the
//! process, those of the host's own databases included: a statement that needs more fails, and so may another one in the
//! meantime. What of it a query holds beside its result is not charged to `limits.memory`.
//!
//! # Writers
//!
//! A query is one read transaction, so it sees one state. In a database with a write-ahead log readers and writers do
//! not wait for each other; reading one needs the right to write to the files `-wal` and `-shm`, in which readers
//! record what they use. In other databases a reader waits for a writer's commit, up to [`BUSY_TIMEOUT`].

mod authorizer;
mod connection;
mod file_id;
mod generated_columns;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use self::file_id::FileId;
use super::Query;
use super::bindings::databases::{DatabaseInfo, DatabaseKind};
use super::error::QueryError;
use super::result::{ChargedRows, ResultBounds};
use crate::config::grants::SqlGrant;

/// The cache of a connection, and of each temporary table of a query.
const CACHE_KIB: i64 = 2048;
/// The memory of all of SQLite in this process, in bytes.
const MAX_HEAP: i64 = 512 << 20;
/// The maximum time for which a reader waits for a writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// One file, and its connections.
pub(super) struct SqliteDatabase {
    file: PathBuf,
    max_connections: usize,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<OpenFile>>>,
    max_value: u64,
}

/// A connection, with the file that it has open: a file of another one may stand at the path meanwhile.
struct OpenFile {
    connection: Connection,
    id: FileId,
}

/// Tells a query that its caller is gone, when it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl SqliteDatabase {
    /// The database of that file. Does not open it.
    pub(super) fn new(file: &Path, grant: &SqlGrant) -> Self {
        let max_connections = grant.connections.get();
        Self {
            file: file.to_owned(),
            max_connections,
            permits: Arc::new(Semaphore::new(max_connections)),
            idle: Arc::default(),
            max_value: grant.max_bytes.bytes(),
        }
    }

    /// Returns its version, once it was opened and its schema was read.
    pub(super) async fn describe(&self, bounds: ResultBounds, deadline: Instant) -> Result<DatabaseInfo, QueryError> {
        self.with_connection(deadline, connection::check).await?;
        Ok(DatabaseInfo {
            kind: DatabaseKind::Sqlite,
            version: rusqlite::version().to_owned(),
            schemas: vec!["main".to_owned()],
            max_rows: u32::try_from(bounds.rows).unwrap_or(u32::MAX),
            max_bytes: bounds.bytes,
        })
    }

    /// Runs a query.
    pub(super) async fn query(&self, query: Query) -> Result<ChargedRows, QueryError> {
        self.with_connection(query.deadline, move |connection| connection::query(connection, query)).await
    }

    /// Runs `work` with a connection on a blocking thread, until the deadline.
    async fn with_connection<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&mut Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let permit = self.acquire(deadline).await?;
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(is_cancelled.clone());
        let (file, idle, max_value) = (self.file.clone(), self.idle.clone(), self.max_value);
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let id = FileId::of(&file).map_err(|error| QueryError::Unreachable(error.to_string()))?;
            // Popped in a statement of its own, which releases the lock.
            let reused = idle.lock().pop().filter(|open| open.id == id);
            let mut open = match reused {
                Some(open) => open,
                None => OpenFile { connection: connection::open(&file, max_value)?, id },
            };
            let result = connection::run_until(&mut open.connection, deadline, &is_cancelled, work);
            // The next query finds out whether a file that could not be read can be read again.
            if !matches!(result, Err(QueryError::Unreachable(_) | QueryError::Failed(_))) {
                idle.lock().push(open);
            }
            result
        });
        done.await.unwrap_or_else(|error| Err(QueryError::Failed(error.to_string())))
    }

    async fn acquire(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, QueryError> {
        let acquired = tokio::time::timeout_at(deadline, self.permits.clone().acquire_owned()).await;
        acquired
            .map_err(|_| QueryError::Busy(self.max_connections))?
            .map_err(|error| QueryError::Failed(error.to_string()))
    }
}
