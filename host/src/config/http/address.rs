//! The address of the HTTP server: loopback only.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::config::error::{Suggest, quote};
use crate::config::reader::{FromNode, Node, Schema};

/// An address and a port that other machines cannot reach: `127.0.0.1:8080`, `[::1]:8080`.
///
/// Addresses other than loopback are rejected: other machines reach the server by a proxy. With port 0 the system chooses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpAddress(SocketAddr);

impl HttpAddress {
    /// Returns the address.
    pub fn socket_addr(self) -> SocketAddr {
        self.0
    }
}

/// The reason why a text is not an address of the server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HttpAddressError {
    /// It is not an IP address with a port.
    #[error("{} is not an IP address with a port", quote(.0))]
    NotAnAddress(String),
    /// It is not a loopback address.
    #[error("`{0}` can be reached from other machines, and the server listens on loopback only")]
    NotLoopback(SocketAddr),
}

impl Suggest for HttpAddressError {
    fn suggestion(&self, key: &str) -> String {
        match self {
            Self::NotAnAddress(_) => format!("write `{key} = \"127.0.0.1:8080\"`"),
            Self::NotLoopback(address) => format!(
                "listen on loopback, `{key} = \"127.0.0.1:{}\"`, and let a proxy that authenticates forward to it",
                address.port()
            ),
        }
    }
}

impl TryFrom<SocketAddr> for HttpAddress {
    type Error = HttpAddressError;

    fn try_from(address: SocketAddr) -> Result<Self, HttpAddressError> {
        if address.ip().to_canonical().is_loopback() {
            Ok(Self(address))
        } else {
            Err(HttpAddressError::NotLoopback(address))
        }
    }
}

impl FromStr for HttpAddress {
    type Err = HttpAddressError;

    fn from_str(text: &str) -> Result<Self, HttpAddressError> {
        let address: SocketAddr = text.parse().map_err(|_| HttpAddressError::NotAnAddress(text.to_owned()))?;
        Self::try_from(address)
    }
}

impl fmt::Display for HttpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromNode for HttpAddress {
    const TYPE_NAME: &'static str = "an IP address with a port";

    fn example() -> String {
        "\"127.0.0.1:8080\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^([0-9.]+|\[[0-9a-fA-F:.%]+\]):[0-9]+$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_listened_at() {
        for text in ["127.0.0.1:8080", "127.8.9.10:0", "[::1]:8080", "[::ffff:127.0.0.1]:80"] {
            assert_eq!(text.parse::<HttpAddress>().unwrap().to_string(), text);
        }
        for text in ["0.0.0.0:8080", "[::]:8080", "192.168.1.2:80", "[::ffff:10.0.0.1]:80"] {
            assert!(matches!(text.parse::<HttpAddress>(), Err(HttpAddressError::NotLoopback(_))), "{text}");
        }
    }

    #[test]
    fn an_address_is_numbers_with_a_port() {
        for text in ["", "8080", ":8080", "127.0.0.1", "localhost:8080", "http://127.0.0.1:8080", "127.0.0.1:99999"] {
            assert!(matches!(text.parse::<HttpAddress>(), Err(HttpAddressError::NotAnAddress(_))), "{text}");
        }
    }
}
