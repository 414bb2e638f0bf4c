//! The HTTP server: `[http]`. Its address is `http` of `[server]`, or `--http` on the command line.
//!
//! | key | meaning |
//! |---|---|
//! | `tls` | HTTPS instead of HTTP, with this certificate |
//! | `public-url` | the URL of this server for clients; the audience of access tokens |
//! | `client-ca` | authorities of client certificates (mTLS) |
//! | `insecure` | listen beyond loopback without authentication or without TLS |
//! | `hosts` | additional host names of the server, such as the name of a reverse proxy, for validation of `Host` |
//! | `cors` | additional origins of web pages that may send requests and read the responses (CORS) |
//! | `keep-alive` | the interval of keep-alive comments on idle event streams |
//! | `limits` | resource limits of clients |
//!
//! After a reload all keys apply to new connections and requests, except `keep-alive` and whether TLS is used.

mod address;
mod client_ca;
pub mod limits;
mod share;
mod tls;

pub use self::address::{HttpAddress, HttpAddressError};
pub use self::client_ca::{CertificateName, ClientAuthority};
pub use self::limits::HttpServerLimits;
pub use self::share::{ClientShare, PrincipalShare, Share, ShareError};
pub use self::tls::{Tls, TlsError};

use mcp_host_model::net::{OriginError, OriginPattern, UrlHost};

use self::client_ca::ClientAuthorities;
use super::declare::{table, written_as};
use super::diagnostic::{Diagnostic, quote};
use super::duration::{BoundedDuration, MINUTE, SECOND};
use super::endpoint_url::{EndpointUrl, IdentifierUrl};
use super::reader::{FromNode, FromTable, Node, Schema, Table};

/// The path of the MCP endpoint.
pub const ENDPOINT_PATH: &str = "/mcp";

/// The interval of keep-alive comments on idle event streams. 15 s unless set; 100 ms to 10 min.
pub type KeepAlive = BoundedDuration<100, { 15 * SECOND }, { 10 * MINUTE }>;

table! {
    /// The HTTP server: `[http]`.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    #[non_exhaustive]
    pub struct Http {
        /// The certificate for TLS. Without it the server uses plain HTTP.
        pub tls: Option<Tls>,
        /// Authorities of client certificates (mTLS). Requires `tls`. None unless set: no certificate is requested.
        #[read(ClientAuthorities)]
        pub client_ca: Vec<ClientAuthority>,
        /// The URL of the endpoint for clients, such as `https://mcp.example.com/mcp`: the canonical URI of this
        /// server, and the audience of access tokens (RFC 8707). Required by `[[issuer]]`. Its host counts as one of
        /// `hosts`.
        #[read(IdentifierUrl)]
        pub public_url: Option<EndpointUrl>,
        /// Whether the server may listen beyond loopback although it has no authentication or no TLS. `false` unless
        /// set.
        pub insecure: bool,
        /// Host names that clients may use for the server (`Host`), with any port, in addition to `localhost`, loopback
        /// addresses, the listening address, and the host of `public-url`. None unless set.
        pub hosts: Vec<UrlHost>,
        /// Origins of web pages that may send requests and read the responses (CORS). None unless set.
        #[read_each(CorsOrigin)]
        pub cors: Vec<OriginPattern>,
        /// The interval of keep-alive comments on idle event streams. 15 s unless set; 100 ms to 10 min.
        pub keep_alive: KeepAlive,
        /// Resource limits of clients.
        pub limits: HttpServerLimits,
    }
}

impl FromTable for Http {
    type Keys = Self;

    const TYPE_NAME: &'static str = "a table";

    fn example() -> String {
        "{ tls = { certificate = \"tls/cert.pem\", key = \"tls/key.pem\" } }".into()
    }

    fn from_keys(keys: Self, table: &Table<'_>) -> Option<Self> {
        if !keys.client_ca.is_empty() && !table.has("tls") {
            let help = "add `tls = { certificate = \"tls/cert.pem\", key = \"tls/key.pem\" }`: client certificates are part of TLS";
            table.report_error("`http` has `client-ca` without `tls`", help);
        }
        Some(keys)
    }
}

/// An origin of web pages.
struct CorsOrigin(OriginPattern);

impl FromNode for UrlHost {
    const TYPE_NAME: &'static str = "the name of a host";

    fn example() -> String {
        "\"mcp.example.com\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[^/?#@\\*]+$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if let Ok(host) = written.parse() {
            return Some(host);
        }
        let help = format!(
            "write what stands between `//` and the port in the URL that clients are given: {}",
            node.assignment_hint(&Self::example())
        );
        node.report_error(format!("{} is neither the name nor the address of a host", quote(written)), help);
        None
    }
}

written_as! {
    CorsOrigin as OriginPattern, such as "\"https://app.example.com\"", |node| {
        if node.value.as_str() == Some("*") {
            let help = format!("name the origins of the pages: {}", node.assignment_hint(&Self::example()));
            node.report_error("`*` would allow every web page that is opened on this machine to read everything", help);
            return None;
        }
        let error = match node.string::<Self>()?.parse() {
            Ok(origin) => return Some(Self(origin)),
            Err(error) => error,
        };
        let help = format!(
            "write scheme and host as browsers send them in `Origin`, and the port if it is not the usual one: {}",
            node.assignment_hint(&Self::example())
        );
        let problem = Diagnostic::new(OriginError::to_string(&error), help).at(node.span.clone());
        // The text before an `@` is often a password.
        node.context.report(if matches!(error, OriginError::UserInfo) { problem.redacted() } else { problem });
        None
    }
}
