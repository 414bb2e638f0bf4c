//! SQLite databases: files of the host that guests read.
//!
//! # Read-only access
//!
//! | mechanism | against |
//! |---|---|
//! | the file is opened read-only, with `query_only` | every write to the file |
//! | an [authorizer] that allows only the actions of a query | `ATTACH` (which creates files), `VACUUM INTO`, `PRAGMA`, transactions, temporary tables, extensions |
//! | a limit of 0 attached databases | `ATTACH`, again |
//! | `SQLITE_DBCONFIG_DEFENSIVE`, and no `trusted_schema` | a malicious file |
//! | [`Statement::readonly`](rusqlite::Statement::readonly) | a statement that passed all of the above |
//!
//! # Bounds
//!
//! Neither `sqlite3_interrupt` nor a progress handler ends the call of a single function, or code without loops:
//! `LIKE`, `GLOB` and `instr` take time in the product of two lengths, and a statement can have 2000 columns of them.
//! So each connection is in a child process ([`process`], [`worker`]), which the host kills at the deadline and when
//! the caller is gone, and the kernel beyond its limits. A query waits for one of the grant's `connections` before it
//! takes a process. No thread of the host is blocked, even if the file is a FIFO or on a disk that does not respond. No
//! plugin redirects the path of a file ([`path`]).
//!
//! | bound | mechanism |
//! |---|---|
//! | time | the process is killed at the query's deadline; its priority is lower than the host's |
//! | memory of SQLite | `sqlite3_hard_heap_limit64` in the process: 16 MiB, or less if less than 16 MiB plus a quarter of `limits.memory` is free. The heap is charged to the plugin before the query starts |
//! | memory of the process | `RLIMIT_DATA` |
//! | temporary files | in `server.cache`, 256 MiB each (`RLIMIT_FSIZE`), at most 32 (`RLIMIT_NOFILE`) |
//! | processor time | charged to `limits.cpu` of the call; the process is killed when the limit is exhausted |
//! | processes | `connections`, including killed processes that have not ended yet; an idle process ends after a minute |
//!
//! An application that compiles components in its own process (`engine::Compiler::InProcess`) has no program to start.
//! In such an application SQLite is called on the runtime's blocking threads, and a progress handler ends a query at
//! the next jump of SQLite's virtual machine after its deadline. The length of values is limited further in statements
//! with functions that are slow for long values (see [authorizer]), and [`MAX_HEAP`] bounds the memory of all
//! connections of the process together, including the host's own databases.
//!
//! Sorting and temporary tables use [`CACHE_KIB`] of memory each, and temporary files beyond that.
//!
//! # Writers
//!
//! A query is one read transaction, so it sees one snapshot. In a database with a write-ahead log, readers and writers
//! do not wait for each other; reading requires write permission for the files `-wal` and `-shm`, in which readers
//! record the parts that they use. In other databases a reader waits for a writer's commit, up to [`BUSY_TIMEOUT`].

mod authorizer;
mod connection;
mod message;
mod path;
mod process;
#[cfg(test)]
mod tests;
mod worker;

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_host_base::task;
use mcp_host_config::grants::{NestedPath, SqlGrant};
use mcp_host_model::requester::{FairSemaphore, Permit};
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::time::Instant;

use self::message::Work;
use self::path::{DatabasePath, LocatedFile};
use self::process::WorkerProcesses;
use crate::CallAccounts;
use crate::cpu::HostCpuBudget;
use crate::sql::bindings::databases::{DatabaseInfo, DatabaseKind};
use crate::sql::error::QueryError;
use crate::sql::result::{ChargedRows, ResultBounds};
use crate::sql::{Query, Usage, WorkerProgram};

pub use self::worker::run_sqlite_worker;

/// The cache size of a connection, and of each temporary table of a query.
const CACHE_KIB: i64 = 2048;
/// The maximum memory of SQLite in a process, in bytes.
const MAX_HEAP: i64 = 512 << 20;
/// The maximum time for which a reader waits for a writer.
const BUSY_TIMEOUT: Duration = Duration::from_secs(1);

/// One file, and its connections.
pub(in crate::sql) struct SqliteDatabase {
    max_connections: usize,
    permits: FairSemaphore,
    runner: Runner,
}

/// The place where SQLite is called.
enum Runner {
    /// In child processes.
    Processes(WorkerProcesses),
    /// In this process.
    InProcess(InProcess),
}

/// The connections of this process to a file.
struct InProcess {
    file: DatabasePath,
    idle: Arc<Mutex<Vec<OpenFile>>>,
    max_value: u64,
}

/// A connection, with the identity of its open file: the path may lead to another file meanwhile.
struct OpenFile {
    connection: Connection,
    id: FileId,
    /// The path that the connection opens auxiliary files by.
    _file: LocatedFile,
}

/// Whether a function call can be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Functions {
    /// The calling process can be killed.
    Killable,
    /// The call cannot be ended, so the length of values bounds its time.
    Uninterruptible,
}

/// Cancels a query when it is dropped with the query's caller.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl OpenFile {
    /// Returns `reused` if its file is still at the path, else a new connection.
    fn current(reused: Option<Self>, file: &DatabasePath, max_value: u64) -> Result<Self, QueryError> {
        let unreachable = |error: io::Error| QueryError::Unreachable(error.to_string());
        let file = file.locate().map_err(unreachable)?;
        worker::check_files(&file.path).map_err(unreachable)?;
        let id = FileId::of(&file.path).map_err(unreachable)?;
        match reused.filter(|open| open.id == id) {
            Some(open) => Ok(open),
            None => Ok(Self { connection: connection::open(&file.path, max_value)?, id, _file: file }),
        }
    }
}

impl SqliteDatabase {
    /// Creates the database of this file, whose path has two parts if a plugin may write to a directory above. Child
    /// processes open it if `workers` is given. Does not open the file.
    pub(super) fn new(
        file: &Path,
        nested: Option<&NestedPath>,
        grant: &SqlGrant,
        workers: Option<&WorkerProgram>,
    ) -> Self {
        let file = DatabasePath { file: file.to_owned(), nested: nested.cloned() };
        let (max_connections, max_value) = (grant.connections.get(), grant.max_bytes.bytes());
        let runner = match workers {
            Some(workers) => Runner::Processes(WorkerProcesses::new(workers.clone(), file, max_value)),
            None => Runner::InProcess(InProcess { file, idle: Arc::default(), max_value }),
        };
        Self { max_connections, permits: FairSemaphore::new(max_connections, usize::MAX), runner }
    }

    /// Returns a description of the database, after opening it and reading its schema.
    pub(super) async fn describe(
        &self,
        bounds: ResultBounds,
        deadline: Instant,
        accounts: CallAccounts<'_>,
    ) -> Result<DatabaseInfo, QueryError> {
        let usage = accounts.into();
        let permit = self.acquire(deadline, &usage).await?;
        match &self.runner {
            Runner::Processes(processes) => {
                processes
                    .run(permit, Work::Check, deadline, accounts.memory.reservation(), &usage.cpu)
                    .await
                    .map(drop)?;
            }
            Runner::InProcess(local) => local.run(permit, deadline, usage.cpu, connection::check).await?,
        }
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
        let (deadline, usage) = (query.deadline, query.usage.clone());
        let permit = self.acquire(deadline, &usage).await?;
        match &self.runner {
            Runner::Processes(processes) => {
                let Query { sql, parameters, bounds, memory, .. } = query;
                let work = Work::Query { sql, parameters, max_rows: bounds.rows as u64, max_bytes: bounds.bytes };
                let rows = processes.run(permit, work, deadline, memory, &usage.cpu).await?;
                rows.ok_or_else(|| QueryError::Failed("the process that runs SQLite sent no rows".to_owned()))
            }
            Runner::InProcess(local) => {
                let work =
                    move |connection: &mut Connection| connection::query(connection, query, Functions::Uninterruptible);
                local.run(permit, deadline, usage.cpu, work).await
            }
        }
    }

    /// Compiles a query without running it.
    pub(super) async fn prepare(&self, query: Query) -> Result<(), QueryError> {
        let Query { sql, parameters, deadline, memory, usage, .. } = query;
        let permit = self.acquire(deadline, &usage).await?;
        match &self.runner {
            Runner::Processes(processes) => {
                let work = Work::Prepare { sql, parameters };
                processes.run(permit, work, deadline, memory, &usage.cpu).await.map(drop)
            }
            Runner::InProcess(local) => {
                let work = move |connection: &mut Connection| connection::prepare(connection, &sql, &parameters);
                local.run(permit, deadline, usage.cpu, work).await
            }
        }
    }

    async fn acquire(&self, deadline: Instant, usage: &Usage) -> Result<Permit, QueryError> {
        usage.acquire(&self.permits, deadline, self.max_connections).await
    }
}

impl InProcess {
    /// Runs `work` with a connection on a blocking thread, until the deadline or the end of the processor time.
    async fn run<T: Send + 'static>(
        &self,
        permit: Permit,
        deadline: Instant,
        cpu: HostCpuBudget,
        work: impl FnOnce(&mut Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, QueryError> {
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let _cancel_on_drop = CancelOnDrop(is_cancelled.clone());
        let (file, idle, max_value) = (self.file.clone(), self.idle.clone(), self.max_value);
        let done = task::spawn_blocking(move || {
            let _permit = permit;
            // Popped in a separate statement, which releases the lock.
            let reused = idle.lock().pop();
            let mut open = OpenFile::current(reused, &file, max_value)?;
            let (thread, begun) = (Arc::new(cpu.charge_thread()), std::time::Instant::now());
            let charged = thread.clone();
            let is_over =
                move || is_cancelled.load(Ordering::Relaxed) || Instant::now() >= deadline || charged.is_used_up(begun);
            let mut result = connection::run_until(&mut open.connection, is_over, work);
            if matches!(result, Err(QueryError::Timeout)) && thread.is_used_up(begun) {
                result = Err(QueryError::OutOfCpu);
            }
            // After an error of the file, the next query opens it again.
            if !matches!(result, Err(QueryError::Unreachable(_) | QueryError::Failed(_))) {
                idle.lock().push(open);
            }
            result
        });
        done.await.unwrap_or_else(|error| Err(QueryError::Failed(error.to_string())))
    }
}

/// The identity of a file: its device and inode, or its creation time on systems without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileId(#[cfg(unix)] (u64, u64), #[cfg(not(unix))] Option<std::time::SystemTime>);

impl FileId {
    /// The identity of the file at this path.
    fn of(path: &Path) -> io::Result<Self> {
        let metadata = path.metadata()?;
        #[cfg(unix)]
        let id = (std::os::unix::fs::MetadataExt::dev(&metadata), std::os::unix::fs::MetadataExt::ino(&metadata));
        #[cfg(not(unix))]
        let id = metadata.created().ok();
        Ok(Self(id))
    }
}
