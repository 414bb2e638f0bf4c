//! Who a client is, for what clients share: one of them must not take all of it.
//!
//! Over HTTP clients have no names, so they are told apart by the address that they come from. One client of IPv6 has a whole
//! network of addresses (RFC 6177), of which the first 64 bits are the same; an IPv4 address that is written as IPv6 is the IPv4 address.
//! Everybody behind one proxy is one client, which is why a client's share is large.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Tells clients apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientId {
    /// Who started this process.
    Local,
    /// Who comes from that address.
    V4(Ipv4Addr),
    /// Who comes from the network with that prefix.
    V6([u16; 4]),
}

impl ClientId {
    /// The client at that address.
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

impl std::fmt::Display for ClientId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::V4(address) => address.fmt(f),
            Self::V6([a, b, c, d]) => write!(f, "{}/64", Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0)),
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
}
