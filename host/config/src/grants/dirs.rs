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
//! A grant covers the directory and everything below it, and nothing else: paths, links and names cannot lead out of it
//! (path traversal). Grants of one plugin may be nested, and each keeps its mode: through a read-only grant, no file
//! can be changed, linked or moved. A quota bounds the total size of *all* files below the directory, including files
//! of other writers.
//!
//! ```
//! use mcp_host_config::grants::{DirGrant, DirQuota, Mode};
//! use mcp_host_config::Plugin;
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
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::declare::{list_type, named_enum, table};
use crate::diagnostic::Diagnostic;
use crate::guest_path::GuestPath;
use crate::paths::ExistingDirectory;
use crate::reader::{FromNode, FromTable, Node, Table};
use crate::size::{GIB, KIB, MIB, Size};

/// The maximum size of a directory that a plugin may write to.
pub type DirQuota = Size<{ 4 * KIB }, { 256 * MIB }, { 1024 * GIB }>;

/// A granted directory of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirGrant {
    /// The directory. In a config file it must exist.
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

list_type! {
    /// The list of granted directories, with unique guest paths.
    pub(super) struct Dirs(BTreeMap<GuestPath, DirGrant>) of Dir as "a list of directories", |node| {
        if let Some(entry) = entry_of(node) {
            node.expected_type_with::<Self>(Some(format!("write {}", node.assignment_hint(&format!("[{entry}]")))));
            return None;
        }
        let dirs: Vec<Dir> = node.unique_list(
            "guest",
            |guest: &GuestPath| format!("two directories are granted at the guest path `{guest}`"),
            "give each directory a guest path of its own",
        )?;
        Some(dirs.into_iter().map(|Dir { guest, grant }| (guest, grant)).collect())
    }
}

/// The entry for a directory given as a string, with a guest path of the same name.
fn entry_of(node: &Node<'_>) -> Option<String> {
    let host = node.value.as_str()?;
    let name = Path::new(host).file_name().and_then(OsStr::to_str).unwrap_or("data");
    let guest = format!("/{name}");
    guest.parse::<GuestPath>().ok()?;
    Some(format!("{{ host = {host:?}, guest = {guest:?} }}"))
}

/// One entry of the list.
struct Dir {
    guest: GuestPath,
    grant: DirGrant,
}

table! {
    pub(crate) struct DirKeys {
        /// The directory, which must exist. A relative path starts at the directory of the config file; `~` is the
        /// home directory.
        #[required]
        #[read(ExistingDirectory)]
        host: Option<PathBuf>,
        /// The absolute path at which the provider sees the directory.
        #[required]
        guest: Option<GuestPath>,
        /// Access: `ro` (read) or `rw` (read and write). `ro` unless set.
        mode: Option<ModeName>,
        /// With `mode = "rw"`: the maximum size of the directory. 256 MiB unless set; 4 KiB to 1 TiB.
        quota: DirQuota,
    }
}

impl FromTable for Dir {
    type Keys = DirKeys;

    const TYPE_NAME: &'static str = "a table with `host` and `guest`";

    fn example() -> String {
        format!("{{ host = {}, guest = {} }}", ExistingDirectory::example(), GuestPath::example())
    }

    fn advice(node: &Node<'_>) -> Option<String> {
        Some(format!("write `{}`", entry_of(node)?))
    }

    fn from_keys(keys: DirKeys, table: &Table<'_>) -> Option<Self> {
        // An invalid mode has been reported already, and does not affect whether a quota is allowed.
        let mode = if table.has("mode") { keys.mode? } else { ModeName::ReadOnly };
        let mode = match mode {
            ModeName::ReadWrite => Mode::ReadWrite { quota: keys.quota },
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
        };
        Some(Self { guest: keys.guest?, grant: DirGrant { host: keys.host?, mode } })
    }
}

named_enum! {
    /// A mode in the config.
    enum ModeName as "a mode", such as "\"rw\"" {
        /// Read.
        ReadOnly = "ro",
        /// Read and write.
        ReadWrite = "rw",
    }
}
