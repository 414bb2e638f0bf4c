//! The trait of stores, and stores beside a bucket.

use super::{Bucket, Keys};
use crate::{Failure, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;

/// The maximum number of keys of one call.
const MAX_KEYS: usize = 1000;

/// A key-value store: a [`Bucket`] in a component, a [`MemoryStore`] in native tests.
pub trait Store {
    /// Returns the values of the keys, in the same order; `None` for a missing key. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails; [`Failure::Internal`] if there is none.
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Sets several values atomically: all of them, or none on failure. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store is full, or fails; [`Failure::Internal`] if there is none.
    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()>;

    /// Deletes several keys atomically, those that exist. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails; [`Failure::Internal`] if there is none.
    fn delete_many(&self, keys: &[&str]) -> Result<()>;

    /// Returns the first page of keys, or the page after a cursor.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] if the store fails; [`Failure::Internal`] if there is none.
    fn keys(&self, cursor: Option<&str>) -> Result<Keys>;

    /// Returns the value of a key; `None` if the key does not exist.
    ///
    /// # Errors
    ///
    /// As [`get_many`](Self::get_many).
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.get_many(&[key])?.into_iter().next().flatten())
    }

    /// Sets the value of a key and replaces any previous one.
    ///
    /// # Errors
    ///
    /// As [`set_many`](Self::set_many).
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.set_many(&[(key, value)])
    }

    /// Deletes a key, if it exists.
    ///
    /// # Errors
    ///
    /// As [`delete_many`](Self::delete_many).
    fn delete(&self, key: &str) -> Result<()> {
        self.delete_many(&[key])
    }

    /// Returns all keys, sorted by their bytes.
    ///
    /// # Errors
    ///
    /// As [`keys`](Self::keys).
    fn all_keys(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page = self.keys(cursor.as_deref())?;
            all.extend(page.keys);
            match page.next_cursor {
                Some(next) => cursor = Some(next),
                None => break,
            }
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Deletes all keys.
    ///
    /// # Errors
    ///
    /// As [`keys`](Self::keys) and [`delete_many`](Self::delete_many).
    fn clear(&self) -> Result<()> {
        loop {
            let keys = self.keys(None)?.keys;
            if keys.is_empty() {
                return Ok(());
            }
            let batch: Vec<&str> = keys.iter().take(MAX_KEYS).map(String::as_str).collect();
            self.delete_many(&batch)?;
        }
    }
}

/// JSON in a [`Store`].
///
/// ```
/// use mcp_provider::keyvalue::{JsonStore, MemoryStore};
///
/// let store = MemoryStore::default();
/// store.set_json("names", &["a", "b"])?;
/// assert_eq!(store.get_json::<Vec<String>>("names")?.unwrap(), ["a", "b"]);
/// assert_eq!(store.get_json::<Vec<String>>("none")?, None);
/// # Ok::<(), mcp_provider::Failure>(())
/// ```
pub trait JsonStore: Store {
    /// Returns the value of a key, which is JSON; `None` if the key does not exist.
    ///
    /// # Errors
    ///
    /// As [`Store::get`]. Also [`Failure::Internal`], which names the key, if the value is not JSON of that type.
    fn get_json<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>> {
        let fault = |error| Failure::Internal(format!("the value of the key `{key}` cannot be read: {error}"));
        self.get(key)?.map(|value| serde_json::from_slice(&value)).transpose().map_err(fault)
    }

    /// Sets the value of a key, as JSON.
    ///
    /// # Errors
    ///
    /// As [`Store::set`]. Also [`Failure::Internal`] if the value cannot be encoded as JSON.
    fn set_json(&self, key: &str, value: &impl Serialize) -> Result<()> {
        self.set(key, &serde_json::to_vec(value)?)
    }
}

impl<S: Store + ?Sized> JsonStore for S {}

impl Store for Bucket {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        Self::get_many(self, keys)
    }

    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        Self::set_many(self, values)
    }

    fn delete_many(&self, keys: &[&str]) -> Result<()> {
        Self::delete_many(self, keys)
    }

    fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
        Self::keys(self, cursor)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Self::get(self, key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        Self::set(self, key, value)
    }

    fn delete(&self, key: &str) -> Result<()> {
        Self::delete(self, key)
    }
}

/// A bucket that is opened at its first use. If it is not granted, every use fails with [`Failure::Internal`], and a
/// provider that can do without it continues.
#[derive(Debug)]
pub struct LazyBucket {
    name: String,
    opened: OnceCell<Result<Bucket>>,
}

impl LazyBucket {
    /// The bucket with this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), opened: OnceCell::new() }
    }

    fn bucket(&self) -> Result<&Bucket> {
        self.opened.get_or_init(|| Bucket::open(&self.name)).as_ref().map_err(Failure::clone)
    }
}

impl Store for LazyBucket {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        self.bucket()?.get_many(keys)
    }

    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        self.bucket()?.set_many(values)
    }

    fn delete_many(&self, keys: &[&str]) -> Result<()> {
        self.bucket()?.delete_many(keys)
    }

    fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
        self.bucket()?.keys(cursor)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.bucket()?.get(key)
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.bucket()?.set(key, value)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.bucket()?.delete(key)
    }
}

/// A store in memory, without a quota: for native tests.
#[derive(Debug, Default)]
pub struct MemoryStore(RefCell<BTreeMap<String, Vec<u8>>>);

impl Store for MemoryStore {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(keys.iter().map(|key| self.0.borrow().get(*key).cloned()).collect())
    }

    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        self.0.borrow_mut().extend(values.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())));
        Ok(())
    }

    fn delete_many(&self, keys: &[&str]) -> Result<()> {
        self.0.borrow_mut().retain(|key, _| !keys.contains(&key.as_str()));
        Ok(())
    }

    fn keys(&self, _: Option<&str>) -> Result<Keys> {
        Ok(Keys { keys: self.0.borrow().keys().cloned().collect(), next_cursor: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_that_is_not_there_fails_at_each_use_and_not_before() {
        let bucket = LazyBucket::new("pages");
        for _ in 0..2 {
            assert!(matches!(bucket.get("a"), Err(Failure::Internal(_))));
            assert!(matches!(bucket.set("a", b"1"), Err(Failure::Internal(_))));
        }
    }

    #[test]
    fn what_is_done_with_one_key_and_with_all_is_made_of_what_is_done_with_several() {
        /// Pages of two keys.
        struct Paged(MemoryStore);

        impl Store for Paged {
            fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
                self.0.get_many(keys)
            }

            fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
                self.0.set_many(values)
            }

            fn delete_many(&self, keys: &[&str]) -> Result<()> {
                self.0.delete_many(keys)
            }

            fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
                let all = self.0.keys(None)?.keys;
                let keys: Vec<_> = all.into_iter().filter(|key| Some(key.as_str()) > cursor).take(2).collect();
                let next_cursor = keys.get(1).cloned();
                Ok(Keys { keys, next_cursor })
            }
        }

        let store = Paged(MemoryStore::default());
        for key in ["c", "a", "b", "d", "e"] {
            store.set(key, key.as_bytes()).unwrap();
        }
        assert_eq!(store.get("b"), Ok(Some(b"b".to_vec())));
        store.delete("b").unwrap();
        assert_eq!((store.get("b"), store.all_keys().unwrap().concat()), (Ok(None), "acde".to_owned()));
        store.clear().unwrap();
        assert_eq!(store.all_keys(), Ok(Vec::new()));
    }
}
