//! The first items of a list. The items after them are not read.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, SeqAccess, Visitor};
use std::cell::{Cell, RefCell};
use std::fmt;

/// Keeps the first items of a list. The parser ends with an error at the next item, which means that there are more.
#[derive(Debug)]
pub(crate) struct FirstItems<T> {
    most: usize,
    items: RefCell<Vec<T>>,
    has_more: Cell<bool>,
}

impl<T> FirstItems<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, items: RefCell::default(), has_more: Cell::new(false) }
    }

    /// Returns whether the list has more items.
    pub(crate) fn has_more(&self) -> bool {
        self.has_more.get()
    }

    pub(crate) fn into_items(self) -> Vec<T> {
        self.items.into_inner()
    }
}

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for &FirstItems<T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for &FirstItems<T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while self.items.borrow().len() < self.most {
            let Some(item) = list.next_element()? else { return Ok(()) };
            self.items.borrow_mut().push(item);
        }
        if list.next_element::<IgnoredAny>()?.is_some() {
            self.has_more.set(true);
            return Err(Error::custom("the rest is not needed"));
        }
        Ok(())
    }
}
