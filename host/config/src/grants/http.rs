//! Web servers: `grants.http`.
//!
//! An allowlist of origins to which the plugin may send requests. It is empty by default: every request is denied.
//!
//! | entry | grants |
//! |---|---|
//! | `"https://docs.rs"` | this host, over TLS, at port 443 |
//! | `"https://docs.rs:8443"` | the same host at another port, and at no other |
//! | `"https://*.example.com"` | every host below `example.com`, at any depth: `a.example.com`, `a.b.example.com`; not `example.com` itself |
//! | `"http://docs.rs"` | this host without TLS, at port 80: requests and responses can be read and modified in transit |
//! | `"https://127.0.0.1:8080"`, `"https://[::1]"` | this address, public or not |
//! | `{ origin = "https://api.example.com", … }` | the origin, with the keys below |
//!
//! | key in addition to `origin` | meaning |
//! |---|---|
//! | `headers-from` | headers that the host adds to each request to the origin, from a [variable or a file](super::super::Secret). The provider never sees them, and its own headers with the same names are dropped |
//! | `oauth` | a source of access tokens, which the host adds as `Authorization: Bearer …`: the key of a service account, a refresh token, or client credentials ([`OAuth`]). Only for `https`, and for `http` to `localhost` or a loopback address |
//! | `ca` | a PEM file of certificate authorities that are trusted for the origin, in addition to the machine's own. Only for `https` |
//!
//! **Grammar.** `("https" | "http") "://" ["*."] host [":" port]`. Scheme and host are converted to lower case; an
//! internationalized host is converted to its ASCII form (IDNA); one dot at its end is dropped. A port is 1 to 65535.
//! There is no path, query, fragment or user information: an origin is granted as a whole. A wildcard stands for one or
//! more whole labels at the beginning, before at least two labels.
//!
//! **Matching.** Scheme, host and port must all be equal; the wildcard matches one or more labels. If several entries
//! match a request, only the most specific one applies: an exact host before any wildcard, then the longest wildcard.
//! No two entries may be equal. An address matches only the same address, never a name that resolves to it. A name
//! never reaches a non-public address (loopback, private, link-local and similar), even if it resolves to one: this
//! prevents DNS rebinding.
//!
//! **Credentials** are sent to the origin of their entry and nowhere else, not even to the target of a redirect. A
//! header that affects message framing or routing (`Host`, `Content-Length`, `Connection`, …) cannot be a credential.
//!
//! ```
//! use mcp_host_config::grants::{HttpGrant, HttpGrants};
//! use mcp_host_config::{Plugin, Secret};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut web = Plugin::new("web".parse()?, "http-cache.wasm", "web://".parse()?);
//! assert!(web.grants.http.grant_for(&"https://docs.rs".parse()?).is_none());
//!
//! web.grants.http.add(HttpGrant::new("https://*.example.com".parse()?))?;
//! let mut api = HttpGrant::new("https://api.example.com".parse()?);
//! api.headers.insert("Authorization".parse()?, Secret::new("Bearer hunter2".parse()?));
//! web.grants.http.add(api)?;
//!
//! let grants: &HttpGrants = &web.grants.http;
//! assert!(grants.grant_for(&"https://www.example.com".parse()?).is_some_and(|grant| grant.headers.is_empty()));
//! assert!(grants.grant_for(&"https://api.example.com".parse()?).is_some_and(|grant| grant.headers.len() == 1));
//! assert!(grants.grant_for(&"https://example.com".parse()?).is_none());
//! assert!(grants.grant_for(&"http://www.example.com".parse()?).is_none());
//! # Ok(())
//! # }
//! ```

mod ca_bundle;
mod credential;
mod oauth;

use std::collections::BTreeMap;

use hyper::header::AUTHORIZATION;
use mcp_host_model::net::{Origin, OriginError, OriginPattern, Scheme};
use toml::de::DeValue;

pub(crate) use self::credential::Credentials;
use crate::declare::{table, written_as};
use crate::diagnostic::{Diagnostic, Suggest};
use crate::paths::ExistingFile;
use crate::reader::{FromNode, Keys, Node, Schema, Table};
use crate::secret::Secret;

pub use self::ca_bundle::{CaBundle, CaBundleError};
pub use self::credential::{CredentialError, CredentialName, CredentialValue};
pub use self::oauth::{
    AuthorizationGrant, ClientAuthentication, OAuth, OAuthClient, ServiceAccountKey, ServiceAccountKeyError,
};

/// The allowlist of a plugin. No two entries have the same origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpGrants(BTreeMap<OriginPattern, HttpGrant>);

/// An origin, or all hosts below a domain, to which a plugin may send requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpGrant {
    /// The origin.
    pub origin: OriginPattern,
    /// Headers that the host adds to each request to the origin. The provider never sees them.
    pub headers: BTreeMap<CredentialName, Secret<CredentialValue>>,
    /// The source of the access token that the host adds to each request to the origin. It takes precedence over a
    /// header `Authorization` of `headers`.
    pub oauth: Option<OAuth>,
    /// Certificate authorities that are trusted for the origin, in addition to the machine's own. Ignored for plain
    /// HTTP.
    pub ca: Option<CaBundle>,
    /// Whether the host sends `traceparent` with each request to the origin while it traces the client's request.
    pub trace: bool,
}

/// Two entries are for the same origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the origin `{0}` is granted twice")]
pub struct DuplicateOrigin(OriginPattern);

impl HttpGrant {
    /// A grant of this origin without credentials and certificate authorities.
    pub fn new(origin: OriginPattern) -> Self {
        Self { origin, headers: BTreeMap::new(), oauth: None, ca: None, trace: false }
    }
}

impl HttpGrants {
    /// Adds a grant.
    ///
    /// # Errors
    ///
    /// The origin is granted already.
    pub fn add(&mut self, grant: HttpGrant) -> Result<(), DuplicateOrigin> {
        if self.0.contains_key(&grant.origin) {
            return Err(DuplicateOrigin(grant.origin));
        }
        self.0.insert(grant.origin.clone(), grant);
        Ok(())
    }

    /// Returns the most specific matching grant for an origin. Without one, a request is denied.
    pub fn grant_for(&self, origin: &Origin) -> Option<&HttpGrant> {
        let matching = self.0.values().filter(|grant| grant.origin.matches(origin));
        matching.max_by_key(|grant| grant.origin.specificity())
    }

    /// Returns all grants.
    pub fn iter(&self) -> impl Iterator<Item = &HttpGrant> {
        self.0.values()
    }

    /// Returns whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromNode for HttpGrants {
    const TYPE_NAME: &'static str = "a list of origins";

    fn example() -> String {
        format!("[{}]", OriginPattern::example())
    }

    fn schema() -> Schema {
        Schema::list(HttpGrant::schema())
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let grants: Vec<HttpGrant> = node.unique_list(
            "origin",
            |origin: &OriginPattern| DuplicateOrigin(origin.clone()).to_string(),
            "write one entry for each origin, with its headers and its `ca`",
        )?;
        Some(Self(grants.into_iter().map(|grant| (grant.origin.clone(), grant)).collect()))
    }
}

table! {
    struct HttpGrantKeys {
        /// The origin, such as `https://docs.rs`, or all hosts below a domain: `https://*.example.com`.
        #[required]
        origin: Option<OriginPattern>,
        /// Headers that the host adds to each request to the origin, from a variable or a file. The provider never sees
        /// them.
        #[read(Credentials)]
        headers_from: BTreeMap<CredentialName, Secret<CredentialValue>>,
        /// A source of access tokens (OAuth 2.0). The host adds a token to each request to the origin, as
        /// `Authorization`. The provider never sees it.
        oauth: Option<OAuth>,
        /// A PEM file of certificate authorities that are trusted for the origin, in addition to the machine's own.
        ca: Option<CaBundle>,
        /// Whether the host sends `traceparent` (W3C Trace Context) with each request to the origin while it traces the
        /// client's request. `false` unless set, because the header tells the origin which requests belong together.
        trace: bool,
    }
}

impl HttpGrant {
    fn from_table(table: &mut Table<'_>) -> Option<Self> {
        let HttpGrantKeys { origin, headers_from: headers, oauth, ca, trace } = HttpGrantKeys::read(table)?;
        if table.has("oauth") && headers.keys().any(|name| *name.header() == AUTHORIZATION) {
            let help = "write one of them: remove `Authorization` from `headers-from`, or remove `oauth`";
            let problem = Diagnostic::new("`Authorization` is set by both `headers-from` and `oauth`", help);
            let other = table.entry_span("headers-from");
            table.report(problem.at(table.entry_span("oauth")).secondary(other, "the other one"));
        }
        let origin = origin?;
        if table.has("ca") && origin.scheme() == Scheme::Http {
            let help = "remove `ca`, or write the origin with `https://`";
            table.report_error(format!("`{origin}` is plain HTTP, which has no certificates"), help);
        }
        if table.has("oauth") && is_readable_in_transit(&origin) {
            let message = format!("access tokens would be sent to `{origin}` without encryption");
            let help = "write `https://`; `http://` is for `localhost` and loopback addresses";
            table.report(Diagnostic::new(message, help).at(table.entry_span("origin")));
        }
        Some(Self { origin, headers, oauth, ca, trace })
    }
}

/// Returns whether requests leave this machine in plain text. A wildcard never stands for this machine only.
fn is_readable_in_transit(pattern: &OriginPattern) -> bool {
    let is_loopback = || pattern.to_string().parse::<Origin>().is_ok_and(|origin| origin.host().is_loopback());
    pattern.scheme() == Scheme::Http && !is_loopback()
}

impl FromNode for HttpGrant {
    const TYPE_NAME: &'static str = "an origin, or a table with `origin`";

    fn example() -> String {
        OriginPattern::example()
    }

    fn schema() -> Schema {
        Schema::any_of([OriginPattern::schema(), Table::describe::<HttpGrantKeys>()])
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.value {
            DeValue::String(_) => OriginPattern::from_node(node).map(Self::new),
            DeValue::Table(_) => node.table(Self::from_table),
            _ => {
                node.expected_type::<Self>();
                None
            }
        }
    }
}

impl FromNode for OriginPattern {
    const TYPE_NAME: &'static str = "an origin";

    fn example() -> String {
        "\"https://docs.rs\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[hH][tT][tT][pP][sS]?://[^/?#@\\]+$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let error = match node.string::<Self>()?.parse() {
            Ok(origin) => return Some(origin),
            Err(error) => error,
        };
        let problem = Diagnostic::new(OriginError::to_string(&error), error.suggestion(node.key)).at(node.span.clone());
        // The text before an `@` is often a password.
        node.context.report(if matches!(error, OriginError::UserInfo) { problem.redacted() } else { problem });
        None
    }
}

impl Suggest for OriginError {
    fn suggestion(&self, _: &str) -> String {
        match self {
            Self::NoScheme(text) => {
                let guess = format!("https://{text}");
                let right = if guess.parse::<OriginPattern>().is_ok() { &guess } else { "https://docs.rs" };
                format!("write the scheme in front: `\"{right}\"`")
            }
            Self::Scheme(_) => "write `https://` in front of the host; `http://` if it must be without TLS".into(),
            Self::UserInfo => "remove it, and have the host send a header: `{ origin = \"https://docs.rs\", \
                               headers-from = { Authorization = { env = \"DOCS_AUTH\" } } }`"
                .into(),
            Self::UnexpectedPart { origin, .. } => format!("an origin is granted whole: write `\"{origin}\"`"),
            Self::Port(_) => "write a number from 1 to 65535 behind the colon, or neither".into(),
            Self::NoHost => "write a host behind the `//`: `\"https://docs.rs\"`".into(),
            Self::Wildcard(_) => "write `*.` once, at the beginning, and a domain of at least two names behind it: \
                 `\"https://*.example.com\"`"
                .into(),
            Self::Name(_) => {
                "write letters, digits and `-`, in at most 63 characters between dots: `\"https://docs.rs\"`".into()
            }
            Self::Address(_) => {
                "write four numbers with dots, or brackets around a v6 address: `\"http://127.0.0.1:8080\"`, \
                 `\"http://[::1]:8080\"`"
                    .into()
            }
        }
    }
}

written_as! {
    CaBundle as ExistingFile, such as "\"ca.pem\"", |node| {
        let path = ExistingFile::from_node(node)?.0;
        match Self::read(&path) {
            Ok(roots) => Some(roots),
            Err(error) => {
                let help = "write the path of a PEM file with the certificates of the authority, such as \
                            `-----BEGIN CERTIFICATE-----` begins";
                node.report_machine_error(error.to_string(), help);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        text.parse().unwrap()
    }

    fn grants(origins: &[&str]) -> HttpGrants {
        let mut grants = HttpGrants::default();
        for origin in origins {
            grants.add(HttpGrant::new(origin.parse().unwrap())).unwrap();
        }
        grants
    }

    #[test]
    fn without_a_grant_every_origin_is_denied() {
        assert!(grants(&[]).is_empty());
        assert_eq!(grants(&[]).grant_for(&origin("https://docs.rs")), None);
    }

    #[test]
    fn an_origin_is_granted_once() {
        let mut grants = grants(&["https://docs.rs", "https://*.docs.rs", "http://docs.rs", "https://docs.rs:8443"]);
        for again in ["https://docs.rs", "HTTPS://Docs.RS:443", "https://docs.rs."] {
            let error = grants.add(HttpGrant::new(again.parse().unwrap())).unwrap_err();
            assert_eq!(error.to_string(), "the origin `https://docs.rs` is granted twice");
        }
        assert_eq!(grants.iter().count(), 4);
    }

    #[test]
    fn plain_text_is_readable_in_transit_unless_it_stays_on_this_machine() {
        for (pattern, is_readable) in [
            ("http://docs.rs", true),
            ("http://*.example.com", true),
            ("http://*.example.localhost", true),
            ("http://10.0.0.7", true),
            ("http://127.0.0.1:8080", false),
            ("http://[::1]", false),
            ("http://localhost", false),
            ("https://docs.rs", false),
            ("https://*.example.com", false),
        ] {
            assert_eq!(is_readable_in_transit(&pattern.parse().unwrap()), is_readable, "{pattern}");
        }
    }

    #[test]
    fn the_most_specific_grant_counts() {
        let grants = grants(&["https://*.example.com", "https://*.b.example.com", "https://a.b.example.com"]);
        for (asked, granted) in [
            ("https://a.b.example.com", "https://a.b.example.com"),
            ("https://c.b.example.com", "https://*.b.example.com"),
            ("https://b.example.com", "https://*.example.com"),
        ] {
            assert_eq!(grants.grant_for(&origin(asked)).unwrap().origin.to_string(), granted, "{asked}");
        }
    }
}
