//! [`Node`]: one value of the file.

use std::ops::Range;
use std::str::FromStr;

use mcp_host_base::escape::is_unsafe;
use toml::Spanned;
use toml::de::{DeString, DeValue};

use super::{FromNode, ReadContext, Table};
use crate::diagnostic::{Cause, Diagnostic, Suggest, quote, truncated};
use crate::suggest::{did_you_mean, join_quoted};

/// A key with its position.
pub(super) type Key<'a> = Spanned<DeString<'a>>;

/// A value with its position.
#[derive(Clone)]
pub(crate) struct Node<'a> {
    /// The file.
    pub(crate) context: &'a ReadContext<'a>,
    /// The value.
    pub(crate) value: &'a DeValue<'a>,
    /// The span of the value, in bytes.
    pub(crate) span: Range<usize>,
    /// The span of the value's key, in bytes.
    pub(crate) key_span: Range<usize>,
    /// The value's key as written: `memory`.
    pub(crate) key: &'a str,
    /// The value's name in messages: `plugin.limits.memory`.
    path: String,
    /// Whether the value is an element of the list at this key.
    is_item: bool,
}

impl<'a> Node<'a> {
    /// The node of an entry in the table with this name in messages.
    pub(super) fn entry(
        context: &'a ReadContext<'a>,
        table: &str,
        (key, value): (&'a Key<'a>, &'a Spanned<DeValue<'a>>),
    ) -> Self {
        let (value, span, key, key_span) = (value.get_ref(), value.span(), key.get_ref().as_ref(), key.span());
        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        Self { context, value, span, key_span, key, path, is_item: false }
    }

    /// Returns the string.
    pub(crate) fn string<T: FromNode>(&self) -> Option<&'a str> {
        let string = self.value.as_str();
        if string.is_none() {
            self.expected_type::<T>();
        }
        string
    }

    /// Parses the value, which must be a string.
    pub(crate) fn parse<T>(&self) -> Option<T>
    where
        T: FromNode + FromStr<Err: Suggest>,
    {
        let Some(text) = self.value.as_str() else {
            let meant = self.text_in_value().filter(|text| text.parse::<T>().is_ok());
            let advice = meant.map(|text| format!("write {}", self.assignment_hint(&format!("\"{text}\""))));
            self.expected_type_with::<T>(advice);
            return None;
        };
        match text.parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.reject(&error);
                None
            }
        }
    }

    /// Returns a string of one line that is not blank.
    pub(crate) fn one_line<T: FromNode>(&self) -> Option<String> {
        let text = self.string::<T>()?;
        let fault = match text {
            "" => "is empty",
            _ if text.trim().is_empty() => "is blank",
            _ if text.contains(char::is_control) => "has a control character, such as a line break",
            _ => return Some(text.to_owned()),
        };
        let help = format!("write one line, such as {}, or remove it", self.assignment_hint(&T::example()));
        self.report_error(format!("`{}` {fault}", truncated(self.key)), help);
        None
    }

    /// Returns the value with the name in the string.
    pub(crate) fn one_of<T: FromNode + Clone>(&self, names: &[(&'static str, T)]) -> Option<T> {
        let written = self.string::<T>()?;
        if let Some((_, value)) = names.iter().find(|(name, _)| *name == written) {
            return Some(value.clone());
        }
        let names = names.iter().map(|(name, _)| *name);
        let message = format!("{} is not {}", quote(written), T::TYPE_NAME);
        let help = format!("write one of {}", join_quoted(names.clone()));
        self.context.report(did_you_mean(Diagnostic::new(message, help).at(self.span.clone()), written, names));
        None
    }

    /// Reads the table; then reports the keys that `read` did not request, and the missing ones.
    pub(crate) fn table<T: FromNode>(&self, read: impl FnOnce(&mut Table<'a>) -> Option<T>) -> Option<T> {
        let Some(entries) = self.value.as_table() else {
            self.expected_type::<T>();
            return None;
        };
        Table::read(self.context, entries, self.span.clone(), self.path.clone(), read)
    }

    /// Returns the elements of the list.
    pub(crate) fn items<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
        let Some(array) = self.value.as_array() else {
            self.expected_list(T::example);
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

    /// Returns the valid entries of a list, and reports each entry with the same value of `key` as an earlier one.
    /// Valid values are compared even if other parts of an entry are invalid. A string stands for an entry with only
    /// this key.
    pub(crate) fn unique_items<T: FromNode, K: FromStr + PartialEq>(
        &self,
        key: &str,
        message: impl Fn(&K) -> String,
        help: &str,
    ) -> Option<Vec<(Self, T)>> {
        let items = self.items::<T>()?;
        let values: Vec<Option<K>> = items.iter().map(|item| item.parse_entry(key)).collect();
        for (index, (item, value)) in items.iter().zip(&values).enumerate() {
            let Some(value) = value else { continue };
            let mut earlier = items.iter().zip(&values).take(index);
            if let Some((other, _)) = earlier.find(|(_, other)| other.as_ref() == Some(value)) {
                let problem = Diagnostic::new(message(value), help).at(item.entry_span(key));
                self.context.report(problem.secondary(other.entry_span(key), "the other one"));
            }
        }
        Some(items.into_iter().filter_map(|item| T::from_node(&item).map(|value| (item, value))).collect())
    }

    /// Returns the valid entries of a list of unique entries: see [`unique_items`](Self::unique_items).
    pub(crate) fn unique_list<T: FromNode, K: FromStr + PartialEq>(
        &self,
        key: &str,
        message: impl Fn(&K) -> String,
        help: &str,
    ) -> Option<Vec<T>> {
        Some(self.unique_items(key, message, help)?.into_iter().map(|(_, value)| value).collect())
    }

    /// Returns all entries of the table, for tables with keys that the admin chooses.
    pub(crate) fn entries<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
        let Some(table) = self.value.as_table() else {
            self.expected_type::<T>();
            return None;
        };
        Some(table.iter().map(|entry| Self::entry(self.context, &self.path, entry)).collect())
    }

    /// Parses the key, for tables with keys that the admin chooses.
    pub(crate) fn parse_key<T: FromStr<Err: Suggest>>(&self) -> Option<T> {
        let report = |error: &T::Err| {
            let problem = Diagnostic::new(error.to_string(), error.suggestion(self.key));
            self.context.report(problem.at(self.key_span.clone()));
        };
        self.key.parse().map_err(|error| report(&error)).ok()
    }

    /// Parses an entry of the table, or a string in its place, if it is valid. The reader of the table reports
    /// problems.
    pub(crate) fn parse_entry<T: FromStr>(&self, key: &str) -> Option<T> {
        let text = match self.value {
            DeValue::Table(table) => table.get(key)?.get_ref().as_str(),
            value => value.as_str(),
        };
        text?.parse().ok()
    }

    /// Returns whether the value is a table with this entry.
    pub(crate) fn has_entry(&self, key: &str) -> bool {
        self.value.as_table().is_some_and(|table| table.contains_key(key))
    }

    /// Returns the span of an entry of the table, or the value's own span if there is no such entry.
    pub(crate) fn entry_span(&self, key: &str) -> Range<usize> {
        let entry = self.value.as_table().and_then(|table| table.get(key));
        entry.map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Returns the value's key and `value` as TOML.
    pub(crate) fn assignment_hint(&self, value: &str) -> String {
        if self.is_item { format!("`{value}`") } else { format!("`{} = {value}`", truncated(self.key)) }
    }

    /// Reports a problem of the value.
    pub(crate) fn report_error(&self, message: impl Into<String>, help: impl Into<String>) {
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()));
    }

    /// Reports that a file, a directory or a variable is missing on this machine, or that its value is unusable. If
    /// only a plugin needs it, the rest of the config can be served; if the server needs it, commands that start no
    /// server can use the rest.
    pub(crate) fn report_machine_error(&self, message: impl Into<String>, help: impl Into<String>) {
        let cause = Cause::of_machine_at(&self.path);
        self.context.report(Diagnostic::new(message, help).at(self.span.clone()).caused_by(cause));
    }

    /// Reports an error of the value.
    pub(crate) fn reject(&self, error: &impl Suggest) {
        self.report_error(error.to_string(), error.suggestion(self.key));
    }

    /// Reports an error of a value from a variable or a file. If only a plugin needs the value, the rest of the config
    /// is not affected.
    pub(crate) fn reject_source(&self, error: &impl Suggest) {
        self.report_machine_error(error.to_string(), error.suggestion(self.key));
    }

    /// Reports an error of the value without quoting its line.
    pub(crate) fn reject_secret(&self, error: &impl Suggest) {
        let problem = Diagnostic::new(error.to_string(), error.suggestion(self.key));
        self.context.report(problem.at(self.span.clone()).redacted());
    }

    /// Reports a value of the wrong type.
    pub(crate) fn expected_type<T: FromNode>(&self) {
        self.expected_type_with::<T>(None);
    }

    /// Reports a value of the wrong type, with this help unless the type has a specific one.
    pub(crate) fn expected_type_with<T: FromNode>(&self, advice: Option<String>) {
        self.report_type(T::TYPE_NAME, T::advice, T::example, advice);
    }

    /// Not generic, because there are almost two hundred types.
    fn report_type(
        &self,
        type_name: &str,
        specific_advice: fn(&Node<'_>) -> Option<String>,
        example: fn() -> String,
        advice: Option<String>,
    ) {
        let of = if self.is_item { "an entry of " } else { "" };
        let message = format!("{of}{} must be {type_name}, not {}", quote(&self.path), value_type(self.value));
        let help = if self.value.is_array() && self.source_text().starts_with("[[") {
            format!("write `[{}]`, with one bracket on each side, and only once", self.path)
        } else {
            let advice = specific_advice(self).or(advice);
            advice.unwrap_or_else(|| format!("write {}", self.assignment_hint(&example())))
        };
        self.report_error(message, help);
    }

    /// Returns the source text of the value; for a section, its heading.
    pub(crate) fn source_text(&self) -> &'a str {
        self.context.source_text(&self.span)
    }

    /// Returns a decimal number without quotes, as written but without underscores.
    pub(crate) fn number(&self) -> Option<String> {
        match self.value {
            DeValue::Integer(number) => Some(number.to_string()),
            DeValue::Float(_) => {
                let written = self.source_text().replace('_', "");
                written.chars().all(|c| c.is_ascii_digit() || c == '.').then_some(written)
            }
            _ => None,
        }
    }

    /// Returns the text of a value without quotes, or of the only string of a list.
    fn text_in_value(&self) -> Option<&'a str> {
        match self.value {
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) | DeValue::Datetime(_) => {
                Some(self.source_text())
            }
            DeValue::Array(items) => match items.iter().as_slice() {
                [only] => {
                    only.get_ref().as_str().filter(|text| !text.contains(['"', '\\']) && !text.contains(is_unsafe))
                }
                _ => None,
            },
            _ => None,
        }
    }

    fn expected_list(&self, example: fn() -> String) {
        let message = format!("{} must be a list, not {}", quote(&self.path), value_type(self.value));
        let written = self.source_text();
        let help = if written.starts_with('[') {
            format!("write `[[{0}]]`, with two brackets on each side: one for every {0}", self.key)
        } else if self.value.is_str() {
            format!("put it in brackets: {}", self.assignment_hint(&format!("[{}]", truncated(written))))
        } else {
            format!("write {}", self.assignment_hint(&format!("[{}]", example())))
        };
        self.report_error(message, help);
    }
}

/// Returns the type of a value, with an article.
fn value_type(value: &DeValue<'_>) -> &'static str {
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
