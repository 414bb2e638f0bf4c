//! The audit log: `[audit]`.
//!
//! | key | meaning |
//! |---|---|
//! | `file` | the file to which lines are appended; this or `stderr` is required |
//! | `stderr` | `true`: lines are written to standard error |
//! | `max-size` | the size at which the file is rotated |
//! | `keep` | the number of rotated files |
//! | `on-full` | what happens to requests while no line can be written |

use std::path::PathBuf;

use serde_json::json;
use toml::de::DeValue;

use super::count::Count;
use super::declare::{named_enum, table};
use super::diagnostic::Diagnostic;
use super::paths::CreatableFile;
use super::reader::{FromNode, FromTable, Node, Schema, Table};
use super::size::{KIB, MIB, Size, TIB};

/// The size at which an audit file is rotated. 64 MiB unless set; 64 KiB to 1 TiB.
pub type AuditFileSize = Size<{ 64 * KIB }, { 64 * MIB }, TIB>;
/// The number of rotated audit files. 10 unless set; 1 to 1000.
pub type RotatedFiles = Count<1, 10, 1000>;

/// The audit log: `[audit]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Audit {
    /// The destination of the lines.
    pub destination: AuditDestination,
    /// What happens to requests while no line can be written.
    pub on_full: OnFull,
}

/// The destination of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditDestination {
    /// A file.
    File(AuditFile),
    /// Standard error.
    Stderr,
}

/// A file of the audit log, with its rotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFile {
    /// The path. Rotated files have the same path with `.1`, `.2` and so on; `.1` is the newest.
    pub path: PathBuf,
    /// The size for rotation.
    pub max_size: AuditFileSize,
    /// The number of rotated files.
    pub keep: RotatedFiles,
}

named_enum! {
    /// What happens to requests while no line of the audit log can be written.
    pub enum OnFull as "`drop` or `refuse`", such as "\"refuse\"", default Drop {
        /// Requests are answered. Lost lines are counted, and a later line reports the count.
        Drop = "drop",
        /// Requests are refused before they are dispatched (fail closed).
        Refuse = "refuse",
    }
}

impl Audit {
    /// An audit log in a file, with the default rotation.
    pub fn to_file(path: impl Into<PathBuf>) -> Self {
        Self {
            destination: AuditDestination::File(AuditFile {
                path: path.into(),
                max_size: AuditFileSize::default(),
                keep: RotatedFiles::default(),
            }),
            on_full: OnFull::default(),
        }
    }

    /// An audit log on standard error.
    pub fn to_stderr() -> Self {
        Self { destination: AuditDestination::Stderr, on_full: OnFull::default() }
    }
}

table! {
    pub(crate) struct AuditKeys {
        /// The file that lines are appended to. Its directory must exist. Either `file` or `stderr` is required.
        #[read(CreatableFile)]
        file: Option<PathBuf>,
        /// `true` writes lines to standard error instead of a file.
        stderr: Option<True>,
        /// The size at which the file is rotated. 64 MiB unless set; 64 KiB to 1 TiB.
        max_size: AuditFileSize,
        /// The number of rotated files. 10 unless set; 1 to 1000.
        keep: RotatedFiles,
        /// The handling of requests while no line can be written: `drop` answers them and counts the lost lines;
        /// `refuse` refuses them. `drop` unless set.
        on_full: OnFull,
    }
}

impl FromTable for Audit {
    type Keys = AuditKeys;

    const TYPE_NAME: &'static str = "a table with `file` or `stderr`";

    fn example() -> String {
        "{ file = \"audit.jsonl\" }".into()
    }

    fn constrain(schema: Schema) -> Schema {
        let is_given = |key: &str| json!({ "required": [key] });
        schema
            .with("oneOf", vec![is_given("file"), is_given("stderr")])
            .with("dependentRequired", json!({ "max-size": ["file"], "keep": ["file"] }))
    }

    fn from_keys(keys: AuditKeys, table: &Table<'_>) -> Option<Self> {
        let AuditKeys { file, stderr, max_size, keep, on_full } = keys;
        match (table.has("file"), table.has("stderr")) {
            (true, true) => table.report(
                Diagnostic::new("`file` and `stderr` exclude each other", "remove one of them")
                    .at(table.entry_span("stderr")),
            ),
            (false, false) if !["file", "stderr"].iter().any(|key| table.has_misspelling_of(key)) => table
                .report_error(
                    "`audit` has neither `file` nor `stderr`",
                    "add `file = \"audit.jsonl\"`, or `stderr = true`",
                ),
            (false, true) => {
                for key in ["max-size", "keep"].into_iter().filter(|key| table.has(key)) {
                    let message = format!("`{key}` is about a file, and standard error is not rotated");
                    let help = format!("remove `{key}`, or write `file = \"audit.jsonl\"` instead of `stderr`");
                    table.report(Diagnostic::new(message, help).at(table.entry_span(key)));
                }
            }
            _ => {}
        }
        let file = file.map(|path| AuditDestination::File(AuditFile { path, max_size, keep }));
        let stderr = stderr.map(|True| AuditDestination::Stderr);
        Some(Self { destination: file.or(stderr)?, on_full })
    }
}

/// The value of a key that is `true` or absent.
struct True;

impl FromNode for True {
    const TYPE_NAME: &'static str = "`true`";

    fn example() -> String {
        "true".into()
    }

    fn schema() -> Schema {
        Schema::constant(true)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.value {
            DeValue::Boolean(true) => Some(Self),
            DeValue::Boolean(false) => {
                let help = format!("write {}, or remove the key", node.assignment_hint("true"));
                node.report_error(format!("`{}` is `true` or absent", node.key), help);
                None
            }
            _ => {
                node.expected_type::<Self>();
                None
            }
        }
    }
}
