//! An existing MCP server that is mounted like a plugin, `[[upstream]]`, as [`upstream_entry`](super::upstream_entry)
//! reads it.
//!
//! Two kinds of mounts:
//!
//! | `mount` | `prefix` | the upstream's `file:///srv/a.md` is |
//! |---|---|---|
//! | `nas+` | not set | `nas+file:///srv/a.md`: the mount precedes every URI |
//! | `files://nas/` | `file:///srv/` | `files://nas/a.md`: the mount replaces the prefix; URIs without the prefix are dropped |

mod auth;
mod command;
mod fetched;
mod hidden;

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
    /// The place of the server.
    pub source: UpstreamSource,
    /// The prefix of its URIs that the mount replaces; `None` if the mount precedes whole URIs.
    pub prefix: Option<Mount>,
    /// The value of the header `Authorization`. None unless set.
    pub authorization: Option<Secret<CredentialValue>>,
    /// The tokens of principals and groups, in the order of the config. Each is a separate identity at the server, and
    /// responses are not shared between identities.
    pub identities: Vec<IdentityToken>,
    /// The source of access tokens for `Authorization`.
    pub oauth: Option<Box<OAuth>>,
    /// The exchange of a client's access token for a token of the server. Each user is then a separate identity, too.
    pub exchange: Option<Box<TokenExchange>>,
    /// Which principals share the server's responses, if all use the same credentials.
    pub views: Views,
    /// Whether resources are polled to detect changes, for a server that cannot notify of changes.
    pub poll: bool,
}

impl Upstream {
    /// The server's URI for a path below `mount`.
    pub fn uri_of(&self, path: &str) -> String {
        match &self.prefix {
            None => path.to_owned(),
            Some(prefix) => [&canonical(prefix.as_str()), path].concat(),
        }
    }

    /// Returns the canonical path ([`canonical`]) below `mount` of the resource at a path. `None` if no resource is
    /// served there.
    pub fn canonical_path(&self, mount: &Mount, path: &str) -> Option<String> {
        let uri = self.uri_of(path);
        let form = canonical(&uri);
        let path = match &self.prefix {
            None => &*form,
            Some(prefix) => form.strip_prefix(&*canonical(prefix.as_str()))?,
        };
        mount.compose(path).ok().map(|composed| composed.path.into())
    }

    /// Returns whether the host may request a path in canonical form that the server did not list.
    pub fn is_requestable(&self, path: &str) -> bool {
        let authority = self.prefix.as_ref().map_or("", |prefix| file_authority(prefix.as_str()));
        is_requestable(&self.uri_of(path), authority)
    }
}

/// The place of an upstream. `Display` omits the query of a URL, which may hold a key, and the arguments of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamSource {
    /// A server with the streamable HTTP transport.
    Url(EndpointUrl),
    /// A program that the host starts, with the stdio transport.
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
    /// Which principals share the responses of a server.
    #[non_exhaustive]
    pub enum Views as "who shares answers", such as "\"principal\"", default Shared {
        /// All principals with access: responses are cached, indexed and watched for all of them.
        Shared = "shared",
        /// No principals: each has its own connection or program.
        Principal = "principal",
    }
}

named_enum! {
    /// The confinement of a program.
    #[non_exhaustive]
    pub enum SandboxMode as "a sandbox", such as "\"none\"", default Full {
        /// Namespaces if the kernel permits them, Landlock and seccomp: the program has access only to its grants.
        Full = "full",
        /// None: the program may do everything that the user of the host may do.
        None = "none",
    }
}
