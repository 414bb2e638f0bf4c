//! The buckets of one plugin for an admin, without a guest: the same database with the same quotas, concurrently with
//! any host that uses it.
//!
//! Reading never creates a database, and errors name the file.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use mcp_host_config as config;

use super::PageStart;
use super::database::{Database, DatabasePath};
use super::error::StoreError;
use super::{Bucket, MAX_VALUE, granted_buckets, store};

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
    /// Returns the buckets that are granted to a plugin, stored below `state_dir`. Opens nothing.
    pub fn new(plugin: &config::Plugin, state_dir: &Path) -> Self {
        let granted = granted_buckets(plugin).map(|(name, quota)| Bucket { name: name.into(), quota }).collect();
        Self { plugin: plugin.name.to_string(), path: DatabasePath::new(state_dir, &plugin.name), granted }
    }

    /// Returns the contents of each bucket.
    pub fn usage(&self) -> Result<Vec<BucketUsage>, AdminError> {
        let database = self.open_existing()?;
        let usage = |bucket: &Bucket| bucket.usage(database.as_ref()).map_err(|error| self.error(&error));
        self.granted.iter().map(usage).collect()
    }

    /// Returns the value of a key.
    pub fn get(&self, bucket: &str, key: &str) -> Result<Option<Vec<u8>>, AdminError> {
        let bucket = self.bucket(bucket)?;
        let Some(database) = self.open_existing()? else { return Ok(None) };
        store::get(&database, bucket, key).map_err(|error| self.error(&error))
    }

    /// Writes the value of a key.
    pub fn put(&self, bucket: &str, key: String, value: Vec<u8>) -> Result<(), AdminError> {
        let bucket = self.bucket(bucket)?;
        let mut database = Database::open(&self.path).map_err(|error| self.error(&error))?;
        store::set_many(&mut database, bucket, &[(key, value)]).map_err(|error| self.error(&error))
    }

    /// Deletes all keys or none. Returns the keys that existed just before.
    pub fn delete(&self, bucket: &str, keys: Vec<String>) -> Result<Vec<String>, AdminError> {
        let bucket = self.bucket(bucket)?;
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

    /// Calls `show` with each page of the keys that begin with a prefix, in byte order.
    pub fn list<E: From<AdminError>>(
        &self,
        bucket: &str,
        prefix: &str,
        mut show: impl FnMut(Vec<String>) -> Result<(), E>,
    ) -> Result<(), E> {
        let bucket = self.bucket(bucket)?;
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
