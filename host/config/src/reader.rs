//! The config reader: sections are declared as tables of typed keys, and one problem does not hide another.
//!
//! The macros of [`declare`](super::declare) declare tables and values. A [`Node`] is a value with its position. A
//! [`Table`] returns values by key, records which keys exist, and rejects all others. Both refer to each other, as a
//! value of a table may be a table. Problems are reported to the [`ReadContext`], and reading continues with the valid
//! part, or with a default: the result is used only if nothing was reported.

mod node;
mod schema;
mod table;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use mcp_host_model::digest::Digest;
use mcp_host_model::uri::Mount;
use toml::de::DeValue;

use super::Environment;
use super::diagnostic::{Diagnostic, Diagnostics};
use super::registry::lock::{Lock, LockError};

pub(super) use node::Node;
pub(super) use schema::{KeyDocs, Schema};
pub(super) use table::Table;

/// The context for reading one file: the environment of its values, and its problems.
pub(super) struct ReadContext<'a> {
    /// The file's text.
    text: &'a str,
    /// The directory of the file, for relative paths.
    pub(super) base_dir: &'a Path,
    /// The home directory and the environment variables.
    pub(super) environment: &'a Environment,
    problems: RefCell<Diagnostics>,
    /// The files in the config, existing or not.
    files: RefCell<BTreeSet<PathBuf>>,
    /// The files in the config that hold secrets.
    secret_files: RefCell<BTreeSet<PathBuf>>,
    /// Whether the text itself holds a secret.
    has_secret: Cell<bool>,
    /// The offsets of the line feeds of the text.
    line_ends: OnceCell<Vec<usize>>,
    /// The names to which other sections refer.
    pub(super) declared: RefCell<DeclaredNames>,
}

/// The results of a reading in addition to the values.
pub(super) struct ReadOutcome {
    pub(super) problems: Diagnostics,
    /// The files that the config depends on.
    pub(super) files: BTreeSet<PathBuf>,
    /// The files that hold secrets.
    pub(super) secret_files: BTreeSet<PathBuf>,
    /// Whether the config file itself holds a secret.
    pub(super) has_secret: bool,
}

/// The valid names that the config declares.
#[derive(Debug, Default)]
pub(super) struct DeclaredNames {
    pub(super) principals: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) issuers: Vec<String>,
    pub(super) mounts: Vec<Mount>,
    /// The plugins and upstreams that have been read.
    pub(super) plugins: Vec<DeclaredPlugin>,
    /// `plugin-path` of `[server]`; `None` if it is not set.
    pub(super) plugin_path: Option<Vec<PathBuf>>,
    /// `state` of `[server]`.
    pub(super) state: Option<PathBuf>,
    /// `store` of `[registry]`.
    pub(super) store: Option<PathBuf>,
    /// The lock beside the config; read when a component first needs it.
    pub(super) lock: Option<Result<Rc<Lock>, Rc<LockError>>>,
    /// The store files of components, with their locked digests.
    pub(super) locked: BTreeMap<PathBuf, Digest>,
}

/// The valid parts of a plugin or an upstream that are compared with other plugins.
#[derive(Debug)]
pub(super) struct DeclaredPlugin {
    pub(super) name: Option<String>,
    pub(super) name_span: Range<usize>,
    pub(super) mount: Option<Mount>,
    pub(super) mount_span: Range<usize>,
    pub(super) is_searched: bool,
    /// Whether the mount has been compared with the schemes of search.
    pub(super) is_compared: bool,
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

    /// Records that the text itself holds a secret.
    pub(super) fn set_has_secret(&self) {
        self.has_secret.set(true);
    }

    /// Returns the results in addition to the values.
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
    /// The type's name with an article, for messages: `a size`.
    const TYPE_NAME: &'static str;

    /// A valid value, as TOML.
    fn example() -> String;

    /// Returns the suggestion for a value of another type, if one follows from the value.
    fn advice(_node: &Node<'_>) -> Option<String> {
        None
    }

    /// The JSON Schema of the values.
    fn schema() -> Schema;

    /// Reads the value. All problems are reported; the result is then `None`, or partial.
    fn from_node(node: &Node<'_>) -> Option<Self>;
}

/// The keys of a table, as [`table!`](super::declare::table) declares them.
pub(super) trait Keys: Sized {
    /// The documentation of the keys.
    const DOCS: KeyDocs;

    /// Requests all keys, even missing ones: [`Table::describe`] relies on that. `None` unless each required key has a
    /// valid value.
    fn read(table: &mut Table<'_>) -> Option<Self>;
}

/// A type that is read from a table with known keys.
pub(super) trait FromTable: Sized {
    /// The keys.
    type Keys: Keys;

    /// The type's name with an article, for messages: `a table of limits`.
    const TYPE_NAME: &'static str;

    /// A valid value, as TOML.
    fn example() -> String;

    /// Returns the suggestion for a value that is not a table, if one follows from the value.
    fn advice(_node: &Node<'_>) -> Option<String> {
        None
    }

    /// Adds the conditions between keys to the schema of the table.
    fn constrain(schema: Schema) -> Schema {
        schema
    }

    /// Reports conflicts between the keys that are present, after all have been read, valid or not.
    fn check(_table: &Table<'_>) {}

    /// Returns the value, after all keys have been read and if the required ones are valid. Reports conflicts between
    /// values.
    fn from_keys(keys: Self::Keys, table: &Table<'_>) -> Option<Self>;
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
        T::constrain(Table::describe::<T::Keys>())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table::<T>(|table| {
            let keys = T::Keys::read(table);
            T::check(table);
            T::from_keys(keys?, table)
        })
    }
}

/// A field that is read from a key: a type that is read from a value, or an `Option` of one.
pub(super) trait FromKey: Sized {
    /// Reads a key that may be missing.
    fn optional(table: &mut Table<'_>, field: &str) -> Self
    where
        Self: Default;

    /// Reads a required key. An `Option` is `None` if the value is missing or invalid.
    fn required(table: &mut Table<'_>, field: &str) -> Option<Self>;
}

impl<T: FromNode> FromKey for T {
    fn optional(table: &mut Table<'_>, field: &str) -> Self
    where
        Self: Default,
    {
        table.or_default(field)
    }

    fn required(table: &mut Table<'_>, field: &str) -> Option<Self> {
        table.required(field)
    }
}

impl<T: FromNode> FromKey for Option<T> {
    fn optional(table: &mut Table<'_>, field: &str) -> Self {
        table.optional(field)
    }

    fn required(table: &mut Table<'_>, field: &str) -> Option<Self> {
        Some(table.required(field))
    }
}

/// A field for a value that was read as another type: a `T`, or an `Option` of one.
pub(super) trait Stored<T>: Sized {
    /// The field of a key that may be missing.
    fn optional(read: Option<T>) -> Self
    where
        Self: Default;

    /// The field of a required key. An `Option` is `None` if the value is missing or invalid.
    fn required(read: Option<T>) -> Option<Self>;
}

impl<T> Stored<T> for T {
    fn optional(read: Option<T>) -> Self
    where
        Self: Default,
    {
        read.unwrap_or_default()
    }

    fn required(read: Option<T>) -> Option<Self> {
        read
    }
}

impl<T> Stored<T> for Option<T> {
    fn optional(read: Self) -> Self {
        read
    }

    fn required(read: Self) -> Option<Self> {
        Some(read)
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

impl FromNode for bool {
    const TYPE_NAME: &'static str = "`true` or `false`";

    fn example() -> String {
        "true".into()
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        let written = match node.value {
            DeValue::String(text) => text.trim().to_ascii_lowercase(),
            _ => node.number()?,
        };
        let meant = match written.as_str() {
            "true" | "yes" | "on" | "enabled" | "1" => "true",
            "false" | "no" | "off" | "disabled" | "none" | "0" => "false",
            _ => return None,
        };
        Some(format!("write {}", node.assignment_hint(meant)))
    }

    fn schema() -> Schema {
        Schema::boolean()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        if let DeValue::Boolean(value) = node.value {
            return Some(*value);
        }
        node.expected_type::<Self>();
        None
    }
}
