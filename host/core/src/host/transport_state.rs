//! What the servers of a protocol keep with a host: one value of each type, which all servers of the host share.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

/// One value of each type.
#[derive(Default)]
pub(super) struct TransportState(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl TransportState {
    /// Returns the value of that type, which is made if there is none.
    pub(super) fn get<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let value = self.0.lock().entry(TypeId::of::<T>()).or_insert_with(|| Arc::<T>::default()).clone();
        // The value of a type is of that type.
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
