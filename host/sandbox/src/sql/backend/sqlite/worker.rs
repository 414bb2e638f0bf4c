//! The process that runs SQLite: a child of the host, for one connection to one file.
//!
//! The process reads requests from standard input, one after the other, and writes answers to standard output, until
//! the input ends. The kernel enforces its limits (`setrlimit`): memory, size and number of files. Its priority is
//! lower than the priority of serving threads. [`DeadlineThread`] ends the process if a request exceeds its time;
//! usually the host has killed it before.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mcp_host_base::threads::lower_priority;
use mcp_host_config::grants::NestedPath;
use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, ffi};
use tokio::time::Instant;

use super::super::{Query, Usage};
use super::message::{Answer, HANDSHAKE, Request, Work, read_frame, write_frame};
use super::path::{DatabasePath, keep_descriptor_paths};
use super::{Functions, OpenFile, connection};
use crate::cpu::HostCpuBudget;
use crate::memory::MemoryAccount;
use crate::sql::error::QueryError;
use crate::sql::result::ResultBounds;

/// The argument that starts a program as this process.
pub(super) const CHILD_ARGUMENT: &str = "--mcp-host-sqlite";
/// The maximum size of a request: the text of a query, and parameters.
const MAX_REQUEST: u64 = 1 << 30;
/// The niceness of the process relative to the host's threads.
const NICENESS: i32 = 5;
/// The maximum size of a temporary file.
const MAX_TEMP_FILE: u64 = 256 << 20;
/// The maximum number of open files.
const MAX_FILES: u64 = 32;
/// The memory of the program itself, without SQLite's heap and a result.
const PROCESS_MEMORY: u64 = 128 << 20;
/// The maximum delay of the host in killing a process whose request has exceeded its time.
const GRACE: Duration = Duration::from_secs(1);
/// The suffixes of the auxiliary files that SQLite opens next to a database.
const AUXILIARY: [&str; 3] = ["-journal", "-wal", "-shm"];
/// The exit code if the arguments are not understood.
const EXIT_ARGUMENTS: i32 = 2;
/// The exit code if a request took longer than its time.
const EXIT_DEADLINE: i32 = 5;
/// The exit code if the streams failed.
const EXIT_STREAM: i32 = 6;

/// Runs SQLite and exits, if the host started this process for it; else returns immediately.
pub fn run_sqlite_worker() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != CHILD_ARGUMENT) {
        return;
    }
    let code = match WorkerJob::from_arguments(arguments) {
        Some(job) => job.serve().map_or(EXIT_STREAM, |()| 0),
        None => EXIT_ARGUMENTS,
    };
    std::process::exit(code);
}

/// The job of one process.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WorkerJob {
    /// The file of the database.
    pub(super) file: DatabasePath,
    /// The maximum length of a value.
    pub(super) max_value: u64,
    /// The maximum memory of SQLite.
    pub(super) max_heap: u64,
}

impl WorkerJob {
    /// The arguments of the process. The two parts of a nested path are the last ones.
    pub(super) fn arguments(&self) -> Vec<OsString> {
        let Self { file: DatabasePath { file, nested }, max_value, max_heap } = self;
        let mut arguments: Vec<OsString> =
            vec![CHILD_ARGUMENT.into(), file.into(), max_value.to_string().into(), max_heap.to_string().into()];
        if let Some(NestedPath { writable, rest }) = nested {
            arguments.extend([writable.into(), rest.into()]);
        }
        arguments
    }

    fn from_arguments(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let file = PathBuf::from(arguments.next()?);
        let mut number = || arguments.next()?.to_str()?.parse().ok();
        let (max_value, max_heap) = (number()?, number()?);
        let nested = match arguments.next() {
            Some(writable) => Some(NestedPath { writable: writable.into(), rest: arguments.next()?.into() }),
            None => None,
        };
        Some(Self { file: DatabasePath { file, nested }, max_value, max_heap })
    }

    fn serve(self) -> io::Result<()> {
        self.apply_rlimits()?;
        lower_priority(NICENESS);
        if self.file.nested.is_some() && !keep_descriptor_paths() {
            return Err(io::Error::other("SQLite does not open paths through descriptors"));
        }
        let deadline = DeadlineThread::start();
        let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
        write_frame(&mut output, HANDSHAKE)?;
        let mut database = WorkerDatabase { job: self, open: None };
        while let Some(frame) = read_frame(&mut input, MAX_REQUEST)? {
            let request: Request = postcard::from_bytes(&frame).map_err(io::Error::other)?;
            drop(frame);
            deadline.set(Some(request.time.saturating_add(GRACE)));
            let answer: Answer = database.answer(request);
            let frame = postcard::to_allocvec(&answer).map_err(io::Error::other)?;
            drop(answer);
            deadline.set(None);
            write_frame(&mut output, &frame)?;
        }
        output.flush()
    }

    fn apply_rlimits(&self) -> io::Result<()> {
        // Memory for the result as values and as a message, and for the request.
        let result = self.max_value.saturating_mul(4);
        let memory = PROCESS_MEMORY.saturating_add(self.max_heap).saturating_add(result);
        rlimit::Resource::DATA.set(memory, memory)?;
        rlimit::Resource::FSIZE.set(MAX_TEMP_FILE, MAX_TEMP_FILE)?;
        rlimit::Resource::NOFILE.set(MAX_FILES, MAX_FILES)?;
        rlimit::Resource::CORE.set(0, 0)
    }
}

/// The database of the process, with its connection after the first request.
struct WorkerDatabase {
    job: WorkerJob,
    open: Option<OpenFile>,
}

impl WorkerDatabase {
    fn answer(&mut self, request: Request) -> Answer {
        set_heap_limit(request.heap.min(self.job.max_heap));
        let now = Instant::now();
        let deadline = now.checked_add(request.time).unwrap_or(now);
        let mut open = OpenFile::current(self.open.take(), &self.job.file, self.job.max_value)?;
        let work = |connection: &mut Connection| run(connection, request.work, deadline);
        let answer = connection::run_until(&mut open.connection, move || Instant::now() >= deadline, work);
        // The connection's cache is released, because it is not charged between queries.
        let released = open.connection.release_memory();
        if released.is_ok() && !matches!(answer, Err(QueryError::Unreachable(_) | QueryError::Failed(_))) {
            self.open = Some(open);
        }
        answer
    }
}

fn run(connection: &mut Connection, work: Work, deadline: Instant) -> Answer {
    let (sql, parameters, max_rows, max_bytes) = match work {
        Work::Check => return connection::check(connection).map(|()| None),
        Work::Prepare { sql, parameters } => {
            return connection::prepare(connection, &sql, &parameters).map(|()| None);
        }
        Work::Query { sql, parameters, max_rows, max_bytes } => (sql, parameters, max_rows, max_bytes),
    };
    // The host charges the processor time, and the memory before it sends a request and before it reads an answer.
    let memory = MemoryAccount::unlimited().reservation();
    let bounds = ResultBounds { rows: usize::try_from(max_rows).unwrap_or(usize::MAX), bytes: max_bytes };
    let usage = Usage { client: None, cpu: HostCpuBudget::unlimited() };
    let query = Query { sql, parameters, bounds, deadline, memory, usage };
    connection::query(connection, query, Functions::Killable).map(|result| Some(result.rows))
}

/// Limits the memory of SQLite in this process.
fn set_heap_limit(bytes: u64) {
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: the function takes a number, and has locks of its own. `PRAGMA hard_heap_limit` cannot raise the limit.
    #[allow(unsafe_code, reason = "see above; the library has no function for this")]
    unsafe {
        ffi::sqlite3_hard_heap_limit64(bytes)
    };
}

/// Ends the process at a deadline, even if its other thread is blocked.
struct DeadlineThread(Arc<(Mutex<Option<std::time::Instant>>, Condvar)>);

impl DeadlineThread {
    /// Starts the thread, without a deadline. If the thread cannot be started, the host still kills the process.
    fn start() -> Self {
        let shared = Arc::new((Mutex::new(None), Condvar::new()));
        let of_thread = shared.clone();
        let _ = thread::Builder::new().name("deadline".to_owned()).spawn(move || {
            let (deadline, changed): &(Mutex<Option<std::time::Instant>>, Condvar) = &of_thread;
            let mut current = deadline.lock();
            loop {
                match *current {
                    None => changed.wait(&mut current),
                    Some(at) if at <= std::time::Instant::now() => std::process::exit(EXIT_DEADLINE),
                    Some(at) => {
                        changed.wait_until(&mut current, at);
                    }
                }
            }
        });
        Self(shared)
    }

    fn set(&self, after: Option<Duration>) {
        let (deadline, changed) = &*self.0;
        *deadline.lock() = after.and_then(|after| std::time::Instant::now().checked_add(after));
        changed.notify_one();
    }
}

/// Fails unless the database and its auxiliary files, as far as they exist, are regular files, because opening a FIFO
/// would wait for its writer.
pub(super) fn check_files(file: &Path) -> io::Result<()> {
    mcp_host_base::regular_file::check(file)?;
    for suffix in AUXILIARY {
        let mut path = file.as_os_str().to_owned();
        path.push(suffix);
        match mcp_host_base::regular_file::check(Path::new(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", Path::new(&path).display()))),
            Ok(()) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_arrives_as_it_was_given() {
        let nested = NestedPath { writable: "/a b".into(), rest: "c.db".into() };
        for nested in [None, Some(nested)] {
            let file = DatabasePath { file: "/a b/c.db".into(), nested };
            let job = WorkerJob { file, max_value: 7, max_heap: 9 };
            let mut arguments = job.arguments().into_iter();
            assert_eq!(arguments.next().unwrap(), CHILD_ARGUMENT);
            assert_eq!(WorkerJob::from_arguments(arguments), Some(job));
        }
        assert_eq!(WorkerJob::from_arguments(["a".into(), "b".into()].into_iter()), None);
    }
}
