//! The store interface: values under keys that outlive the instance.
//!
//! What is stored and evicted is decided on this side of [`Store`]. In a component the other side is [`HostStore`], a
//! bucket of `wasi:keyvalue`; tests use a map.

mod bucket;

pub use bucket::HostStore;

/// The maximum number of keys that are read or deleted in one call.
pub(crate) const BATCH: usize = 500;

/// A key-value store.
pub trait Store {
    /// Returns the values of the keys, in the same order; `None` for a missing key. At most 500 keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the store fails.
    fn get(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// Sets all these values atomically.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] if there may be no space; [`StoreError::Failed`] if nothing can be stored at all.
    fn put(&self, values: &[(&str, &[u8])]) -> Result<(), StoreError>;

    /// Deletes the keys that exist. At most 500 keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the store fails.
    fn remove(&self, keys: &[&str]) -> Result<(), StoreError>;

    /// Returns all keys, sorted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] if the store fails.
    fn keys(&self) -> Result<Vec<String>, StoreError>;
}

/// Errors of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The write failed, and may succeed with more space.
    #[error("{0}")]
    Full(String),
    /// The store is unusable: the bucket does not exist, for example.
    #[error("{0}")]
    Failed(String),
}
