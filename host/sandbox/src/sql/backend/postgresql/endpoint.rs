//! One of the servers of a connection URL, and streams to it.

use std::io;
use std::net::IpAddr;
#[cfg(unix)]
use std::path::PathBuf;

use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
#[cfg(unix)]
use tokio_util::either::Either;

use mcp_host_config::grants::server_port;

/// A stream to a server.
#[cfg(unix)]
pub(super) type ServerStream = Either<TcpStream, UnixStream>;
/// A stream to a server.
#[cfg(not(unix))]
pub(super) type ServerStream = TcpStream;

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    address: Address,
    /// The name in the server's certificate. None without TLS.
    pub(super) tls_name: Option<String>,
}

#[derive(Clone, Debug)]
enum Address {
    Name(String, u16),
    Ip(IpAddr, u16),
    #[cfg(unix)]
    Socket(PathBuf),
}

impl Endpoint {
    /// The servers of a URL, in its order.
    pub(super) fn all(config: &Config) -> Vec<Self> {
        let with_tls = config.get_ssl_mode() != SslMode::Disable;
        let hosts = config.get_hosts().iter().enumerate();
        hosts
            .map(|(index, host)| {
                let port = server_port(config, index);
                match host {
                    Host::Tcp(name) => {
                        // A URL may have the address of the host in addition to the name in its certificate.
                        let ip = config.get_hostaddrs().get(index).copied();
                        let address = match ip.or_else(|| name.parse().ok()) {
                            Some(ip) => Address::Ip(ip, port),
                            None => Address::Name(name.clone(), port),
                        };
                        Self { address, tls_name: with_tls.then(|| name.clone()) }
                    }
                    #[cfg(unix)]
                    Host::Unix(dir) => {
                        Self { address: Address::Socket(dir.join(format!(".s.PGSQL.{port}"))), tls_name: None }
                    }
                }
            })
            .collect()
    }

    /// Opens a stream.
    pub(super) async fn open(&self) -> io::Result<ServerStream> {
        let stream = match &self.address {
            Address::Name(name, port) => TcpStream::connect((name.clone(), *port)).await?,
            Address::Ip(ip, port) => TcpStream::connect((*ip, *port)).await?,
            #[cfg(unix)]
            Address::Socket(path) => return Ok(Either::Right(UnixStream::connect(path.clone()).await?)),
        };
        // Messages are small, and each is awaited: Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        #[cfg(unix)]
        let stream = Either::Left(stream);
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints(url: &str) -> Vec<String> {
        let config = mcp_host_config::grants::client_config(url).unwrap();
        let shown = Endpoint::all(&config).into_iter();
        shown.map(|endpoint| format!("{:?} {:?}", endpoint.address, endpoint.tls_name)).collect()
    }

    #[test]
    fn servers_are_tried_in_the_order_of_the_url_each_at_its_port() {
        assert_eq!(
            endpoints("postgres://reader@db.example.com,[::1]:5433/shop"),
            ["Name(\"db.example.com\", 5432) Some(\"db.example.com\")", "Ip(::1, 5433) Some(\"::1\")",]
        );
    }

    #[test]
    fn a_server_has_tls_unless_the_url_says_otherwise_or_it_has_a_socket_here() {
        assert_eq!(endpoints("postgres://reader@db/shop?sslmode=prefer"), ["Name(\"db\", 5432) Some(\"db\")"]);
        assert_eq!(endpoints("postgres://reader@db/shop?sslmode=disable"), ["Name(\"db\", 5432) None"]);
        assert_eq!(
            endpoints("postgres://reader@/shop?host=/run/postgresql&port=5433"),
            ["Socket(\"/run/postgresql/.s.PGSQL.5433\") None"]
        );
        assert_eq!(
            endpoints("postgres://reader@db/shop?hostaddr=10.0.0.1"),
            ["Ip(10.0.0.1, 5432) Some(\"db\")"],
            "the certificate is for the name"
        );
    }
}
