//! The host's side of processes that run SQLite. A process is started when a query finds no idle one, and killed when
//! its query is cancelled. Each process has one connection, so there are at most `connections` processes. A process
//! that has been idle for [`IDLE_TIME`] is ended.
//!
//! A killed process may end late: if it waits for a disk that does not respond, it may not end for hours. So it holds
//! the permit of its query until it has ended, and is not replaced before.
//!
//! The processor time of a process, including its start, is read from its clock ([`ProcessCpu`]) and charged to the
//! call while the call waits. The process cannot use more processor time than the elapsed time, so few readings
//! suffice.

use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_base::task;
use mcp_host_base::time::process_cpu_time;
use mcp_host_model::requester::Permit;
use parking_lot::Mutex;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::message::{Answer, FRAME_OVERHEAD, HANDSHAKE, Request, Work, length_prefix};
use super::path::DatabasePath;
use super::worker::WorkerJob;
use crate::cpu::HostCpuBudget;
use crate::memory::Reservation;
use crate::sql::WorkerProgram;
use crate::sql::error::QueryError;
use crate::sql::result::ChargedRows;

/// The time for which an idle process is kept.
const IDLE_TIME: Duration = Duration::from_secs(60);
/// The sizes of SQLite's memory for a query, charged to the plugin in advance: the first size that fits in addition to
/// [`RESERVE`] is used.
const HEAP_SIZES: [usize; 3] = [16 << 20, 8 << 20, 4 << 20];
/// The minimum memory of SQLite for a query. It requires no reserve.
const MIN_HEAP: usize = 2 << 20;
/// The divisor of the part of the plugin's memory that a larger heap leaves free. Without this reserve, a few queries
/// of one client could take all of the memory, and calls of other clients would fail.
const RESERVE: usize = 4;
/// The minimum interval between two readings of a process's clock.
const MIN_CPU_INTERVAL: Duration = Duration::from_millis(1);
/// The variable with the directory of temporary files.
const TEMP_DIR: &str = "SQLITE_TMPDIR";

/// The processes for one file.
pub(super) struct WorkerProcesses {
    workers: WorkerProgram,
    file: DatabasePath,
    max_bytes: u64,
    idle: Arc<Mutex<IdleWorkers>>,
}

/// Processes without a request.
#[derive(Default)]
struct IdleWorkers {
    workers: Vec<(Worker, Instant)>,
    /// Whether a task ends idle processes after their time.
    has_reaper: bool,
}

/// One process, with its streams.
struct Worker {
    process: Process,
    input: ChildStdin,
    output: ChildStdout,
}

/// A process that is killed when this is dropped.
struct Process {
    child: Option<Child>,
    /// The permit of the query. None while the process is idle.
    permit: Option<Permit>,
    runtime: Handle,
}

impl Process {
    fn id(&self) -> Option<u32> {
        self.child.as_ref()?.id()
    }

    fn is_running(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let (Some(mut child), permit) = (self.child.take(), self.permit.take()) else { return };
        // The process is killed anyway when it is dropped.
        let _ = child.start_kill();
        self.runtime.spawn(async move {
            let _ = child.wait().await;
            drop(permit);
        });
    }
}

/// The processor time of a process, charged to a call.
struct ProcessCpu<'a> {
    process: Option<u32>,
    charged: Duration,
    budget: &'a HostCpuBudget,
}

impl<'a> ProcessCpu<'a> {
    /// Charges the time that a process uses from now on.
    fn from_now(process: &Process, budget: &'a HostCpuBudget) -> Self {
        let charged = process.id().and_then(process_cpu_time).unwrap_or_default();
        Self { process: process.id(), charged, budget }
    }

    /// Charges all of the time that a process uses.
    fn from_its_start(process: &Process, budget: &'a HostCpuBudget) -> Self {
        Self { process: process.id(), charged: Duration::ZERO, budget }
    }

    fn charge(&mut self) {
        if let Some(used) = self.process.and_then(process_cpu_time) {
            self.budget.charge(used.saturating_sub(self.charged));
            self.charged = used.max(self.charged);
        }
    }

    /// Waits until the budget is exhausted.
    async fn is_used_up(&mut self) {
        loop {
            self.charge();
            let Some(left) = self.budget.remaining() else { return };
            sleep(left.max(MIN_CPU_INTERVAL)).await;
        }
    }
}

impl Drop for ProcessCpu<'_> {
    fn drop(&mut self) {
        self.charge();
    }
}

impl WorkerProcesses {
    /// Creates the processes for this file. Starts none.
    pub(super) fn new(workers: WorkerProgram, file: DatabasePath, max_bytes: u64) -> Self {
        Self { workers, file, max_bytes, idle: Arc::default() }
    }

    /// Performs a request until the deadline, or the end of the processor time. Dropping the future kills the process.
    /// `memory` is the query's reservation.
    pub(super) async fn run(
        &self,
        permit: Permit,
        work: Work,
        deadline: Instant,
        mut memory: Reservation,
        cpu: &HostCpuBudget,
    ) -> Result<Option<ChargedRows>, QueryError> {
        let base = memory.bytes();
        let time = deadline.saturating_duration_since(Instant::now());
        let heap = reserve_heap(&mut memory, base).ok_or(QueryError::OutOfMemory)?;
        let request = Request { time, heap: heap as u64, work };
        let frame = postcard::to_allocvec(&request).map_err(|error| QueryError::Failed(error.to_string()))?;
        drop(request);
        let (mut worker, is_new) = match self.take_idle() {
            Some(worker) => (worker, false),
            None => (self.start()?, true),
        };
        worker.process.permit = Some(permit);
        let mut used = match is_new {
            true => ProcessCpu::from_its_start(&worker.process, cpu),
            false => ProcessCpu::from_now(&worker.process, cpu),
        };
        let most = self.max_bytes.saturating_add(FRAME_OVERHEAD);
        let answered = async {
            if is_new && !worker.is_greeted().await {
                let reason = "its `main` does not begin with `mcp_resource_host::engine::run_compiler()`";
                return Ok(Err(self.failed(&reason)));
            }
            worker.exchange(&frame, most, &mut memory).await
        };
        let answer = tokio::select! {
            biased;
            answered = answered => answered,
            () = used.is_used_up() => return Err(QueryError::OutOfCpu),
        };
        // Dropped before an ended process is waited for, because its clock disappears then.
        drop(used);
        let answer = match answer {
            Ok(answer) => answer?,
            Err(error) => return Err(worker.ended(&error).await),
        };
        let decoded: Answer = postcard::from_bytes(&answer).map_err(|error| QueryError::Failed(error.to_string()))?;
        drop(answer);
        self.keep(worker);
        decoded?.map(|rows| ChargedRows::charge(rows, memory, base)).transpose()
    }

    /// Takes an idle process that has not ended meanwhile.
    fn take_idle(&self) -> Option<Worker> {
        let mut idle = self.idle.lock();
        while let Some((mut worker, _)) = idle.workers.pop() {
            if worker.process.is_running() {
                return Some(worker);
            }
        }
        None
    }

    fn failed(&self, reason: &dyn fmt::Display) -> QueryError {
        let program = self.workers.program.display();
        QueryError::Failed(format!("cannot start the process that runs SQLite, {program}: {reason}"))
    }

    /// Starts a process. It sends a handshake first.
    fn start(&self) -> Result<Worker, QueryError> {
        let WorkerProgram { program, child_variable, temp_dir } = &self.workers;
        let [largest, ..] = HEAP_SIZES;
        let job = WorkerJob { file: self.file.clone(), max_value: self.max_bytes, max_heap: largest as u64 };
        let mut child = Command::new(program)
            .args(job.arguments())
            .env_clear()
            .env(child_variable, "1")
            .env(TEMP_DIR, temp_dir)
            .current_dir("/")
            // A separate group, so that a signal to the host's group, such as a terminal's, does not end a query of a
            // host that is still answering. If the host ends, the process ends with its input, or at the deadline of
            // its query.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A pipe that is never read, because a confined host cannot open `/dev/null`. It stays empty unless the
            // process crashes.
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| self.failed(&error))?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Process { child: Some(child), permit: None, runtime: Handle::current() };
        let (Some(input), Some(output)) = (input, output) else { return Err(self.failed(&"it has no streams")) };
        Ok(Worker { process, input, output })
    }

    /// Keeps a process for the next query.
    fn keep(&self, mut worker: Worker) {
        // Released after the process can be found.
        let _permit = worker.process.permit.take();
        let mut idle = self.idle.lock();
        idle.workers.push((worker, Instant::now()));
        if !std::mem::replace(&mut idle.has_reaper, true) {
            let weak = Arc::downgrade(&self.idle);
            task::spawn(async move {
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

/// Reserves the memory of SQLite for a query, in addition to the query's own memory. Returns the reserved size.
fn reserve_heap(memory: &mut Reservation, base: usize) -> Option<usize> {
    let with = |heap: usize| base.saturating_mul(2).saturating_add(heap);
    let large = HEAP_SIZES.into_iter().find(|heap| memory.try_resize_leaving_part(with(*heap), RESERVE).is_ok());
    large.or_else(|| memory.try_resize(with(MIN_HEAP)).ok().map(|()| MIN_HEAP))
}

impl Worker {
    /// Waits for the handshake of a new process. Returns whether it is valid.
    async fn is_greeted(&mut self) -> bool {
        let mut handshake = vec![0; HANDSHAKE.len().saturating_add(size_of::<u32>())];
        self.output.read_exact(&mut handshake).await.is_ok() && handshake.ends_with(HANDSHAKE)
    }

    /// Sends a request, and returns the answer. The memory of the answer is reserved, too, both for the message and for
    /// the decoded values. Fails if the process ends.
    async fn exchange(
        &mut self,
        request: &[u8],
        most: u64,
        memory: &mut Reservation,
    ) -> io::Result<Result<Vec<u8>, QueryError>> {
        self.input.write_all(&length_prefix(request)?).await?;
        self.input.write_all(request).await?;
        self.input.flush().await?;
        let mut prefix = [0; 4];
        self.output.read_exact(&mut prefix).await?;
        let length = u64::from(u32::from_be_bytes(prefix));
        if length > most {
            let reason = format!("the process that runs SQLite answered with {length} bytes");
            return Ok(Err(QueryError::Failed(reason)));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if memory.try_resize(memory.bytes().saturating_add(length.saturating_mul(2))).is_err() {
            return Ok(Err(QueryError::OutOfMemory));
        }
        let mut answer = vec![0; length];
        self.output.read_exact(&mut answer).await?;
        Ok(Ok(answer))
    }

    /// Returns the reason why the process did not answer.
    async fn ended(&mut self, error: &io::Error) -> QueryError {
        let Some(child) = &mut self.process.child else { return QueryError::Failed(error.to_string()) };
        let Ok(status) = child.wait().await else { return QueryError::Failed(error.to_string()) };
        if status.signal() == Some(Signal::XFSZ.as_raw()) {
            return QueryError::rejected("53100", "the statement needs a temporary file of more than 256 MiB");
        }
        QueryError::Failed(format!("the process that runs SQLite ended: {status}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;

    use super::*;
    use crate::cpu::HostTimes;
    use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};
    use mcp_host_model::requester::FairSemaphore;

    #[test]
    fn the_queries_of_one_client_leave_memory_for_the_calls_of_others() {
        let account = MemoryAccount::new(MemoryBudget::new(64 << 20, None), CallOwner::default());
        let mut queries = Vec::new();
        for expected in [16 << 20, 16 << 20, 16 << 20, MIN_HEAP] {
            let mut memory = account.reservation();
            assert_eq!(reserve_heap(&mut memory, 0), Some(expected));
            queries.push(memory);
        }
        assert!(account.try_reserve(14 << 20).is_ok());
    }

    /// Processes that send the handshake, and then run `then` instead of answering.
    fn processes(then: &str) -> (TempDir, WorkerProcesses) {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("worker");
        let greeting = r"\000\000\000\017mcp-host sqlite";
        std::fs::write(&program, format!("#!/bin/sh\nprintf '{greeting}'\n{then}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
        let workers = WorkerProgram { program, child_variable: "TEST", temp_dir: dir.path().to_owned() };
        let file = DatabasePath { file: "/x.db".into(), nested: None };
        let processes = WorkerProcesses::new(workers, file, 1 << 20);
        (dir, processes)
    }

    fn in_an_hour() -> Instant {
        Instant::now() + Duration::from_hours(1)
    }

    #[tokio::test]
    async fn a_process_that_was_killed_holds_its_permit_until_it_has_ended() {
        let (_dir, processes) = processes("exec sleep 1000");
        let (permits, cpu) = (FairSemaphore::new(1, 0), HostCpuBudget::unlimited());
        let permit = permits.try_acquire(None).unwrap();
        let memory = MemoryAccount::unlimited().reservation();
        let query = processes.run(permit, Work::Check, in_an_hour(), memory, &cpu);
        assert!(tokio::time::timeout(Duration::from_millis(300), query).await.is_err());
        // Nothing has run since that could have waited for the process.
        assert!(permits.try_acquire(None).is_none());
        while permits.try_acquire(None).is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        assert!(processes.take_idle().is_none());
    }

    #[tokio::test]
    async fn a_query_is_charged_for_what_its_process_uses_from_then_on() {
        let (_dir, processes) = processes("while :; do :; done");
        let worker = processes.start().unwrap();
        let before = Duration::from_millis(100);
        while process_cpu_time(worker.process.id().unwrap()).unwrap() < before {
            sleep(Duration::from_millis(1)).await;
        }
        let charged = |of: fn(&Process, &HostCpuBudget)| {
            let times = HostTimes::default();
            of(&worker.process, &HostCpuBudget::new(times.clone(), Duration::MAX));
            times.cpu()
        };
        let of_reused = charged(|process, budget| drop(ProcessCpu::from_now(process, budget)));
        assert!(of_reused < before, "{of_reused:?}");
        let of_new = charged(|process, budget| drop(ProcessCpu::from_its_start(process, budget)));
        assert!(of_new >= before, "{of_new:?}");
    }

    #[tokio::test]
    async fn a_process_that_computes_uses_the_processor_time_of_its_call_and_is_killed_when_that_is_used_up() {
        let (_dir, processes) = processes("while :; do :; done");
        let (permits, times) = (FairSemaphore::new(1, 0), HostTimes::default());
        let limit = Duration::from_millis(100);
        let cpu = HostCpuBudget::new(times.clone(), limit);
        let memory = || MemoryAccount::unlimited().reservation();
        let query = processes.run(permits.try_acquire(None).unwrap(), Work::Check, in_an_hour(), memory(), &cpu);
        assert_eq!(query.await.map(drop), Err(QueryError::OutOfCpu));
        assert!(times.cpu() > limit && times.cpu() < limit * 5, "{times:?}");
        while permits.try_acquire(None).is_none() {
            sleep(Duration::from_millis(1)).await;
        }
        // A cancelled query is charged for its time.
        let cpu = HostCpuBudget::unlimited();
        let query = processes.run(permits.try_acquire(None).unwrap(), Work::Check, in_an_hour(), memory(), &cpu);
        assert!(tokio::time::timeout(Duration::from_millis(500), query).await.is_err());
        assert!(cpu.remaining() < Some(Duration::MAX), "{cpu:?}");
    }
}
