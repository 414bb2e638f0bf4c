//! The store interface: values under keys that outlive the instance.
//!
//! What is stored is a cache: without a bucket everything works, with more requests. In a component the other side of
//! [`Store`] is [`HostStore`], a bucket of `wasi:keyvalue`; tests use a map.

use mcp_provider::keyvalue::Bucket;
use mcp_provider::{Result, log};
use std::cell::OnceCell;

/// The maximum number of keys that are deleted in one call.
const BATCH: usize = 1000;

/// A key-value store.
pub trait Store {
    /// Returns the value of a key.
    ///
    /// # Errors
    ///
    /// Any failure of the store.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Sets the value of a key.
    ///
    /// # Errors
    ///
    /// Any failure of the store; unavailable if there may be no space.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    ///
    /// Any failure of the store.
    fn delete(&self, key: &str) -> Result<()>;

    /// Deletes all keys.
    ///
    /// # Errors
    ///
    /// Any failure of the store.
    fn clear(&self) -> Result<()>;
}

/// A bucket of `wasi:keyvalue`, opened on first use. Without a grant nothing is stored, and each call says so in the log.
#[derive(Debug)]
pub struct HostStore {
    name: String,
    bucket: OnceCell<Option<Bucket>>,
}

impl HostStore {
    /// Creates a store on the bucket with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), bucket: OnceCell::new() }
    }

    fn bucket(&self) -> Option<&Bucket> {
        let opened = self.bucket.get_or_init(|| {
            let opened = Bucket::open(&self.name);
            opened.inspect_err(|failure| log::debug!("nothing is stored, every read sends requests: {failure}")).ok()
        });
        opened.as_ref()
    }
}

impl Store for HostStore {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.bucket().map_or(Ok(None), |bucket| bucket.get(key))
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.bucket().map_or(Ok(()), |bucket| bucket.set(key, value))
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.bucket().map_or(Ok(()), |bucket| bucket.delete(key))
    }

    fn clear(&self) -> Result<()> {
        let Some(bucket) = self.bucket() else { return Ok(()) };
        loop {
            let keys = bucket.keys(None)?.keys;
            if keys.is_empty() {
                return Ok(());
            }
            let batch: Vec<&str> = keys.iter().take(BATCH).map(String::as_str).collect();
            bucket.delete_many(&batch)?;
        }
    }
}

/// The store, used as a cache: a failure is logged, and is no failure of the call.
#[derive(Clone, Copy)]
pub(crate) struct Cache<'a>(pub(crate) &'a dyn Store);

impl Cache<'_> {
    /// Returns the value of a key.
    pub(crate) fn get(self, key: &str) -> Option<Vec<u8>> {
        self.0.get(key).inspect_err(|failure| log::warn!("the bucket cannot be read: {failure}")).ok().flatten()
    }

    /// Sets the value of a key. If the bucket is full, everything that was stored before is deleted.
    pub(crate) fn set(self, key: &str, value: &[u8]) {
        let stored = self.0.set(key, value).or_else(|_| {
            self.0.clear()?;
            self.0.set(key, value)
        });
        if let Err(failure) = stored {
            log::warn!("`{key}` is not stored: {failure}");
        }
    }

    /// Deletes a key.
    pub(crate) fn delete(self, key: &str) {
        if let Err(failure) = self.0.delete(key) {
            log::warn!("`{key}` cannot be deleted from the bucket: {failure}");
        }
    }
}
