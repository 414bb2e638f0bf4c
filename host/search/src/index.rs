//! The index: one thread writes, and a few connections read.
//!
//! Writes run on a separate thread of low priority, because SQLite blocks and indexing needs processor time; requests
//! are served first. Lookups run on the runtime's blocking threads, and a semaphore limits them to [`MAX_LOOKUPS`] at a
//! time. Each lookup is interrupted after its [`LookupTime`].
//!
//! The index is deleted and created again when a read or a write finds it damaged. [`rebuilds`](Index::rebuilds)
//! notifies the indexers, which then index everything again. Another process may replace the file, too
//! (`mcp-host index rebuild`, another host with the same state directory). The writing thread detects this by the
//! identity of the file, and handles it as a rebuild. Until then, lookups return nothing, because ids of sources are
//! random.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mcp_host_base::log_target;
use mcp_host_base::task;
use mcp_host_base::threads;
use mcp_host_engine::plugin::SearchSource;
use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{sleep_until, timeout, timeout_at};

use super::database::{DatabasePath, FileId, limit_log, write_back_log};
use super::error::IndexError;
use super::space::Space;

/// The maximum number of writes that wait for the thread.
const MAX_QUEUED: usize = 4;
/// The maximum number of concurrent lookups.
pub(super) const MAX_LOOKUPS: usize = 4;
/// The maximum time that a lookup waits for others.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The nice value of the indexing threads, relative to other threads.
pub(super) const NICE: i32 = 10;

type Job = Box<dyn FnOnce(&mut Writer) + Send>;

/// The time limits of a lookup.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupTime {
    /// The time after which a lookup returns its result.
    total: Duration,
    /// The lookup is interrupted this long before the deadline, so that it can return partial results.
    interrupt_margin: Duration,
}

impl Default for LookupTime {
    fn default() -> Self {
        Self { total: Duration::from_millis(200), interrupt_margin: Duration::from_millis(20) }
    }
}

/// The index of a host. Dropping it closes the database after the pending writes.
pub(super) struct Index {
    path: DatabasePath,
    jobs: mpsc::Sender<Job>,
    readers: Mutex<Readers>,
    lookups: Arc<Semaphore>,
    lookup_time: LookupTime,
    /// The number of times that the database was created again.
    rebuilds: watch::Sender<u64>,
    /// The number of writes that made a change.
    changes: Arc<AtomicU64>,
    /// The maximum size of the index in bytes.
    max_size: Arc<AtomicU64>,
}

/// Idle connections to the database of a specific rebuild.
#[derive(Default)]
struct Readers {
    rebuild: u64,
    idle: Vec<Connection>,
}

/// The state of the writing thread.
struct Writer {
    path: DatabasePath,
    connection: Option<Connection>,
    /// The identity of the connection's open file.
    file: Option<FileId>,
    /// The maximum size of the index, and the size that limits the connection's log.
    max_size: Arc<AtomicU64>,
    limited_by: Option<Space>,
    /// Whether the ballast file exists, which is deleted when the disk is full.
    has_ballast: bool,
    rebuilds: watch::Sender<u64>,
}

impl Index {
    /// Starts the thread. The database is opened by the first write.
    pub(super) fn start(state_dir: &Path, space: Space, lookup_time: LookupTime) -> Result<Arc<Self>, IndexError> {
        let path = DatabasePath::new(state_dir);
        let (jobs, mut waiting) = mpsc::channel::<Job>(MAX_QUEUED);
        let rebuilds = watch::Sender::new(0);
        let max_size = Arc::new(AtomicU64::new(space.max()));
        let mut writer = Writer {
            path: path.clone(),
            connection: None,
            file: None,
            max_size: max_size.clone(),
            limited_by: None,
            has_ballast: false,
            rebuilds: rebuilds.clone(),
        };
        let thread = thread::Builder::new().name("mcp-search".to_owned());
        let started = thread.spawn(move || {
            threads::lower_priority(NICE);
            while let Some(job) = waiting.blocking_recv() {
                job(&mut writer);
            }
        });
        started.map_err(|error| IndexError::Failed(format!("its thread cannot be started: {error}")))?;
        Ok(Arc::new(Self {
            path,
            jobs,
            readers: Mutex::default(),
            lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            lookup_time,
            rebuilds,
            changes: Arc::default(),
            max_size,
        }))
    }

    /// The space limit of the index.
    pub(super) fn space(&self) -> Space {
        Space::new(self.max_size.load(Ordering::SeqCst))
    }

    /// Sets the space limit of the index, from the next write on.
    pub(super) fn set_space(&self, space: Space) {
        self.max_size.store(space.max(), Ordering::SeqCst);
    }

    /// Notifies when the database was created again, and is therefore empty.
    pub(super) fn rebuilds(&self) -> watch::Receiver<u64> {
        self.rebuilds.subscribe()
    }

    /// The number of times that the database was created again.
    pub(super) fn rebuild_count(&self) -> u64 {
        *self.rebuilds.borrow()
    }

    /// The number of writes that made a change.
    pub(super) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Runs an operation on the writing thread. Dropping the future does not stop the operation.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Connection) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // The receiver may have been dropped.
            let _ = sender.send(writer.run(operation));
        });
        self.jobs.send(job).await.map_err(|_| IndexError::Closed)?;
        receiver.await.map_err(|_| IndexError::Closed)?
    }

    /// Runs an operation on the writing thread, which also returns whether it made a change. A change is counted there,
    /// because dropping the future does not stop the operation.
    pub(super) async fn change<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Connection) -> Result<(T, bool), IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let changes = self.changes.clone();
        let changing = self.write(move |connection| {
            let (result, is_changed) = operation(connection)?;
            if is_changed {
                changes.fetch_add(1, Ordering::SeqCst);
            }
            Ok(result)
        });
        changing.await
    }

    /// The key of a source in the index.
    pub(super) async fn source_key(&self, source: &Arc<SearchSource>) -> Result<[u8; 32], IndexError> {
        let (path, source) = (self.path.clone(), source.clone());
        let computing = task::spawn_blocking(move || Ok(source.key(&path.source_secret()?)));
        computing.await.map_err(|_| IndexError::Closed)?
    }

    /// Deletes the index and creates it again.
    pub(super) async fn rebuild(&self) -> Result<(), IndexError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            let _ = sender.send(writer.rebuild());
        });
        self.jobs.send(job).await.map_err(|_| IndexError::Closed)?;
        receiver.await.map_err(|_| IndexError::Closed)?
    }

    /// Runs an operation on a reading connection, after waiting for its turn. Its [`LookupTime`] starts then.
    /// `operation` gets a deadline slightly before the end of this time, and SQLite is interrupted at that deadline. An
    /// operation that is still running at the end, because a single step takes too long, is abandoned with
    /// [`IndexError::Interrupted`]. A damaged index is created again.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        operation: impl FnOnce(&Connection, Instant) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let result = self.read_once(operation).await;
        if let Err(IndexError::Damaged(reason)) = &result {
            tracing::warn!(target: log_target::SEARCH, reason, "the search index is damaged; it is created anew");
            self.rebuild().await?;
        }
        result
    }

    async fn read_once<T: Send + 'static>(
        self: &Arc<Self>,
        operation: impl FnOnce(&Connection, Instant) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let turn = timeout(MAX_WAIT, self.lookups.clone().acquire_owned()).await;
        let Ok(Ok(permit)) = turn else { return Err(IndexError::Busy) };
        let now = Instant::now();
        let later = |time| now.checked_add(time).unwrap_or(now);
        let LookupTime { total, interrupt_margin } = self.lookup_time;
        let (end, interrupt_at) = (later(total), later(total.saturating_sub(interrupt_margin)));
        let (index, interrupt) = (self.clone(), Arc::new(Interrupt::default()));
        let _interrupt_on_drop = InterruptOnDrop(interrupt.clone());
        let interruptible = interrupt.clone();
        let mut reading = task::spawn_blocking(move || {
            let _permit = permit;
            let (connection, rebuild) = index.acquire_reader()?;
            interruptible.set(Some(connection.get_interrupt_handle()));
            let result = operation(&connection, interrupt_at);
            // The next operation on the connection must not be interrupted.
            interruptible.set(None);
            index.release_reader(connection, rebuild);
            result
        });
        let read = tokio::select! {
            read = &mut reading => read,
            () = sleep_until(interrupt_at.into()) => {
                interrupt.interrupt();
                timeout_at(end.into(), reading).await.map_err(|_| IndexError::Interrupted)?
            }
        };
        read.map_err(|_| IndexError::Closed)?
    }

    fn acquire_reader(&self) -> Result<(Connection, u64), IndexError> {
        let rebuild = *self.rebuilds.borrow();
        {
            let mut readers = self.readers.lock();
            if readers.rebuild != rebuild {
                *readers = Readers { rebuild, idle: Vec::new() };
            }
            if let Some(connection) = readers.idle.pop() {
                return Ok((connection, rebuild));
            }
        }
        Ok((self.path.open_reader()?, rebuild))
    }

    fn release_reader(&self, connection: Connection, rebuild: u64) {
        let mut readers = self.readers.lock();
        if readers.rebuild == rebuild && readers.idle.len() < MAX_LOOKUPS {
            readers.idle.push(connection);
        }
    }
}

/// The handle for interrupting a running lookup. None if no statement is running.
#[derive(Default)]
struct Interrupt(Mutex<Option<InterruptHandle>>);

impl Interrupt {
    fn set(&self, handle: Option<InterruptHandle>) {
        *self.0.lock() = handle;
    }

    fn interrupt(&self) {
        self.0.lock().iter().for_each(InterruptHandle::interrupt);
    }
}

/// Interrupts a lookup when this is dropped, because the result is no longer needed.
struct InterruptOnDrop(Arc<Interrupt>);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

impl Writer {
    fn run<T>(&mut self, operation: impl FnOnce(&mut Connection) -> Result<T, IndexError>) -> Result<T, IndexError> {
        let result = self.open().and_then(operation);
        match &result {
            Err(IndexError::Damaged(reason)) => {
                tracing::warn!(target: log_target::SEARCH, reason, "the search index is damaged; it is created anew");
                self.rebuild()?;
            }
            // The next operation opens the database again.
            Err(IndexError::Failed(_)) => self.close(),
            Err(IndexError::DiskFull) => {
                self.close();
                self.has_ballast = false;
                self.path.release_ballast();
            }
            // If there is no space for it, the next operation tries again.
            Ok(_) if !self.has_ballast => self.has_ballast = self.path.create_ballast().is_ok(),
            _ => {}
        }
        result
    }

    fn open(&mut self) -> Result<&mut Connection, IndexError> {
        if self.connection.is_some() && self.path.file_id() != self.file {
            // Another process has replaced the database.
            self.connection = None;
            self.rebuilds.send_modify(|count| *count = count.wrapping_add(1));
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            connection => {
                let opened = connection.insert(self.path.open_writer()?);
                (self.file, self.limited_by) = (self.path.file_id(), None);
                opened
            }
        };
        let space = Space::new(self.max_size.load(Ordering::SeqCst));
        if self.limited_by != Some(space) {
            limit_log(connection, space)?;
            self.limited_by = Some(space);
        }
        Ok(connection)
    }

    fn rebuild(&mut self) -> Result<(), IndexError> {
        self.connection = None;
        self.path.delete()?;
        let opened = self.open().map(|_| ());
        self.rebuilds.send_modify(|count| *count = count.wrapping_add(1));
        opened
    }

    /// Closes the database. The log is written back first, without a lock: SQLite locks the file while the last
    /// connection closes and writes back the log, and a host that starts when this one ends would wait for this thread
    /// of low priority.
    fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            // Closing the connection writes back the rest.
            let _ = write_back_log(&connection);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
pub(super) mod tests;
