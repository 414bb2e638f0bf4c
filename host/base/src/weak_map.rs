//! A map of weak references: an entry exists while another owner holds its value. For values that several users of one
//! key share, such as the semaphore of a client. Bounded: an insertion removes entries whose values are gone, so there
//! are at most as many entries as values that were in use concurrently.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

/// Shared values by key.
#[derive(Debug)]
pub struct WeakMap<K, V>(Mutex<HashMap<K, Weak<V>>>);

impl<K, V> Default for WeakMap<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Clone + Eq + Hash, V> WeakMap<K, V> {
    /// Returns the value of a key, and creates it if there is none.
    pub fn get_or_insert_with(&self, key: &K, make: impl FnOnce() -> Arc<V>) -> Arc<V> {
        let mut values = self.0.lock();
        if let Some(value) = values.get(key).and_then(Weak::upgrade) {
            return value;
        }
        values.retain(|_, value| value.strong_count() > 0);
        let value = make();
        values.insert(key.clone(), Arc::downgrade(&value));
        value
    }

    /// Returns the number of entries.
    #[cfg(any(test, feature = "testing"))]
    pub fn entry_count(&self) -> usize {
        self.0.lock().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_key_share_a_value_and_nothing_is_kept_of_it_afterwards() {
        let map = WeakMap::default();
        let get = |key: &str, value| map.get_or_insert_with(&key.to_owned(), || Arc::new(value));
        let (first, other) = (get("a", 1), get("b", 2));
        assert!(Arc::ptr_eq(&first, &get("a", 3)));
        drop((first, other));
        let second = get("a", 4);
        assert_eq!(*second, 4);
        assert_eq!(map.entry_count(), 1, "the entry of `b` was removed by the insertion");
    }
}
