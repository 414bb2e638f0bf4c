//! An existing MCP server that is mounted like a plugin, `[[upstream]]`, as it is read by [`upstream_entry`](super::upstream_entry).
//!
//! Two kinds of mounts:
//!
//! | `mount` | `prefix` | the upstream's `file:///srv/a.md` is |
//! |---|---|---|
//! | `nas+` | not set | `nas+file:///srv/a.md`: the mount is in front of every URI |
//! | `files://nas/` | `file:///srv/` | `files://nas/a.md`: the prefix is exchanged; URIs that do not begin with it are dropped |

mod auth;
mod command;
mod fetched;

use std::fmt;

use mcp_host_model::uri::{Mount, canonical, file_authority, is_requestable};

use super::declare::named_enum;
use super::endpoint_url::EndpointUrl;
use super::grants::{CredentialValue, OAuth};
use super::secret::Secret;

pub(crate) use self::auth::Authentication;
pub use self::auth::{IdentityToken, TokenExchange, TokenHolder};
pub use self::command::UpstreamCommand;
pub use self::fetched::FetchedProgram;

/// An existing MCP server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Upstream {
    /// Where it is.
    pub source: UpstreamSource,
    /// The beginning of its URIs that the mount replaces; none if the mount is in front of whole URIs.
    pub prefix: Option<Mount>,
    /// The value of the header `Authorization`. None unless set.
    pub authorization: Option<Secret<CredentialValue>>,
    /// The tokens of principals and groups, in the order of the config. If there are some, each of them is an identity of its own at the
    /// server, whose answers nobody else gets.
    pub identities: Vec<IdentityToken>,
    /// Where access tokens for `Authorization` come from.
    pub oauth: Option<Box<OAuth>>,
    /// How the access token of a client is exchanged for one of the server. Then each user is an identity of its own, too.
    pub exchange: Option<Box<TokenExchange>>,
    /// Who shares what the server answers, where all have the same credentials.
    pub views: Views,
    /// Whether resources are read again to detect changes, where the server cannot notify of them.
    pub poll: bool,
}

impl Upstream {
    /// The URI of the server that a path below `mount` stands for.
    pub fn uri_of(&self, path: &str) -> String {
        match &self.prefix {
            None => path.to_owned(),
            Some(prefix) => [&canonical(prefix.as_str()), path].concat(),
        }
    }

    /// Returns the path below `mount` that the resource of a path is served at: in [canonical form](canonical). None if no resource is.
    pub fn canonical_path(&self, mount: &Mount, path: &str) -> Option<String> {
        let uri = self.uri_of(path);
        let form = canonical(&uri);
        let path = match &self.prefix {
            None => &*form,
            Some(prefix) => form.strip_prefix(&*canonical(prefix.as_str()))?,
        };
        mount.compose(path).ok().map(|composed| composed.path.into())
    }

    /// Returns whether the server is asked for a path in canonical form that it did not list.
    pub fn is_requestable(&self, path: &str) -> bool {
        let authority = self.prefix.as_ref().map_or("", |prefix| file_authority(prefix.as_str()));
        is_requestable(&self.uri_of(path), authority)
    }
}

/// Where an upstream is. Shown without the query of a URL, which may hold a key, and without the arguments of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamSource {
    /// A server that speaks streamable HTTP.
    Url(EndpointUrl),
    /// A program that is started, and speaks over its standard input and output.
    Command(UpstreamCommand),
}

impl fmt::Display for UpstreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => f.write_str(&url.without_query()),
            Self::Command(command) => command.program.display().fmt(f),
        }
    }
}

named_enum! {
    /// Who shares what a server answers.
    #[non_exhaustive]
    pub enum Views as "who shares answers", such as "\"principal\"", default Shared {
        /// All that may see it: it is cached, indexed and watched for all of them.
        Shared = "shared",
        /// Nobody: each principal has a connection of its own, or a program.
        Principal = "principal",
    }
}

named_enum! {
    /// What confines a program.
    #[non_exhaustive]
    pub enum SandboxMode as "a sandbox", such as "\"none\"", default Full {
        /// Namespaces as far as the kernel permits them, Landlock and seccomp: it may use what it is granted.
        Full = "full",
        /// Nothing: it may do everything that the user of the host may do.
        None = "none",
    }
}
