//! [`Table`]: one table of the file during reading.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::node::Key;
use super::schema::key_of;
use super::{FromNode, KeyDocs, Keys, Node, ReadContext, Schema};
use crate::Environment;
use crate::diagnostic::{Cause, Diagnostic, quote};
use crate::suggest::{alias, closest, closest_key, is_refused, join_quoted, suggest};

/// A table during reading.
pub(crate) struct Table<'a> {
    context: &'a ReadContext<'a>,
    entries: &'a DeTable<'a>,
    span: Range<usize>,
    path: String,
    known: Vec<KnownKey>,
    /// The missing required keys, each with an example value.
    missing: Vec<(String, String)>,
}

/// A requested key.
struct KnownKey {
    name: String,
    is_required: bool,
    schema: fn() -> Schema,
}

impl<'a> Table<'a> {
    /// Returns the schema of a table: its keys are those that `K` requests of an empty table.
    pub(crate) fn describe<K: Keys>() -> Schema {
        Self::describe_keys(|table| drop(K::read(table)), K::DOCS)
    }

    fn describe_keys(read: fn(&mut Table<'_>), docs: KeyDocs) -> Schema {
        let (environment, entries) = (Environment::empty(), DeTable::new());
        let context = ReadContext::new("", Path::new(""), &environment);
        let mut table = Table::new(&context, &entries, 0..0, String::new());
        read(&mut table);
        Schema::table(table.known.into_iter().map(|key| (key.name, key.is_required, (key.schema)())), docs)
    }

    fn new(context: &'a ReadContext<'a>, entries: &'a DeTable<'a>, span: Range<usize>, path: String) -> Self {
        Self { context, entries, span, path, known: Vec::new(), missing: Vec::new() }
    }

    /// Reads the root table of the file.
    pub(crate) fn root<T>(
        context: &'a ReadContext<'a>,
        entries: &'a DeTable<'a>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        Self::read(context, entries, 0..0, String::new(), read)
    }

    /// Reads a table with `read`, and then reports unknown keys, which `read` did not request, and missing ones.
    pub(super) fn read<T>(
        context: &'a ReadContext<'a>,
        entries: &'a DeTable<'a>,
        span: Range<usize>,
        path: String,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let mut table = Self::new(context, entries, span, path);
        let value = read(&mut table);
        table.finish();
        value
    }

    /// Returns the value of the required key of this field.
    pub(crate) fn required<T: FromNode>(&mut self, field: &str) -> Option<T> {
        let node = self.node(field, true, T::schema);
        if node.is_none() {
            self.missing.push((key_of(field), T::example()));
        }
        T::from_node(&node?)
    }

    /// Returns the value of the optional key of this field.
    pub(crate) fn optional<T: FromNode>(&mut self, field: &str) -> Option<T> {
        T::from_node(&self.node(field, false, T::schema)?)
    }

    /// Returns the value of the key of this field, or its default.
    pub(crate) fn or_default<T: FromNode + Default>(&mut self, field: &str) -> T {
        self.optional(field).unwrap_or_default()
    }

    /// The environment for reading the file.
    pub(crate) fn environment(&self) -> &Environment {
        self.context.environment
    }

    /// Reports a problem of the file as a whole.
    pub(crate) fn report(&self, problem: Diagnostic) {
        self.context.report(problem);
    }

    /// Returns whether the table has the key.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns whether an unknown key is a misspelling of this one. Valid only after all keys have been requested.
    pub(crate) fn has_misspelling_of(&self, key: &str) -> bool {
        let is_meant = |written: &str| {
            closest(written, [key]).is_some()
                || closest_key(written, self.valid()) == Some(key)
                || alias(&self.path, written) == Some(key)
        };
        self.unknown().any(|written| is_meant(written.get_ref()))
    }

    /// Reports a problem of the table as a whole.
    pub(crate) fn report_error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()));
    }

    /// Reports that files in the table have no usable value on this machine.
    pub(crate) fn report_machine_error(&self, message: impl Into<String>, help: impl Into<String>) {
        let cause = Cause::of_machine_at(&self.path);
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()).caused_by(cause));
    }

    /// Returns the table's name in messages: `plugin.limits`.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line of the table in the file, counted from 1.
    pub(crate) fn line(&self) -> usize {
        self.context.line(self.span.start)
    }

    /// Returns the span of the value of a key, or of the table if it has no such key.
    pub(crate) fn entry_span(&self, key: &str) -> Range<usize> {
        self.entries.get(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Returns the span of an element of the array at this key, or of the entry.
    pub(crate) fn element_span(&self, key: &str, index: usize) -> Range<usize> {
        let elements = self.entries.get(key).and_then(|entry| entry.get_ref().as_array());
        elements.and_then(|elements| elements.get(index)).map_or_else(|| self.entry_span(key), Spanned::span)
    }

    /// Returns the span of `key[index].path[inner]`, or of `key[index]` if there is no such element.
    pub(crate) fn nested_element_span(&self, key: &str, index: usize, path: &[&str], inner: usize) -> Range<usize> {
        let element = self.nested_value(key, index, path).and_then(|value| value.get_ref().as_array()?.get(inner));
        element.map_or_else(|| self.element_span(key, index), Spanned::span)
    }

    /// Returns the span of `key[index].path`, or of `key[index]` if there is no such entry.
    pub(crate) fn nested_span_of_element(&self, key: &str, index: usize, path: &[&str]) -> Range<usize> {
        self.nested_value(key, index, path).map_or_else(|| self.element_span(key, index), Spanned::span)
    }

    /// Returns `key[index].path`.
    fn nested_value(&self, key: &str, index: usize, path: &[&str]) -> Option<&Spanned<DeValue<'a>>> {
        let mut at = self.entries.get(key)?.get_ref().as_array()?.get(index)?;
        for key in path {
            at = at.get_ref().as_table()?.get(*key)?;
        }
        Some(at)
    }

    /// Returns whether the table has a table at this key with the entry `inner`.
    pub(crate) fn has_nested(&self, key: &str, inner: &str) -> bool {
        self.nested(key).is_some_and(|table| table.contains_key(inner))
    }

    /// Returns the span of the entry `inner` of the table at this key, or of that table if it has no such entry.
    pub(crate) fn nested_span(&self, key: &str, inner: &str) -> Range<usize> {
        let entry = self.nested(key).and_then(|table| table.get(inner));
        entry.map_or_else(|| self.entry_span(key), Spanned::span)
    }

    /// Returns whether a problem of the file has been reported.
    pub(crate) fn has_problems(&self) -> bool {
        self.context.has_problems()
    }

    fn nested(&self, key: &str) -> Option<&'a DeTable<'a>> {
        self.entries.get(key)?.get_ref().as_table()
    }

    fn node(&mut self, field: &str, is_required: bool, schema: fn() -> Schema) -> Option<Node<'a>> {
        let name = key_of(field);
        let entry = self.entries.get_key_value(name.as_str());
        self.known.push(KnownKey { name, is_required, schema });
        entry.map(|entry| Node::entry(self.context, &self.path, entry))
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Key<'a>> {
        self.entries.keys().filter(|key| !self.known.iter().any(|known| known.name.as_str() == key.get_ref().as_ref()))
    }

    /// Returns the requested keys that are not refused.
    fn valid(&self) -> impl Iterator<Item = &str> + Clone {
        let names = self.known.iter().map(|known| known.name.as_str());
        names.filter(|name| !is_refused(&self.path, name))
    }

    fn finish(&self) {
        for key in self.unknown() {
            let place = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            let message = format!("unknown key {}{place}", quote(key.get_ref()));
            let valid = format!("the valid keys are {}", join_quoted(self.valid()));
            let problem = |help: String| Diagnostic::new(message, help).at(key.span());
            self.report(match alias(&self.path, key.get_ref()) {
                // The line may be hidden, so the help contains the suggestion.
                Some(meant) => {
                    let meant = match meant.split_once('.') {
                        Some((table, meant)) => format!("`{meant}` in `[{table}]`"),
                        None => format!("`{meant}`"),
                    };
                    problem(format!("write {meant}; {valid}")).label(format!("did you mean {meant}?"))
                }
                None => suggest(problem(valid), closest_key(key.get_ref(), self.valid())),
            });
        }
        for (key, example) in self.missing.iter().filter(|(key, _)| !self.has_misspelling_of(key)) {
            self.report_error(format!("`{}` has no `{key}`", self.path), format!("add `{key} = {example}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Config;

    #[test]
    fn a_table_is_described_by_the_keys_that_are_requested() {
        let schema = Config::json_schema();
        let minimum = schema.pointer("/properties/server/properties/page-size/minimum");
        assert_eq!(minimum.and_then(serde_json::Value::as_u64), Some(1), "{schema:#}");
    }
}
