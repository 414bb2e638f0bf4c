//! SSRF protection: an untrusted name may only resolve to addresses of the public internet.
//!
//! Without this, an untrusted provider, or a registry, could let its own name resolve to an address that only this
//! machine can reach: the machine itself, its network, the metadata service of its cloud. Every address that the
//! IANA special-purpose registries (RFC 6890) do not list as globally reachable is rejected, and so is an IPv6
//! address that embeds such an IPv4 address. A grant that names an address is exempt from this check.
//!
//! Not detected, and so not rejected: public addresses of this machine itself, and NAT64 networks with their own
//! prefix.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Non-public IPv4 networks.
const NON_PUBLIC_V4: [Ipv4Net; 15] = [
    // This network.
    Ipv4Net::new_assert(Ipv4Addr::new(0, 0, 0, 0), 8),
    // Private (RFC 1918).
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
    // Carrier-grade NAT (RFC 6598).
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, which includes the metadata service of most clouds.
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    // The metadata service of a cloud that uses a public address for it.
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
    // Protocol assignments, which include the metadata service of another cloud.
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation.
    Ipv4Net::new_assert(Ipv4Addr::new(192, 0, 2, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(198, 51, 100, 0), 24),
    Ipv4Net::new_assert(Ipv4Addr::new(203, 0, 113, 0), 24),
    // 6to4 relays, no longer in operation.
    Ipv4Net::new_assert(Ipv4Addr::new(192, 88, 99, 0), 24),
    // Benchmarking.
    Ipv4Net::new_assert(Ipv4Addr::new(198, 18, 0, 0), 15),
    // Multicast, reserved, broadcast.
    Ipv4Net::new_assert(Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Non-public IPv6 networks within [`GLOBAL_V6`].
const NON_PUBLIC_V6: [Ipv6Net; 3] = [
    // Protocol assignments: Teredo, benchmarking, ORCHID.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    Ipv6Net::new_assert(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    Ipv6Net::new_assert(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Global unicast addresses (RFC 4291, section 2.4).
const GLOBAL_V6: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// The well-known prefix of NAT64, which embeds IPv4 addresses (RFC 6052).
const NAT64: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// The prefix of 6to4, which embeds IPv4 addresses (RFC 3056).
const SIX_TO_FOUR: Ipv6Net = Ipv6Net::new_assert(Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16);

/// Returns whether a name may resolve to `address`.
pub fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !NON_PUBLIC_V4.iter().any(|network| network.contains(&address))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if NAT64.contains(&address) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    if SIX_TO_FOUR.contains(&address) {
        let [_, _, a, b, c, d, ..] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    GLOBAL_V6.contains(&address) && !NON_PUBLIC_V6.iter().any(|network| network.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_inside_are_no_place_for_a_name() {
        for address in [
            // v4: unspecified, private, shared, loopback, link-local and metadata.
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "100.64.0.1",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.0.1",
            "169.254.169.254",
            "169.254.170.2",
            "168.63.129.16",
            "192.0.0.192",
            "192.0.0.1",
            // v4: documentation, benchmarks, 6to4 relay, multicast, reserved, broadcast.
            "192.0.2.1",
            "198.51.100.1",
            "203.0.113.1",
            "198.18.0.1",
            "198.19.255.255",
            "192.88.99.1",
            "224.0.0.1",
            "239.255.255.250",
            "240.0.0.1",
            "255.255.255.254",
            "255.255.255.255",
            // v6: unspecified, loopback, link-local, site-local, unique local, metadata, multicast, discard.
            "::",
            "::1",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "fc00::1",
            "fd00::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "ff02::1",
            "ff0e::1",
            "100::1",
            // v6: documentation, benchmarks, ORCHID, Teredo, segment routing, NAT64 with a local prefix.
            "2001:db8::1",
            "3fff::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            "5f00::1",
            "64:ff9b:1::1",
            // v4 in v6: mapped, compatible, translated, 6to4, NAT64.
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "::10.0.0.1",
            "::8.8.8.8",
            "::ffff:0:127.0.0.1",
            "2002:7f00:1::1",
            "2002:a00:1::1",
            "2002:a9fe:a9fe::",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
        ] {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn a_name_may_lead_to_the_public_internet() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.1",
            "100.63.255.255",
            "100.128.0.1",
            "126.255.255.255",
            "128.0.0.1",
            "169.253.255.255",
            "172.15.255.255",
            "172.32.0.1",
            "192.0.1.1",
            "192.167.255.255",
            "198.17.0.1",
            "198.20.0.1",
            "223.255.255.255",
            "168.63.129.15",
            "2606:4700:4700::1111",
            "2001:4860:4860::8888",
            "2001:200::1",
            "2a00:1450::1",
            "3ffe::1",
            "::ffff:1.1.1.1",
            "64:ff9b::1.1.1.1",
            "2002:101:101::1",
        ] {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }
}
