//! [`Table`]: one table of the file, while it is read.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::node::Key;
use super::{FromNode, KeyDocs, Node, ReadContext, Schema};
use crate::config::Environment;
use crate::config::error::{Cause, Diagnostic, quote};
use crate::config::suggest::{closest, did_you_mean, join_quoted};

/// A table that is being read.
pub(in crate::config) struct Table<'a> {
    context: &'a ReadContext<'a>,
    entries: &'a DeTable<'a>,
    span: Range<usize>,
    path: String,
    known: Vec<KnownKey>,
    /// Missing keys that are required, with a valid value.
    missing: Vec<(&'static str, String)>,
}

/// A key that was requested.
struct KnownKey {
    name: &'static str,
    is_required: bool,
    schema: fn() -> Schema,
}

impl<'a> Table<'a> {
    /// Returns the schema of the tables that `read` reads: the keys that it requests of an empty table.
    pub(in crate::config) fn describe<T>(docs: KeyDocs, read: impl FnOnce(&mut Table<'_>) -> T) -> Schema {
        let (environment, entries) = (Environment::empty(), DeTable::new());
        let context = ReadContext::new("", Path::new(""), &environment);
        let mut table = Table::new(&context, &entries, 0..0, String::new());
        read(&mut table);
        Schema::table(table.known.iter().map(|key| (key.name, key.is_required, (key.schema)())), docs)
    }

    fn new(context: &'a ReadContext<'a>, entries: &'a DeTable<'a>, span: Range<usize>, path: String) -> Self {
        Self { context, entries, span, path, known: Vec::new(), missing: Vec::new() }
    }

    /// Reads the root table of the file.
    pub(in crate::config) fn root<T>(
        context: &'a ReadContext<'a>,
        entries: &'a DeTable<'a>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        Self::read(context, entries, 0..0, String::new(), read)
    }

    /// Reads a table with `read`; then reports the keys that it did not request, and the missing ones.
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

    /// Returns the value of a required key.
    pub(in crate::config) fn required<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        let node = self.node::<T>(key, true);
        if node.is_none() {
            self.missing.push((key, T::example()));
        }
        T::from_node(&node?)
    }

    /// Returns the value of an optional key.
    pub(in crate::config) fn optional<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        T::from_node(&self.node::<T>(key, false)?)
    }

    /// Returns the value of a key with a default.
    pub(in crate::config) fn or_default<T: FromNode + Default>(&mut self, key: &'static str) -> T {
        self.optional(key).unwrap_or_default()
    }

    /// Reports a key that is in the file although this build lacks the cargo feature that implements it.
    pub(in crate::config) fn requires_feature(&self, key: &str, feature: &str, is_enabled: bool) {
        if is_enabled || !self.has(key) {
            return;
        }
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) };
        let message = format!("`{path}` requires the cargo feature `{feature}`, which this build does not have");
        let help = format!("build `mcp-resource-host` with the feature `{feature}`, or remove `{key}`");
        self.report(Diagnostic::new(message, help).at(self.entry_span(key)));
    }

    /// Reports a problem of the file as a whole.
    pub(in crate::config) fn report(&self, problem: Diagnostic) {
        self.context.report(problem);
    }

    /// Returns whether the table has the key.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Returns whether an unknown key is a misspelling of this one. Only after all keys have been requested.
    pub(in crate::config) fn has_misspelling_of(&self, key: &str) -> bool {
        self.unknown().any(|written| closest(written.get_ref(), [key]).is_some())
    }

    /// Reports a problem of the table as a whole.
    pub(in crate::config) fn report_error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()));
    }

    /// Reports that files of the machine that the table names have no usable value.
    pub(in crate::config) fn report_machine_error(&self, message: impl Into<String>, help: impl Into<String>) {
        let cause = Cause::of_machine_at(&self.path);
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()).caused_by(cause));
    }

    /// Returns its name in messages: `plugin.limits`.
    pub(in crate::config) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the line of the table in the file, counted from 1.
    pub(in crate::config) fn line(&self) -> usize {
        self.context.line(self.span.start)
    }

    /// Returns the span of the value of a key; that of the table if it has no such key.
    pub(in crate::config) fn entry_span(&self, key: &str) -> Range<usize> {
        self.entries.get(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Returns whether the table has a table at that key with the entry `inner`.
    pub(in crate::config) fn has_nested(&self, key: &str, inner: &str) -> bool {
        self.nested(key).is_some_and(|table| table.contains_key(inner))
    }

    /// Returns the span of the entry `inner` of the table at that key; that of the table if it has no such entry.
    pub(in crate::config) fn nested_span(&self, key: &str, inner: &str) -> Range<usize> {
        let entry = self.nested(key).and_then(|table| table.get(inner));
        entry.map_or_else(|| self.entry_span(key), Spanned::span)
    }

    /// Returns whether a problem of the file has been reported.
    pub(in crate::config) fn has_problems(&self) -> bool {
        self.context.has_problems()
    }

    fn nested(&self, key: &str) -> Option<&'a DeTable<'a>> {
        self.entries.get(key)?.get_ref().as_table()
    }

    fn node<T: FromNode>(&mut self, name: &'static str, is_required: bool) -> Option<Node<'a>> {
        self.known.push(KnownKey { name, is_required, schema: T::schema });
        self.entries.get_key_value(name).map(|entry| Node::entry(self.context, &self.path, entry))
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Key<'a>> {
        self.entries.keys().filter(|key| !self.known.iter().any(|known| known.name == key.get_ref().as_ref()))
    }

    fn finish(&self) {
        for key in self.unknown() {
            let place = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            let message = format!("unknown key {}{place}", quote(key.get_ref()));
            let known = self.known.iter().map(|known| known.name);
            let help = format!("the valid keys are {}", join_quoted(known.clone()));
            self.report(did_you_mean(Diagnostic::new(message, help).at(key.span()), key.get_ref(), known));
        }
        for (key, example) in self.missing.iter().filter(|(key, _)| !self.has_misspelling_of(key)) {
            self.report_error(format!("`{}` has no `{key}`", self.path), format!("add `{key} = {example}`"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, ConfigError};

    /// The problems with a file of which every key requires a feature.
    fn problems(text: &str, is_enabled: bool) -> Vec<String> {
        let environment = Environment::empty();
        let context = ReadContext::new(text, Path::new(""), &environment);
        let document = crate::config::syntax::parse(text).unwrap();
        Table::root(&context, document.get_ref(), |table| {
            let _ = table.optional::<Vec<crate::config::grants::BucketName>>("buckets");
            table.requires_feature("buckets", "keyvalue", is_enabled);
        });
        let problems = context.finish().problems;
        if problems.is_empty() {
            return Vec::new();
        }
        let error = ConfigError::new(Path::new("mcp-host.toml"), text, problems);
        error.diagnostics().iter().map(|problem| problem.message().to_owned()).collect()
    }

    #[test]
    fn a_key_of_a_feature_that_is_not_built_in_is_an_error_that_names_the_feature() {
        assert_eq!(
            problems("buckets = []", false),
            ["`buckets` requires the cargo feature `keyvalue`, which this build does not have"]
        );
        assert!(problems("buckets = []", true).is_empty());
        assert!(problems("", false).is_empty());
    }

    #[cfg(not(feature = "keyvalue"))]
    #[test]
    fn a_bucket_is_not_granted_without_the_feature() {
        let text = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a://b/'\ngrants.keyvalue = ['pages']\n";
        let error = Config::parse_in(text, Path::new("mcp-host.toml"), &Environment::empty()).unwrap_err();
        assert!(
            error.to_string().contains("`plugin.grants.keyvalue` requires the cargo feature `keyvalue`"),
            "{error}"
        );
    }

    #[cfg(not(feature = "http"))]
    #[test]
    fn http_is_not_configured_without_the_feature() {
        let text = "[server]\nhttp = '127.0.0.1:0'\n[http]\n";
        let error = Config::parse_in(text, Path::new("mcp-host.toml"), &Environment::empty()).unwrap_err().to_string();
        assert!(error.contains("`server.http` requires") && error.contains("`http` requires"), "{error}");
    }

    #[test]
    fn a_table_is_described_by_the_keys_that_are_requested() {
        let schema = Config::json_schema();
        let minimum = schema.pointer("/properties/server/properties/page-size/minimum");
        assert_eq!(minimum.and_then(serde_json::Value::as_u64), Some(1), "{schema:#}");
    }
}
