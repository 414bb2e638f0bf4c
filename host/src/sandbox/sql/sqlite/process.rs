//! Processes that run SQLite, as the host sees them: started when there is a query and none is idle, and killed when a query
//! is given up. Each has one connection, so there are at most `connections`. One that is idle for [`IDLE_TIME`] is ended.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep};

use super::super::WorkerProgram;
use super::super::error::QueryError;
use super::super::result::ChargedRows;
use super::message::{Answer, FRAME_OVERHEAD, HANDSHAKE, Request, Work, length_prefix};
use super::worker::WorkerJob;
use crate::sandbox::memory::{MemoryBudget, Reservation};

/// How long an idle process is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// The memory of SQLite for a query, charged to the plugin in advance: the first of these that it has beside [`RESERVE`].
const HEAP_SIZES: [usize; 3] = [16 << 20, 8 << 20, 4 << 20];
/// The least memory of SQLite for a query, which needs no reserve.
const MIN_HEAP: usize = 2 << 20;
/// The part of the plugin's memory that a larger heap leaves free, one in so many: a few queries of one client would
/// otherwise take all of it, and the calls of others would fail.
const RESERVE: usize = 4;
/// The variable that has the directory of temporary files.
const TEMP_DIR: &str = "SQLITE_TMPDIR";

/// The processes for one file.
pub(super) struct WorkerProcesses {
    workers: WorkerProgram,
    file: PathBuf,
    max_bytes: u64,
    idle: Arc<Mutex<IdleWorkers>>,
}

/// Processes without a request.
#[derive(Default)]
struct IdleWorkers {
    workers: Vec<(Worker, Instant)>,
    /// Whether a task ends them when their time is over.
    has_reaper: bool,
}

/// One process, killed when this is dropped.
struct Worker {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl WorkerProcesses {
    /// The processes for that file. Starts none.
    pub(super) fn new(workers: WorkerProgram, file: &Path, max_bytes: u64) -> Self {
        Self { workers, file: file.to_owned(), max_bytes, idle: Arc::default() }
    }

    /// Does some work until the deadline. Dropping the future kills the process. `memory` is what the query holds already.
    pub(super) async fn run(
        &self,
        work: Work,
        deadline: Instant,
        mut memory: Reservation,
    ) -> Result<Option<ChargedRows>, QueryError> {
        let base = memory.bytes();
        let time = deadline.saturating_duration_since(Instant::now());
        let heap = reserve_heap(&mut memory, base).ok_or(QueryError::OutOfMemory)?;
        let request = Request { time, heap: heap as u64, work };
        let frame = postcard::to_allocvec(&request).map_err(|error| QueryError::Failed(error.to_string()))?;
        drop(request);
        let mut worker = match self.take_idle() {
            Some(worker) => worker,
            None => self.start().await?,
        };
        let most = self.max_bytes.saturating_add(FRAME_OVERHEAD);
        let answer = worker.exchange(&frame, most, &mut memory).await?;
        let decoded: Answer = postcard::from_bytes(&answer).map_err(|error| QueryError::Failed(error.to_string()))?;
        drop(answer);
        self.keep(worker);
        decoded?.map(|rows| ChargedRows::charge(rows, memory, base)).transpose()
    }

    /// An idle process that has not ended meanwhile.
    fn take_idle(&self) -> Option<Worker> {
        let mut idle = self.idle.lock();
        while let Some((mut worker, _)) = idle.workers.pop() {
            if matches!(worker.child.try_wait(), Ok(None)) {
                return Some(worker);
            }
        }
        None
    }

    async fn start(&self) -> Result<Worker, QueryError> {
        let WorkerProgram { program, child_variable, temp_dir } = &self.workers;
        let failed = |reason: &dyn std::fmt::Display| {
            QueryError::Failed(format!("cannot start the process that runs SQLite, {}: {reason}", program.display()))
        };
        let [largest, ..] = HEAP_SIZES;
        let job = WorkerJob { file: self.file.clone(), max_value: self.max_bytes, max_heap: largest as u64 };
        let mut child = Command::new(program)
            .args(job.arguments())
            .env_clear()
            .env(child_variable, "1")
            .env(TEMP_DIR, temp_dir)
            .current_dir("/")
            // No signal to the host's group, as of a terminal, ends a query of a host that still answers. Without a host the
            // process ends with its input, or at the deadline of its query.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Not read: it is empty, unless the process crashes. A confined host cannot open `/dev/null`.
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed(&error))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed(&"it has no streams"));
        };
        let mut worker = Worker { child, input, output };
        let mut handshake = vec![0; HANDSHAKE.len().saturating_add(size_of::<u32>())];
        let is_worker = worker.output.read_exact(&mut handshake).await.is_ok() && handshake.ends_with(HANDSHAKE);
        match is_worker {
            true => Ok(worker),
            false => Err(failed(&"its `main` does not begin with `mcp_resource_host::engine::run_compiler()`")),
        }
    }

    /// Keeps a process for the next query.
    fn keep(&self, worker: Worker) {
        let mut idle = self.idle.lock();
        idle.workers.push((worker, Instant::now()));
        if !std::mem::replace(&mut idle.has_reaper, true) {
            let weak = Arc::downgrade(&self.idle);
            tokio::spawn(async move {
                loop {
                    sleep(IDLE_TIME).await;
                    let Some(idle) = weak.upgrade() else { return };
                    let mut idle = idle.lock();
                    idle.workers.retain(|(_, since)| since.elapsed() < IDLE_TIME);
                    if idle.workers.is_empty() {
                        idle.has_reaper = false;
                        return;
                    }
                }
            });
        }
    }
}

/// Reserves the memory of SQLite for a query, beside what the query holds. Returns how much the plugin has for it.
fn reserve_heap(memory: &mut Reservation, base: usize) -> Option<usize> {
    let with = |heap: usize| base.saturating_mul(2).saturating_add(heap);
    let large = HEAP_SIZES.into_iter().find(|heap| memory.try_resize_leaving_part(with(*heap), RESERVE));
    large.or_else(|| memory.try_resize(with(MIN_HEAP)).then_some(MIN_HEAP))
}

impl Worker {
    /// Sends a request, and returns the answer, whose memory is reserved in addition: as a message, and as what it says.
    async fn exchange(&mut self, request: &[u8], most: u64, memory: &mut Reservation) -> Result<Vec<u8>, QueryError> {
        let answered = async {
            self.input.write_all(&length_prefix(request)?).await?;
            self.input.write_all(request).await?;
            self.input.flush().await?;
            let mut prefix = [0; 4];
            self.output.read_exact(&mut prefix).await?;
            Ok::<_, io::Error>(u64::from(u32::from_be_bytes(prefix)))
        };
        let length = match answered.await {
            Ok(length) => length,
            Err(error) => return Err(self.ended(&error).await),
        };
        if length > most {
            return Err(QueryError::Failed(format!("the process that runs SQLite answered with {length} bytes")));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if !memory.try_resize(memory.bytes().saturating_add(length.saturating_mul(2))) {
            return Err(QueryError::OutOfMemory);
        }
        let mut answer = vec![0; length];
        match self.output.read_exact(&mut answer).await {
            Ok(_) => Ok(answer),
            Err(error) => Err(self.ended(&error).await),
        }
    }

    /// Why the process did not answer.
    async fn ended(&mut self, error: &io::Error) -> QueryError {
        let Ok(status) = self.child.wait().await else { return QueryError::Failed(error.to_string()) };
        if status.signal() == Some(Signal::XFSZ.as_raw()) {
            return QueryError::rejected("53100", "the statement needs a temporary file of more than 256 MiB");
        }
        QueryError::Failed(format!("the process that runs SQLite ended: {status}"))
    }
}

/// A reservation of nothing, for work that no query asked for.
pub(super) fn no_memory() -> Result<Reservation, QueryError> {
    MemoryBudget::new(u64::MAX, None).try_reserve(0).ok_or(QueryError::OutOfMemory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queries_of_one_client_leave_memory_for_the_calls_of_others() {
        let budget = MemoryBudget::new(64 << 20, None);
        let mut queries = Vec::new();
        for expected in [16 << 20, 16 << 20, 16 << 20, MIN_HEAP] {
            let mut memory = budget.try_reserve(0).unwrap();
            assert_eq!(reserve_heap(&mut memory, 0), Some(expected));
            queries.push(memory);
        }
        assert!(budget.try_reserve(14 << 20).is_some());
    }
}
