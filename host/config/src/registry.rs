//! Components from registries: their sources, the trusted signers, and the agreed capabilities.
//!
//! | module | subject |
//! |---|---|
//! | `reference`, [`Reference`] | `oci://HOST/REPOSITORY:VERSION`, the value of `component` of a `[[plugin]]` |
//! | `lock`, [`Lock`] | `mcp-host.lock` beside the config: the resolved, verified and agreed component of each reference |
//! | `trust`, [`Trust`] | `[[trust]]`: the required signers for components from a source |
//! | `identity`, [`Identity`] | keyless signers of a `[[trust]]`, and the provenance that it requires |
//! | `mirror`, [`Mirror`] | another place for the components of a source: a registry, or a directory |
//! | `source` | `component = "oci://…"`: resolved by the lock and the store, never through the network |

pub(crate) mod identity;
pub(super) mod lock;
mod mirror;
mod reference;
pub(crate) mod source;
pub(crate) mod trust;

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::declare::{checked_text, table, written_as};
use super::diagnostic::Suggest;
use super::grants::CaBundle;
use super::paths::CreatableDirectory;
use super::reader::{FromNode, Node, Schema};

pub use self::identity::{Identity, Issuer, IssuerError, Provenance, SubjectPattern, SubjectPatternError, TrustedRoot};
pub use self::lock::{Lock, LockError, LockedComponent, LockedIdentity, LockedProvenance, LockedSbom, LockedSigner};
pub use self::mirror::{Layout, Mirror};
pub use self::reference::{Reference, ReferenceError, Repository, RepositoryError, SCHEME, Selector};
pub use self::source::{lock_file, store_file};
pub use self::trust::{
    KeyAlgorithm, MinimumSignatures, PublicKey, PublicKeyError, Source, SourceError, Trust, TrustedKey,
};

/// The maximum number of mirrors of a source.
const MAX_MIRRORS: usize = 16;

table! {
    /// The registries of components, and the store of verified components: `[registry]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Registry as "a table", such as "{ store = \"components\" }" {
        /// The directory of verified components. `components` in the state directory unless set.
        #[read(Store)]
        pub store: Option<PathBuf>,
        /// PEM files of certificate authorities that are trusted for registries, in addition to the machine's own.
        pub ca: Vec<CaBundle>,
        /// Mirrors: registries, and directories with an OCI image layout, that the host requests before the registry
        /// that a component names:
        /// `{ "registry.example.com/acme" = ["mirror.example.net/acme", "layout:/media/usb"] }`. Components from
        /// mirrors are verified like all others.
        #[read(Mirrors)]
        pub mirrors: BTreeMap<Repository, Vec<Mirror>>,
        /// The names of registries that may resolve to private addresses. None unless set: a name must resolve to
        /// public addresses.
        pub private: Vec<RegistryName>,
    }
}

impl Default for Registry {
    fn default() -> Self {
        Self::with_defaults()
    }
}

checked_text! {
    /// The name of a registry, with or without a port: `registry.corp.example:5000`.
    pub struct RegistryName, RegistryNameError as "the name of a registry", such as "\"registry.corp.example\"",
    schema Schema::pattern(r"^[A-Za-z0-9.\[\]:-]+$"),
    valid if reference::is_registry,
    otherwise "write the host, and the port if the reference has one, such as `private = [\"registry.corp.example\"]`"
}

/// The directory of the store, for components of later keys.
struct Store(PathBuf);

written_as! {
    Store as CreatableDirectory, such as "\"components\"", |node| {
        let CreatableDirectory(path) = CreatableDirectory::from_node(node)?;
        node.context.declared.borrow_mut().store = Some(path.clone());
        Some(Self(path))
    }
}

/// The state directory, which contains the store by default.
pub(super) struct StateDirectory(pub(super) PathBuf);

written_as! {
    StateDirectory as CreatableDirectory, |node| {
        let CreatableDirectory(path) = CreatableDirectory::from_node(node)?;
        node.context.declared.borrow_mut().state = Some(path.clone());
        Some(Self(path))
    }
}

impl Suggest for RepositoryError {
    fn suggestion(&self, _: &str) -> String {
        "write a registry and the beginning of a repository, without a scheme: `registry.example.com/acme`".to_owned()
    }
}

/// Mirrors by source prefix.
#[derive(Default)]
struct Mirrors(BTreeMap<Repository, Vec<Mirror>>);

impl FromNode for Mirrors {
    const TYPE_NAME: &'static str = "a table of mirrors";

    fn example() -> String {
        "{ \"registry.example.com/acme\" = [\"mirror.example.net/acme\"] }".into()
    }

    fn schema() -> Schema {
        Schema::map(Schema::string(), Schema::list(Mirror::schema()))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let mut mirrors = BTreeMap::new();
        for entry in node.entries::<Self>()? {
            let Some(prefix) = entry.parse_key::<Repository>() else { continue };
            let items = entry.items::<Mirror>()?;
            if items.len() > MAX_MIRRORS {
                entry.report_error(format!("a source has at most {MAX_MIRRORS} mirrors"), "remove some");
                continue;
            }
            mirrors.insert(prefix, items.iter().filter_map(Mirror::from_node).collect());
        }
        Some(Self(mirrors))
    }
}
