//! The size of a JSON text as a tree, computed without building it.
//!
//! A tree of `serde_json` values takes up to a hundred times the bytes of its text: `{"":0}` is a node of a B-tree with
//! room for eleven members. So the values of a text are counted first. The text is parsed only if their number is
//! allowed and their memory has been charged. The text need not be valid JSON: parsing decides this, and stops at the
//! first error, so no uncounted value is built. The parser limits nesting to 128 levels.

use serde_json::Value;

/// The maximum size in bytes of a node of an object's B-tree: eleven members, an edge beside each, its own links.
const BTREE_NODE_SIZE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 12 * size_of::<usize>() + 16;
/// The size in bytes of the smallest non-empty array.
const MIN_ARRAY_SIZE: usize = 4 * size_of::<Value>();
/// The maximum size in bytes of one value besides its text: in a node with at least five members, including its share
/// of the nodes above. In a growing array it is less. Includes the rounding of an allocator for two short texts.
const MAX_VALUE_SIZE: usize = BTREE_NODE_SIZE / 4 + 32;

/// A counter of the values of a JSON text, fed piece by piece.
#[derive(Debug, Default)]
pub struct JsonCount {
    in_string: bool,
    is_escaped: bool,
    /// The container bytes of the first value in the object or array that has just begun.
    opened: Option<usize>,
    values: usize,
    /// The bytes of nodes and arrays with values.
    containers: usize,
}

impl JsonCount {
    /// Counts the next piece of the text. A piece may end anywhere.
    pub fn feed(&mut self, piece: &[u8]) {
        for byte in piece {
            if self.in_string {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
                continue;
            }
            if byte.is_ascii_whitespace() {
                continue;
            }
            if let Some(container) = self.opened.take()
                && !matches!(byte, b'}' | b']')
            {
                self.values = self.values.saturating_add(1);
                self.containers = self.containers.saturating_add(container);
            }
            match byte {
                b'"' => self.in_string = true,
                b',' => self.values = self.values.saturating_add(1),
                b'{' => self.opened = Some(BTREE_NODE_SIZE),
                b'[' => self.opened = Some(MIN_ARRAY_SIZE),
                _ => {}
            }
        }
    }

    /// Returns the number of members of objects and elements of arrays, on all levels.
    pub fn values(&self) -> usize {
        self.values
    }

    /// Returns the maximum size in bytes of a tree of these values, besides the bytes of its texts.
    pub fn tree_bytes(&self) -> usize {
        self.values.saturating_mul(MAX_VALUE_SIZE).saturating_add(self.containers)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn count(text: &str, piece: usize) -> usize {
        let mut count = JsonCount::default();
        text.as_bytes().chunks(piece).for_each(|piece| count.feed(piece));
        count.values()
    }

    #[test]
    fn members_and_elements_are_counted_and_what_is_in_texts_is_not() {
        for (text, values) in [
            ("{}", 0),
            (" { } ", 0),
            (r#"{"a":1}"#, 1),
            (r#"{"a":[1,2,{}]}"#, 4),
            (r#"[[],[],[[]]]"#, 4),
            (r#"{"a\"{[,":"[\\","b":"\\\"{,"}"#, 2),
        ] {
            for piece in [1, 3, 100] {
                assert_eq!(count(text, piece), values, "{text}");
            }
        }
    }

    /// Counts the members and elements of a value, on all levels.
    fn count_values(value: &Value) -> usize {
        match value {
            Value::Array(elements) => elements.iter().map(|element| 1 + count_values(element)).sum(),
            Value::Object(members) => members.values().map(|member| 1 + count_values(member)).sum(),
            _ => 0,
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf =
            prop_oneof![Just(json!(null)), any::<i32>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
        leaf.prop_recursive(4, 64, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..8)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn as_many_are_counted_as_are_parsed(value in value(), piece in 1_usize..20) {
            prop_assert_eq!(count(&value.to_string(), piece), count_values(&value));
            prop_assert_eq!(count(&format!("{value:#}"), piece), count_values(&value));
        }
    }
}
