//! How a section of the file is read: so that it looks like a declaration, and so that one mistake does not hide another.
//!
//! A [`Node`] is a value with its place in the file. A [`Table`] hands out its values by key, knows by that which keys
//! there are, and refuses the others. Whatever is wrong is reported to the [`Scope`], and reading goes on with what is
//! right, or with a default: the result counts only if nothing was reported.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::Environment;
use super::error::{Advice, MOST_PROBLEMS, Problem, quote};
use super::suggest::{closest, did_you_mean, list};

/// One reading of one file: what its values are resolved against, and where its problems are gathered.
pub(super) struct Scope<'a> {
    /// The file's text.
    text: &'a str,
    /// The directory of the file, which relative paths start from.
    pub(super) base: &'a Path,
    /// What `~` and variables stand for.
    pub(super) environment: &'a Environment,
    problems: RefCell<Vec<Problem>>,
    left_out: RefCell<usize>,
}

impl<'a> Scope<'a> {
    pub(super) fn new(text: &'a str, base: &'a Path, environment: &'a Environment) -> Self {
        Self { text, base, environment, problems: RefCell::default(), left_out: RefCell::default() }
    }

    pub(super) fn report(&self, problem: Problem) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < MOST_PROBLEMS {
            problems.push(problem);
        } else {
            self.left_out.replace_with(|count| count.saturating_add(1));
        }
    }

    /// What was reported, and how many problems more there were.
    pub(super) fn into_problems(self) -> (Vec<Problem>, usize) {
        (self.problems.into_inner(), self.left_out.into_inner())
    }
}

/// A type that a value of the file can be turned into.
pub(super) trait FromNode: Sized {
    /// What it is, with its article, as messages call it: `a size`.
    const WHAT: &'static str;

    /// A value that is right, as TOML.
    fn example() -> String;

    /// Reads it. Every reason not to is reported; what is given back then is none, or as good as it gets.
    fn from_node(node: &Node<'_>) -> Option<Self>;
}

type Key<'a> = Spanned<DeString<'a>>;

/// A value with its place in the file.
#[derive(Clone)]
pub(super) struct Node<'a> {
    /// The file that it stands in.
    pub(super) scope: &'a Scope<'a>,
    /// The value.
    pub(super) value: &'a DeValue<'a>,
    /// Where it stands, in bytes.
    pub(super) span: Range<usize>,
    /// Where its key stands, in bytes.
    pub(super) key_span: Range<usize>,
    /// Its key, as one would write it: `memory`.
    pub(super) key: &'a str,
    /// How messages call it: `plugin.limits.memory`.
    path: String,
    /// Whether it is one of a list that stands at that key.
    is_item: bool,
}

impl<'a> Node<'a> {
    fn entry(scope: &'a Scope<'a>, table: &str, (key, value): (&'a Key<'a>, &'a Spanned<DeValue<'a>>)) -> Self {
        let (value, span, key, key_span) = (value.get_ref(), value.span(), key.get_ref().as_ref(), key.span());
        let path = if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        Self { scope, value, span, key_span, key, path, is_item: false }
    }

    /// The string that it is.
    pub(super) fn string<T: FromNode>(&self) -> Option<&'a str> {
        let string = self.value.as_str();
        if string.is_none() {
            self.wrong_type::<T>();
        }
        string
    }

    /// Parses the string that it is.
    pub(super) fn parse<T>(&self) -> Option<T>
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
    pub(super) fn one_of<T: FromNode + Clone>(&self, names: &[(&'static str, T)]) -> Option<T> {
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
    pub(super) fn table<T: FromNode>(&self, read: impl FnOnce(&mut Table<'a>) -> Option<T>) -> Option<T> {
        let Some(entries) = self.value.as_table() else {
            self.wrong_type::<T>();
            return None;
        };
        let mut table = Table {
            scope: self.scope,
            entries,
            span: self.span.clone(),
            path: self.path.clone(),
            known: Vec::new(),
            missing: Vec::new(),
        };
        let value = read(&mut table);
        table.finish();
        value
    }

    /// The nodes of the list that it is.
    pub(super) fn items<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
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
    pub(super) fn entries<T: FromNode>(&self) -> Option<Vec<Node<'a>>> {
        let Some(table) = self.value.as_table() else {
            self.wrong_type::<T>();
            return None;
        };
        Some(table.iter().map(|entry| Self::entry(self.scope, &self.path, entry)).collect())
    }

    /// Where an entry of the table that it is stands; where it stands itself if there is none.
    pub(super) fn span_of(&self, key: &str) -> Range<usize> {
        let entry = self.value.as_table().and_then(|table| table.get(key));
        entry.map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Its key and `value`, as one would write it in its place.
    pub(super) fn assign(&self, value: &str) -> String {
        if self.is_item { format!("`{value}`") } else { format!("`{} = {value}`", self.key) }
    }

    /// Reports a problem with it.
    pub(super) fn problem(&self, message: impl Into<String>, help: impl Into<String>) {
        self.scope.report(Problem::new(message, help).at(self.span.clone()));
    }

    /// Reports an error about it.
    pub(super) fn refuse(&self, error: &impl Advice) {
        self.problem(error.to_string(), error.advice(self.key));
    }

    /// Reports that it is of another type than it should be.
    pub(super) fn wrong_type<T: FromNode>(&self) {
        let of = if self.is_item { "an entry of " } else { "" };
        let message = format!("{of}`{}` must be {}, not {}", self.path, T::WHAT, kind(self.value));
        let help = if self.value.is_array() && self.written().starts_with("[[") {
            format!("write `[{}]`, with one bracket on each side, and only once", self.path)
        } else {
            format!("write {}", self.assign(&T::example()))
        };
        self.problem(message, help);
    }

    /// It as it stands in the file; of a section, the heading.
    pub(super) fn written(&self) -> &'a str {
        self.scope.text.get(self.span.clone()).unwrap_or_default()
    }

    fn no_list<T: FromNode>(&self) {
        let message = format!("`{}` must be a list, not {}", self.path, kind(self.value));
        let written = self.written();
        let help = if written.starts_with('[') {
            format!("write `[[{0}]]`, with two brackets on each side: one for every {0}", self.key)
        } else if self.value.is_str() {
            format!("put it in brackets: {}", self.assign(&format!("[{written}]")))
        } else {
            format!("write {}", self.assign(&format!("[{}]", T::example())))
        };
        self.problem(message, help);
    }
}

/// A table that is being read.
pub(super) struct Table<'a> {
    scope: &'a Scope<'a>,
    entries: &'a DeTable<'a>,
    span: Range<usize>,
    path: String,
    known: Vec<&'static str>,
    /// Keys that must be there and are not, with a value that would be right.
    missing: Vec<(&'static str, String)>,
}

impl<'a> Table<'a> {
    /// Reads the file's outermost table.
    pub(super) fn read<T>(scope: &'a Scope<'a>, entries: &'a DeTable<'a>, read: impl FnOnce(&mut Self) -> T) -> T {
        let mut table =
            Self { scope, entries, span: 0..0, path: String::new(), known: Vec::new(), missing: Vec::new() };
        let value = read(&mut table);
        table.finish();
        value
    }

    /// The value of a key that must be there.
    pub(super) fn required<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        let node = self.node(key);
        if node.is_none() {
            self.missing.push((key, T::example()));
        }
        T::from_node(&node?)
    }

    /// The value of a key that may be there.
    pub(super) fn optional<T: FromNode>(&mut self, key: &'static str) -> Option<T> {
        T::from_node(&self.node(key)?)
    }

    /// The value of a key that has a default.
    pub(super) fn or_default<T: FromNode + Default>(&mut self, key: &'static str) -> T {
        self.optional(key).unwrap_or_default()
    }

    /// Reports a problem with the file as a whole.
    pub(super) fn report(&self, problem: Problem) {
        self.scope.report(problem);
    }

    /// Whether there is such a key.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    /// Whether a key that nobody knows looks like this one. Only after all others have been read.
    pub(super) fn has_misspelt(&self, key: &str) -> bool {
        self.unknown().any(|written| closest(written.get_ref(), [key]).is_some())
    }

    /// Reports a problem with the table as a whole.
    pub(super) fn problem(&self, message: impl Into<String>, help: impl Into<String>) {
        self.scope.report(Problem::new(message, help).at(self.span.clone()));
    }

    /// How messages call it: `plugin.limits`.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    fn node(&mut self, key: &'static str) -> Option<Node<'a>> {
        self.known.push(key);
        self.entries.get_key_value(key).map(|entry| Node::entry(self.scope, &self.path, entry))
    }

    fn unknown(&self) -> impl Iterator<Item = &'a Key<'a>> {
        self.entries.keys().filter(|key| !self.known.contains(&key.get_ref().as_ref()))
    }

    fn finish(&self) {
        for key in self.unknown() {
            let place = if self.path.is_empty() { String::new() } else { format!(" in `{}`", self.path) };
            let message = format!("unknown key {}{place}", quote(key.get_ref()));
            let known = self.known.iter().copied();
            let help = format!("the keys that may stand here are {}", list(known.clone()));
            self.report(did_you_mean(Problem::new(message, help).at(key.span()), key.get_ref(), known));
        }
        for (key, example) in self.missing.iter().filter(|(key, _)| !self.has_misspelt(key)) {
            self.problem(format!("`{}` has no `{key}`", self.path), format!("add `{key} = {example}`"));
        }
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

impl<T: FromNode> FromNode for Vec<T> {
    const WHAT: &'static str = "a list";

    fn example() -> String {
        format!("[{}]", T::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        Some(node.items::<T>()?.iter().filter_map(T::from_node).collect())
    }
}
