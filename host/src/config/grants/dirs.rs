//! Directories: `grants.dirs`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::config::error::Problem;
use crate::config::guest::GuestPath;
use crate::config::paths::ExistingDirectory;
use crate::config::reader::{FromNode, Node};

/// A directory of the host that a plugin may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirGrant {
    /// The directory. One that a config file names exists.
    pub host: PathBuf,
    /// What may be done in it.
    pub mode: Mode,
}

/// What may be done in a granted directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Read it: `ro`.
    #[default]
    ReadOnly,
    /// Read and write it: `rw`.
    ReadWrite,
}

/// The list of granted directories, which the file has in any order and once each.
pub(super) struct Dirs(pub(super) BTreeMap<GuestPath, DirGrant>);

impl FromNode for Dirs {
    const WHAT: &'static str = "a list of directories";

    fn example() -> String {
        format!("[{}]", Dir::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mut dirs = BTreeMap::new();
        let mut places = BTreeMap::new();
        for item in node.items::<Dir>()? {
            let Some(Dir { guest, grant }) = Dir::from_node(&item) else { continue };
            let place = item.span_of("guest");
            if let Some(first) = places.get(&guest) {
                let message = format!("two directories are granted at the guest path `{guest}`");
                let problem = Problem::new(message, "give each directory a guest path of its own");
                node.scope.report(problem.at(place).beside(Clone::clone(first), "the other one"));
            } else {
                places.insert(guest.clone(), place);
                dirs.insert(guest, grant);
            }
        }
        Some(Self(dirs))
    }
}

/// One granted directory, as the file has it.
struct Dir {
    guest: GuestPath,
    grant: DirGrant,
}

impl FromNode for Dir {
    const WHAT: &'static str = "a table with `host` and `guest`";

    fn example() -> String {
        format!("{{ host = {}, guest = {} }}", ExistingDirectory::example(), GuestPath::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            let host = table.required::<ExistingDirectory>("host");
            let guest = table.required("guest");
            let mode = table.or_default("mode");
            Some(Self { guest: guest?, grant: DirGrant { host: host?.0, mode } })
        })
    }
}

impl FromNode for Mode {
    const WHAT: &'static str = "a mode";

    fn example() -> String {
        "\"rw\"".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&[("ro", Self::ReadOnly), ("rw", Self::ReadWrite)])
    }
}
