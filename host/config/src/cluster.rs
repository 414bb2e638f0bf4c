//! The cluster of which this host is a replica: `[cluster]`.
//!
//! | key | meaning |
//! |---|---|
//! | `name` | the name of the cluster: replicas with the same name share their polls; required |
//! | `nats` | the NATS servers, `tls://` or, on this machine, `nats://`; required |
//! | `credentials` | a token, or `USER:PASSWORD`, from a variable or a file |
//! | `ca` | a PEM file of certificate authorities that are trusted for the servers |
//! | `lease` | the time within which another replica takes over the polling for all |
//! | `max-replicas` | the maximum number of replicas by which the rates of clients are divided |
//! | `sessions` | whether any replica can continue a session, or only the one that opened it |
//!
//! `polling` of a `[[plugin]]` selects the plugins that share their polls, `shared = true` in `grants.keyvalue` the
//! buckets that replicas share, and `shared = true` in `[search]` the indexes of plugins with shared polls.

use std::fmt;
use std::str::FromStr;

use mcp_host_model::net::Origin;

use super::Config;
use super::count::Count;
use super::declare::{checked_text, list_type, named_enum, table, written_as};
use super::diagnostic::{Diagnostic, Suggest, quote};
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::grants::CaBundle;
use super::reader::{FromNode, Node, Schema, Table};
use super::secret::{Secret, SecretSource};

/// The maximum number of servers.
const MAX_SERVERS: usize = 16;
/// The maximum length of a server's URL, in bytes.
const MAX_URL_LEN: usize = 512;
/// The port of NATS.
const PORT: u16 = 4222;

/// The time within which another replica takes over the polling for all. 10 s unless set; 2 s to 5 min.
pub type Lease = BoundedDuration<{ 2 * SECOND }, { 10 * SECOND }, { 5 * MINUTE }>;

/// The maximum number of replicas by which the rates of clients are divided. 32 unless set; 1 to 1024.
pub type MaxReplicas = Count<1, 32, 1024>;

table! {
    /// The cluster of which this host is a replica: `[cluster]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Cluster as "a table with `name` and `nats`",
    such as "{ name = \"prod\", nats = [\"tls://n1.example:4222\"] }" {
        /// The name of the cluster. Replicas with the same name share their polls.
        #[required]
        pub name: ClusterName,
        /// The NATS servers with JetStream, 1 to 16: `tls://`, or `nats://` on this machine.
        #[required]
        #[read(NatsServers)]
        pub nats: Vec<NatsUrl>,
        /// The credentials for the servers: a token, or `USER:PASSWORD`, from a variable or a file. None unless set.
        pub credentials: Option<NatsCredentials>,
        /// A PEM file of certificate authorities that are trusted for the servers, instead of the machine's own.
        pub ca: Option<CaBundle>,
        /// The time within which another replica replaces the one that polls for all. 10 s unless set; 2 s to 5 min.
        pub lease: Lease,
        /// The maximum number of live replicas by which the rates of clients are divided. 32 unless set; 1 to 1024.
        pub max_replicas: MaxReplicas,
        /// The replicas that serve a session of the revisions up to 2025-11-25: `"sticky"`, the one that opened the
        /// session, or `"shared"`, any replica. `"sticky"` unless set.
        pub sessions: SessionPlace,
    }
}

impl Cluster {
    /// A cluster with this name and these servers, with defaults.
    pub fn new(name: ClusterName, nats: impl IntoIterator<Item = NatsUrl>) -> Self {
        Self::with_defaults(name, nats.into_iter().collect())
    }
}

checked_text! {
    /// The name of a cluster: at most 32 of `a-z`, `0-9`, `-` and `_`.
    pub struct ClusterName, ClusterNameError as "the name of a cluster", such as "\"prod\"",
    schema Schema::pattern("^[a-z0-9_-]{1,32}$"),
    valid if |text| {
        let is_name_character = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        (1..=32).contains(&text.len()) && text.bytes().all(is_name_character)
    },
    otherwise "write at most 32 of a-z, 0-9, `-` and `_`, such as `name = \"prod\"`"
}

/// The URL of a NATS server: encrypted, `tls://…`, or on this machine, `nats://` with `localhost` or a loopback
/// address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsUrl(String);

/// The reason why a text is not a [`NatsUrl`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NatsUrlError {
    /// The text is not `tls://` or `nats://` with a host and, optionally, a port.
    #[error("{} is not the URL of a NATS server", quote(.0))]
    Syntax(String),
    /// The URL has a user name, a password or a token. The error does not show the text.
    #[error("the URL has credentials")]
    UserInfo,
    /// The URL is not encrypted, and its host is another machine.
    #[error("the URL {} is not encrypted", quote(.0))]
    NotEncrypted(String),
}

impl NatsUrl {
    /// Returns the URL, with its port.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NatsUrl {
    type Err = NatsUrlError;

    fn from_str(text: &str) -> Result<Self, NatsUrlError> {
        let syntax = || NatsUrlError::Syntax(text.to_owned());
        if text.contains('@') {
            return Err(NatsUrlError::UserInfo);
        }
        let (scheme, authority) = text.split_once("://").filter(|_| text.len() <= MAX_URL_LEN).ok_or_else(syntax)?;
        let is_encrypted = match scheme {
            "tls" => true,
            "nats" => false,
            _ => return Err(syntax()),
        };
        // Host and port have the usual syntax of URLs; only the default port differs.
        let origin: Origin = format!("https://{authority}").parse().map_err(|_| syntax())?;
        let is_ported = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let port = if is_ported { origin.port() } else { PORT };
        if !is_encrypted && !origin.host().is_loopback() {
            return Err(NatsUrlError::NotEncrypted(text.to_owned()));
        }
        Ok(Self(format!("{scheme}://{}:{port}", origin.host())))
    }
}

impl fmt::Display for NatsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Suggest for NatsUrlError {
    fn suggestion(&self, _: &str) -> String {
        match self {
            Self::Syntax(_) => format!("write a URL such as `\"tls://n1.example:{PORT}\"`"),
            Self::UserInfo => {
                "remove it up to the `@`, and write `credentials = { file = \"nats.credentials\" }`".to_owned()
            }
            Self::NotEncrypted(_) => "write `tls://`; `nats://` is for `localhost` and loopback addresses".to_owned(),
        }
    }
}

impl FromNode for NatsUrl {
    const TYPE_NAME: &'static str = "the URL of a NATS server";

    fn example() -> String {
        format!("\"tls://n1.example:{PORT}\"")
    }

    fn schema() -> Schema {
        Schema::pattern(r"^(tls|nats)://[^@/?#\s]+$").with("maxLength", MAX_URL_LEN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.string::<Self>()?.parse() {
            Ok(url) => Some(url),
            Err(error @ NatsUrlError::UserInfo) => {
                node.reject_secret(&error);
                None
            }
            Err(error) => {
                node.reject(&error);
                None
            }
        }
    }
}

list_type! {
    /// The servers, at least one.
    struct NatsServers(Vec<NatsUrl>) of NatsUrl as "a list of NATS servers", |node| {
        let servers = node.items::<NatsUrl>()?;
        if servers.is_empty() || servers.len() > MAX_SERVERS {
            let message = format!("`{}` has {} servers, and 1 to {MAX_SERVERS} are allowed", node.key, servers.len());
            node.report_error(message, format!("write `{} = [{}]`", node.key, NatsUrl::example()));
            return None;
        }
        Some(servers.iter().filter_map(NatsUrl::from_node).collect())
    }
}

/// The credentials for NATS servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsCredentials {
    /// A token.
    Token(Secret<String>),
    /// The name of a user, and a password.
    Password(String, Secret<String>),
}

written_as! {
    NatsCredentials as SecretSource, such as "{ file = \"nats.credentials\" }", |node| {
        let text = SecretSource::from_node(node)?.0;
        let text = text.trim();
        if text.is_empty() || text.chars().any(char::is_control) {
            let message = format!("`{}` is neither a token nor `USER:PASSWORD`", node.key);
            node.report_machine_error(message, "write one line. A file with a JWT and an NKey is not supported");
            return None;
        }
        Some(match text.split_once(':') {
            Some((user, password)) => Self::Password(user.to_owned(), Secret::new(password.to_owned())),
            None => Self::Token(Secret::new(text.to_owned())),
        })
    }
}

named_enum! {
    /// Which replica of a cluster polls the provider of a plugin for changes.
    pub enum Polling as "who polls", such as "\"shared\"" {
        /// Each replica polls for itself.
        Each = "each",
        /// One replica polls for all.
        Shared = "shared",
    }
}

named_enum! {
    /// Which replica of a cluster serves a session of the revisions up to 2025-11-25.
    pub enum SessionPlace as "where sessions are", such as "\"shared\"", default Sticky {
        /// The replica that opened it.
        Sticky = "sticky",
        /// Any replica: the session's state is kept in NATS.
        Shared = "shared",
    }
}

impl Config {
    /// Reports a replica without the key that replicas share to continue each other's listings.
    pub(super) fn report_cluster(&self, table: &Table<'_>) {
        if self.cluster.is_some() && self.server.cursor_key.is_empty() && !table.has_nested("server", "cursor-key") {
            let message = "`cluster` requires `server.cursor-key`: clients continue a listing at any replica";
            let help = "make a key with `openssl rand -base64 32`, give it to all replicas, and write its source: \
                        `cursor-key = { env = \"MCP_HOST_CURSOR_KEY\" }` in `[server]`";
            table.report(Diagnostic::new(message, help).at(table.entry_span("cluster")));
        }
        self.report_shared_buckets(table);
        self.report_shared_search(table);
    }

    /// Reports shared buckets in a config without a cluster.
    fn report_shared_buckets(&self, table: &Table<'_>) {
        // A section with mistakes has been reported. If no table has problems, the list is complete and in the order of
        // the file.
        if self.cluster.is_some() || table.has("cluster") || table.has_problems() {
            return;
        }
        for (index, plugin) in self.plugins.iter().filter(|plugin| plugin.upstream.is_none()).enumerate() {
            for (name, _) in plugin.grants.keyvalue.iter().filter(|(_, grant)| grant.shared) {
                let message = format!(
                    "the bucket `{name}` of plugin `{}` is shared, and this config has no `[cluster]`",
                    plugin.name
                );
                let help = "add `[cluster]` with the NATS servers that keep shared buckets, or remove `shared = true` to keep the bucket on \
                            the disk of this host";
                let span = table.nested_span_of_element("plugin", index, &["grants", "keyvalue"]);
                table.report(Diagnostic::new(message, help).at(span));
            }
        }
    }

    /// Reports a shared search index in a config without a cluster, or without search.
    fn report_shared_search(&self, table: &Table<'_>) {
        if !self.search.as_ref().is_some_and(|search| search.shared) || table.has_problems() {
            return;
        }
        let (message, help) = if self.cluster.is_none() {
            let help = "add `[cluster]` with the NATS servers that keep snapshots of the index, or remove `shared = true`: each host then \
                        builds its own index";
            ("`search.shared` is true, and this config has no `[cluster]`", help)
        } else if !self.has_search() {
            let help = "add `search = {}` to a [[plugin]] or an [[upstream]], or remove `shared = true`";
            ("`search.shared` is true, and no plugin is searched", help)
        } else {
            return;
        };
        table.report(Diagnostic::new(message, help).at(table.nested_span("search", "shared")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_stays_on_this_machine_and_has_a_port() {
        for (text, url) in [
            ("tls://n1.example", "tls://n1.example:4222"),
            ("tls://N1.example:443", "tls://n1.example:443"),
            ("nats://127.0.0.1:5222", "nats://127.0.0.1:5222"),
            ("nats://localhost", "nats://localhost:4222"),
            ("nats://[::1]", "nats://[::1]:4222"),
        ] {
            assert_eq!(text.parse::<NatsUrl>().unwrap().as_str(), url);
        }
        for text in ["", "n1.example", "https://n1.example", "tls://", "tls://a/b", "tls://a b", "tls://a:x"] {
            assert_eq!(text.parse::<NatsUrl>(), Err(NatsUrlError::Syntax(text.to_owned())), "{text}");
        }
        assert_eq!("tls://me:hunter2@n1.example".parse::<NatsUrl>(), Err(NatsUrlError::UserInfo));
        assert!(matches!("nats://n1.example".parse::<NatsUrl>(), Err(NatsUrlError::NotEncrypted(_))));
    }
}
