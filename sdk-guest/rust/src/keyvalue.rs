//! What must last: keys with values, kept by the host.
//!
//! Every call may get a fresh instance, so what is to be there at the next one is kept outside: in a [`Bucket`] that the
//! administrator granted by its name (`grants.keyvalue = ["pages"]`). A bucket is the plugin's own: no other plugin sees it,
//! not even one of the same component. All calls of the plugin share it, also those that run at the same time.
//!
//! ```no_run
//! use mcp_provider::Result;
//! use mcp_provider::keyvalue::Bucket;
//!
//! /// Counts a visit of that page, and tells how many there were.
//! fn visit(page: &str) -> Result<i64> {
//!     Bucket::open("visits")?.increment(page, 1)
//! }
//! ```
//!
//! What a write has answered is on disk: it is there after the host was killed, and read by every call that begins
//! later. [`increment`](Bucket::increment) and [`compare_and_swap`](Bucket::compare_and_swap) lose nothing when several calls,
//! or several hosts, change one key at once; reading a value and setting it afterwards does.
//!
//! A key is any text of 1 to 1024 bytes, a value any bytes. A call costs the host some ten microseconds to read and more to
//! write, so many small values are better read and written [together](Bucket::get_many).
//!
//! # Failures
//!
//! A bucket that is not granted is [`Failure::Internal`]: the text, which names it, goes to the log. What the store cannot do
//! now, such as to write more than the bucket's quota, is [`Failure::Unavailable`] with the reason. So a cache had better go
//! on without what it could not keep.
//!
//! # Natively
//!
//! There is no host, and [`Bucket::open`] fails. A provider that is to be tested natively reaches its buckets through a trait
//! of its own, with a map behind it in tests.

use crate::component::bindings::wasi::keyvalue::{atomics, batch, store};
use crate::{Failure, Result};

/// A set of keys with values that outlives the instance.
#[derive(Debug)]
pub struct Bucket {
    bucket: store::Bucket,
}

/// Some of the keys of a bucket.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Keys {
    /// The keys, in the order of their bytes.
    pub keys: Vec<String>,
    /// What to pass on to get those behind them; none when there are no more.
    pub next_cursor: Option<String>,
}

impl Bucket {
    /// Opens a granted bucket. That is cheap: nothing is read.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] when the bucket is not granted, and always outside of a component.
    pub fn open(name: &str) -> Result<Self> {
        if cfg!(not(target_family = "wasm")) {
            return Err(Failure::internal("buckets are kept by a host, and there is none outside of a component"));
        }
        match store::open(name) {
            Ok(bucket) => Ok(Self { bucket }),
            Err(store::Error::NoSuchStore) => {
                Err(Failure::internal(format!("the bucket `{name}` is not granted: add it to `grants.keyvalue`")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The value of a key; none if there is no such key.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when the store cannot say.
    pub fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.bucket.get(key)?)
    }

    /// Gives a key a value, in place of any it had.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when it would not fit into the bucket's quota, or cannot be written.
    pub fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        Ok(self.bucket.set(key, value)?)
    }

    /// Takes a key away, if it is there.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when it cannot be written.
    pub fn delete(&self, key: &str) -> Result<()> {
        Ok(self.bucket.delete(key)?)
    }

    /// Whether there is such a key.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when the store cannot say.
    pub fn exists(&self, key: &str) -> Result<bool> {
        Ok(self.bucket.exists(key)?)
    }

    /// The first keys, or those behind a cursor of an earlier answer. A key that is there from the first page to the last is on
    /// exactly one of them, whatever is written meanwhile.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when the store cannot say, or the cursor is none of its own.
    pub fn keys(&self, cursor: Option<&str>) -> Result<Keys> {
        let store::KeyResponse { keys, cursor } = self.bucket.list_keys(cursor)?;
        Ok(Keys { keys, next_cursor: cursor })
    }

    /// Adds to the number that is the value of a key, and gives the sum. A key that is not there counts as 0. The value
    /// is the number in decimal digits.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when the value is no number, the sum does not fit, or cannot be written.
    pub fn increment(&self, key: &str, delta: i64) -> Result<i64> {
        Ok(atomics::increment(&self.bucket, key, delta)?)
    }

    /// Gives a key the value `new` if its value is `expected` (none: if there is no such key), and says whether it did.
    ///
    /// It may also say no when somebody else wrote the key at the same moment: read it again, and try again.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when it would not fit into the bucket's quota, or cannot be read or written.
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

    /// The values of the keys, in the keys' order; none for a key that is not there. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when the store cannot say, or there are too many keys.
    pub fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        let values = batch::get_many(&self.bucket, &to_owned_keys(keys))?;
        Ok(values.into_iter().map(|found| found.map(|(_, value)| value)).collect())
    }

    /// Gives each key its value: all of them, or none if it fails. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when they would not fit into the bucket's quota, cannot be written, or are too many.
    pub fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        let values: Vec<_> = values.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())).collect();
        Ok(batch::set_many(&self.bucket, &values)?)
    }

    /// Takes the keys away, those that are there: all of them, or none if it fails. At most 1000 keys.
    ///
    /// # Errors
    ///
    /// [`Failure::Unavailable`] when they cannot be written, or are too many.
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
            store::Error::NoSuchStore => Self::internal("the bucket is not there"),
            store::Error::AccessDenied => Self::internal("the bucket may not be used"),
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
