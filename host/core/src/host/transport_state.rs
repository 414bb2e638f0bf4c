//! State that protocol servers keep with a host: one value of each type, shared by all servers of the host.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// One value of each type.
#[derive(Default)]
pub(super) struct TransportState(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl TransportState {
    /// Returns the value of this type, and creates it if there is none.
    pub(super) fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let value = self.0.lock().entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default()).clone();
        // The map has each value under its own type.
        value.downcast().unwrap_or_default()
    }
}

impl fmt::Debug for TransportState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransportState").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_value_of_each_type() {
        let state = TransportState::default();
        let (number, text) = (state.get::<Mutex<u32>>(), state.get::<Mutex<String>>());
        *number.lock() = 5;
        text.lock().push('x');
        assert_eq!(*state.get::<Mutex<u32>>().lock(), 5);
        assert_eq!(*state.get::<Mutex<String>>().lock(), "x");
    }
}
