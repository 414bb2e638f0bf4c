//! Key-value buckets, enforced: `wasi:keyvalue` for one plugin, kept on disk.
//!
//! # What it is
//!
//! Each plugin with a bucket has one SQLite database, `keyvalue/PLUGIN.sqlite3` below the state directory, for its user alone.
//! SQLite rather than an embedded store of one process, because several hosts may share a state directory: two desktop
//! clients that each start `mcp-host` with the same config see the same buckets, at the same time.
//!
//! Guests speak `wasi:keyvalue` in the standard's newest draft ([`wasi_draft2`]), or in the one before it ([`wasi_draft1`]), which other
//! hosts have. Both are thin: [`Keyvalue`] has one method for each thing that can be done, and [`store`] does it.
//!
//! # What it promises
//!
//! - A bucket that is not granted does not exist: opening it is `no-such-store`. Nothing is denied that exists, since a bucket
//!   exists by being granted.
//! - What was acknowledged is there after `kill -9`, and no write is there by half: each operation is one transaction of a
//!   write-ahead log. The log is synchronised at checkpoints, not at each write, so a machine that loses power may lose the
//!   last writes, in their order; the database stays sound. A host that ends in order checkpoints the log and leaves none behind.
//! - Quotas are exact, also between processes: the totals of a bucket are a row that is read, checked and written in the
//!   transaction that writes the entry, and a writer takes the write lock before it reads.
//! - A database that is damaged, was emptied, cannot be written, or is not this user's own is an error for the guest, and a
//!   line in the log for the admin. It is never deleted, nor begun anew: a new one is made with its tables beside its place and
//!   then renamed, so that an empty file is never one that was only just begun.
//!
//! # What bounds it
//!
//! | bound | by |
//! |---|---|
//! | bytes and keys of a bucket | its quotas |
//! | a key | [`MAX_KEY`] |
//! | a value, and the values of one call together | [`MAX_VALUE`] |
//! | keys of one call, and of one page of a listing | [`MAX_KEYS`] |
//! | memory: what a call gives, while it waits and works, and what it gets | `limits.memory` |
//! | waiting for another process | [`database::BUSY_TIMEOUT`] |
//! | threads | one of the blocking ones for each plugin, while it works |
//! | descriptors | three for each plugin, from its first use on |
//!
//! SQLite blocks, so it is not called on the guest threads, but on the runtime's threads for that. The connection is behind a
//! lock that calls wait for *before* they take such a thread: a plugin that does nothing else takes one of them, not all. A
//! thread of its own for each plugin would do as well and lie idle most of the time. A call that ends while it waits has done
//! nothing; one that ends while its operation is under way may have done it, unacknowledged.

mod bindings;
mod database;
mod error;
mod refusal_log;
mod store;
#[cfg(test)]
mod tests;
mod wasi_draft1;
mod wasi_draft2;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;
use wasmtime::component::{HasData, Linker, ResourceTable};

use self::database::{Database, DatabasePath};
use self::error::StoreError;
use self::refusal_log::RefusalLog;
use self::store::{KeyVersion, OptionalEntry, Page, PageStart};
use crate::config;
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::memory::MemoryBudget;

/// Bytes that a key may have.
const MAX_KEY: usize = 1024;
/// Bytes that a value may have, and the values of one call together.
const MAX_VALUE: usize = 16 << 20;
/// Keys that one call may be about, and that one page of a listing has.
const MAX_KEYS: usize = 1000;

/// The buckets of one plugin.
pub(crate) struct Keyvalue {
    granted: BTreeMap<String, Quota>,
    /// None where there is no directory to keep it in.
    database_path: Option<DatabasePath>,
    /// Opened at its first use, and again after it was found to be damaged.
    database: Arc<Mutex<Option<Database>>>,
    refusal_log: RefusalLog,
    memory: Arc<MemoryBudget>,
}

/// What may be kept in a bucket.
#[derive(Clone, Copy, Debug)]
struct Quota {
    bytes: u64,
    keys: u64,
}

/// An open bucket: a name that is granted.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "the generated code re-exports it")]
pub struct Bucket {
    name: Arc<str>,
    quota: Quota,
}

/// A state of a key that a swap starts from.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "the generated code re-exports it")]
pub struct Cas {
    bucket: Bucket,
    key: String,
    version: KeyVersion,
}

impl Keyvalue {
    /// The buckets that the plugin is granted, kept below that state directory.
    pub(crate) fn new(
        plugin: &config::Plugin,
        state_dir: Option<&Path>,
        log: &Arc<GuestLog>,
        memory: Arc<MemoryBudget>,
    ) -> Self {
        let quota = |grant: &config::KeyvalueGrant| Quota {
            bytes: grant.quota.bytes(),
            keys: u64::try_from(grant.keys.get()).unwrap_or(u64::MAX),
        };
        let granted = &plugin.grants.keyvalue;
        Self {
            granted: granted.iter().map(|(name, grant)| (name.as_str().to_owned(), quota(grant))).collect(),
            database_path: state_dir.map(|state| DatabasePath::new(state, &plugin.name)),
            database: Arc::default(),
            refusal_log: RefusalLog::new(plugin.name.as_str().into(), log),
            memory,
        }
    }

    fn open(&self, name: &str) -> Result<Bucket, StoreError> {
        // A name of any length is told back to the log.
        let name = name.get(..name.floor_char_boundary(MAX_KEY)).unwrap_or(name);
        let found = self.granted.get_key_value(name);
        let bucket = found.map(|(name, quota)| Bucket { name: name.as_str().into(), quota: *quota });
        self.log_refusal(bucket.ok_or_else(|| StoreError::NotGranted(name.to_owned())))
    }

    async fn get(&self, bucket: Bucket, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        self.with_database(key.len(), value_size, move |database| store::get(database, &bucket, &key)).await
    }

    async fn set(&self, bucket: Bucket, key: String, value: Vec<u8>) -> Result<(), StoreError> {
        let request_bytes = key.len().saturating_add(value.len());
        self.with_database(request_bytes, zero_size, move |database| {
            store::set_many(database, &bucket, &[(key, value)])
        })
        .await
    }

    async fn delete(&self, bucket: Bucket, key: String) -> Result<(), StoreError> {
        self.with_database(key.len(), zero_size, move |database| store::delete_many(database, &bucket, &[key])).await
    }

    async fn exists(&self, bucket: Bucket, key: String) -> Result<bool, StoreError> {
        self.with_database(key.len(), zero_size, move |database| store::exists(database, &bucket, &key)).await
    }

    async fn keys(&self, bucket: Bucket, start: PageStart) -> Result<Page, StoreError> {
        self.with_database(
            0,
            |page: &Page| keys_size(&page.keys),
            move |database| store::keys(database, &bucket, &start),
        )
        .await
    }

    /// Adds to a number, if the sum is one of those that the caller can be told.
    async fn increment(
        &self,
        bucket: Bucket,
        key: String,
        delta: i128,
        range: std::ops::RangeInclusive<i128>,
    ) -> Result<i128, StoreError> {
        self.with_database(key.len(), zero_size, move |database| {
            store::increment(database, &bucket, &key, delta, &range)
        })
        .await
    }

    async fn begin_cas(&self, bucket: Bucket, key: String) -> Result<Cas, StoreError> {
        let version = {
            let (bucket, key) = (bucket.clone(), key.clone());
            self.with_database(key.len(), zero_size, move |database| store::version_of(database, &bucket, &key)).await?
        };
        Ok(Cas { bucket, key, version })
    }

    /// The value of a remembered key, and whether it still is in the state that was remembered.
    async fn current(&self, cas: Cas) -> Result<(Option<Vec<u8>>, bool), StoreError> {
        self.with_database(0, |(value, _)| value_size(value), move |database| store::current(database, &cas)).await
    }

    /// Writes a remembered key; if it is not in the remembered state any more, the state that it is in instead.
    async fn swap(&self, cas: Cas, value: Vec<u8>) -> Result<Result<(), Cas>, StoreError> {
        self.with_database(value.len(), zero_size, move |database| store::swap(database, cas, value)).await
    }

    async fn get_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<Vec<OptionalEntry>, StoreError> {
        self.with_database(
            keys_size(&keys),
            |found: &Vec<OptionalEntry>| found_size(found),
            move |database| store::get_many(database, &bucket, keys),
        )
        .await
    }

    async fn set_many(&self, bucket: Bucket, entries: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
        self.with_database(entries_size(&entries), zero_size, move |database| {
            store::set_many(database, &bucket, &entries)
        })
        .await
    }

    async fn delete_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<(), StoreError> {
        self.with_database(keys_size(&keys), zero_size, move |database| store::delete_many(database, &bucket, &keys))
            .await
    }

    /// Closes the database after the operations under way, and has its log checkpointed by that. The next operation opens it
    /// again.
    pub(crate) async fn close(&self) {
        let mut database = self.database.clone().lock_owned().await;
        if let Some(open) = database.take() {
            // Held until it is closed, so that nobody opens it meanwhile.
            let _ = tokio::task::spawn_blocking(move || {
                drop(open);
                drop(database);
            })
            .await;
        }
    }

    /// Why the database cannot be used, if there is one and it cannot: for the admin, with its file. Makes none.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let Some(path) = self.database_path.clone().filter(|_| !self.granted.is_empty()) else { return Ok(()) };
        let database = self.database.clone().lock_owned().await;
        if database.is_some() {
            return Ok(());
        }
        let file = path.file.clone();
        let checked = tokio::task::spawn_blocking(move || {
            // Held until it is closed, so that nobody opens it meanwhile.
            let _closed = database;
            if path.has_database()? { Database::open(&path).map(drop) } else { Ok(()) }
        });
        let checked = checked.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        match checked {
            // Another process works with it.
            Ok(()) | Err(StoreError::Busy) => Ok(()),
            Err(StoreError::Damaged(reason)) => Err(format!("{} is damaged: {reason}", file.display())),
            Err(StoreError::Failed(reason)) => Err(format!("{}: {reason}", file.display())),
            Err(error) => Err(format!("{}: {error}", file.display())),
        }
    }

    /// Works with the database, where that may block. `given` are the bytes that the guest gave for it, and `size` tells those
    /// of what it gets: both are reserved from `limits.memory` while the host has them, for as long as the work lasts.
    async fn with_database<T: Send + 'static>(
        &self,
        request_bytes: usize,
        size: fn(&T) -> usize,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut memory = self.log_refusal(self.memory.try_reserve(request_bytes).ok_or(StoreError::OutOfMemory))?;
        let Some(path) = self.database_path.clone() else { return self.log_refusal(Err(StoreError::NoStateDir)) };
        let mut database = self.database.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let open = match &mut *database {
                Some(open) => open,
                closed => closed.insert(Database::open(&path)?),
            };
            let result = work(open).and_then(|result| {
                // One call at a time is here, so what is read before it is known to fit is one answer.
                let bytes = memory.bytes().saturating_add(size(&result));
                if memory.try_resize(bytes) { Ok(result) } else { Err(StoreError::OutOfMemory) }
            });
            if result.as_ref().is_err_and(StoreError::is_database_fault) {
                // Whoever mends it need not start the host anew.
                *database = None;
            }
            Ok((result?, memory))
        });
        let done = done.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        self.log_refusal(done).map(|(result, _memory)| result)
    }

    fn log_refusal<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.refusal_log.record(error, self.database_path.as_ref()))
    }
}

/// The size of an answer that has the same few bytes whatever is asked.
fn zero_size<T>(_: &T) -> usize {
    0
}

fn value_size(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, Vec::len)
}

fn keys_size(texts: &[String]) -> usize {
    texts.iter().fold(0, |sum, text| sum.saturating_add(text.len()).saturating_add(size_of::<String>()))
}

fn entries_size(entries: &[(String, Vec<u8>)]) -> usize {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}

fn found_size(found: &[OptionalEntry]) -> usize {
    found.iter().flatten().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}

fn entry_size((key, value): &(String, Vec<u8>)) -> usize {
    key.len().saturating_add(value.len()).saturating_add(size_of::<(String, Vec<u8>)>())
}

/// What one instance has of its plugin's buckets: they, and where its handles are kept.
pub(crate) struct KeyvalueView<'a> {
    pub(crate) keyvalue: &'a Keyvalue,
    pub(crate) table: &'a mut ResourceTable,
}

/// Stands for [`KeyvalueView`] where wasmtime wants a type without lifetimes.
struct HasKeyvalue;

impl HasData for HasKeyvalue {
    type Data<'a> = KeyvalueView<'a>;
}

/// Lets components import `wasi:keyvalue`, in both drafts.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    keyvalue: fn(&mut T) -> KeyvalueView<'_>,
) -> wasmtime::Result<()> {
    wasi_draft2::add_to_linker(linker, keyvalue)?;
    wasi_draft1::add_to_linker(linker, keyvalue)
}
