//! The identity of a client for shared limits: no client can exhaust what clients share.
//!
//! An authenticated principal is one client, wherever it connects from, and several behind one address are several.
//! Other clients over HTTP are distinguished by their peer address. An IPv6 client has a network of addresses
//! (RFC 6177), so only the first 64 bits of an address count; an IPv4-mapped IPv6 address is the IPv4 address. All
//! unauthenticated clients behind one proxy are one client, so the share of an address is large. Where another server
//! accepts the connections and does not supply the peer address, every client is a principal.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mcp_host_base::share_limiter::ShareLimits;
use mcp_host_base::text::Excerpt;
use mcp_host_config::http::HttpServerLimits;
use mcp_host_model::requester::Requester;
use mcp_resource_host::access::Principal;
use mcp_resource_host::access::rate::RateClient;

/// The identity of a client.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClientId {
    /// The only client of a pair of streams.
    Local,
    /// The client at this address.
    V4(Ipv4Addr),
    /// The client in the network with this prefix.
    V6([u16; 4]),
    /// A principal that is authenticated, or whose address is unknown; without groups.
    Principal(Principal),
}

impl ClientId {
    /// Returns the client at that address.
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

impl ClientId {
    /// Returns the identity by which plugins distinguish callers. For a pair of streams it is the principal.
    pub(super) fn requester(&self, principal: &Principal) -> Requester {
        match self {
            Self::Local => Requester::Principal(principal.identity()),
            Self::V4(address) => Requester::Address((*address).into()),
            Self::V6(prefix) => Requester::Address(network(prefix).into()),
            Self::Principal(principal) => Requester::Principal(principal.identity()),
        }
    }
}

impl ClientId {
    /// Returns the address of the client; for IPv6 the address of its network.
    pub(super) fn address(&self) -> Option<IpAddr> {
        match self {
            Self::V4(address) => Some((*address).into()),
            Self::V6(prefix) => Some(network(prefix).into()),
            Self::Local | Self::Principal(_) => None,
        }
    }

    /// Returns the identity of a request of this principal over a connection of this client.
    pub(super) fn of_principal(&self, principal: &Principal) -> Self {
        if principal.is_built_in() { self.clone() } else { Self::Principal(principal.identity()) }
    }

    /// Returns the client as rate limits distinguish it.
    pub(super) fn rate_client(&self) -> RateClient<'_> {
        match self {
            Self::Local => RateClient::Principal(&Principal::LOCAL),
            Self::V4(address) => RateClient::Address((*address).into()),
            Self::V6(prefix) => RateClient::Address(network(prefix).into()),
            Self::Principal(principal) => RateClient::Principal(principal),
        }
    }

    /// Returns the share of this client, which is a number, of a limit.
    pub(super) fn share_of(&self, number: usize, limits: &HttpServerLimits) -> usize {
        if self.is_authenticated() { limits.principal_share.apply(number) } else { limits.client_share.apply(number) }
    }

    /// Returns an overall limit, and the share of this client in it.
    pub(super) fn share_limits(&self, overall: usize, limits: &HttpServerLimits) -> ShareLimits {
        ShareLimits { client: self.share_of(overall, limits), overall }
    }

    /// Returns whether the client is an authenticated principal.
    pub(super) fn is_authenticated(&self) -> bool {
        matches!(self, Self::Principal(principal) if !principal.is_built_in())
    }
}

/// The first address of a network.
fn network([a, b, c, d]: &[u16; 4]) -> Ipv6Addr {
    Ipv6Addr::new(*a, *b, *c, *d, 0, 0, 0, 0)
}

impl fmt::Display for ClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local => f.write_str("local"),
            Self::V4(address) => address.fmt(f),
            Self::V6(prefix) => write!(f, "{}/64", network(prefix)),
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
    fn an_authenticated_principal_is_one_client_at_every_address() {
        let addresses = ["192.0.2.1", "2001:db8::1"].map(|address| ClientId::from_address(address.parse().unwrap()));
        let (ada, bob) = (Principal::new("corp/ada"), Principal::new("corp/bob"));
        let member = ada.clone().with_groups(["corp/x"]);
        assert_eq!(addresses[0].of_principal(&ada), addresses[1].of_principal(&member));
        assert_ne!(addresses[0].of_principal(&ada), addresses[0].of_principal(&bob));
        for address in addresses {
            assert_eq!(address.of_principal(&Principal::ANONYMOUS), address);
        }
    }

    #[test]
    fn the_name_of_a_principal_is_escaped() {
        assert_eq!(ClientId::Principal(Principal::new("a\n\u{1b}[31m")).to_string(), r"principal a\n\u{1b}[31m");
    }
}
