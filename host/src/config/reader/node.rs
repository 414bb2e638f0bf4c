//! [`Node`]: one value of the file.

use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::{FromNode, Scope, Table};
use crate::config::error::{Advice, Problem, quote, short};
use crate::config::suggest::{did_you_mean, list};

/// A key with its place in the file.
pub(super) type Key<'a> = Spanned<DeString<'a>>;

/// A value with its place in the file.
#[derive(Clone)]
pub(in crate::config) struct Node<'a> {
    /// The file that it stands in.
    pub(in crate::config) scope: &'a Scope<'a>,
    /// The value.
    pub(in crate::config) value: &'a DeValue<'a>,
    /// Where it stands, in bytes.
    pub(in crate::config) span: Range<usize>,
    /// Where its key stands, in bytes.
    pub(in crate::config) key_span: Range<usize>,
    /// Its key, as one would write it: `memory`.
    pub(in crate::config) key: &'a str,
    /// How messages call it: `plugin.limits.memory`.
    path: String,
    /// Whether it is one of a list that stands at that key.
    is_item: bool,
}

impl<'a> Node<'a> {
    /// The node of an entry of the table that messages call `table`.
    pub(super) fn entry(
        scope: &'a Scope<'a>,
        table: &str,
        (key, value): (&'a Key<'a>, &'a Spanned<DeValue<'a>>),
    ) -> Self {
        let (value, span, key, key_span) = (value.get_ref(), value.span(), key.get_ref().as_ref(), key.span());
        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        Self { scope, value, span, key_span, key, path, is_item: false }
    }

    /// The string that it is.
    pub(in crate::config) fn string<T: FromNode>(&self) -> Option<&'a str> {
        let string = self.value.as_str();
        if string.is_none() {
            self.wrong_type::<T>();
        }
        string
    }

    /// Parses the string that it is.
    pub(in crate::config) fn parse<T>(&self) -> Option<T>
    where
        T: FromNode + FromStr<Err: Advice>,
    {
        match self.string::<T>()?.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.refuse(&error);
                None
            }
        }
    }

    /// The one of several values whose name the string is.
    pub(in crate::config) fn one_of<T: FromNode + Clone>(&self, names: &[(&'static str, T)]) -> Option<T> {
        let written = self.string::<T>()?;
        if let Some((_, value)) = names.iter().find(|(name, _)| *name == written) {
            return Some(value.clone());
        }
        let names = names.iter().map(|(name, _)| *name);
        let message = format!("{} is not {}", quote(written), T::WHAT);
        let help = format!("write one of {}", list(names.clone()));
        self.scope.report(did_you_mean(Problem::new(message, help).at(self.span.clone()), written, names));
        None
    }

    /// Reads the table that it is; then reports the keys that `read` did not ask for, and those it missed.
    pub(in crate::config) fn table<T: FromNode>(&self, read: impl FnOnce(&mut Table<'a>) -> Option<T>) -> Option<T> {
        let Some(entries) = self.value.as_table() else {
            self.wrong_type::<T>();
            return None;
        };
        Table::read(self.scope, entries, self.span.clone(), self.path.clone(), read)
    }

    /// The nodes of the list that it is.
    pub(in crate::config) fn items<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
        let Some(array) = self.value.as_array() else {
            self.no_list::<T>();
            return None;
        };
        let item = |item: &'a Spanned<DeValue<'a>>| Node {
            value: item.get_ref(),
            span: item.span(),
            is_item: true,
            ..self.clone()
        };
        Some(array.iter().map(item).collect())
    }

    /// The entries of the table that it is, whatever their keys: for tables whose keys are the admin's own.
    pub(in crate::config) fn entries<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
        let Some(table) = self.value.as_table() else {
            self.wrong_type::<T>();
            return None;
        };
        Some(table.iter().map(|entry| Self::entry(self.scope, &self.path, entry)).collect())
    }

    /// An entry of the table that it is, if it is right. What is wrong with it is reported by whoever reads the table.
    pub(in crate::config) fn parsed_entry<T: FromStr>(&self, key: &str) -> Option<T> {
        self.value.as_table()?.get(key)?.get_ref().as_str()?.parse().ok()
    }

    /// Where an entry of the table that it is stands; where it stands itself if there is none.
    pub(in crate::config) fn span_of(&self, key: &str) -> Range<usize> {
        let entry = self.value.as_table().and_then(|table| table.get(key));
        entry.map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Its key and `value`, as one would write it in its place.
    pub(in crate::config) fn assign(&self, value: &str) -> String {
        if self.is_item { format!("`{value}`") } else { format!("`{} = {value}`", short(self.key)) }
    }

    /// Reports a problem with it.
    pub(in crate::config) fn problem(&self, message: impl Into<String>, help: impl Into<String>) {
        self.scope.report(Problem::new(message, help).at(self.span.clone()));
    }

    /// Reports a problem with what is on the disk. Where a plugin needs it, the rest of the config is right all the same.
    pub(in crate::config) fn problem_of_disk(&self, message: impl Into<String>, help: impl Into<String>) {
        let problem = Problem::new(message, help).at(self.span.clone());
        self.scope.report(if self.path.starts_with("plugin.") { problem.of_disk() } else { problem });
    }

    /// Reports an error about it.
    pub(in crate::config) fn refuse(&self, error: &impl Advice) {
        self.problem(error.to_string(), error.advice(self.key));
    }

    /// Reports that it is of another type than it should be.
    pub(in crate::config) fn wrong_type<T: FromNode>(&self) {
        let of = if self.is_item { "an entry of " } else { "" };
        let message = format!("{of}{} must be {}, not {}", quote(&self.path), T::WHAT, kind(self.value));
        let help = if self.value.is_array() && self.written().starts_with("[[") {
            format!("write `[{}]`, with one bracket on each side, and only once", self.path)
        } else {
            format!("write {}", self.assign(&T::example()))
        };
        self.problem(message, help);
    }

    /// It as it stands in the file; of a section, the heading.
    pub(in crate::config) fn written(&self) -> &'a str {
        self.scope.written(&self.span)
    }

    fn no_list<T: FromNode>(&self) {
        let message = format!("{} must be a list, not {}", quote(&self.path), kind(self.value));
        let written = self.written();
        let help = if written.starts_with('[') {
            format!("write `[[{0}]]`, with two brackets on each side: one for every {0}", self.key)
        } else if self.value.is_str() {
            format!("put it in brackets: {}", self.assign(&format!("[{}]", short(written))))
        } else {
            format!("write {}", self.assign(&format!("[{}]", T::example())))
        };
        self.problem(message, help);
    }
}

/// What a value is, with its article.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
