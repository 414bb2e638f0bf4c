//! [`Table`]: one table of the file, while it is read.

use std::ops::Range;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::node::Key;
use super::{FromNode, KeyDocs, Node, ReadContext, Schema};
use crate::config::Environment;
use crate::config::error::{Diagnostic, quote};
use crate::config::suggest::{closest, did_you_mean, join_quoted};

/// A table that is being read.
pub(in crate::config) struct Table<'a> {
    context: &'a ReadContext<'a>,
    entries: &'a DeTable<'a>,
    span: Range<usize>,
    path: String,
    known: Vec<KnownKey>,
    /// Keys that must be there and are not, with a value that would be right.
    missing: Vec<(&'static str, String)>,
}

/// A key that was requested.
struct KnownKey {
    name: &'static str,
    is_required: bool,
    schema: fn() -> Schema,
}

impl<'a> Table<'a> {
    /// Describes the tables that `read` reads: has it read an empty one, and returns the schema of the keys that it requests.
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

    /// Reads the file's outermost table.
    pub(in crate::config) fn root<T>(
        context: &'a ReadContext<'a>,
        entries: &'a DeTable<'a>,
        read: impl FnOnce(&mut Self) -> T,
    ) -> T {
        Self::read(context, entries, 0..0, String::new(), read)
    }

    /// Reads a table with `read`; then reports the keys that it did not ask for, and those that it missed.
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

    /// The value of a key that must be there.
    pub(in crate::config) fn required<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        let node = self.node::<T>(key, true);
        if node.is_none() {
            self.missing.push((key, T::example()));
        }
        T::from_node(&node?)
    }

    /// The value of a key that may be there.
    pub(in crate::config) fn optional<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        T::from_node(&self.node::<T>(key, false)?)
    }

    /// The value of a key that has a default.
    pub(in crate::config) fn or_default<T: FromNode + Default>(&mut self, key: &'static str) -> T {
        self.optional(key).unwrap_or_default()
    }

    /// Reports a problem with the file as a whole.
    pub(in crate::config) fn report(&self, problem: Diagnostic) {
        self.context.report(problem);
    }

    /// Whether there is such a key.
    pub(in crate::config) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether a key that nobody knows looks like this one. Only after all others have been read.
    pub(in crate::config) fn has_misspelling_of(&self, key: &str) -> bool {
        self.unknown().any(|written| closest(written.get_ref(), [key]).is_some())
    }

    /// Reports a problem with the table as a whole.
    pub(in crate::config) fn report_error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()));
    }

    /// How messages call it: `plugin.limits`.
    pub(in crate::config) fn path(&self) -> &str {
        &self.path
    }

    /// Where the value of a key stands; where the table stands if it has no such key.
    pub(in crate::config) fn entry_span(&self, key: &str) -> Range<usize> {
        self.entries.get(key).map_or_else(|| self.span.clone(), Spanned::span)
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
            let help = format!("the keys that may stand here are {}", join_quoted(known.clone()));
            self.report(did_you_mean(Diagnostic::new(message, help).at(key.span()), key.get_ref(), known));
        }
        for (key, example) in self.missing.iter().filter(|(key, _)| !self.has_misspelling_of(key)) {
            self.report_error(format!("`{}` has no `{key}`", self.path), format!("add `{key} = {example}`"));
        }
    }
}
