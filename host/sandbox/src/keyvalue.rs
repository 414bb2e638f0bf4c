//! Key-value grants: the host's implementation of `wasi:keyvalue` for one plugin, stored on disk.
//!
//! # Storage
//!
//! Each plugin with a bucket has one SQLite database, `keyvalue/PLUGIN.sqlite3` below the state directory, accessible to its user
//! only. It is SQLite, not an embedded store for a single process, because several hosts may share a state directory: two desktop
//! clients that each start `mcp-host` with the same config see the same buckets, at the same time.
//!
//! Guests use `wasi:keyvalue` in the standard's newest draft ([`wasi_draft2`]), or in the previous one
//! ([`wasi_draft1`]), which other hosts implement. Both are thin: [`Keyvalue`] has one method per operation, and
//! [`store`] performs it. The command line uses the same operations without a guest (`admin`).
//!
//! # Guarantees
//!
//! - A bucket that is not granted does not exist: opening it returns `no-such-store`. An existing bucket is never denied, because a
//!   bucket exists exactly if it is granted.
//! - Acknowledged writes survive `kill -9`, and writes are atomic: each operation is one transaction of a write-ahead
//!   log. The log is synchronized at checkpoints, not at each write, so a power failure may lose the last writes, in
//!   their order; the database stays consistent. A host that shuts down gracefully checkpoints the log and removes it.
//! - Quotas are exact, also between processes: the totals of a bucket are a row that is read, checked and written in
//!   the transaction that writes the entry, and a writer takes the write lock before it reads.
//! - A database that is damaged, was emptied, cannot be written, or does not belong to this user is an error for the guest, and a log
//!   line for the admin. It is never deleted or recreated: a new database is created with its tables under a temporary name and then
//!   renamed, so an empty file is never the result of an interrupted creation.
//!
//! # Without the feature `keyvalue`
//!
//! The interface is linked, so that components that import it load, but no bucket can be granted: a config that grants one is
//! rejected. Every operation on a bucket that an application grants in code fails ([`absent`]).
//!
//! # Bounds
//!
//! | bound | mechanism |
//! |---|---|
//! | bytes and keys of a bucket | its quotas |
//! | the length of a key | [`MAX_KEY`] |
//! | the size of a value, and of all values of one call | [`MAX_VALUE`] |
//! | keys of one call, and of one page of a listing | [`MAX_KEYS`] |
//! | memory: a call's arguments, while it waits and runs, and its result | `limits.memory` |
//! | processor time | a part of `limits.cpu` of the call |
//! | waiting for another process | [`database::BUSY_TIMEOUT`] |
//! | threads | one blocking thread per plugin, during an operation |
//! | file descriptors | three per plugin, from its first use |
//!
//! SQLite blocks, so it is called on the runtime's blocking threads, not on the guest threads. The connection is behind a lock that
//! calls acquire *before* they take such a thread, so a plugin that uses its store constantly takes only one thread. A dedicated
//! thread per plugin would work, too, but would be idle most of the time. A call that ends while it waits has changed nothing; a call
//! that ends during its operation may have completed it, unacknowledged.

#![cfg_attr(not(feature = "keyvalue"), allow(dead_code, reason = "only buckets use it"))]

#[cfg(not(feature = "keyvalue"))]
mod absent;
#[cfg(feature = "keyvalue")]
pub mod admin;
mod bindings;
#[cfg(feature = "keyvalue")]
mod database;
mod error;
mod refusal_log;
#[cfg(feature = "keyvalue")]
mod store;
#[cfg(test)]
#[cfg(feature = "keyvalue")]
mod tests;
mod wasi_draft1;
mod wasi_draft2;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_config as config;
use tokio::sync::Mutex;
use wasmtime::component::{HasData, Linker, ResourceTable};

#[cfg(not(feature = "keyvalue"))]
use self::absent::{self as database, self as store};
use self::database::{Database, DatabasePath};
use self::error::{StoreError, SwapError};
use self::refusal_log::RefusalLog;
use crate::CallAccounts;
use crate::grant_usage::{BucketUsage, UnusableGrant};
use crate::guest_log::GuestLog;
use crate::host_calls;

/// The maximum length of a key in bytes.
const MAX_KEY: usize = 1024;
/// The maximum size in bytes of a value, and of all values of one call.
const MAX_VALUE: usize = 16 << 20;
/// The maximum number of keys of one call, and of one page of a listing.
const MAX_KEYS: usize = 1000;
/// The maximum number of recorded names of denied buckets.
const MAX_DENIED: usize = 8;

/// A key with its value, or `None` if the key does not exist.
type OptionalEntry = Option<(String, Vec<u8>)>;

/// The state of a key: the version of its entry, or `None` if the key does not exist. Each write creates a new version.
type KeyVersion = Option<i64>;

/// The buckets of one plugin.
pub(crate) struct Keyvalue {
    granted: BTreeMap<String, Quota>,
    /// `None` without a state directory.
    database_path: Option<DatabasePath>,
    /// Opened at the first use, and again after a database error.
    database: Arc<Mutex<Option<Database>>>,
    /// The contents of the buckets when [`usage`](Self::usage) last read them. None before the first time.
    last_usage: parking_lot::Mutex<Option<Vec<BucketUsage>>>,
    refusal_log: RefusalLog,
    /// The time since when the database is unusable, and the reason. None while it is usable.
    unusable: parking_lot::Mutex<Option<UnusableGrant>>,
    /// The names of buckets that were opened without being granted, at most [`MAX_DENIED`]: for `mcp-host check`.
    denied: std::sync::Mutex<BTreeSet<String>>,
}

/// The quotas of a bucket.
#[derive(Clone, Copy, Debug)]
struct Quota {
    bytes: u64,
    keys: u64,
}

/// An open bucket: the name of a granted bucket.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "the generated code re-exports it")]
pub struct Bucket {
    name: Arc<str>,
    quota: Quota,
}

/// The state of a key that a compare-and-swap requires.
#[derive(Clone, Debug)]
#[allow(unreachable_pub, reason = "the generated code re-exports it")]
pub struct Cas {
    bucket: Bucket,
    key: String,
    version: KeyVersion,
}

impl Bucket {
    /// Returns the contents of the bucket. They are empty without a database.
    fn usage(&self, database: Option<&Database>) -> Result<BucketUsage, StoreError> {
        let (keys, bytes) = match database {
            Some(database) => store::usage(database, self)?,
            None => (0, 0),
        };
        let Quota { bytes: max_bytes, keys: max_keys } = self.quota;
        Ok(BucketUsage { name: self.name.to_string(), keys, bytes, max_keys, max_bytes })
    }
}

/// Returns the buckets that are granted to a plugin, with their quotas.
fn granted_buckets(plugin: &config::Plugin) -> impl Iterator<Item = (&str, Quota)> {
    plugin.grants.keyvalue.iter().map(|(name, grant)| {
        let keys = u64::try_from(grant.keys.get()).unwrap_or(u64::MAX);
        (name.as_str(), Quota { bytes: grant.quota.bytes(), keys })
    })
}

impl Keyvalue {
    /// Creates the buckets that are granted to the plugin, stored below `state_dir`.
    pub(crate) fn new(plugin: &config::Plugin, state_dir: Option<&Path>, log: &Arc<GuestLog>) -> Self {
        Self {
            granted: granted_buckets(plugin).map(|(name, quota)| (name.to_owned(), quota)).collect(),
            database_path: state_dir.map(|state| DatabasePath::new(state, &plugin.name)),
            database: Arc::default(),
            last_usage: parking_lot::Mutex::default(),
            refusal_log: RefusalLog::new(plugin.name.as_str().into(), log),
            unusable: parking_lot::Mutex::default(),
            denied: std::sync::Mutex::default(),
        }
    }

    fn open(&self, name: &str) -> Result<Bucket, StoreError> {
        // The name is written to the log, so its length is bounded.
        let name = name.get(..name.floor_char_boundary(MAX_KEY)).unwrap_or(name);
        let found = self.granted.get_key_value(name);
        let bucket = found.map(|(name, quota)| Bucket { name: name.as_str().into(), quota: *quota });
        if bucket.is_none() {
            let mut denied = self.denied.lock().unwrap_or_else(PoisonError::into_inner);
            if denied.len() < MAX_DENIED {
                denied.insert(name.to_owned());
            }
        }
        self.log_refusal(bucket.ok_or_else(|| StoreError::NotGranted {
            name: name.to_owned(),
            granted: self.granted.keys().map(ToString::to_string).collect(),
        }))
    }

    /// Returns the names of buckets that were opened without being granted.
    pub(crate) fn denied_buckets(&self) -> Vec<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// The operations of this call.
    fn operations<'a>(&'a self, accounts: CallAccounts<'a>) -> Operations<'a> {
        Operations { keyvalue: self, accounts }
    }

    /// Closes the database after the operation in flight, which checkpoints the log. The next operation opens it again.
    pub(crate) async fn close(&self) {
        let mut database = self.database.clone().lock_owned().await;
        if let Some(open) = database.take() {
            // The lock is held until the database is closed, so that no caller opens it meanwhile.
            let _ = tokio::task::spawn_blocking(move || {
                open.close();
                drop(database);
            })
            .await;
        }
    }

    /// Returns the contents of each bucket, as far as this process knows them without waiting. A database that a call has opened is
    /// read. A database that is not open is opened once; later calls return these values, until a call opens it. Empty if it cannot be
    /// read. Blocks.
    pub(crate) fn usage(&self) -> Vec<BucketUsage> {
        let Some(path) = self.database_path.as_ref().filter(|_| !self.granted.is_empty()) else { return Vec::new() };
        let mut last = self.last_usage.lock();
        // During an operation the previous values are returned.
        if let Ok(database) = self.database.try_lock() {
            let read = |database: Option<&Database>| {
                let buckets =
                    self.granted.iter().map(|(name, quota)| Bucket { name: name.as_str().into(), quota: *quota });
                buckets.map(|bucket| bucket.usage(database)).collect::<Result<Vec<_>, _>>()
            };
            let usage = match (&*database, &*last) {
                (Some(open), _) => read(Some(open)),
                (None, Some(_)) => return last.clone().unwrap_or_default(),
                (None, None) => path.has_database().and_then(|exists| match exists {
                    true => read(Some(&Database::open(path)?)),
                    false => read(None),
                }),
            };
            *last = Some(usage.unwrap_or_default());
        }
        last.clone().unwrap_or_default()
    }

    /// Checks that the database, if it exists, can be used. The error is for the admin, and names the file. Creates no
    /// database.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let file = self.database_path.as_ref().map(|path| path.file.as_path()).unwrap_or(Path::new(""));
        self.try_open().await.map_err(|error| error.for_admin(file))
    }

    /// Checks the database, and records whether it is usable.
    pub(crate) async fn try_stored_data(&self) {
        let _ = self.log_refusal(self.try_open().await);
    }

    async fn try_open(&self) -> Result<(), StoreError> {
        let Some(path) = self.database_path.clone().filter(|_| !self.granted.is_empty()) else { return Ok(()) };
        let database = self.database.clone().lock_owned().await;
        if database.is_some() {
            return Ok(());
        }
        let checked = tokio::task::spawn_blocking(move || {
            // The lock is held until the database is closed, so that no caller opens it meanwhile.
            let _closed = database;
            if path.has_database()? { Database::open(&path).map(drop) } else { Ok(()) }
        });
        let checked = checked.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        self.note_whether_usable(&checked);
        match checked {
            // Another process is using the database.
            Ok(()) | Err(StoreError::Busy) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The time since when the database is unusable, and the reason. None if the last attempt succeeded or there was none.
    pub(crate) fn unusable(&self) -> Option<UnusableGrant> {
        self.unusable.lock().clone()
    }

    /// Forgets that the database was unusable, until the next attempt.
    pub(crate) fn forget_unusable(&self) {
        *self.unusable.lock() = None;
    }

    /// Records whether the database is usable, according to the result of an operation.
    fn note_whether_usable<T>(&self, result: &Result<T, StoreError>) {
        let error = result.as_ref().err();
        match error.filter(|error| error.is_database_fault() || **error == StoreError::NoStateDir) {
            Some(error) => {
                let file = self.database_path.as_ref().map(|path| path.file.as_path());
                let reason = error.for_admin(file.unwrap_or_else(|| Path::new("")));
                let reason = format!("its key-value store cannot be used: {reason}");
                let mut unusable = self.unusable.lock();
                let since = unusable.as_ref().map_or_else(SystemTime::now, |before| before.since);
                *unusable = Some(UnusableGrant { since, reason });
            }
            // These errors do not depend on the state of the database.
            None if matches!(error, Some(StoreError::OutOfMemory | StoreError::Busy)) => {}
            None => *self.unusable.lock() = None,
        }
    }

    fn log_refusal<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.refusal_log.record(error, self.database_path.as_ref()))
    }
}

/// The operations of one call on buckets.
struct Operations<'a> {
    keyvalue: &'a Keyvalue,
    accounts: CallAccounts<'a>,
}

impl Operations<'_> {
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

    /// Adds `delta` to a number. Fails if the sum is outside of `range`, the numbers that the caller can represent.
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

    /// Returns the value of the key of `cas`, and whether its state is unchanged since `cas` was created.
    async fn current(&self, cas: Cas) -> Result<(Option<Vec<u8>>, bool), StoreError> {
        self.with_database(0, |(value, _)| value_size(value), move |database| store::current(database, &cas)).await
    }

    /// Writes the key of `cas` if its state is unchanged, else returns its current state.
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

    /// Runs `work` with the database, on a blocking thread. `request_bytes` is the size of the guest's arguments, and
    /// `size` returns the size of the result: both are reserved from `limits.memory` while the host holds them.
    async fn with_database<T: Send + 'static>(
        &self,
        request_bytes: usize,
        size: fn(&T) -> usize,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let Self { keyvalue, accounts } = self;
        let reserved = accounts.memory.try_reserve(request_bytes).map_err(|_| StoreError::OutOfMemory);
        let mut memory = keyvalue.log_refusal(reserved)?;
        let Some(path) = keyvalue.database_path.clone() else {
            keyvalue.note_whether_usable::<()>(&Err(StoreError::NoStateDir));
            return keyvalue.log_refusal(Err(StoreError::NoStateDir));
        };
        // Another call of the plugin may hold the database.
        let mut database = accounts.cpu.contend(keyvalue.database.clone().lock_owned()).await;
        let cpu = accounts.cpu.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _charged = cpu.charge_thread();
            let open = match &mut *database {
                Some(open) => open,
                closed => closed.insert(Database::open(&path)?),
            };
            let result = work(open).and_then(|result| {
                // One call runs at a time, so at most one result is in memory before its size is checked.
                let bytes = memory.bytes().saturating_add(size(&result));
                memory.try_resize(bytes).map(|()| result).map_err(|_| StoreError::OutOfMemory)
            });
            if result.as_ref().is_err_and(StoreError::is_database_fault) {
                // The next operation reopens the database, so after a repair the host does not have to be restarted.
                *database = None;
            }
            Ok((result?, memory))
        });
        let done = done.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        keyvalue.note_whether_usable(&done);
        if let Ok((_, memory)) = &done {
            host_calls::transferred(memory.bytes());
        }
        keyvalue.log_refusal(done).map(|(result, _memory)| result)
    }
}

/// The size of a result that does not depend on the stored data.
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

/// One instance's access to the buckets of its plugin, and the table of its handles.
pub(crate) struct KeyvalueView<'a> {
    pub(crate) keyvalue: &'a Keyvalue,
    pub(crate) table: &'a mut ResourceTable,
    pub(crate) accounts: CallAccounts<'a>,
}

impl<'a> KeyvalueView<'a> {
    fn operations(&self) -> Operations<'a> {
        self.keyvalue.operations(self.accounts)
    }
}

/// Stands for [`KeyvalueView`] where wasmtime wants a type without lifetimes.
struct HasKeyvalue;

impl HasData for HasKeyvalue {
    type Data<'a> = KeyvalueView<'a>;
}

/// Links `wasi:keyvalue`, in both drafts.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    keyvalue: fn(&mut T) -> KeyvalueView<'_>,
) -> wasmtime::Result<()> {
    wasi_draft2::add_to_linker(linker, keyvalue)?;
    wasi_draft1::add_to_linker(linker, keyvalue)
}

/// The position at which a page of a listing starts.
#[derive(Clone, Debug)]
pub(super) enum PageStart {
    /// After the key that a cursor names, or at the first key.
    After(Option<String>),
    /// After this number of keys.
    Offset(u64),
}

/// One page of the keys, in byte order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Whether there are more keys.
    pub(super) has_more: bool,
}

impl Page {
    /// Returns the cursor for [`PageStart::After`] if there are more keys: the last key, which may have been deleted
    /// since.
    pub(super) fn cursor(&self) -> Option<String> {
        self.keys.last().filter(|_| self.has_more).map(|key| URL_SAFE_NO_PAD.encode(key))
    }
}
