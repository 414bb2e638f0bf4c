//! The administration listener: `[admin]`.
//!
//! | key | meaning |
//! |---|---|
//! | `listen` | the address: an IP address with a port, or `unix:` and the path of a socket; required |
//! | `token` | the bearer token of administrators; required beyond loopback |
//! | `tls` | HTTPS instead of HTTP, with this certificate; required beyond loopback |
//! | `users` | whether clients of `/mcp` may log in to the console, and see their own view |

use std::fmt;
use std::path::PathBuf;

use super::Config;
use super::declare::{table, written_as};
use super::diagnostic::Diagnostic;
use super::http::{HttpAddress, HttpAddressError, Tls};
use super::paths::SocketPath;
use super::reader::{FromNode, FromTable, Node, Schema, Table};
use super::secret::{Secret, SecretSource};
use super::token::TokenDigest;

/// The prefix of the address of a Unix socket.
const UNIX: &str = "unix:";

/// The port in suggestions.
const EXAMPLE_PORT: u16 = 9464;

/// The minimum length of a token, in characters: 128 bits in hexadecimal digits.
const MIN_TOKEN_LEN: usize = 32;

/// The administration listener: `[admin]`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Admin {
    /// The address.
    pub listen: AdminAddress,
    /// The bearer token of administrators.
    pub token: Option<AdminToken>,
    /// The certificate for TLS. Without it the listener uses plain HTTP.
    pub tls: Option<Tls>,
    /// Whether clients with a bearer token that `/mcp` accepts may log in to the console, and see the view of their
    /// principal.
    pub users: bool,
}

/// The address of the administration listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminAddress {
    /// An IP address with a port.
    Tcp(HttpAddress),
    /// A Unix socket at an absolute path.
    Unix(PathBuf),
}

impl Admin {
    /// An administration listener at this address, without a token and TLS.
    pub fn new(listen: AdminAddress) -> Self {
        Self { listen, token: None, tls: None, users: false }
    }
}

impl fmt::Display for AdminAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

impl FromNode for AdminAddress {
    const TYPE_NAME: &'static str = "an IP address with a port, or `unix:` and a path";

    fn example() -> String {
        "\"127.0.0.1:9464\"".into()
    }

    fn schema() -> Schema {
        Schema::any_of([HttpAddress::schema(), Schema::pattern(&format!("^{UNIX}."))])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.string::<Self>()?.strip_prefix(UNIX) {
            Some(path) => SocketPath::read(node, path).map(|SocketPath(path)| Self::Unix(path)),
            None => {
                let written = node.string::<Self>()?;
                let address: Result<HttpAddress, HttpAddressError> = written.parse();
                address
                    .map(Self::Tcp)
                    .inspect_err(|error| node.report_error(error.to_string(), suggestion(node, error)))
                    .ok()
            }
        }
    }
}

/// Returns the suggestion for an invalid address: a Unix socket if the text is a path, or an address with the example
/// port.
fn suggestion(node: &Node<'_>, error: &HttpAddressError) -> String {
    let written = node.string::<AdminAddress>().unwrap_or_default();
    let path = written.strip_prefix("unix").unwrap_or(written).trim_start_matches(':');
    let is_path = path.starts_with(['/', '.']) || path.ends_with(".sock");
    let meant = if is_path { format!("{UNIX}{path}") } else { error.nearest(EXAMPLE_PORT).to_string() };
    format!("write {}", node.assignment_hint(&format!("{meant:?}")))
}

impl Config {
    /// Reports an administration listener with the address of the client listener: only one of them could bind it.
    pub(super) fn report_admin_address(&self, table: &Table<'_>) {
        let listen = self.admin.as_ref().map(|admin| &admin.listen);
        if let (Some(AdminAddress::Tcp(listen)), Some(http)) = (listen, self.server.http)
            && listen.conflicts_with(http)
        {
            let free =
                if http.socket_addr().port() == EXAMPLE_PORT { EXAMPLE_PORT.saturating_add(1) } else { EXAMPLE_PORT };
            let mut other = listen.socket_addr();
            other.set_port(free);
            let message =
                format!("`admin.listen` is an address of the listener of clients, `server.http = \"{http}\"`");
            let help = format!(
                "write another port, `listen = \"{other}\"`, or a Unix socket: `listen = \"{UNIX}/run/mcp-host/admin.sock\"`"
            );
            table.report(Diagnostic::new(message, help).at(table.nested_span("admin", "listen")));
        }
    }
}

/// The bearer token of administrators. The server compares it; the commands for administrators send it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminToken {
    digest: TokenDigest,
    text: Secret<String>,
}

impl AdminToken {
    /// A token with this text.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { digest: TokenDigest::of(&text), text: Secret::new(text) }
    }

    /// Returns whether a text is the token. Digests are compared in constant time.
    pub fn matches(&self, text: &str) -> bool {
        TokenDigest::of(text).matches(&self.digest)
    }

    /// Returns the text of the token.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }
}

written_as! {
    AdminToken as SecretSource, such as "{ file = \"admin.token\" }", |node| {
        let SecretSource(token) = SecretSource::from_node(node)?;
        if token.len() < MIN_TOKEN_LEN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message = format!("`{}` is not {MIN_TOKEN_LEN} or more visible ASCII characters", node.key);
            node.report_machine_error(message, "make a token with `openssl rand -hex 32`");
            return None;
        }
        Some(Self::new(token.as_str()))
    }
}

table! {
    pub(crate) struct AdminKeys {
        /// The address to listen on: an IP address with a port, or `unix:` and the path of a socket.
        #[required]
        listen: AdminAddress,
        /// The bearer token of administrators, at least 32 characters. An address that other machines can reach
        /// requires `token` and `tls`.
        token: Option<AdminToken>,
        /// The certificate for TLS. Without it the listener uses plain HTTP.
        tls: Option<Tls>,
        /// Whether clients with a bearer token that `/mcp` accepts may log in to the console, and see the view of their
        /// principal. `false` unless set.
        users: bool,
    }
}

impl FromTable for Admin {
    type Keys = AdminKeys;

    const TYPE_NAME: &'static str = "a table with `listen`";

    fn example() -> String {
        "{ listen = \"127.0.0.1:9464\" }".into()
    }

    fn from_keys(keys: AdminKeys, table: &Table<'_>) -> Option<Self> {
        let AdminKeys { listen, token, tls, users } = keys;
        match &listen {
            AdminAddress::Tcp(address) if !address.is_loopback() => {
                // An invalid value has been reported already.
                let missing: Vec<_> = [
                    ("token", "`token = { file = \"admin.token\" }`"),
                    ("tls", "`tls = { certificate = \"tls/cert.pem\", key = \"tls/key.pem\" }`"),
                ]
                .into_iter()
                .filter(|(key, _)| !table.has(key))
                .collect();
                if !missing.is_empty() {
                    let (names, fixes): (Vec<_>, Vec<_>) = missing.into_iter().unzip();
                    let message = format!(
                        "`{address}` can be reached from other machines, and `admin` has no {}",
                        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" and no ")
                    );
                    let port = address.socket_addr().port();
                    let help = format!("add {}; or listen on loopback, `127.0.0.1:{port}`", fixes.join(" and "));
                    table.report(Diagnostic::new(message, help).at(table.entry_span("listen")));
                }
            }
            AdminAddress::Unix(_) if table.has("tls") => {
                let help = "remove `tls`: only processes of this machine reach a Unix socket";
                table.report(Diagnostic::new("a Unix socket has no TLS", help).at(table.entry_span("tls")));
            }
            _ => {}
        }
        // An unreadable value has been reported already. Without it the listener would be less protected than
        // configured.
        let is_whole = table.has("token") == token.is_some() && table.has("tls") == tls.is_some();
        is_whole.then_some(Self { listen, token, tls, users })
    }
}
