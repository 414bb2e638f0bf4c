//! [`Schema`]: the JSON Schema (2020-12) of one value of the file, for editors.
//!
//! Each type that the reader reads describes itself ([`FromNode::schema`](super::FromNode::schema)). The keys in a
//! table's schema are the keys that its reader requests ([`Table::describe`](super::Table::describe)), so there is no
//! second list of keys.
//!
//! A schema accepts every value that the reader accepts. The reader rejects more: files that do not exist, values out
//! of range whose bounds a pattern cannot express, conflicts between keys.

use serde_json::{Map, Value, json};

/// The documentation of a table's keys: field names and texts.
pub(crate) type KeyDocs = &'static [(&'static str, &'static str)];

/// A JSON Schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema(Map<String, Value>);

impl Schema {
    fn of_type(name: &str) -> Self {
        Self(Map::new()).with("type", name)
    }

    /// Adds a keyword.
    pub(crate) fn with(mut self, keyword: &str, value: impl Into<Value>) -> Self {
        self.0.insert(keyword.to_owned(), value.into());
        self
    }

    /// Any string.
    pub(crate) fn string() -> Self {
        Self::of_type("string")
    }

    /// A string that matches a regular expression (ECMA-262). The expression is not anchored implicitly.
    pub(crate) fn pattern(pattern: &str) -> Self {
        Self::string().with("pattern", pattern)
    }

    /// A whole number within bounds.
    pub(crate) fn integer(min: usize, max: usize) -> Self {
        Self::of_type("integer").with("minimum", min).with("maximum", max)
    }

    /// A number within bounds.
    pub(crate) fn number(min: usize, max: usize) -> Self {
        Self::of_type("number").with("minimum", min).with("maximum", max)
    }

    /// One of several strings.
    pub(crate) fn one_of_names(names: impl IntoIterator<Item = &'static str>) -> Self {
        Self::string().with("enum", names.into_iter().collect::<Vec<_>>())
    }

    /// One value.
    pub(crate) fn constant(value: impl Into<Value>) -> Self {
        Self(Map::new()).with("const", value)
    }

    /// `true` or `false`.
    pub(crate) fn boolean() -> Self {
        Self::of_type("boolean")
    }

    /// A list.
    pub(crate) fn list(items: Self) -> Self {
        Self::of_type("array").with("items", items.0)
    }

    /// A table with keys that the admin chooses.
    pub(crate) fn map(keys: Self, values: Self) -> Self {
        Self::of_type("object").with("propertyNames", keys.0).with("additionalProperties", values.0)
    }

    /// A table of any content.
    pub(crate) fn any_table() -> Self {
        Self::of_type("object")
    }

    /// A value that matches one of several schemas.
    pub(crate) fn any_of(schemas: impl IntoIterator<Item = Self>) -> Self {
        Self(Map::new()).with("anyOf", schemas.into_iter().map(|Self(schema)| schema.into()).collect::<Vec<Value>>())
    }

    /// A table with these keys, and no others.
    pub(super) fn table(keys: impl IntoIterator<Item = (String, bool, Self)>, docs: KeyDocs) -> Self {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (key, is_required, schema) in keys {
            let schema = match description(&key, docs) {
                Some(text) => schema.with("description", text),
                None => schema,
            };
            properties.insert(key.clone(), schema.0.into());
            if is_required {
                required.push(key);
            }
        }
        let schema =
            Self::of_type("object").with("properties", properties).with("additionalProperties", Value::Bool(false));
        if required.is_empty() { schema } else { schema.with("required", required) }
    }

    /// The schema as JSON.
    pub(crate) fn into_json(self) -> Value {
        json!(self.0)
    }
}

/// The documentation of a key, on one line.
fn description(key: &str, docs: KeyDocs) -> Option<String> {
    let (_, text) = docs.iter().find(|(field, _)| key_of(field) == key)?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the key of a field: underscores of the field are hyphens in the key.
pub(super) fn key_of(field: &str) -> String {
    field.replace('_', "-")
}
