//! The store implementation for components: a bucket of the host.

use super::{Store, StoreError};
use mcp_provider::keyvalue::Bucket;
use mcp_provider::{Failure, log};
use std::cell::OnceCell;

/// A bucket of `wasi:keyvalue`, opened on first use. Without a grant nothing is stored, and a warning is logged.
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

    fn bucket(&self) -> Result<&Bucket, StoreError> {
        let bucket = self.bucket.get_or_init(|| {
            let opened = Bucket::open(&self.name);
            opened.inspect_err(|failure| log::warn!("pages are not stored, every read fetches: {failure}")).ok()
        });
        bucket.as_ref().ok_or_else(|| StoreError::Failed(format!("no bucket `{}`", self.name)))
    }
}

impl Store for HostStore {
    fn get(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        self.bucket()?.get_many(keys).map_err(to_store_error)
    }

    fn put(&self, values: &[(&str, &[u8])]) -> Result<(), StoreError> {
        self.bucket()?.set_many(values).map_err(|failure| match failure {
            Failure::Unavailable(retry) => StoreError::Full(retry.reason),
            failure => to_store_error(failure),
        })
    }

    fn remove(&self, keys: &[&str]) -> Result<(), StoreError> {
        self.bucket()?.delete_many(keys).map_err(to_store_error)
    }

    fn keys(&self) -> Result<Vec<String>, StoreError> {
        let bucket = self.bucket()?;
        let mut keys = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = bucket.keys(cursor.as_deref()).map_err(to_store_error)?;
            keys.extend(page.keys);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        keys.sort_unstable();
        Ok(keys)
    }
}

fn to_store_error(failure: Failure) -> StoreError {
    StoreError::Failed(failure.to_string())
}
