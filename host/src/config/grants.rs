//! What of the outside world a plugin may use. Nothing is granted by default.

use std::collections::BTreeMap;
use std::path::PathBuf;

use toml::de::DeValue;

use super::error::{Advice, Problem};
use super::guest::{EnvName, GuestPath};
use super::paths::ExistingDirectory;
use super::reader::{FromNode, Node};
use super::secret::{Elsewhere, Secret};

/// What a plugin may use: `grants` of a `[[plugin]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grants {
    /// Directories of the host, by the path at which the provider sees them.
    pub dirs: BTreeMap<GuestPath, DirGrant>,
    /// Variables that the provider sees, with their values. It sees none of the host's own.
    pub env: BTreeMap<EnvName, Secret<String>>,
}

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

impl FromNode for Grants {
    const WHAT: &'static str = "a table of grants";

    fn example() -> String {
        format!("{{ dirs = {} }}", Dirs::example())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.table(|table| {
            Some(Self {
                dirs: table.optional("dirs").map(|Dirs(dirs)| dirs).unwrap_or_default(),
                env: table.optional("env").map(|Env(env)| env).unwrap_or_default(),
            })
        })
    }
}

/// The list of granted directories, which the file has in any order and once each.
struct Dirs(BTreeMap<GuestPath, DirGrant>);

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

/// The table of granted variables.
struct Env(BTreeMap<EnvName, Secret<String>>);

impl FromNode for Env {
    const WHAT: &'static str = "a table of variables";

    fn example() -> String {
        "{ LANG = \"ja\", TOKEN = { env = \"MY_TOKEN\" } }".into()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let variables = node.entries::<Self>()?.into_iter().filter_map(|entry| {
            let name = match entry.key.parse::<EnvName>() {
                Ok(name) => Some(name),
                Err(error) => {
                    let problem = Problem::new(error.to_string(), error.advice(entry.key));
                    node.scope.report(problem.at(entry.key_span.clone()));
                    None
                }
            };
            let value = EnvValue::from_node(&entry);
            Some((name?, value?.0))
        });
        Some(Self(variables.collect()))
    }
}

/// The value of a granted variable, wherever it stands.
struct EnvValue(Secret<String>);

impl FromNode for EnvValue {
    const WHAT: &'static str = "a string, or a table with `env` or `file`";

    fn example() -> String {
        Elsewhere::example()
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let value = match node.value {
            DeValue::Table(_) => Elsewhere::from_node(node)?.0,
            DeValue::Integer(_) | DeValue::Float(_) | DeValue::Boolean(_) => {
                let help = format!("put it in quotes: {}", node.assign(&format!("\"{}\"", node.written())));
                node.problem("the value of a variable is text", help);
                return None;
            }
            _ => node.string::<Self>()?.to_owned(),
        };
        if value.contains('\0') {
            node.problem("the value of a variable cannot hold a NUL", "take the NUL out");
            return None;
        }
        Some(Self(Secret::new(value)))
    }
}
