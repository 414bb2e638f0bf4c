//! JSON from untrusted servers.

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use std::fmt;
use std::marker::PhantomData;

/// Deserializes a list of at most `MAX` items: in memory, small items take many times the size of their JSON. `null` is
/// read as an empty list, because some servers send it instead.
///
/// ```
/// use mcp_provider::json::bounded_list;
/// use serde_json::Deserializer;
///
/// // In a struct: #[serde(deserialize_with = "bounded_list::<3, _, _>")]
/// let parse = |json| bounded_list::<3, _, u8>(&mut Deserializer::from_str(json));
/// assert_eq!(parse("[1, 2, 3]").ok(), Some(vec![1, 2, 3]));
/// assert!(parse("[1, 2, 3, 4]").is_err());
/// assert_eq!(parse("null").ok(), Some(vec![]));
/// ```
///
/// # Errors
///
/// It is not a list, an item is not valid, or there are more than `MAX`.
pub fn bounded_list<'de, const MAX: usize, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(List::<MAX, T>(PhantomData))
}

struct List<const MAX: usize, T>(PhantomData<T>);

impl<'de, const MAX: usize, T: Deserialize<'de>> Visitor<'de> for List<MAX, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of at most {MAX} items")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element()? {
            if items.len() >= MAX {
                return Err(Error::custom(format_args!("expected a list of at most {MAX} items, found more")));
            }
            items.push(item);
        }
        Ok(items)
    }
}
