//! A loopback port that is known before a server listens on it.

use std::net::SocketAddr;

use tokio::net::TcpSocket;

/// A loopback port that is bound, but not listened on: no other process gets it as an ephemeral port, and a server that
/// sets `SO_REUSEADDR`, as usual, can listen on it. A server whose config has its own URL needs one.
#[derive(Debug)]
pub struct ReservedPort {
    _socket: TcpSocket,
    address: SocketAddr,
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

impl ReservedPort {
    /// Reserves a port.
    pub fn new() -> Self {
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.set_reuseaddr(true).expect("a port can be shared");
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback has a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        Self { _socket: socket, address }
    }

    /// The address with that port.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the MCP endpoint of a server on that port.
    pub fn mcp_url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }
}
