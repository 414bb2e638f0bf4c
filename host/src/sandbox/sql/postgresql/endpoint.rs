//! One of the servers of a connection URL, and streams to it.

use std::io;
use std::net::IpAddr;
#[cfg(unix)]
use std::path::PathBuf;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};

use crate::config::grants::server_port;

/// A stream to a server.
pub(super) type BoxedStream = Box<dyn IoStream>;

/// What a stream to a server can do.
pub(super) trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

/// A server.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    address: Address,
    /// The name that its certificate is for; none without TLS.
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
                        // A URL may have the address of the host beside the name that its certificate is for.
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
    pub(super) async fn open(&self) -> io::Result<BoxedStream> {
        let stream = match &self.address {
            Address::Name(name, port) => TcpStream::connect((name.clone(), *port)).await?,
            Address::Ip(ip, port) => TcpStream::connect((*ip, *port)).await?,
            #[cfg(unix)]
            Address::Socket(path) => return Ok(Box::new(tokio::net::UnixStream::connect(path.clone()).await?)),
        };
        // Messages are small, and each is awaited.
        let _ = stream.set_nodelay(true);
        Ok(Box::new(stream))
    }
}
