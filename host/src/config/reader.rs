//! The config reader: sections are declared as tables of typed keys, and one problem does not hide another.
//!
//! A [`Node`] is a value with its position. A [`Table`] returns values by key, thereby learns which keys exist, and
//! rejects all others. Problems are reported to the [`ReadContext`], and reading continues with the valid part, or with
//! a default: the result counts only if nothing was reported.

mod node;
mod schema;
mod table;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::Environment;
use super::error::{Diagnostic, Diagnostics};
use crate::uri::Mount;

pub(super) use node::Node;
pub(super) use schema::{KeyDocs, Schema, documented};
pub(super) use table::Table;

/// One reading of one file: the environment of its values, and its problems.
pub(super) struct ReadContext<'a> {
    /// The file's text.
    text: &'a str,
    /// The directory of the file, which relative paths are relative to.
    pub(super) base_dir: &'a Path,
    /// The home directory and the environment variables.
    pub(super) environment: &'a Environment,
    problems: RefCell<Diagnostics>,
    /// The files that the config names, existing or not.
    files: RefCell<BTreeSet<PathBuf>>,
    /// Those of them that hold secrets.
    secret_files: RefCell<BTreeSet<PathBuf>>,
    /// Whether the text itself holds one.
    has_secret: Cell<bool>,
    /// The offsets of the line feeds of the text.
    line_ends: OnceCell<Vec<usize>>,
    /// The names that other sections refer to.
    pub(super) declared: RefCell<DeclaredNames>,
}

/// What a reading learned beside the values.
pub(super) struct ReadOutcome {
    pub(super) problems: Diagnostics,
    /// The files that the config depends on.
    pub(super) files: BTreeSet<PathBuf>,
    /// The files that hold secrets.
    pub(super) secret_files: BTreeSet<PathBuf>,
    /// Whether the config file itself holds a secret.
    pub(super) has_secret: bool,
}

/// The names that the config declares, as far as they are valid.
#[derive(Debug, Default)]
pub(super) struct DeclaredNames {
    pub(super) principals: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) issuers: Vec<String>,
    pub(super) mounts: Vec<Mount>,
}

impl<'a> ReadContext<'a> {
    pub(super) fn new(text: &'a str, base: &'a Path, environment: &'a Environment) -> Self {
        Self {
            text,
            base_dir: base,
            environment,
            problems: RefCell::default(),
            files: RefCell::default(),
            secret_files: RefCell::default(),
            has_secret: Cell::new(false),
            line_ends: OnceCell::new(),
            declared: RefCell::default(),
        }
    }

    /// Reports a problem.
    pub(super) fn report(&self, problem: Diagnostic) {
        self.problems.borrow_mut().push(problem);
    }

    /// Returns whether a problem has been reported.
    pub(super) fn has_problems(&self) -> bool {
        !self.problems.borrow().is_empty()
    }

    /// Adds a file that the config depends on.
    pub(super) fn add_dependency(&self, file: PathBuf) {
        self.files.borrow_mut().insert(file);
    }

    /// Adds a file that holds a secret.
    pub(super) fn add_secret_file(&self, file: PathBuf) {
        self.secret_files.borrow_mut().insert(file);
    }

    /// Says that the text itself holds a secret.
    pub(super) fn set_has_secret(&self) {
        self.has_secret.set(true);
    }

    /// Returns what was learned beside the values.
    pub(super) fn finish(self) -> ReadOutcome {
        ReadOutcome {
            problems: self.problems.into_inner(),
            files: self.files.into_inner(),
            secret_files: self.secret_files.into_inner(),
            has_secret: self.has_secret.get(),
        }
    }

    /// Returns the line of an offset, counted from 1.
    fn line(&self, offset: usize) -> usize {
        let ends = self.line_ends.get_or_init(|| self.text.match_indices('\n').map(|(at, _)| at).collect());
        ends.partition_point(|end| *end < offset).saturating_add(1)
    }

    fn source_text(&self, span: &Range<usize>) -> &'a str {
        self.text.get(span.clone()).unwrap_or_default()
    }
}

/// A type that is read from a value of the file.
pub(super) trait FromNode: Sized {
    /// Its name with an article, for messages: `a size`.
    const TYPE_NAME: &'static str;

    /// A valid value, as TOML.
    fn example() -> String;

    /// Returns what to write instead of a value of another type, if that follows from the value.
    fn advice(_node: &Node<'_>) -> Option<String> {
        None
    }

    /// The JSON Schema of its values.
    fn schema() -> Schema;

    /// Reads the value. Every reason not to is reported; the result is then none, or a partial one.
    fn from_node(node: &Node<'_>) -> Option<Self>;
}

/// A type that is read from a table, and has the documentation of its keys.
pub(super) trait Documented {
    /// The documentation of the keys.
    const KEY_DOCS: KeyDocs;
}

/// A type that is read from a table with known keys.
pub(super) trait FromTable: Documented + Sized {
    /// Its name with an article, for messages: `a table of limits`.
    const TYPE_NAME: &'static str;

    /// A valid value, as TOML.
    fn example() -> String;

    /// Returns what to write instead of a value that is no table, if that follows from the value.
    fn advice(_node: &Node<'_>) -> Option<String> {
        None
    }

    /// Reads the table. All keys are requested from it, whichever of them it has: [`Table::describe`] relies on that.
    fn from_table(table: &mut Table<'_>) -> Option<Self>;
}

impl<T: FromTable> FromNode for T {
    const TYPE_NAME: &'static str = T::TYPE_NAME;

    fn example() -> String {
        T::example()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        T::advice(node)
    }

    fn schema() -> Schema {
        Table::describe(T::KEY_DOCS, T::from_table)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table::<T>(T::from_table)
    }
}

impl<T: FromNode> FromNode for Vec<T> {
    const TYPE_NAME: &'static str = "a list";

    fn example() -> String {
        format!("[{}]", T::example())
    }

    fn schema() -> Schema {
        Schema::list(T::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        Some(node.items::<T>()?.iter().filter_map(T::from_node).collect())
    }
}
