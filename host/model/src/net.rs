//! Network origins: `https://docs.rs`, `http://[::1]:8080`, and patterns of them: `https://*.example.com:8443`.
//!
//! Grants of outbound HTTP (`grants.http`), CORS (`cors` of `[http]`) and the check of `Origin` and `Host` use the same
//! types.

mod public_address;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};

use mcp_host_base::text::quote;

pub use self::public_address::is_public;

/// The scheme of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// Over TLS.
    Https,
}

impl Scheme {
    /// Returns its name in a URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Returns the default port.
    pub fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// The name of a host in DNS: lower case, ASCII, without a trailing dot.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostName(String);

impl HostName {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether it is a proper subdomain of `domain`.
    fn is_subdomain_of(&self, domain: &Self) -> bool {
        self.0.strip_suffix(domain.as_str()).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
    }
}

/// A host: by its name, or by its address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UrlHost {
    /// By its name.
    Name(HostName),
    /// By its address. A v4 address in v6 notation (`::ffff:127.0.0.1`) is the v4 address.
    Address(IpAddr),
}

impl UrlHost {
    /// Returns whether it is a name of this machine that cannot resolve to another (RFC 6761, section 6.3).
    pub fn is_loopback(&self) -> bool {
        match self {
            Self::Name(name) => name.as_str() == "localhost",
            Self::Address(address) => address.is_loopback(),
        }
    }
}

/// A web server: scheme, host and port. Its text is `https://docs.rs`, with the port if it is not the default
/// one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: UrlHost,
    port: u16,
}

impl Origin {
    /// Its scheme.
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Its host.
    pub fn host(&self) -> &UrlHost {
        &self.host
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns host and port as in the header `Host`: without the port if it is the default one.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// An origin, or all origins below a domain. Grants of outbound HTTP document the matching (`grants.http` in
/// `docs/grants.md`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OriginPattern(Pattern);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Pattern {
    /// One origin.
    Exact(Origin),
    /// All hosts below a domain.
    Subdomains { scheme: Scheme, domain: HostName, port: u16 },
}

impl OriginPattern {
    /// The scheme of the origins.
    pub fn scheme(&self) -> Scheme {
        match &self.0 {
            Pattern::Exact(origin) => origin.scheme,
            Pattern::Subdomains { scheme, .. } => *scheme,
        }
    }

    /// The port of the origins.
    pub fn port(&self) -> u16 {
        match &self.0 {
            Pattern::Exact(origin) => origin.port,
            Pattern::Subdomains { port, .. } => *port,
        }
    }

    /// The origin, if the pattern has only one.
    pub fn exact(&self) -> Option<&Origin> {
        match &self.0 {
            Pattern::Exact(origin) => Some(origin),
            Pattern::Subdomains { .. } => None,
        }
    }

    /// Returns whether this origin matches.
    pub fn matches(&self, origin: &Origin) -> bool {
        match (&self.0, &origin.host) {
            (Pattern::Exact(one), _) => one == origin,
            (Pattern::Subdomains { scheme, domain, port }, UrlHost::Name(name)) => {
                *scheme == origin.scheme && *port == origin.port && name.is_subdomain_of(domain)
            }
            (Pattern::Subdomains { .. }, UrlHost::Address(_)) => false,
        }
    }

    /// Returns how specific the pattern is. If two patterns match an origin, the more specific one applies.
    pub fn specificity(&self) -> usize {
        match &self.0 {
            Pattern::Exact(_) => usize::MAX,
            Pattern::Subdomains { domain, .. } => domain.0.len(),
        }
    }
}

/// Why a text is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OriginError {
    /// There is no `://`.
    #[error("{} is not an origin: it has no scheme", quote(.0))]
    NoScheme(String),
    /// The scheme is neither `http` nor `https`.
    #[error("the scheme {} is neither `https` nor `http`", quote(.0))]
    Scheme(String),
    /// It has a user name or a password.
    #[error("an origin has no user name or password")]
    UserInfo,
    /// It continues after the port.
    #[error("an origin ends with its host or port; unexpected: {}", quote(.rest))]
    UnexpectedPart {
        /// The text that must be removed.
        rest: String,
        /// The text before it.
        origin: String,
    },
    /// The port is not a number from 1 to 65535.
    #[error("{} is not a port", quote(.0))]
    Port(String),
    /// There is no host.
    #[error("the origin has no host")]
    NoHost,
    /// A `*` is not the first label, or too few labels follow it.
    #[error("the wildcard of {} is not followed by a domain", quote(.0))]
    Wildcard(String),
    /// The host is not a valid name.
    #[error("{} is not the name of a host", quote(.0))]
    Name(String),
    /// The host is a number, or has colons without brackets, but is not an address.
    #[error("{} is not an IP address", quote(.0))]
    Address(String),
}

impl FromStr for OriginPattern {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (scheme, host, port) = split_origin(text)?;
        let Some(domain) = host.strip_prefix("*.") else {
            return Ok(Self(Pattern::Exact(Origin { scheme, host: host.parse()?, port })));
        };
        let wildcard = || OriginError::Wildcard(host.to_owned());
        match domain.parse()? {
            UrlHost::Name(domain) if domain.0.contains('.') => Ok(Self(Pattern::Subdomains { scheme, domain, port })),
            _ => Err(wildcard()),
        }
    }
}

impl FromStr for Origin {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let (scheme, host, port) = split_origin(text)?;
        Ok(Self { scheme, host: host.parse()?, port })
    }
}

impl FromStr for UrlHost {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        let not_an_address = || OriginError::Address(text.to_owned());
        if let Some(address) = text.strip_prefix('[') {
            let address: Ipv6Addr =
                address.strip_suffix(']').and_then(|text| text.parse().ok()).ok_or_else(not_an_address)?;
            return Ok(Self::Address(IpAddr::V6(address).to_canonical()));
        }
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        let name: HostName = text.parse()?;
        // Resolvers accept `2130706433`, `127.1` and `0x7f.1` as addresses.
        if name.0.rsplit('.').next().is_some_and(is_numeric_label) {
            Err(not_an_address())
        } else {
            Ok(Self::Name(name))
        }
    }
}

impl FromStr for HostName {
    type Err = OriginError;

    fn from_str(text: &str) -> Result<Self, OriginError> {
        if text.is_empty() {
            return Err(OriginError::NoHost);
        }
        if text.contains('*') {
            return Err(OriginError::Wildcard(text.to_owned()));
        }
        let no_name = || OriginError::Name(text.to_owned());
        let ascii = Uts46::new()
            .to_ascii(text.as_bytes(), AsciiDenyList::URL, Hyphens::Allow, DnsLength::VerifyAllowRootDot)
            .map_err(|_| no_name())?;
        let name = ascii.strip_suffix('.').unwrap_or(&ascii);
        if name.split('.').all(is_dns_label) { Ok(Self(name.to_owned())) } else { Err(no_name()) }
    }
}

/// Returns the scheme, the host as written, and the port.
fn split_origin(text: &str) -> Result<(Scheme, &str, u16), OriginError> {
    // Checked before any error that would quote the text, because it often contains a password.
    if text.contains('@') {
        return Err(OriginError::UserInfo);
    }
    let (scheme, rest) = text.split_once("://").ok_or_else(|| OriginError::NoScheme(text.to_owned()))?;
    let scheme = match scheme.to_ascii_lowercase().as_str() {
        "http" => Scheme::Http,
        "https" => Scheme::Https,
        _ => return Err(OriginError::Scheme(scheme.to_owned())),
    };
    let (authority, rest) =
        rest.split_at_checked(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len())).unwrap_or((rest, ""));
    if !rest.is_empty() {
        let origin = format!("{}://{authority}", scheme.as_str());
        return Err(OriginError::UnexpectedPart { rest: rest.to_owned(), origin });
    }
    // The colons of a v6 address are in brackets.
    let behind = authority.rfind(']').map_or(0, |bracket| bracket.saturating_add(1));
    let colon = authority.get(behind..).and_then(|rest| rest.rfind(':'));
    let (host, port) = match colon.and_then(|colon| authority.split_at_checked(behind.saturating_add(colon))) {
        Some((host, port)) if !host.starts_with('[') || host.ends_with(']') => {
            (host, parse_port(port.trim_start_matches(':'))?)
        }
        _ => (authority, scheme.default_port()),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(OriginError::Address(authority.to_owned()));
    }
    Ok((scheme, host, port))
}

fn parse_port(text: &str) -> Result<u16, OriginError> {
    // The parser of numbers would accept a `+`.
    let port = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    port.filter(|port| *port != 0).ok_or_else(|| OriginError::Port(text.to_owned()))
}

/// Returns whether this is a DNS label: letters, digits, inner hyphens, and underscores, which some names
/// have.
fn is_dns_label(label: &str) -> bool {
    let plain = label.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_'));
    plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
}

fn is_numeric_label(label: &str) -> bool {
    let hexadecimal =
        label.strip_prefix("0x").is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    hexadecimal || label.bytes().all(|byte| byte.is_ascii_digit())
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for UrlHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl fmt::Display for OriginPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Pattern::Exact(origin) => origin.fmt(f),
            Pattern::Subdomains { scheme, domain, port } => {
                write!(f, "{}://*.{domain}", scheme.as_str())?;
                if *port == scheme.default_port() { Ok(()) } else { write!(f, ":{port}") }
            }
        }
    }
}
