//! Persistent state: a key-value store of the host.
//!
//! Every call may get a fresh instance, so persistent state is stored outside of it: in a [`Bucket`] that the
//! administrator granted by name (`grants.keyvalue = ["pages"]`). A bucket is private to the plugin: no other plugin
//! sees it, not even one of the same component. All calls of the plugin share it, concurrent ones included.
//!
//! ```no_run
//! use mcp_provider::Result;
//! use mcp_provider::keyvalue::Bucket;
//!
//! /// Counts a visit of a page, and returns the number of visits.
//! fn visit(page: &str) -> Result<i64> {
//!     Bucket::open("visits")?.increment(page, 1)
//! }
//! ```
//!
//! Writes are durable: when a call returns, the value is on disk, survives a crash of the host, and is visible to
//! every call that starts later. [`increment`](Bucket::increment) and [`compare_and_swap`](Bucket::compare_and_swap)
//! are atomic across concurrent calls and across hosts; a read followed by a write is not.
//!
//! A key is text of 1 to 1024 bytes, a value any bytes. A read costs the host about ten microseconds, and a write
//! more, so many small values are better read and written in [batches](Bucket::get_many).
//!
//! # Failures
//!
//! A bucket that is not granted is [`Failure::Internal`]: the text, which names it, goes to the log. A temporary
//! failure of the store, or a write beyond the bucket's quota, is [`Failure::Unavailable`] with the reason. A cache
//! should therefore continue without the values that it could not store.
//!
//! # Native targets
//!
//! There is no host on native targets, and [`Bucket::open`] fails. A provider with native tests accesses its bucket as
//! a [`Store`]: a [`LazyBucket`] in a component, a [`MemoryStore`] in tests.
//!
//! ```
//! use mcp_provider::keyvalue::{LazyBucket, MemoryStore, Store};
//! use mcp_provider::Config;
//!
//! struct Pages {
//!     store: Box<dyn Store>,
//! }
//!
//! impl Pages {
//!     fn open(config: &Config) -> Self {
//!         Self { store: Box::new(LazyBucket::new(config.get("bucket").unwrap_or("pages"))) }
//!     }
//!
//!     fn is_cached(&self, page: &str) -> bool {
//!         self.store.get(page).is_ok_and(|value| value.is_some())
//!     }
//! }
//!
//! let pages = Pages { store: Box::new(MemoryStore::default()) };
//! pages.store.set("docs.rs/serde/", b"<html>")?;
//! assert!(pages.is_cached("docs.rs/serde/"));
//! # let _ = Pages::open(&Config::from_pairs([("bucket", "cache")]));
//! # mcp_provider::Result::Ok(())
//! ```

mod stores;

pub use stores::{JsonStore, LazyBucket, MemoryStore, Store};

use crate::component::bindings::wasi::keyvalue::{atomics, batch, store};
use crate::{Failure, Result};

/// A persistent set of keys with values.
#[derive(Debug)]
pub struct Bucket {
    bucket: store::Bucket,
}

/// One page of the keys of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keys {
    /// The keys, sorted by their bytes.
    pub keys: Vec<String>,
    /// The cursor of the next page; `None` on the last.
    pub next_cursor: Option<String>,
}

impl Bucket {
    /// Opens a granted bucket. Cheap: nothing is read.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] if the bucket is not granted, and always on native targets.
    pub fn open(name: &str) -> Result<Self> {
        if cfg!(not(target_family = "wasm")) {
            return Err(Failure::internal("buckets need a host, and this is not a component"));
        }
        match store::open(name) {
            Ok(bucket) => Ok(Self { bucket }),
            Err(store::Error::NoSuchStore) => {
                Err(Failure::internal(format!("the bucket `{name}` is not granted: add it to `grants.keyvalue`")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the value of a key; `None` if the key does not exist.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.bucket.get(key)?)
    }

    /// Sets the value of a key and replaces any previous one.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the write exceeds the bucket's quota, or fails.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        Ok(self.bucket.set(key, value)?)
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the write fails.
    pub fn delete(&self, key: &str) -> Result<()> {
        Ok(self.bucket.delete(key)?)
    }

    /// Returns whether a key exists.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails.
    pub fn exists(&self, key: &str) -> Result<bool> {
        Ok(self.bucket.exists(key)?)
    }

    /// Returns the first page of keys, or the page after a cursor. A key that exists from the first page to the last
    /// is on exactly one of them, regardless of concurrent writes.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails, or the cursor was not returned by it.
    pub fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
        let store::KeyResponse { keys, cursor } = self.bucket.list_keys(cursor)?;
        Ok(Keys { keys, next_cursor: cursor })
    }

    /// Adds to the number stored under a key, atomically, and returns the sum. A missing key counts as 0. The value is
    /// the number in decimal digits.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the value is not a number, the sum overflows, or the write fails.
    pub fn increment(&self, key: &str, delta: i64) -> Result<i64> {
        Ok(atomics::increment(&self.bucket, key, delta)?)
    }

    /// Sets the value of a key to `new` if its current value is `expected` (`None`: if the key does not exist),
    /// atomically. Returns whether it was set.
    ///
    /// It may also return `false` after a concurrent write of the key: read the value again and retry.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the write exceeds the bucket's quota, or the read or write fails.
    pub fn compare_and_swap(&self, key: &str, expected: Option<&[u8]>, new: &[u8]) -> Result<bool> {
        let handle = atomics::Cas::new(&self.bucket, key)?;
        if handle.current()?.as_deref() != expected {
            return Ok(false);
        }
        match atomics::swap(handle, new) {
            Ok(()) => Ok(true),
            Err(atomics::CasError::CasFailed(_)) => Ok(false),
            Err(atomics::CasError::StoreError(error)) => Err(error.into()),
        }
    }

    /// Returns the values of the keys, in the same order; `None` for a missing key. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails, or there are too many keys.
    pub fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = batch::get_many(&self.bucket, &to_owned_keys(keys))?;
        Ok(values.into_iter().map(|found| found.map(|(_, value)| value)).collect())
    }

    /// Sets several values atomically: all of them, or none on failure. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the write exceeds the bucket's quota or fails, or there are too many keys.
    pub fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        let values: Vec<_> = values.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect();
        Ok(batch::set_many(&self.bucket, &values)?)
    }

    /// Deletes several keys atomically, those that exist: all of them, or none on failure. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the write fails, or there are too many keys.
    pub fn delete_many(&self, keys: &[&str]) -> Result<()> {
        Ok(batch::delete_many(&self.bucket, &to_owned_keys(keys))?)
    }
}

fn to_owned_keys(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        match error {
            store::Error::NoSuchStore => Self::internal("the bucket does not exist"),
            store::Error::AccessDenied => Self::internal("access to the bucket is denied"),
            store::Error::Other(reason) => Self::unavailable(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_buckets_outside_of_a_component() {
        assert!(matches!(Bucket::open("pages"), Err(Failure::Internal(_))));
    }

    #[test]
    fn what_the_store_cannot_do_now_is_unavailable_and_a_missing_grant_is_internal() {
        let unavailable = Failure::from(store::Error::Other("the bucket is full".to_owned()));
        assert_eq!(unavailable, Failure::unavailable("the bucket is full"));
        assert!(matches!(Failure::from(store::Error::NoSuchStore), Failure::Internal(_)));
        assert!(matches!(Failure::from(store::Error::AccessDenied), Failure::Internal(_)));
    }
}
