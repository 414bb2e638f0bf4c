//! Where pages are kept: values under keys that outlive the instance.
//!
//! What is kept, and what is thrown away when there is no more room, is decided on this side of [`Store`]. In a component the
//! other side is [`HostStore`], a bucket of `wasi:keyvalue`; tests have a map.

mod bucket;

pub use bucket::HostStore;

/// The most keys that are read or deleted in one call.
pub(crate) const BATCH: usize = 500;

/// Keeps values under keys.
pub trait Store {
    /// The values of the keys, in the keys' order; none for a key that is not there. At most 500 keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the store cannot say.
    fn get(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>, StoreError>;

    /// Gives all these keys their values, or none of them.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] when there may be no room; [`StoreError::Failed`] when nothing can be kept at all.
    fn put(&self, values: &[(&str, &[u8])]) -> Result<(), StoreError>;

    /// Takes the keys away that are there. At most 500 keys.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when they cannot be.
    fn remove(&self, keys: &[&str]) -> Result<(), StoreError>;

    /// All keys, sorted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Failed`] when the store cannot say.
    fn keys(&self) -> Result<Vec<String>, StoreError>;
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It did not write, and may when there is more room.
    #[error("{0}")]
    Full(String),
    /// It cannot: there is no such bucket, say.
    #[error("{0}")]
    Failed(String),
}
