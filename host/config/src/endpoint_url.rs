//! URLs of endpoints to which the host sends secrets or from which it takes keys, and the URL of this server: `https`,
//! or `http` to loopback.

use std::fmt;
use std::str::FromStr;

use iri_string::types::UriStr;
use mcp_host_model::net::{Origin, Scheme};

use super::declare::written_as;
use super::diagnostic::{Suggest, quote};
use super::reader::{FromNode, Node, Schema};

/// The maximum length of a URL, in bytes.
const MAX_LEN: usize = 2048;

/// An absolute URL: encrypted, `https://…`, or on this machine, `http://` with `localhost` or a loopback address.
///
/// Scheme, host and port are normalized (RFC 3986, section 6.2.3); the rest is as written. The URL has no fragment,
/// user name or password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointUrl {
    text: String,
    written: String,
    origin: Origin,
}

impl EndpointUrl {
    /// Returns the URL as text.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the URL as it was written, for identifiers that are compared as texts (RFC 8414, section 3.3).
    pub fn as_written(&self) -> &str {
        &self.written
    }

    /// Returns the origin of the URL.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns the path without the query: empty, or beginning with a slash.
    pub fn path(&self) -> &str {
        let behind = self.text.get(self.origin.to_string().len()..).unwrap_or_default();
        behind.split('?').next().unwrap_or_default()
    }

    /// Returns the URL without its query, which may hold a key, for messages.
    pub fn without_query(&self) -> String {
        without_query(&self.text)
    }

    /// Returns whether the URL has a query.
    pub fn has_query(&self) -> bool {
        self.text.contains('?')
    }
}

/// A URL without its query, which may hold a key.
fn without_query(text: &str) -> String {
    match text.split_once('?') {
        Some((front, _)) => format!("{front}?…"),
        None => text.to_owned(),
    }
}

/// Returns the URL of a text that lacks only the scheme: a host with a dot or a port. Hosts of this machine usually
/// have no TLS.
fn with_scheme(text: &str) -> Option<String> {
    let (host, rest) = text.split_at_checked(text.find([':', '/']).unwrap_or(text.len()))?;
    let has_port = rest.strip_prefix(':').is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit()));
    let lacks_scheme = has_port || (host.contains('.') && !rest.starts_with(':'));
    let urls = ["http", "https"].map(|scheme| format!("{scheme}://{text}"));
    // A query may hold a key, which no message shows.
    urls.into_iter().find(|url| lacks_scheme && !text.contains('?') && url.parse::<EndpointUrl>().is_ok())
}

/// The reason why a text is not an [`EndpointUrl`]. No query is shown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointUrlError {
    /// The text is not an absolute URL with `http` or `https`, or is too long.
    #[error("{} is not an absolute URL", quote(&without_query(.0)))]
    Syntax(String),
    /// The URL has a user name or a password. The error does not show the text.
    #[error("the URL has a user name or a password")]
    UserInfo,
    /// The URL has a fragment.
    #[error("the URL {} has a fragment", quote(&without_query(.0)))]
    Fragment(String),
    /// The URL is not encrypted, and its host is another machine.
    #[error("the URL {} is not encrypted", quote(&without_query(.0)))]
    NotEncrypted(String),
}

impl Suggest for EndpointUrlError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::Syntax(text) => match with_scheme(text) {
                Some(url) => format!("write `{key} = \"{url}\"`"),
                None => format!("write a URL such as `{key} = \"https://login.example.com\"`"),
            },
            Self::UserInfo => "remove everything up to the `@`".to_owned(),
            Self::Fragment(_) => "remove the `#` and what follows it".to_owned(),
            Self::NotEncrypted(_) => "write `https://`; `http://` is for `localhost` and loopback addresses".to_owned(),
        }
    }
}

impl FromStr for EndpointUrl {
    type Err = EndpointUrlError;

    fn from_str(text: &str) -> Result<Self, EndpointUrlError> {
        let syntax = || EndpointUrlError::Syntax(text.to_owned());
        let uri = UriStr::new(text).ok().filter(|_| text.len() <= MAX_LEN);
        let Some(authority) = uri.and_then(|uri| uri.authority_components()) else {
            // The text before an `@` is often a password.
            return Err(if text.contains('@') { EndpointUrlError::UserInfo } else { syntax() });
        };
        if authority.userinfo().is_some() {
            return Err(EndpointUrlError::UserInfo);
        }
        if text.contains('#') {
            return Err(EndpointUrlError::Fragment(text.to_owned()));
        }
        let behind = text.find("://").ok_or_else(syntax)?.saturating_add("://".len());
        let end = text
            .get(behind..)
            .and_then(|rest| rest.find(['/', '?']))
            .map_or(text.len(), |at| behind.saturating_add(at));
        let (front, rest) = text.split_at_checked(end).ok_or_else(syntax)?;
        let origin: Origin = front.parse().map_err(|_| syntax())?;
        if origin.scheme() == Scheme::Http && !origin.host().is_loopback() {
            return Err(EndpointUrlError::NotEncrypted(text.to_owned()));
        }
        Ok(Self { text: format!("{origin}{rest}"), written: text.to_owned(), origin })
    }
}

impl fmt::Display for EndpointUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromNode for EndpointUrl {
    const TYPE_NAME: &'static str = "a URL";

    fn example() -> String {
        "\"https://login.example.com\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^[hH][tT][tT][pP][sS]?://[^#@\s]+$").with("maxLength", MAX_LEN)
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        match node.string::<Self>()?.parse() {
            Ok(url) => Some(url),
            Err(error @ EndpointUrlError::UserInfo) => {
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

/// An [`EndpointUrl`] without a query: the identifier of an issuer (RFC 8414, section 2), or of this server (RFC 9728,
/// section 1.2).
pub(super) struct IdentifierUrl(pub(super) EndpointUrl);

written_as! {
    IdentifierUrl as EndpointUrl, |node| {
        let url = EndpointUrl::from_node(node)?;
        if url.has_query() {
            node.report_error(
                format!("the URL {} has a query", quote(&url.without_query())),
                "remove the `?` and what follows it",
            );
            return None;
        }
        Some(Self(url))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_encrypted_or_stays_on_this_machine() {
        for (text, url, path) in [
            ("https://login.example.com", "https://login.example.com", ""),
            ("HTTPS://Login.Example.com:443/a/B?c=d", "https://login.example.com/a/B?c=d", "/a/B"),
            ("http://127.0.0.1:8080/jwks", "http://127.0.0.1:8080/jwks", "/jwks"),
            ("http://[::1]:80/", "http://[::1]/", "/"),
            ("http://localhost:9000?x", "http://localhost:9000?x", ""),
        ] {
            let parsed: EndpointUrl = text.parse().unwrap();
            assert_eq!((parsed.as_str(), parsed.path()), (url, path), "{text}");
        }
        for text in ["http://login.example.com/", "http://127.0.0.1.example.com", "http://10.0.0.1/"] {
            assert!(matches!(text.parse::<EndpointUrl>(), Err(EndpointUrlError::NotEncrypted(_))), "{text}");
        }
        for text in ["", "login.example.com", "ftp://example.com", "https:///jwks", "https://a b/", "file:///etc/keys"]
        {
            assert!(matches!(text.parse::<EndpointUrl>(), Err(EndpointUrlError::Syntax(_))), "{text}");
        }
        for (text, url) in [
            ("localhost:4318", Some("http://localhost:4318")),
            ("login.example.com/jwks", Some("https://login.example.com/jwks")),
            ("login", None),
            ("ftp://example.com", None),
            ("file:/etc/keys", None),
            ("example.com?key=a", None),
        ] {
            assert_eq!(with_scheme(text).as_deref(), url, "{text}");
        }
        assert_eq!("https://a:b@example.com/".parse::<EndpointUrl>(), Err(EndpointUrlError::UserInfo));
        assert!(matches!("https://example.com/#a".parse::<EndpointUrl>(), Err(EndpointUrlError::Fragment(_))));
    }
}
