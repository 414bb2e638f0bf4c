//! Key-value buckets, enforced: `wasi:keyvalue` for one plugin, kept on disk.
//!
//! # What it is
//!
//! Each plugin with a bucket has one SQLite database, `keyvalue/PLUGIN.sqlite3` below the state directory, for its user alone.
//! SQLite rather than an embedded store of one process, because several hosts may share a state directory: two desktop
//! clients that each start `mcp-host` with the same config see the same buckets, at the same time.
//!
//! Guests speak `wasi:keyvalue` in the standard's newest draft ([`host`]), or in the one before it ([`draft`]), which other
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
//! | waiting for another process | [`database::BUSY`] |
//! | threads | one of the blocking ones for each plugin, while it works |
//! | descriptors | three for each plugin, from its first use on |
//!
//! SQLite blocks, so it is not called on the guest threads, but on the runtime's threads for that. The connection is behind a
//! lock that calls wait for *before* they take such a thread: a plugin that does nothing else takes one of them, not all. A
//! thread of its own for each plugin would do as well and lie idle most of the time. A call that ends while it waits has done
//! nothing; one that ends while its operation is under way may have done it, unacknowledged.

mod bindings;
mod database;
mod draft;
mod error;
mod host;
mod refusals;
mod store;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use tokio::sync::Mutex;
use wasmtime::component::{HasData, Linker, ResourceTable};

use self::database::{Database, Place};
use self::error::StoreError;
use self::refusals::Refusals;
use self::store::{Found, Page, Seen, Start};
use crate::config;
use crate::plugin::guest_log::GuestLog;
use crate::plugin::limits::MemoryBudget;
use crate::plugin::state::State;

/// Bytes that a key may have.
const MAX_KEY: usize = 1024;
/// Bytes that a value may have, and the values of one call together.
const MAX_VALUE: usize = 16 << 20;
/// Keys that one call may be about, and that one page of a listing has.
const MAX_KEYS: usize = 1000;

/// The buckets of one plugin.
pub(in crate::plugin) struct Keyvalue {
    granted: BTreeMap<String, Quota>,
    /// None where there is no directory to keep it in.
    place: Option<Place>,
    /// Opened at its first use, and again after it was found to be damaged.
    database: Arc<Mutex<Option<Database>>>,
    refusals: Refusals,
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
    seen: Seen,
}

impl Keyvalue {
    /// The buckets that the plugin is granted, kept below that state directory.
    pub(in crate::plugin) fn new(
        plugin: &config::Plugin,
        state: Option<&Path>,
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
            place: state.map(|state| Place::of(state, &plugin.name)),
            database: Arc::default(),
            refusals: Refusals::new(plugin.name.as_str().into(), log),
            memory,
        }
    }

    fn open(&self, name: &str) -> Result<Bucket, StoreError> {
        // A name of any length is told back to the log.
        let name = name.get(..name.floor_char_boundary(MAX_KEY)).unwrap_or(name);
        let found = self.granted.get_key_value(name);
        let bucket = found.map(|(name, quota)| Bucket { name: name.as_str().into(), quota: *quota });
        self.noted(bucket.ok_or_else(|| StoreError::NotGranted(name.to_owned())))
    }

    async fn get(&self, bucket: Bucket, key: String) -> Result<Option<Vec<u8>>, StoreError> {
        self.run(key.len(), value_size, move |database| store::get(database, &bucket, &key)).await
    }

    async fn set(&self, bucket: Bucket, key: String, value: Vec<u8>) -> Result<(), StoreError> {
        let given = key.len().saturating_add(value.len());
        self.run(given, nothing, move |database| store::set_many(database, &bucket, &[(key, value)])).await
    }

    async fn delete(&self, bucket: Bucket, key: String) -> Result<(), StoreError> {
        self.run(key.len(), nothing, move |database| store::delete_many(database, &bucket, &[key])).await
    }

    async fn exists(&self, bucket: Bucket, key: String) -> Result<bool, StoreError> {
        self.run(key.len(), nothing, move |database| store::exists(database, &bucket, &key)).await
    }

    async fn keys(&self, bucket: Bucket, start: Start) -> Result<Page, StoreError> {
        self.run(0, |page: &Page| texts_size(&page.keys), move |database| store::keys(database, &bucket, &start)).await
    }

    /// Adds to a number, if the sum is one of those that the caller can be told.
    async fn increment(
        &self,
        bucket: Bucket,
        key: String,
        delta: i128,
        sums: std::ops::RangeInclusive<i128>,
    ) -> Result<i128, StoreError> {
        self.run(key.len(), nothing, move |database| store::increment(database, &bucket, &key, delta, &sums)).await
    }

    async fn remember(&self, bucket: Bucket, key: String) -> Result<Cas, StoreError> {
        let seen = {
            let (bucket, key) = (bucket.clone(), key.clone());
            self.run(key.len(), nothing, move |database| store::seen(database, &bucket, &key)).await?
        };
        Ok(Cas { bucket, key, seen })
    }

    /// The value of a remembered key, and whether it still is in the state that was remembered.
    async fn current(&self, cas: Cas) -> Result<(Option<Vec<u8>>, bool), StoreError> {
        self.run(0, |(value, _)| value_size(value), move |database| store::current(database, &cas)).await
    }

    /// Writes a remembered key; if it is not in the remembered state any more, the state that it is in instead.
    async fn swap(&self, cas: Cas, value: Vec<u8>) -> Result<Result<(), Cas>, StoreError> {
        self.run(value.len(), nothing, move |database| store::swap(database, cas, value)).await
    }

    async fn get_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<Vec<Found>, StoreError> {
        self.run(
            texts_size(&keys),
            |found: &Vec<Found>| found_size(found),
            move |database| store::get_many(database, &bucket, keys),
        )
        .await
    }

    async fn set_many(&self, bucket: Bucket, entries: Vec<(String, Vec<u8>)>) -> Result<(), StoreError> {
        self.run(entries_size(&entries), nothing, move |database| store::set_many(database, &bucket, &entries)).await
    }

    async fn delete_many(&self, bucket: Bucket, keys: Vec<String>) -> Result<(), StoreError> {
        self.run(texts_size(&keys), nothing, move |database| store::delete_many(database, &bucket, &keys)).await
    }

    /// Closes the database after the operations under way, and has its log checkpointed by that. The next operation opens it
    /// again.
    pub(in crate::plugin) async fn close(&self) {
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
    pub(in crate::plugin) async fn check(&self) -> Result<(), String> {
        let Some(place) = self.place.clone().filter(|_| !self.granted.is_empty()) else { return Ok(()) };
        let database = self.database.clone().lock_owned().await;
        if database.is_some() {
            return Ok(());
        }
        let file = place.file.clone();
        let checked = tokio::task::spawn_blocking(move || {
            // Held until it is closed, so that nobody opens it meanwhile.
            let _closed = database;
            if place.has_database()? { Database::open(&place).map(drop) } else { Ok(()) }
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
    async fn run<T: Send + 'static>(
        &self,
        given: usize,
        size: fn(&T) -> usize,
        work: impl FnOnce(&mut Database) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let mut memory = self.noted(self.memory.try_reserve(given).ok_or(StoreError::Memory))?;
        let Some(place) = self.place.clone() else { return self.noted(Err(StoreError::NoPlace)) };
        let mut database = self.database.clone().lock_owned().await;
        let done = tokio::task::spawn_blocking(move || {
            let open = match &mut *database {
                Some(open) => open,
                closed => closed.insert(Database::open(&place)?),
            };
            let result = work(open).and_then(|result| {
                // One call at a time is here, so what is read before it is known to fit is one answer.
                let bytes = memory.bytes().saturating_add(size(&result));
                if memory.try_resize(bytes) { Ok(result) } else { Err(StoreError::Memory) }
            });
            if result.as_ref().is_err_and(StoreError::is_of_the_database) {
                // Whoever mends it need not start the host anew.
                *database = None;
            }
            Ok((result?, memory))
        });
        let done = done.await.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())));
        self.noted(done).map(|(result, _memory)| result)
    }

    fn noted<T>(&self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        result.inspect_err(|error| self.refusals.note(error, self.place.as_ref()))
    }
}

/// The size of an answer that has the same few bytes whatever is asked.
fn nothing<T>(_: &T) -> usize {
    0
}

fn value_size(value: &Option<Vec<u8>>) -> usize {
    value.as_ref().map_or(0, Vec::len)
}

fn texts_size(texts: &[String]) -> usize {
    texts.iter().fold(0, |sum, text| sum.saturating_add(text.len()).saturating_add(size_of::<String>()))
}

fn entries_size(entries: &[(String, Vec<u8>)]) -> usize {
    entries.iter().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}

fn found_size(found: &[Found]) -> usize {
    found.iter().flatten().fold(0, |sum, entry| sum.saturating_add(entry_size(entry)))
}

fn entry_size((key, value): &(String, Vec<u8>)) -> usize {
    key.len().saturating_add(value.len()).saturating_add(size_of::<(String, Vec<u8>)>())
}

/// What one instance has of its plugin's buckets: they, and where its handles are kept.
pub(in crate::plugin) struct KeyvalueView<'a> {
    pub(in crate::plugin) keyvalue: &'a Keyvalue,
    pub(in crate::plugin) table: &'a mut ResourceTable,
}

struct HasKeyvalue;

impl HasData for HasKeyvalue {
    type Data<'a> = KeyvalueView<'a>;
}

/// Lets components import `wasi:keyvalue`, in both drafts.
pub(in crate::plugin) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    host::add_to_linker(linker)?;
    draft::add_to_linker(linker)
}
