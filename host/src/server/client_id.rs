//! The identity of a client for shared limits: no client can exhaust what clients share.
//!
//! Over HTTP clients are told apart by their peer address. A client with IPv6 has a network of addresses (RFC 6177), so
//! the first 64 bits count; an IPv4-mapped IPv6 address is the IPv4 address. All clients behind one proxy are one
//! client, so the share of a client is large. Where another server accepts the connections and does not supply the peer
//! address, a client is a principal.

use std::fmt;
#[cfg(any(feature = "http", test))]
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[cfg(feature = "http")]
use crate::access::Principal;
#[cfg(feature = "http")]
use crate::text::Excerpt;

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientId {
    /// The only client of a pair of streams.
    #[cfg(feature = "stdio")]
    Local,
    /// The client at this address.
    #[cfg(any(feature = "http", test))]
    V4(Ipv4Addr),
    /// The client in the network with this prefix.
    #[cfg(any(feature = "http", test))]
    V6([u16; 4]),
    /// The client with an unknown address.
    #[cfg(feature = "http")]
    Principal(Principal),
}

impl ClientId {
    /// Returns the client at that address.
    #[cfg(any(feature = "http", test))]
    pub(super) fn from_address(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                Self::V6([a, b, c, d])
            }
        }
    }
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            #[cfg(feature = "stdio")]
            Self::Local => f.write_str("local"),
            #[cfg(any(feature = "http", test))]
            Self::V4(address) => address.fmt(f),
            #[cfg(any(feature = "http", test))]
            Self::V6([a, b, c, d]) => write!(f, "{}/64", Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0)),
            #[cfg(feature = "http")]
            Self::Principal(principal) => write!(f, "principal {}", Excerpt(principal.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> String {
        ClientId::from_address(address.parse().unwrap()).to_string()
    }

    #[test]
    fn clients_are_told_apart_by_address_and_by_network() {
        assert_eq!(client("192.0.2.1"), "192.0.2.1");
        assert_eq!(client("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(client("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
        assert_eq!(client("2001:db8:1:2::"), client("2001:db8:1:2:ffff::1"));
        assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    }

    #[test]
    #[cfg(feature = "http")]
    fn the_name_of_a_principal_is_escaped() {
        assert_eq!(ClientId::Principal(Principal::new("a\n\u{1b}[31m")).to_string(), r"principal a\n\u{1b}[31m");
    }
}
