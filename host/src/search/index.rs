//! The index: one thread that writes, and a few connections that read.
//!
//! SQLite blocks, and indexing computes, so writing has a thread of its own, of low priority: requests are served first.
//! Lookups run on the runtime's blocking threads, [`MAX_LOOKUPS`] at a time, and are interrupted after [`LOOKUP_TIME`].
//!
//! A damaged file is deleted and created anew by whoever notices, and everything is indexed again:
//! [`rebuilds`](Index::rebuilds) tells those who write. Another process may do the same (`mcp-host index rebuild`, another host with
//! that state directory): the thread that writes notices that the file is another one, and then it is as if it had been created
//! anew here. Until then lookups find nothing, as ids of sources are random.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::{Connection, InterruptHandle};
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::{sleep, timeout};

use super::database::{DatabasePath, FileId, IndexError};
use super::lookup::{Lookup, LookupResult};
use super::store::SourceId;
use crate::{log_target, thread_priority};

/// The number of writes that wait for the thread.
const MAX_QUEUED: usize = 4;
/// The number of lookups at a time.
const MAX_LOOKUPS: usize = 4;
/// The longest time that a lookup waits for others.
const MAX_WAIT: Duration = Duration::from_secs(1);
/// The time after which a lookup is interrupted.
pub(super) const LOOKUP_TIME: Duration = Duration::from_millis(200);
/// The nice value of the thread that writes, relative to that of other threads.
const NICE: i32 = 10;

type Job = Box<dyn FnOnce(&mut Writer) + Send>;

/// The index of a host. Dropping it closes the database when the writes that wait are done.
pub(super) struct Index {
    path: DatabasePath,
    jobs: mpsc::Sender<Job>,
    readers: Mutex<Readers>,
    lookups: Semaphore,
    /// The number of times that the database was created anew.
    rebuilds: watch::Sender<u64>,
    /// The number of writes that changed something.
    changes: AtomicU64,
}

/// Idle connections, of the database that was created by that rebuild.
#[derive(Default)]
struct Readers {
    rebuild: u64,
    idle: Vec<Connection>,
}

/// The state of the thread that writes.
struct Writer {
    path: DatabasePath,
    connection: Option<Connection>,
    /// The file that the connection has open.
    file: Option<FileId>,
    rebuilds: watch::Sender<u64>,
}

impl Index {
    /// Starts the thread. The database is opened by the first write.
    pub(super) fn start(state_dir: &Path) -> Result<Arc<Self>, IndexError> {
        let path = DatabasePath::new(state_dir);
        let (jobs, mut waiting) = mpsc::channel::<Job>(MAX_QUEUED);
        let rebuilds = watch::Sender::new(0);
        let mut writer = Writer { path: path.clone(), connection: None, file: None, rebuilds: rebuilds.clone() };
        let thread = thread::Builder::new().name("mcp-search".to_owned());
        let started = thread.spawn(move || {
            thread_priority::lower_priority(NICE);
            while let Some(job) = waiting.blocking_recv() {
                job(&mut writer);
            }
        });
        started.map_err(|error| IndexError::Failed(format!("its thread cannot be started: {error}")))?;
        Ok(Arc::new(Self {
            path,
            jobs,
            readers: Mutex::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            rebuilds,
            changes: AtomicU64::new(0),
        }))
    }

    /// Tells when the database was created anew: then nothing is indexed.
    pub(super) fn rebuilds(&self) -> watch::Receiver<u64> {
        self.rebuilds.subscribe()
    }

    /// The number of writes that changed something.
    pub(super) fn change_count(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Counts a write that changed something.
    pub(super) fn mark_changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// Runs an operation on the thread that writes. Dropping the future does not stop it.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Connection) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            // Nobody waits for it any more.
            let _ = sender.send(writer.run(operation));
        });
        self.jobs.send(job).await.map_err(|_| IndexError::Closed)?;
        receiver.await.map_err(|_| IndexError::Closed)?
    }

    /// Deletes the index and creates it anew.
    pub(super) async fn rebuild(&self) -> Result<(), IndexError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |writer| {
            let _ = sender.send(writer.rebuild());
        });
        self.jobs.send(job).await.map_err(|_| IndexError::Closed)?;
        receiver.await.map_err(|_| IndexError::Closed)?
    }

    /// Looks up a query. The result is partial if that takes longer than [`LOOKUP_TIME`].
    pub(super) async fn look_up<F>(self: &Arc<Self>, lookup: Lookup<F>) -> Result<LookupResult, IndexError>
    where
        F: FnMut(SourceId, &str) -> Option<String> + Send + 'static,
    {
        self.read(|connection| lookup.run(connection)).await
    }

    /// Runs an operation on a connection that reads. It is interrupted after [`LOOKUP_TIME`]. A damaged index is created anew.
    pub(super) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        operation: impl FnOnce(&Connection) -> Result<T, IndexError> + Send + 'static,
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
        operation: impl FnOnce(&Connection) -> Result<T, IndexError> + Send + 'static,
    ) -> Result<T, IndexError> {
        let Ok(Ok(_permit)) = timeout(MAX_WAIT, self.lookups.acquire()).await else { return Err(IndexError::Busy) };
        let index = self.clone();
        let connection = tokio::task::spawn_blocking(move || index.acquire_reader()).await;
        let (connection, rebuild) = connection.map_err(|_| IndexError::Closed)??;
        let mut interrupt = InterruptOnDrop(Some(connection.get_interrupt_handle()));
        let mut reading = tokio::task::spawn_blocking(move || (operation(&connection), connection));
        let read = tokio::select! {
            read = &mut reading => read,
            () = sleep(LOOKUP_TIME) => {
                interrupt.interrupt();
                reading.await
            }
        };
        // The next operation on the connection is not to be interrupted.
        interrupt.0 = None;
        let (result, connection) = read.map_err(|_| IndexError::Closed)?;
        self.release_reader(connection, rebuild);
        result
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

    /// The time at which a lookup that begins now ends.
    pub(super) fn deadline() -> Instant {
        let now = Instant::now();
        now.checked_add(LOOKUP_TIME).unwrap_or(now)
    }
}

/// Interrupts the statement of a connection when it is dropped: nobody waits for the result any more.
struct InterruptOnDrop(Option<InterruptHandle>);

impl InterruptOnDrop {
    fn interrupt(&self) {
        self.0.iter().for_each(InterruptHandle::interrupt);
    }
}

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.interrupt();
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
            Err(IndexError::Failed(_) | IndexError::DiskFull) => self.connection = None,
            _ => {}
        }
        result
    }

    fn open(&mut self) -> Result<&mut Connection, IndexError> {
        if self.connection.is_some() && self.path.file_id() != self.file {
            // Another process has created it anew.
            self.connection = None;
            self.rebuilds.send_modify(|count| *count = count.wrapping_add(1));
        }
        match &mut self.connection {
            Some(connection) => Ok(connection),
            connection => {
                let opened = connection.insert(self.path.open_writer()?);
                self.file = self.path.file_id();
                Ok(opened)
            }
        }
    }

    fn rebuild(&mut self) -> Result<(), IndexError> {
        self.connection = None;
        self.path.delete()?;
        let opened = self.open().map(|_| ());
        self.rebuilds.send_modify(|count| *count = count.wrapping_add(1));
        opened
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::document::{Document, DocumentEntry};
    use crate::search::lookup::Conditions;
    use crate::search::query::Query;
    use crate::search::store::{self, Bounds, Change};

    const BOUNDS: Bounds = Bounds { index: u64::MAX, source: u64::MAX };

    fn document(path: &str, text: &str) -> Change {
        let entry = DocumentEntry {
            name: path.to_owned(),
            title: None,
            description: None,
            mime_type: Some("text/markdown; charset=utf-8".to_owned()),
            size: None,
            priority: None,
            last_modified: None,
            for_user: false,
            for_assistant: false,
        };
        Change::Put(Box::new(Document { path: path.to_owned(), entry, entry_hash: 1, text: text.to_owned() }))
    }

    async fn put(index: &Index, changes: Vec<Change>) -> store::Applied {
        let applied = index.write(move |connection| {
            let source = store::open_source(connection, b"key", 1)?;
            store::apply(connection, source, &changes, BOUNDS, 1)
        });
        applied.await.unwrap()
    }

    fn lookup(query: &str) -> Lookup<impl FnMut(SourceId, &str) -> Option<String> + Send + use<>> {
        Lookup {
            query: Query::parse(query),
            nearest: None,
            conditions: Conditions::default(),
            limit: 10,
            deadline: Instant::now() + Duration::from_secs(60),
            filter: |_, path: &str| (!path.starts_with("hidden")).then(|| format!("a:///{path}")),
        }
    }

    async fn paths(index: &Arc<Index>, query: &str) -> Vec<String> {
        let result = index.look_up(lookup(query)).await.unwrap();
        assert_eq!(result.total, u64::try_from(result.found.len()).unwrap());
        result.found.into_iter().map(|found| found.path).collect()
    }

    #[tokio::test]
    async fn an_index_that_another_process_creates_anew_is_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let (ours, other) = (Index::start(dir.path()).unwrap(), Index::start(dir.path()).unwrap());
        let open = |index: Arc<Index>, key: u8| async move {
            index.write(move |connection| store::open_source(connection, &[key], 0)).await.unwrap()
        };
        let (a, b) = (open(ours.clone(), 1).await, open(ours.clone(), 2).await);
        let mut rebuilds = ours.rebuilds();
        other.rebuild().await.unwrap();
        let again = [open(other.clone(), 2).await, open(other, 1).await];
        assert!(!again.contains(&a) && !again.contains(&b), "an id is never that of another source");
        assert_eq!(open(ours, 1).await, again[1]);
        assert!(rebuilds.has_changed().unwrap() && *rebuilds.borrow_and_update() == 1);
    }

    #[tokio::test]
    async fn what_was_put_is_found_and_what_was_removed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::start(dir.path()).unwrap();
        put(
            &index,
            vec![
                document("a", "the quick brown fox\njumps"),
                document("b", "全文検索エンジンの使い方"),
                document("hidden", "the quick brown fox"),
            ],
        )
        .await;
        assert_eq!(paths(&index, "FOX").await, ["a"]);
        assert_eq!(paths(&index, "検索").await, ["b"]);
        assert_eq!(paths(&index, "方").await, ["b"]);
        assert_eq!(paths(&index, "\"quick brown\"").await, ["a"]);
        assert!(paths(&index, "\"brown quick\"").await.is_empty());
        put(&index, vec![document("a", "a lazy dog"), Change::Remove("b".to_owned())]).await;
        assert!(paths(&index, "fox").await.is_empty());
        assert!(paths(&index, "検索").await.is_empty());
        assert_eq!(paths(&index, "dog").await, ["a"]);
        assert_eq!(put(&index, vec![document("a", "a lazy dog")]).await.changed, 0, "nothing is written twice");
    }

    #[tokio::test]
    async fn kinds_and_languages_narrow_a_lookup() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::start(dir.path()).unwrap();
        put(&index, vec![document("a", "The host owns everything that must be right, and nothing else does.")]).await;
        for (kind, language, count) in [
            (Some("text"), None, 1),
            (Some("text/markdown"), Some("en"), 1),
            (Some("tex"), None, 0),
            (Some("image"), None, 0),
            (None, Some("ja"), 0),
        ] {
            let (kind_owned, language_owned) = (kind.map(str::to_owned), language.map(str::to_owned));
            let conditions = Conditions { kind: kind_owned, language: language_owned, audience: 0 };
            let narrowed = Lookup { conditions, ..lookup("host") };
            assert_eq!(index.look_up(narrowed).await.unwrap().total, count, "{kind:?} {language:?}");
        }
    }

    #[tokio::test]
    async fn a_damaged_file_is_created_anew() {
        let dir = tempfile::tempdir().unwrap();
        {
            let index = Index::start(dir.path()).unwrap();
            put(&index, vec![document("a", "fox")]).await;
        }
        let file = dir.path().join("search/index.sqlite3");
        let mut damaged = std::fs::read(&file).unwrap();
        for byte in damaged.iter_mut().skip(100) {
            *byte = 0x55;
        }
        let index = Index::start(dir.path()).unwrap();
        // The thread of the index before may still close the file.
        for beside in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(dir.path().join(format!("search/index.sqlite3{beside}")));
        }
        std::fs::write(&file, damaged).unwrap();
        let rebuilds = index.rebuilds();
        let written = index.write(|connection| store::open_source(connection, b"key", 1)).await;
        assert!(matches!(written, Err(IndexError::Damaged(_))), "{written:?}");
        assert_eq!(*rebuilds.borrow(), 1);
        put(&index, vec![document("a", "fox")]).await;
        assert_eq!(paths(&index, "fox").await, ["a"]);
    }

    #[tokio::test]
    async fn what_there_is_no_room_for_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::start(dir.path()).unwrap();
        let apply = |bounds, name: &'static str| {
            index.write(move |connection| {
                let source = store::open_source(connection, b"key", 1)?;
                store::apply(connection, source, &[document(name, "some words about foxes")], bounds, 1)
            })
        };
        let applied = apply(Bounds { index: 1, source: u64::MAX }, "a").await.unwrap();
        assert_eq!((applied.omitted, paths(&index, "foxes").await.len()), (1, 0));
        let applied = apply(Bounds { index: u64::MAX, source: 10 }, "b").await.unwrap();
        assert_eq!((applied.without_text, paths(&index, "foxes").await.len()), (1, 0));
        assert_eq!(paths(&index, "b").await, ["b"], "it is found by its name");
    }

    #[tokio::test]
    async fn documents_that_are_not_kept_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let index = Index::start(dir.path()).unwrap();
        put(&index, (0..1000).map(|number| document(&format!("f{number}"), "fox")).collect()).await;
        let removed = index.write(|connection| {
            let source = store::open_source(connection, b"key", 2)?;
            let kept = store::find_documents(connection, source, &["f500".to_owned(), "g".to_owned()])?;
            let kept: Vec<_> = kept.into_iter().flatten().map(|known| known.id).collect();
            let removed = store::remove_except(connection, source, &kept)?;
            Ok((removed, store::source_size(connection, source)?.documents))
        });
        assert_eq!(removed.await.unwrap(), (999, 1));
        assert_eq!(paths(&index, "fox").await, ["f500"]);
    }
}
