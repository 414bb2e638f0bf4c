//! The address of the HTTP server.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use crate::declare::from_text;
use crate::diagnostic::{Suggest, quote};
use crate::reader::Schema;

/// An IP address and a port to listen on: `127.0.0.1:8080`, `[::1]:8080`, `0.0.0.0:8443`. With port 0 the system
/// chooses a free port.
///
/// An address that other machines can reach has conditions: see
/// [`Config::check_exposure`](crate::Config::check_exposure).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpAddress(SocketAddr);

impl HttpAddress {
    /// Returns the address.
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }

    /// Whether only this machine can reach the address.
    pub fn is_loopback(self) -> bool {
        self.0.ip().to_canonical().is_loopback()
    }

    /// Whether the address stands for all addresses of this machine: `0.0.0.0`, `[::]`.
    pub fn is_wildcard(self) -> bool {
        self.0.ip().to_canonical().is_unspecified()
    }

    /// Whether listeners cannot use both addresses at the same time: they have the same port, and IP addresses that are
    /// equal or of which one includes the other. `[::]` includes IPv4 addresses. Port 0 never conflicts.
    pub fn conflicts_with(self, other: Self) -> bool {
        let (one, other) = (self.0, other.0);
        let covers = |all: IpAddr, one: IpAddr| all.is_unspecified() && (all.is_ipv6() || one.is_ipv4());
        let (ip, other_ip) = (one.ip(), other.ip());
        one.port() == other.port()
            && one.port() != 0
            && (ip == other_ip || covers(ip, other_ip) || covers(other_ip, ip))
    }
}

/// The port in help lines.
const EXAMPLE_PORT: u16 = 8080;

/// A text that is not an IP address with a port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not an IP address with a port", quote(.0))]
pub struct HttpAddressError(String);

impl Suggest for HttpAddressError {
    fn suggestion(&self, key: &str) -> String {
        format!("write `{key} = \"{}\"`", self.nearest(EXAMPLE_PORT))
    }
}

impl HttpAddressError {
    /// Returns the address that the author probably meant, with the IP address and port from the text if there are any.
    /// `default_port` is for an address without a port.
    pub(crate) fn nearest(&self, default_port: u16) -> SocketAddr {
        let loopback = IpAddr::from(Ipv4Addr::LOCALHOST);
        let text = self.0.split_once("://").map_or(self.0.as_str(), |(_, rest)| rest);
        let text = text.split('/').next().unwrap_or(text);
        let is_in_brackets = text.ends_with(']');
        let address = |host: &str| host.trim_matches(['[', ']']).parse().ok();
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !is_in_brackets && address(text).is_none() => (address(host), port.parse().ok()),
            _ => (address(text), text.parse().ok()),
        };
        SocketAddr::new(host.unwrap_or(loopback), port.unwrap_or(default_port))
    }
}

impl From<SocketAddr> for HttpAddress {
    fn from(address: SocketAddr) -> Self {
        Self(address)
    }
}

impl FromStr for HttpAddress {
    type Err = HttpAddressError;

    fn from_str(text: &str) -> Result<Self, HttpAddressError> {
        text.parse().map(Self).map_err(|_| HttpAddressError(text.to_owned()))
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

from_text!(
    HttpAddress,
    "an IP address with a port",
    "\"127.0.0.1:8080\"",
    Schema::pattern(r"^([0-9.]+|\[[0-9a-fA-F:.%]+\]):[0-9]+$")
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_other_machines_can_reach_are_told_apart() {
        for (text, is_loopback, is_wildcard) in [
            ("127.0.0.1:8080", true, false),
            ("127.8.9.10:0", true, false),
            ("[::1]:8080", true, false),
            ("[::ffff:127.0.0.1]:80", true, false),
            ("0.0.0.0:8080", false, true),
            ("[::]:8080", false, true),
            ("[::ffff:0.0.0.0]:80", false, true),
            ("192.168.1.2:80", false, false),
            ("[::ffff:10.0.0.1]:80", false, false),
        ] {
            let address: HttpAddress = text.parse().unwrap();
            assert_eq!((address.is_loopback(), address.is_wildcard()), (is_loopback, is_wildcard), "{text}");
        }
    }

    #[test]
    fn an_address_conflicts_with_itself_and_with_one_that_stands_for_it() {
        for (one, other, conflicts) in [
            ("127.0.0.1:1", "127.0.0.1:1", true),
            ("127.0.0.1:1", "127.0.0.1:2", false),
            ("127.0.0.1:0", "127.0.0.1:0", false),
            ("127.0.0.1:1", "127.0.0.2:1", false),
            ("0.0.0.0:1", "127.0.0.1:1", true),
            ("[::]:1", "127.0.0.1:1", true),
            ("[::]:1", "0.0.0.0:1", true),
            ("0.0.0.0:1", "[::1]:1", false),
        ] {
            let [first, second]: [HttpAddress; 2] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(first.conflicts_with(second), conflicts, "{one} {other}");
            assert_eq!(second.conflicts_with(first), conflicts, "{other} {one}");
        }
    }

    #[test]
    fn the_help_keeps_what_is_right() {
        for (text, suggested) in [
            ("localhost:18443", "127.0.0.1:18443"),
            ("0.0.0.0", "0.0.0.0:8080"),
            ("http://0.0.0.0:9000/mcp", "0.0.0.0:9000"),
            ("8443", "127.0.0.1:8443"),
            (":8443", "127.0.0.1:8443"),
            ("::1", "[::1]:8080"),
            ("[::]", "[::]:8080"),
            ("::1:99999", "[::1]:8080"),
            ("127.0.0.1:99999", "127.0.0.1:8080"),
            ("", "127.0.0.1:8080"),
        ] {
            let help = text.parse::<HttpAddress>().unwrap_err().suggestion("http");
            let suggestion = help.split('"').nth(1).unwrap();
            assert!(suggestion.parse::<HttpAddress>().is_ok() && suggestion == suggested, "{text}: {help}");
        }
    }

    #[test]
    fn an_address_is_numbers_with_a_port() {
        for text in ["", "8080", ":8080", "127.0.0.1", "localhost:8080", "http://127.0.0.1:8080", "127.0.0.1:99999"] {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }
}
