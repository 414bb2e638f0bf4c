//! The buckets of one plugin for an admin, without a guest: the same stores with the same quotas, concurrently with any
//! host that uses them.
//!
//! Reading never creates a database, and errors name the file. Operations on buckets in a database block the thread;
//! those on shared buckets do not.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_base::shared_buckets::SharedBuckets;
use mcp_host_config as config;

use super::PageStart;
use super::database::{Database, DatabasePath};
use super::error::StoreError;
use super::shared::SharedCall;
use super::{Bucket, MAX_VALUE, granted_buckets, store};
use crate::memory::{CallOwner, MemoryAccount, MemoryBudget};

pub use crate::grant_usage::BucketUsage;

/// The maximum size of a value in bytes.
pub const MAX_VALUE_BYTES: usize = MAX_VALUE;

/// The reason why an operation of an admin failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The plugin has no grant for a bucket with this name.
    #[error("the plugin `{plugin}` is granted no bucket `{bucket}`")]
    NotGranted {
        /// The plugin.
        plugin: String,
        /// The requested bucket.
        bucket: String,
        /// The granted buckets.
        granted: Vec<String>,
    },
    /// The database cannot be used, or rejects the operation.
    #[error("{0}")]
    Store(String),
}

/// The buckets of one plugin.
#[derive(Debug)]
pub struct PluginBuckets {
    plugin: String,
    path: DatabasePath,
    granted: Vec<Bucket>,
}

impl PluginBuckets {
    /// Returns the buckets that are granted to a plugin, stored below `state_dir`, or in `shared_buckets` if they are
    /// shared. Opens nothing.
    pub fn new(plugin: &config::Plugin, state_dir: &Path, shared_buckets: Option<&dyn SharedBuckets>) -> Self {
        Self {
            plugin: plugin.name.to_string(),
            path: DatabasePath::new(state_dir, &plugin.name),
            granted: granted_buckets(plugin, shared_buckets),
        }
    }

    /// Returns the contents of each bucket.
    pub async fn usage(&self) -> Result<Vec<BucketUsage>, AdminError> {
        let database = match self.granted.iter().any(Bucket::is_on_disk) {
            true => self.open_existing()?,
            false => None,
        };
        let mut all = Vec::new();
        for bucket in &self.granted {
            let usage = match bucket.shared() {
                Ok(None) => bucket.usage(database.as_ref()),
                Ok(Some(store)) => store.read_contents_now().await.map(|read| bucket.used(read.keys, read.bytes)),
                Err(error) => Err(error),
            };
            all.push(usage.map_err(|error| self.error(&error))?);
        }
        Ok(all)
    }

    /// Returns the value of a key.
    pub async fn get(&self, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, AdminError> {
        let bucket = self.bucket(bucket)?;
        if let Some(mut call) = self.shared(bucket).await? {
            return call.get(key).await.map_err(|error| self.error(&error));
        }
        let Some(database) = self.open_existing()? else { return Ok(None) };
        store::get(&database, bucket, key).map_err(|error| self.error(&error))
    }

    /// Writes the value of a key.
    pub async fn put(&self, bucket: &str, key: String, value: Vec<u8>) -> Result<(), AdminError> {
        let bucket = self.bucket(bucket)?;
        if let Some(call) = self.shared(bucket).await? {
            return call.set_many(vec![(key, value)]).await.map_err(|error| self.error(&error));
        }
        let mut database = Database::open(&self.path).map_err(|error| self.error(&error))?;
        store::set_many(&mut database, bucket, &[(key, value)]).map_err(|error| self.error(&error))
    }

    /// Deletes all keys or none; of a shared bucket, one after the other. Returns the keys that existed just before.
    pub async fn delete(&self, bucket: &str, keys: Vec<String>) -> Result<Vec<String>, AdminError> {
        let bucket = self.bucket(bucket)?;
        if let Some(mut call) = self.shared(bucket).await? {
            let mut existing = Vec::new();
            for key in &keys {
                if call.exists(key).await.map_err(|error| self.error(&error))? {
                    existing.push(key.clone());
                }
            }
            return call.delete_many(&keys).await.map(|()| existing).map_err(|error| self.error(&error));
        }
        let Some(mut database) = self.open_existing()? else { return Ok(Vec::new()) };
        let mut delete = || {
            let mut existing = Vec::new();
            for key in &keys {
                if store::exists(&database, bucket, key)? {
                    existing.push(key.clone());
                }
            }
            store::delete_many(&mut database, bucket, &keys)?;
            Ok(existing)
        };
        delete().map_err(|error| self.error(&error))
    }

    /// Calls `show` with each page of the keys that begin with a prefix, in byte order; of a shared bucket, in the
    /// order of their last writes.
    pub async fn list<E: From<AdminError>>(
        &self,
        bucket: &str,
        prefix: &str,
        mut show: impl FnMut(Vec<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bucket = self.bucket(bucket)?;
        let mut cursor = None;
        while let Some(mut call) = self.shared(bucket).await? {
            let page = call.keys(&PageStart::After(cursor)).await.map_err(|error| self.error(&error))?;
            cursor = page.cursor();
            show(page.keys.into_iter().filter(|key| key.starts_with(prefix)).collect())?;
            if cursor.is_none() {
                return Ok(());
            }
        }
        let Some(database) = self.open_existing()? else { return Ok(()) };
        // The listing begins after a key, and the prefix itself may be a key.
        if !prefix.is_empty() && store::exists(&database, bucket, prefix).map_err(|error| self.error(&error))? {
            show(vec![prefix.to_owned()])?;
        }
        let mut cursor = Some(prefix).filter(|prefix| !prefix.is_empty()).map(|prefix| URL_SAFE_NO_PAD.encode(prefix));
        loop {
            let page = store::keys(&database, bucket, &PageStart::After(cursor)).map_err(|error| self.error(&error))?;
            cursor = page.cursor();
            let count = page.keys.len();
            let fitting: Vec<String> = page.keys.into_iter().take_while(|key| key.starts_with(prefix)).collect();
            let is_last = cursor.is_none() || fitting.len() < count;
            show(fitting)?;
            if is_last {
                return Ok(());
            }
        }
    }

    /// Begins an operation on a shared bucket; none if the bucket is in the database.
    async fn shared(&self, bucket: &Bucket) -> Result<Option<SharedCall>, AdminError> {
        let begin = async {
            let Some(store) = bucket.shared()? else { return Ok(None) };
            let memory = MemoryAccount::new(MemoryBudget::new(u64::MAX, None), CallOwner::default());
            let memory = memory.try_reserve(0).map_err(|_| StoreError::OutOfMemory)?;
            SharedCall::begin(bucket, store, memory).await.map(Some)
        };
        begin.await.map_err(|error| self.error(&error))
    }

    fn bucket(&self, name: &str) -> Result<&Bucket, AdminError> {
        self.granted.iter().find(|bucket| &*bucket.name == name).ok_or_else(|| AdminError::NotGranted {
            plugin: self.plugin.clone(),
            bucket: name.to_owned(),
            granted: self.granted.iter().map(|bucket| bucket.name.to_string()).collect(),
        })
    }

    /// Opens the database if it exists.
    fn open_existing(&self) -> Result<Option<Database>, AdminError> {
        let open = || if self.path.has_database()? { Database::open(&self.path).map(Some) } else { Ok(None) };
        open().map_err(|error| self.error(&error))
    }

    fn error(&self, error: &StoreError) -> AdminError {
        AdminError::Store(error.for_admin(&self.path.file))
    }
}
