//! Key-value grants: the host's implementation of `wasi:keyvalue` for one plugin, stored on disk.
//!
//! # Storage
//!
//! Each plugin with a bucket has one SQLite database, `keyvalue/PLUGIN.sqlite3` below the state directory, accessible
//! to its user only. It is SQLite, not an embedded store for a single process, because several hosts may share a state
//! directory: two desktop clients that each start `mcp-host` with the same config see the same buckets, at the same
//! time.
//!
//! A bucket with `shared = true` is not in this database, but in a store that the replicas of a cluster share
//! ([`shared`]). The guarantees below apply to buckets in SQLite.
//!
//! Guests use `wasi:keyvalue` in the standard's newest draft ([`wasi_draft2`]), or in the previous one
//! ([`wasi_draft1`]), which other hosts implement. Both are thin: [`Operations`] has one method per operation, and
//! [`store`] or [`shared`] performs it. The command line uses the same operations without a guest (`admin`).
//!
//! # Guarantees
//!
//! - A bucket that is not granted does not exist: opening it returns `no-such-store`. An existing bucket is never
//!   denied, because a bucket exists exactly if it is granted.
//! - Acknowledged writes survive `kill -9`, and writes are atomic: each operation is one transaction of a write-ahead
//!   log. The log is synchronized at checkpoints, not at each write, so a power failure may lose the last writes, in
//!   their order; the database stays consistent. A host that shuts down gracefully checkpoints the log and removes it.
//! - Quotas are exact, also between processes: the totals of a bucket are a row that is read, checked and written in
//!   the transaction that writes the entry, and a writer takes the write lock before it reads.
//! - A database that is damaged, was emptied, cannot be written, or does not belong to this user is an error for the
//!   guest, and a log line for the admin. It is never deleted or recreated: a new database is created with its tables
//!   under a temporary name and then renamed, so an empty file is never the result of an interrupted creation.
//!
//! # Without the feature `keyvalue`
//!
//! The interface is linked, so that components that import it load, but no bucket can be granted: a config that grants
//! one is rejected. Every operation on a bucket that an application grants in code fails ([`absent`]).
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
//! | shared buckets: requests at once, and their time | [`shared`] |
//!
//! SQLite blocks, so it is called on the runtime's blocking threads, not on the guest threads. The connection is behind
//! a lock that calls acquire *before* they take such a thread, so a plugin that uses its store constantly takes only
//! one thread. A dedicated thread per plugin would work, too, but would be idle most of the time. A call that ends
//! while it waits has changed nothing; a call that ends during its operation may have completed it, unacknowledged.

#![cfg_attr(not(feature = "keyvalue"), allow(dead_code, reason = "only buckets use it"))]

#[cfg(not(feature = "keyvalue"))]
mod absent;
#[cfg(feature = "keyvalue")]
pub mod admin;
mod bindings;
#[cfg(feature = "keyvalue")]
mod database;
mod error;
mod operations;
mod shared;
#[cfg(feature = "keyvalue")]
mod store;
#[cfg(test)]
#[cfg(feature = "keyvalue")]
mod tests;
mod wasi_draft1;
mod wasi_draft2;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_base::shared_buckets::{BucketLimits, SharedBuckets};
use mcp_host_base::task;
use mcp_host_config as config;
use tokio::sync::Mutex;
use wasmtime::component::{HasData, Linker, ResourceTable};

#[cfg(not(feature = "keyvalue"))]
use self::absent::{self as database, self as store};
use self::database::{Database, DatabasePath};
use self::error::{StoreError, SwapError};
use self::operations::Operations;
use self::shared::{SharedRequests, SharedStore};
use crate::CallAccounts;
use crate::grant_usage::{BucketUsage, UnusableGrant};
use crate::guest_log::{GuestLog, ThrottledWarnings};

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

/// Where the buckets of plugins are stored.
#[derive(Clone, Copy, Default)]
pub struct BucketStores<'a> {
    /// The directory below which databases are. Without it, buckets on disk cannot be used.
    pub state_dir: Option<&'a Path>,
    /// The store of shared buckets. Without it, these cannot be used.
    pub shared: Option<&'a dyn SharedBuckets>,
}

/// The buckets of one plugin.
pub(crate) struct Keyvalue {
    granted: BTreeMap<String, Bucket>,
    /// `None` without a state directory.
    database_path: Option<DatabasePath>,
    /// Opened at the first use, and again after a database error.
    database: Arc<Mutex<Option<Database>>>,
    /// The contents of the buckets when [`usage`](Self::usage) last read them. None before the first time.
    last_usage: parking_lot::Mutex<Option<Vec<BucketUsage>>>,
    warnings: ThrottledWarnings,
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
    place: Place,
}

/// Where a bucket is stored.
#[derive(Clone, Debug)]
enum Place {
    /// In the plugin's database.
    Disk,
    /// In a store that the replicas of a cluster share.
    Shared(SharedStore),
    /// In a shared store, which this host does not have.
    NoCluster,
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
    /// Returns the contents of a bucket on disk. They are empty without a database.
    fn usage(&self, database: Option<&Database>) -> Result<BucketUsage, StoreError> {
        let (keys, bytes) = match database {
            Some(database) => store::usage(database, self)?,
            None => (0, 0),
        };
        Ok(self.used(keys, bytes))
    }

    fn used(&self, keys: u64, bytes: u64) -> BucketUsage {
        let Quota { bytes: max_bytes, keys: max_keys } = self.quota;
        BucketUsage { name: self.name.to_string(), keys, bytes, max_keys, max_bytes }
    }

    fn is_on_disk(&self) -> bool {
        matches!(self.place, Place::Disk)
    }

    /// The shared store of the bucket; none if it is on disk.
    fn shared(&self) -> Result<Option<&SharedStore>, StoreError> {
        match &self.place {
            Place::Disk => Ok(None),
            Place::Shared(store) => Ok(Some(store)),
            Place::NoCluster => Err(StoreError::NoCluster(self.name.to_string())),
        }
    }
}

/// Returns the buckets that are granted to a plugin. Those with `shared = true` are in `shared_buckets`.
fn granted_buckets(plugin: &config::Plugin, shared_buckets: Option<&dyn SharedBuckets>) -> Vec<Bucket> {
    let requests = SharedRequests::new(&plugin.limits);
    let granted = plugin.grants.keyvalue.iter().map(|(name, grant)| {
        let keys = u64::try_from(grant.keys.get()).unwrap_or(u64::MAX);
        let quota = Quota { bytes: grant.quota.bytes(), keys };
        let place = match (grant.shared, shared_buckets) {
            (false, _) => Place::Disk,
            (true, None) => Place::NoCluster,
            (true, Some(all)) => {
                let limits = BucketLimits { bytes: quota.bytes, keys };
                let bucket = all.bucket(plugin.name.as_str(), name.as_str(), limits);
                Place::Shared(SharedStore::new(bucket, requests.clone()))
            }
        };
        Bucket { name: name.as_str().into(), quota, place }
    });
    granted.collect()
}

impl Keyvalue {
    /// Creates the buckets that are granted to the plugin.
    pub(crate) fn new(plugin: &config::Plugin, stores: BucketStores<'_>, log: &Arc<GuestLog>) -> Self {
        let BucketStores { state_dir, shared } = stores;
        let granted = granted_buckets(plugin, shared).into_iter();
        Self {
            granted: granted.map(|bucket| (bucket.name.to_string(), bucket)).collect(),
            database_path: state_dir.map(|state| DatabasePath::new(state, &plugin.name)),
            database: Arc::default(),
            last_usage: parking_lot::Mutex::default(),
            warnings: ThrottledWarnings::new(log.clone()),
            unusable: parking_lot::Mutex::default(),
            denied: std::sync::Mutex::default(),
        }
    }

    fn open(&self, name: &str) -> Result<Bucket, StoreError> {
        // The name is written to the log, so its length is bounded.
        let name = name.get(..name.floor_char_boundary(MAX_KEY)).unwrap_or(name);
        let bucket = self.granted.get(name).cloned();
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
            let _ = task::spawn_blocking(move || {
                open.close();
                drop(database);
            })
            .await;
        }
    }

    /// The buckets in the plugin's database.
    fn on_disk(&self) -> impl Iterator<Item = &Bucket> {
        self.granted.values().filter(|bucket| bucket.is_on_disk())
    }

    /// The shared buckets, with their stores.
    fn shared(&self) -> impl Iterator<Item = (&Bucket, &SharedStore)> {
        self.granted.values().filter_map(|bucket| Some((bucket, bucket.shared().ok()??)))
    }

    /// Returns the contents of each bucket, as far as this process knows them without waiting. Blocks.
    ///
    /// Buckets on disk: a database that a call has opened is read. A database that is not open is opened once; later
    /// calls return these values, until a call opens it. None if it cannot be read. Shared buckets: the contents that
    /// were read last, and they are read again if they are [old](shared::MAX_AGE). None before they have been read.
    pub(crate) fn usage(&self) -> Vec<BucketUsage> {
        let shared = self.shared().filter_map(|(bucket, store)| {
            let known = store.known_contents()?;
            Some(bucket.used(known.keys, known.bytes))
        });
        let mut all: Vec<_> = self.usage_on_disk().into_iter().chain(shared).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// Reads the contents of the shared buckets, for [`usage`](Self::usage). A bucket that cannot be read keeps its
    /// last known contents.
    pub(crate) async fn read_shared_usage(&self) {
        for (_, store) in self.shared() {
            store.read_contents().await;
        }
    }

    fn usage_on_disk(&self) -> Vec<BucketUsage> {
        let Some(path) = self.database_path.as_ref().filter(|_| self.on_disk().next().is_some()) else {
            return Vec::new();
        };
        let mut last = self.last_usage.lock();
        // During an operation the previous values are returned.
        if let Ok(database) = self.database.try_lock() {
            let read = |database: Option<&Database>| {
                self.on_disk().map(|bucket| bucket.usage(database)).collect::<Result<Vec<_>, _>>()
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

    /// Returns warnings about shared buckets that cannot be reached now. Makes no bucket.
    pub(crate) async fn check_shared(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for bucket in self.granted.values() {
            let checked = match bucket.shared() {
                Ok(None) => continue,
                Ok(Some(store)) => store.read_contents_now().await.map(drop),
                Err(error) => Err(error),
            };
            if let Err(error) = checked {
                let reason = error.for_admin(Path::new(""));
                warnings.push(format!("its shared bucket `{}` cannot be used now: {reason}", bucket.name));
            }
        }
        warnings
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
        let Some(path) = self.database_path.clone().filter(|_| self.on_disk().next().is_some()) else {
            return Ok(());
        };
        let database = self.database.clone().lock_owned().await;
        if database.is_some() {
            return Ok(());
        }
        let checked = task::spawn_blocking(move || {
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

    /// The time since when the database is unusable, and the reason. None if the last attempt succeeded or there was
    /// none.
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
        let file = self.database_path.as_ref().map(|path| path.file.as_path());
        result.inspect_err(|error| error.log(file, &self.warnings))
    }
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

/// One page of the keys: in byte order, or of a shared bucket in the order of their last writes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    /// Whether there are more keys.
    pub(super) has_more: bool,
    /// Of a shared bucket, the revision after which the next page begins.
    pub(super) revision: Option<u64>,
}

impl Page {
    /// Returns the cursor for [`PageStart::After`] if there are more keys: the last key, which may have been deleted
    /// since, or the revision.
    pub(super) fn cursor(&self) -> Option<String> {
        match self.revision {
            _ if !self.has_more => None,
            Some(revision) => Some(revision.to_string()),
            None => self.keys.last().map(|key| URL_SAFE_NO_PAD.encode(key)),
        }
    }

    /// Returns the number for [`PageStart::Offset`] if there are more keys, of a page that began at `start`: the count
    /// of keys to skip, or the revision.
    pub(super) fn offset(&self, start: u64) -> Option<u64> {
        self.has_more.then(|| self.revision.unwrap_or_else(|| start.saturating_add(self.keys.len() as u64)))
    }
}

fn check_count(count: usize) -> Result<(), StoreError> {
    if count > MAX_KEYS { Err(StoreError::TooManyKeys(count)) } else { Ok(()) }
}

fn check_key(key: &str) -> Result<(), StoreError> {
    if (1..=MAX_KEY).contains(&key.len()) { Ok(()) } else { Err(StoreError::InvalidKeyLength(key.len())) }
}

/// Returns the memory of keys in bytes.
fn keys_size(keys: &[String]) -> usize {
    keys.iter().fold(0, |sum, key| sum.saturating_add(key.len()).saturating_add(size_of::<String>()))
}

/// Returns the memory of an entry in bytes.
fn entry_size((key, value): &(String, Vec<u8>)) -> usize {
    key.len().saturating_add(value.len()).saturating_add(size_of::<(String, Vec<u8>)>())
}

/// Adds `delta` to a value, a number in decimal digits; a missing value counts as zero. Fails if the sum is outside of
/// `range`.
fn add(value: Option<&[u8]>, delta: i128, range: &RangeInclusive<i128>) -> Result<i128, StoreError> {
    let number = match value {
        Some(value) => {
            let digits = str::from_utf8(value).map_err(|_| StoreError::NotANumber)?;
            digits.parse::<i64>().map(i128::from).or_else(|_| digits.parse::<u64>().map(i128::from))
        }
        None => Ok(0),
    };
    let sum = number.map_err(|_| StoreError::NotANumber)?.checked_add(delta).filter(|sum| range.contains(sum));
    sum.ok_or(StoreError::Overflow)
}
