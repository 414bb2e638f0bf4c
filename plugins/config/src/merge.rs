//! Merged layers: the value of the topmost layer for each key, with its origin.
//!
//! Tables are merged key by key; any other value, including a list, is replaced as a whole. A null replaces, too.

use crate::pointer;
use serde_json::Value;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// The number of the layer; 0 is the lowest.
    pub(crate) layer: usize,
    /// The variable, if the value comes from one.
    pub(crate) variable: Option<Rc<str>>,
}

/// The origin of a value: its source, and the lower layers that have another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    /// The source.
    pub(crate) source: Source,
    /// The lower layers with another value there, topmost first.
    pub(crate) overrides: Vec<usize>,
}

/// Merged layers: a table, or any other value.
#[derive(Debug)]
pub(crate) struct Merged {
    origin: Origin,
    /// The members, if this is a table.
    table: Option<BTreeMap<String, Merged>>,
    /// The value, unless this is a table.
    value: Value,
}

impl Merged {
    /// Creates an empty table, below all layers.
    pub(crate) fn new() -> Self {
        Self::empty_table(Origin { source: Source { layer: 0, variable: None }, overrides: Vec::new() })
    }

    /// Merges the value of a layer above all layers merged so far.
    pub(crate) fn merge(&mut self, value: Value, source: &Source) {
        let Value::Object(members) = value else {
            self.origin = self.origin_of_replacement(source);
            self.table = None;
            self.value = value;
            return;
        };
        let table = self.make_table(source);
        for (key, value) in members {
            table.entry(key).or_insert_with(|| Self::unset(source)).merge(value, source);
        }
    }

    /// Merges a value at keys. The keys are in lower case and match without regard to case.
    pub(crate) fn merge_at(&mut self, keys: &[String], value: Value, source: &Source) {
        let Some((key, rest)) = keys.split_first() else { return self.merge(value, source) };
        let table = self.make_table(source);
        let name = table.keys().find(|name| name.to_lowercase() == *key).unwrap_or(key).clone();
        table.entry(name).or_insert_with(|| Self::unset(source)).merge_at(rest, value, source);
    }

    /// Returns the values without their origins.
    pub(crate) fn to_value(&self) -> Value {
        match &self.table {
            Some(table) => table.iter().map(|(key, child)| (key.clone(), child.to_value())).collect(),
            None => self.value.clone(),
        }
    }

    /// Calls `show` with the pointer and the origin of each value at a pointer and below, until `show` fails. A list
    /// counts as one value, and so does an empty table.
    pub(crate) fn origins<E>(&self, at: &str, mut show: impl FnMut(&str, &Origin) -> Result<(), E>) -> Result<(), E> {
        let mut merged = self;
        for key in pointer::keys(at) {
            // All values in a list have the list's origin.
            match merged.table.as_ref().and_then(|table| table.get(&key)) {
                Some(child) => merged = child,
                None => break,
            }
        }
        merged.show_origins(at, &mut show)
    }

    fn show_origins<E>(&self, at: &str, show: &mut impl FnMut(&str, &Origin) -> Result<(), E>) -> Result<(), E> {
        match self.table.as_ref().filter(|table| !table.is_empty()) {
            Some(table) => table.iter().try_for_each(|(key, child)| child.show_origins(&pointer::join(at, key), show)),
            None => show(at, &self.origin),
        }
    }

    fn empty_table(origin: Origin) -> Self {
        Self { origin, table: Some(BTreeMap::new()), value: Value::Null }
    }

    /// Returns the state of a place without a value.
    fn unset(source: &Source) -> Self {
        Self::empty_table(Origin { source: source.clone(), overrides: Vec::new() })
    }

    /// Returns the table here. Any other value is replaced by an empty table.
    fn make_table(&mut self, source: &Source) -> &mut BTreeMap<String, Self> {
        if self.table.is_none() {
            self.origin = self.origin_of_replacement(source);
            self.value = Value::Null;
        }
        self.table.get_or_insert_default()
    }

    fn origin_of_replacement(&self, source: &Source) -> Origin {
        let mut overrides = Vec::new();
        self.add_layers(&mut overrides);
        overrides.retain(|layer| *layer != source.layer);
        overrides.sort_unstable_by(|one, other| other.cmp(one));
        overrides.dedup();
        Origin { source: source.clone(), overrides }
    }

    /// Adds the layers that have values at this place or below.
    fn add_layers(&self, layers: &mut Vec<usize>) {
        layers.extend(&self.origin.overrides);
        match &self.table {
            Some(table) => table.values().for_each(|child| child.add_layers(layers)),
            None => layers.push(self.origin.source.layer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn merged(layers: &[Value]) -> Merged {
        let mut merged = Merged::new();
        for (layer, value) in layers.iter().enumerate() {
            merged.merge(value.clone(), &Source { layer, variable: None });
        }
        merged
    }

    fn origins(merged: &Merged, at: &str) -> Vec<(String, usize, Vec<usize>)> {
        let mut origins = Vec::new();
        let show = |pointer: &str, origin: &Origin| {
            origins.push((pointer.to_owned(), origin.source.layer, origin.overrides.clone()));
            Ok::<_, ()>(())
        };
        merged.origins(at, show).unwrap();
        origins
    }

    #[test]
    fn tables_are_merged_and_all_else_is_replaced() {
        let merged = merged(&[
            json!({ "server": { "host": "a", "port": 1 }, "list": [1, 2], "x": 1 }),
            json!({ "server": { "port": 2 }, "list": [3], "x": { "y": 1 } }),
            json!({ "server": { "port": null, "tls": {} } }),
        ]);
        let expected = json!({ "server": { "host": "a", "port": null, "tls": {} }, "list": [3], "x": { "y": 1 } });
        assert_eq!(merged.to_value(), expected);
        let expected = [
            ("/list".to_owned(), 1, vec![0]),
            ("/server/host".to_owned(), 0, vec![]),
            ("/server/port".to_owned(), 2, vec![1, 0]),
            ("/server/tls".to_owned(), 2, vec![]),
            ("/x/y".to_owned(), 1, vec![]),
        ];
        assert_eq!(origins(&merged, ""), expected);
        assert_eq!(origins(&merged, "/server/host"), [("/server/host".to_owned(), 0, vec![])]);
        assert_eq!(origins(&merged, "/list/0"), [("/list/0".to_owned(), 1, vec![0])]);
    }

    #[test]
    fn a_table_that_is_replaced_was_of_all_layers_in_it() {
        let merged = merged(&[json!({ "a": { "b": 1 } }), json!({ "a": { "c": 1 } }), json!({ "a": 0 })]);
        assert_eq!(origins(&merged, ""), [("/a".to_owned(), 2, vec![1, 0])]);
    }

    #[test]
    fn a_variable_is_merged_into_the_key_that_differs_in_case_only() {
        let mut merged = merged(&[json!({ "Server": { "Port": 1 } })]);
        let source = Source { layer: 1, variable: Some("APP_SERVER__PORT".into()) };
        merged.merge_at(&["server".to_owned(), "port".to_owned()], json!(2), &source);
        merged.merge_at(&["server".to_owned(), "new".to_owned()], json!(3), &source);
        assert_eq!(merged.to_value(), json!({ "Server": { "Port": 2, "new": 3 } }));
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![Just(json!(null)), any::<u8>().prop_map(Value::from), Just(json!([1]))];
        leaf.prop_recursive(3, 20, 3, |inner| {
            proptest::collection::btree_map("[ab]", inner, 0..3).prop_map(|map| map.into_iter().collect())
        })
    }

    fn table() -> impl Strategy<Value = Value> {
        proptest::collection::btree_map("[abc]", value(), 0..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn each_value_is_that_of_its_origin(layers in proptest::collection::vec(table(), 1..5)) {
            let merged = merged(&layers);
            let value = merged.to_value();
            for (pointer, layer, overrides) in origins(&merged, "") {
                prop_assert!(overrides.iter().all(|lower| *lower < layer), "{} {:?}", layer, overrides);
                if !pointer.is_empty() {
                    prop_assert_eq!(value.pointer(&pointer), layers[layer].pointer(&pointer));
                }
            }
        }

        #[test]
        fn a_layer_that_is_merged_twice_changes_nothing(layers in proptest::collection::vec(table(), 1..4)) {
            let mut twice = layers.clone();
            twice.push(layers[layers.len() - 1].clone());
            prop_assert_eq!(merged(&layers).to_value(), merged(&twice).to_value());
        }
    }
}
