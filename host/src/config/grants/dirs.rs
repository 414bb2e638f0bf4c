//! Directories: `grants.dirs`.
//!
//! A list of directories of the machine, each with the path at which the provider sees it. By default the list is
//! empty: the provider has no file system.
//!
//! | key | value | meaning |
//! |---|---|---|
//! | `host` | path | the directory, which must exist. Relative to the directory of the config file; `~` is the home directory |
//! | `guest` | path | the path at which the provider sees it: absolute, without `.` and `..`, and unique |
//! | `mode` | `"ro"` | read only: the default |
//! | | `"rw"` | read and write |
//! | `quota` | size | only with `mode = "rw"`: the maximum size of the directory; 256 MiB unless set, 4 KiB to 1 TiB |
//!
//! A grant covers the directory and everything below it, and nothing else, whatever a path, a link or a name in it
//! says. Grants of one plugin may be nested, and each keeps its mode: a file that is reached through a read-only grant
//! cannot be changed, linked or moved through it. A quota bounds *all* files below the directory, whoever wrote them.
//!
//! ```
//! use mcp_resource_host::config::grants::{DirGrant, DirQuota, Mode};
//! use mcp_resource_host::config::Plugin;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut notes = Plugin::new("notes".parse()?, "notes.wasm", "notes:///".parse()?);
//! assert!(notes.grants.dirs.is_empty());
//!
//! let read = DirGrant { host: "/home/me/notes".into(), mode: Mode::ReadOnly };
//! let write = DirGrant { host: "/home/me/drafts".into(), mode: Mode::ReadWrite { quota: "1GiB".parse()? } };
//! notes.grants.dirs.insert("/notes".parse()?, read);
//! notes.grants.dirs.insert("/drafts".parse()?, write);
//!
//! assert_eq!(DirQuota::default().to_string(), "256MiB");
//! # Ok(())
//! # }
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::error::Diagnostic;
use crate::config::guest_path::GuestPath;
use crate::config::paths::ExistingDirectory;
use crate::config::reader::{Documented, FromNode, FromTable, KeyDocs, Node, Schema, Table};
use crate::config::size::{GIB, KIB, MIB, Size};

/// The maximum size of a directory that a plugin writes to.
pub type DirQuota = Size<{ 4 * KIB }, { 256 * MIB }, { 1024 * GIB }>;

/// A granted directory of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirGrant {
    /// The directory. A config file must name an existing one.
    pub host: PathBuf,
    /// The access mode.
    pub mode: Mode,
}

/// The access mode of a granted directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Read only: `ro`.
    #[default]
    ReadOnly,
    /// Read and write: `rw`.
    ReadWrite {
        /// The maximum size of the directory.
        quota: DirQuota,
    },
}

/// The list of granted directories, with unique guest paths.
pub(super) struct Dirs(pub(super) BTreeMap<GuestPath, DirGrant>);

impl FromNode for Dirs {
    const TYPE_NAME: &'static str = "a list of directories";

    fn example() -> String {
        format!("[{}]", <Dir as FromNode>::example())
    }

    fn schema() -> Schema {
        Schema::list(<Dir as FromNode>::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mut dirs = BTreeMap::new();
        let mut spans = BTreeMap::new();
        for item in node.items::<Dir>()? {
            let Some(Dir { guest, grant }) = Dir::from_node(&item) else { continue };
            let span = item.entry_span("guest");
            if let Some(first) = spans.get(&guest) {
                let message = format!("two directories are granted at the guest path `{guest}`");
                let problem = Diagnostic::new(message, "give each directory a guest path of its own");
                node.context.report(problem.at(span).secondary(Clone::clone(first), "the other one"));
            } else {
                spans.insert(guest.clone(), span);
                dirs.extend(grant.map(|grant| (guest, grant)));
            }
        }
        Some(Self(dirs))
    }
}

/// One entry of the list.
struct Dir {
    guest: GuestPath,
    /// `None` if it is invalid: the guest path is compared with others anyway.
    grant: Option<DirGrant>,
}

impl Documented for Dir {
    const KEY_DOCS: KeyDocs = &[
        (
            "host",
            "The directory, which must exist. Relative to the directory of the config file; `~` is the home directory.",
        ),
        ("guest", "The absolute path at which the provider sees the directory."),
        ("mode", "Access: `ro` (read) or `rw` (read and write). `ro` unless set."),
        ("quota", "With `mode = \"rw\"`: the maximum size of the directory. 256 MiB unless set; 4 KiB to 1 TiB."),
    ];
}

impl FromTable for Dir {
    const TYPE_NAME: &'static str = "a table with `host` and `guest`";

    fn example() -> String {
        format!("{{ host = {}, guest = {} }}", ExistingDirectory::example(), GuestPath::example())
    }

    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let host = table.required::<ExistingDirectory>("host");
        let guest = table.required("guest");
        let mode = table.optional("mode");
        // An invalid mode has been reported, and does not decide whether a quota is allowed.
        let mode = if table.has("mode") { mode } else { Some(ModeName::ReadOnly) };
        let quota = table.optional::<DirQuota>("quota");
        let mode = mode.map(|mode| match mode {
            ModeName::ReadWrite => Mode::ReadWrite { quota: quota.unwrap_or_default() },
            ModeName::ReadOnly => {
                if table.has("quota") {
                    let problem = Diagnostic::new(
                        "a read-only directory has no `quota`",
                        "remove `quota`, or make the directory writable with `mode = \"rw\"`",
                    );
                    table.report(problem.at(table.entry_span("quota")));
                }
                Mode::ReadOnly
            }
        });
        let grant = host.zip(mode).map(|(host, mode)| DirGrant { host: host.0, mode });
        Some(Self { guest: guest?, grant })
    }
}

/// A mode as written.
#[derive(Clone, Copy)]
enum ModeName {
    ReadOnly,
    ReadWrite,
}

impl FromNode for ModeName {
    const TYPE_NAME: &'static str = "a mode";

    fn example() -> String {
        "\"rw\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(["ro", "rw"])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&[("ro", Self::ReadOnly), ("rw", Self::ReadWrite)])
    }
}
