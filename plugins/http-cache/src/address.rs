//! The address of a page: its path below the mount, and its URL.
//!
//! The path `docs.rs/serde/?a=b` stands for `https://docs.rs/serde/?a=b`: the first segment is the host, with an
//! optional port. The client cannot choose the scheme: it is `https`, except for the hosts that the config lists as
//! plain. An address has one canonical form: the host in lower case without a trailing dot, an IP address in its
//! standard notation, no default port, and never an empty path. Clients must use the canonical form; other spellings
//! are rejected with the canonical one ([`Address::from_resource_path`]), so an access rule for one URI covers the
//! page. Addresses from pages, redirects and the config are canonicalized.

use iri_string::types::{UriAbsoluteStr, UriReferenceStr, UriStr};
use mcp_provider::{Failure, Result, path};
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The maximum length of a URL in bytes.
const MAX_URL_LEN: usize = 8192;

/// Hosts that are requested without TLS, each with its port unless it is the default. Case does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct PlainHosts(BTreeSet<String>);

impl PlainHosts {
    /// Returns whether all hosts are requested with TLS.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the set contains an authority in lower case, such as `127.0.0.1:8080`.
    fn contains(&self, authority: &str) -> bool {
        self.0.contains(authority)
    }
}

impl FromIterator<String> for PlainHosts {
    fn from_iter<I: IntoIterator<Item = String>>(hosts: I) -> Self {
        Self(hosts.into_iter().map(|host| host.to_ascii_lowercase()).collect())
    }
}

/// The canonical address of a page.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// The host, with the port unless it is the scheme's default.
    authority: String,
    /// The path and query, with a leading slash.
    rest: String,
    /// Whether requests use plain HTTP, without TLS.
    is_plain: bool,
}

impl Address {
    /// Parses a client's path below the mount. The path must be canonical.
    ///
    /// # Errors
    ///
    /// The errors of [`parse`](Self::parse), and [`Failure::InvalidRequest`] for another spelling of a canonical path.
    pub(crate) fn from_resource_path(path: &str, plain: &PlainHosts) -> Result<Self> {
        let expected =
            || Failure::invalid("expected a host and a path below the mount, such as `{mount}docs.rs/serde/`");
        let address = Self::parse(path, plain).map_err(|_| expected())?;
        let canonical = address.path();
        if canonical == path {
            return Ok(address);
        }
        Err(Failure::invalid(format!(
            "expected `{{mount}}{canonical}`, the canonical form of this address, found `{{mount}}{path}`"
        )))
    }

    /// Parses a path and canonicalizes it.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`] if it does not start with a host, or does not form a URL.
    pub(crate) fn parse(path: &str, plain: &PlainHosts) -> Result<Self> {
        let end = path.find(['/', '?']).unwrap_or(path.len());
        let (authority, rest) = path.split_at_checked(end).unwrap_or((path, ""));
        Self::from_parts(authority, rest, plain)
            .ok_or_else(|| Failure::invalid("expected a host and a path, such as `docs.rs/serde/`, without a scheme"))
    }

    fn from_parts(authority: &str, rest: &str, plain: &PlainHosts) -> Option<Self> {
        let authority = authority.to_ascii_lowercase();
        let (host, port) = match authority.rfind(']') {
            Some(end) => authority.split_at_checked(end.checked_add(1)?)?,
            None => authority.split_at_checked(authority.find(':').unwrap_or(authority.len()))?,
        };
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(port.parse::<u16>().ok().filter(|port| *port > 0)?)
            }
            _ => return None,
        };
        let host = canonical_host(host)?;
        let with_port = port.map_or_else(|| host.clone(), |port| format!("{host}:{port}"));
        let is_plain = plain.contains(&with_port) || (port == Some(80) && plain.contains(&host));
        let usual = if is_plain { 80 } else { 443 };
        let authority = if port == Some(usual) { host } else { with_port };
        let rest = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        let address = Self { authority, rest, is_plain };
        let url = address.url();
        (url.len() <= MAX_URL_LEN && UriAbsoluteStr::new(&url).is_ok()).then_some(address)
    }

    /// Returns the path below the mount.
    pub(crate) fn path(&self) -> String {
        format!("{}{}", self.authority, self.rest)
    }

    /// Returns the URL.
    pub(crate) fn url(&self) -> String {
        format!("{}{}", self.origin(), self.rest)
    }

    /// Returns the origin: `https://docs.rs`.
    pub(crate) fn origin(&self) -> String {
        let scheme = if self.is_plain { "http" } else { "https" };
        format!("{scheme}://{}", self.authority)
    }

    /// Returns the URL with `…` for its query, for messages about the target of a redirect: the origin chose the
    /// target, and the query of a signed URL is a secret.
    pub(crate) fn url_without_query(&self) -> String {
        let url = self.url();
        match url.split_once('?') {
            Some((before, _)) => format!("{before}?…"),
            None => url,
        }
    }

    /// Returns the host, with the port unless it is the scheme's default.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns whether the page is requested with TLS at a non-default port, which is often a mistake for a server on a
    /// developer's machine.
    pub(crate) fn is_tls_at_own_port(&self) -> bool {
        !self.is_plain && self.authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok())
    }

    /// Returns the programmatic name: the last segment of the path, or the host.
    pub(crate) fn name(&self) -> String {
        let (path, _) = path::split_query(&self.rest);
        let last = path.rsplit('/').find(|segment| !segment.is_empty());
        last.map_or_else(
            || self.authority.clone(),
            |segment| path::decode_segment(segment).unwrap_or_else(|_| segment.to_owned()),
        )
    }

    /// Resolves a reference in this page, from a `Location` or a link; `None` if the result is not an HTTP URL. `http:`
    /// is upgraded to `https:`, except for plain hosts.
    pub(crate) fn resolve(&self, reference: &str, plain: &PlainHosts) -> Option<Self> {
        Self::from_url(&self.absolute(reference)?, plain)
    }

    /// Resolves a reference in this page to its absolute URL, without canonicalization.
    pub(crate) fn absolute(&self, reference: &str) -> Option<String> {
        absolute(&self.url(), reference)
    }

    /// Parses a URL, without its fragment.
    pub(crate) fn from_url(url: &str, plain: &PlainHosts) -> Option<Self> {
        let uri = UriStr::new(url).ok()?;
        if !["http", "https"].iter().any(|scheme| uri.scheme_str().eq_ignore_ascii_case(scheme)) {
            return None;
        }
        let query = uri.query_str().map(|query| format!("?{query}")).unwrap_or_default();
        Self::from_parts(uri.authority_str()?, &format!("{}{query}", uri.path_str()), plain)
    }
}

/// Resolves a reference against the URL `base` (RFC 3986, section 5).
pub(crate) fn absolute(base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim_matches(|c: char| c.is_ascii_whitespace());
    if reference.len() > MAX_URL_LEN {
        return None;
    }
    let reference = UriReferenceStr::new(reference).ok()?;
    Some(reference.resolve_against(UriAbsoluteStr::new(base).ok()?).to_string())
}

/// Returns the canonical form of a lower-case host; `None` if it is neither a name nor an address. A host that ends in
/// a number must be an IPv4 address in four decimal parts: some programs read `127.1` and `0x7f000001` as addresses,
/// and others as names.
fn canonical_host(host: &str) -> Option<String> {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<Ipv6Addr>().ok().map(|address| format!("[{address}]"));
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return None;
    }
    let last = name.rsplit('.').next().unwrap_or_default();
    let is_hexadecimal =
        last.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    let is_number = is_hexadecimal || last.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && name.parse::<Ipv4Addr>().is_err() {
        return None;
    }
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain() -> PlainHosts {
        ["127.0.0.1:8080", "plain.example"].map(str::to_owned).into_iter().collect()
    }

    fn parse(path: &str) -> Option<Address> {
        Address::parse(path, &plain()).ok()
    }

    fn url(path: &str) -> Option<String> {
        parse(path).as_ref().map(Address::url)
    }

    #[test]
    fn a_path_is_a_url_without_its_scheme() {
        for (path, expected) in [
            ("docs.rs/serde/latest/serde/?a=b", "https://docs.rs/serde/latest/serde/?a=b"),
            ("docs.rs", "https://docs.rs/"),
            ("docs.rs?q", "https://docs.rs/?q"),
            ("DOCS.rs:8443/A", "https://docs.rs:8443/A"),
            ("[::1]:9/x", "https://[::1]:9/x"),
            ("127.0.0.1:8080/x", "http://127.0.0.1:8080/x"),
            ("127.0.0.1/x", "https://127.0.0.1/x"),
            ("plain.example/x", "http://plain.example/x"),
        ] {
            assert_eq!(url(path).as_deref(), Some(expected), "{path}");
        }
    }

    #[test]
    fn tls_at_a_port_of_its_own_is_told_from_the_usual_one_and_from_plain_http() {
        for (path, expected) in [
            ("docs.rs:8443/a", true),
            ("[::1]:9/a", true),
            ("docs.rs/a", false),
            ("[::1]/a", false),
            ("127.0.0.1:8080/a", false),
        ] {
            assert_eq!(parse(path).unwrap().is_tls_at_own_port(), expected, "{path}");
        }
    }

    #[test]
    fn a_page_has_one_path_whether_or_not_the_usual_port_is_written() {
        for (path, expected) in
            [("docs.rs:443/a", "docs.rs/a"), ("plain.example:80", "plain.example/"), ("a.b", "a.b/")]
        {
            assert_eq!(parse(path).unwrap().path(), expected);
        }
        assert_eq!(parse("docs.rs:80/a").unwrap().path(), "docs.rs:80/a");
    }

    #[test]
    fn one_spelling_of_an_address_is_served_and_the_others_say_which() {
        for (path, canonical) in [
            ("docs.rs", "docs.rs/"),
            ("docs.rs?q", "docs.rs/?q"),
            ("docs.rs./a", "docs.rs/a"),
            ("docs.rs.:443/a", "docs.rs/a"),
            ("docs.rs:443/a", "docs.rs/a"),
            ("docs.rs:0443/a", "docs.rs/a"),
            ("docs.rs:08443/a", "docs.rs:8443/a"),
            ("Docs.rs/a", "docs.rs/a"),
            ("plain.example:80/a", "plain.example/a"),
            ("[0:0::1]/a", "[::1]/a"),
            ("[::FFFF:7f00:1]/a", "[::ffff:127.0.0.1]/a"),
        ] {
            let Err(Failure::InvalidRequest(said)) = Address::from_resource_path(path, &plain()) else {
                panic!("{path}")
            };
            assert!(said.contains(&format!("expected `{{mount}}{canonical}`")), "{path}: {said}");
            assert_eq!(Address::from_resource_path(canonical, &plain()).unwrap().path(), canonical);
        }
        for path in [
            "docs.rs:/a",
            "docs.rs:+80/a",
            "docs.rs:0/a",
            "docs.rs../a",
            "127.1/a",
            "2130706433/a",
            "0x7f.1/a",
            "a.0x7f/",
        ] {
            assert!(Address::from_resource_path(path, &plain()).is_err(), "{path}");
        }
        // The path is opaque to the provider: two slashes are preserved.
        assert_eq!(Address::from_resource_path("docs.rs//x", &plain()).unwrap().url(), "https://docs.rs//x");
    }

    #[test]
    fn what_begins_with_no_host_is_an_invalid_request() {
        for path in [
            "",
            "/",
            "?q",
            "me@docs.rs/",
            "a b/",
            "a%2eb/",
            ":80/",
            "h:/",
            "h:x/",
            "h:99999/",
            "[::1/",
            "[x]/",
            "a..b/",
        ] {
            assert!(matches!(Address::parse(path, &plain()), Err(Failure::InvalidRequest(_))), "{path}");
        }
        assert_eq!(parse(&format!("docs.rs/{}", "x".repeat(9000))), None);
    }

    #[test]
    fn its_name_is_its_last_segment_or_its_host() {
        for (path, name) in [
            ("docs.rs/serde/a%20b.html?q", "a b.html"),
            ("docs.rs/serde/", "serde"),
            ("docs.rs/", "docs.rs"),
            ("h/%ff", "%ff"),
        ] {
            assert_eq!(parse(path).unwrap().name(), name);
        }
    }

    #[test]
    fn a_reference_leads_where_it_would_in_a_browser_but_never_away_from_https() {
        let page = parse("docs.rs/a/b?q").unwrap();
        let leads = |reference: &str| page.resolve(reference, &plain()).map(|address| address.url());
        for (reference, expected) in [
            ("c#d", "https://docs.rs/a/c"),
            ("../../x", "https://docs.rs/x"),
            ("//h/y", "https://h/y"),
            ("http://h/y", "https://h/y"),
            ("http://plain.example/y", "http://plain.example/y"),
            ("https://plain.example/y", "http://plain.example/y"),
            ("?z", "https://docs.rs/a/b?z"),
        ] {
            assert_eq!(leads(reference).as_deref(), Some(expected), "{reference}");
        }
        for reference in ["file:///etc/passwd", "javascript:x", "https://me@h/", "http://", "https://é/"] {
            assert_eq!(leads(reference), None, "{reference}");
        }
    }

    proptest! {
        #[test]
        fn an_address_comes_back_from_its_path(path in "[a-z\\[\\]:0-9.%@/?é ]{0,20}") {
            if let Some(address) = parse(&path) {
                prop_assert_eq!(Address::from_resource_path(&address.path(), &plain()), Ok(address.clone()));
                prop_assert_eq!(parse(&address.path()), Some(address));
            }
        }

        #[test]
        fn no_reference_breaks_it(reference in ".{0,40}") {
            let _ = parse("docs.rs/a").unwrap().resolve(&reference, &plain());
        }
    }
}
