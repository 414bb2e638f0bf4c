//! From an origin to a connection: resolve once, check, connect to what was checked.
//!
//! A name is resolved once for an exchange. The addresses of that one answer are checked, and the connection is made to
//! exactly one of them: a name that says something else a moment later (DNS rebinding) is not asked again.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use super::ExchangePermit;
use super::address::is_public;
use super::error::ExchangeError;
use super::tls::TlsClient;
use crate::config::{HostName, Origin, UrlHost};

/// How many addresses of a name are tried.
pub(super) const MAX_ADDRESSES: usize = 8;

/// What resolves and connects.
pub(super) trait Network: Send + Sync {
    /// All addresses of a name. Called once for an exchange with a name, never for one with an address.
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// A connection to that address, which was checked.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// The network of this machine.
pub(super) struct SystemNetwork;

impl Network for SystemNetwork {
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.as_str().to_owned();
        Box::pin(async move { Ok(lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// A connection, encrypted or not.
pub(super) trait IoStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> IoStream for T {}

/// Connects to an origin until then, over TLS if there is some.
pub(super) async fn connect(
    network: &Arc<dyn Network>,
    origin: &Origin,
    tls: Option<&TlsClient>,
    permit: &ExchangePermit,
    deadline: Instant,
) -> Result<Box<dyn IoStream>, ExchangeError> {
    let addresses = match origin.host() {
        UrlHost::Address(address) => vec![*address],
        UrlHost::Name(name) => {
            let answer = resolve(network, name, permit);
            filter_public(timeout_at(deadline, answer).await.map_err(|_| ExchangeError::ResolveTimeout)??)?
        }
    };
    let stream = connect_any(network, &addresses, origin.port(), deadline).await?;
    // Small messages, each of which is waited for.
    let _ = stream.set_nodelay(true);
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let handshake = tls.handshake(origin.host(), stream);
            Ok(Box::new(timeout_at(deadline, handshake).await.map_err(|_| ExchangeError::ConnectTimeout)??))
        }
    }
}

/// The addresses of a name. The system's resolver cannot be stopped, so the place stays taken until it has answered, even if
/// nobody waits for it any more.
async fn resolve(
    network: &Arc<dyn Network>,
    name: &HostName,
    permit: &ExchangePermit,
) -> Result<Vec<IpAddr>, ExchangeError> {
    let (lookup, permit) = (network.resolve(name), permit.clone());
    let answer = tokio::spawn(async move {
        let answer = lookup.await;
        drop(permit);
        answer
    });
    answer
        .await
        .map_err(|error| ExchangeError::Resolve(error.to_string()))?
        .map_err(|error| ExchangeError::Resolve(error.to_string()))
}

/// Those that a name may lead to.
fn filter_public(addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, ExchangeError> {
    let (public, non_public): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| is_public(*address));
    match (public.is_empty(), non_public.first()) {
        (false, _) => Ok(public),
        (true, Some(address)) => Err(ExchangeError::PrivateAddress(*address)),
        (true, None) => Err(ExchangeError::Resolve("the name has no address".to_owned())),
    }
}

/// A connection to the first address that takes one. Each gets its share of the time, so that one that does not answer
/// leaves some for the next.
async fn connect_any(
    network: &Arc<dyn Network>,
    addresses: &[IpAddr],
    port: u16,
    deadline: Instant,
) -> Result<TcpStream, ExchangeError> {
    let mut last_error = ExchangeError::ConnectTimeout;
    let candidates = addresses.iter().take(MAX_ADDRESSES);
    let count = u32::try_from(candidates.len()).unwrap_or(u32::MAX);
    for (address, left) in candidates.zip((1..=count).rev()) {
        let now = Instant::now();
        let attempt_timeout = deadline.saturating_duration_since(now).checked_div(left).unwrap_or_default();
        let connecting = network.connect(SocketAddr::new(*address, port));
        match timeout_at(now.checked_add(attempt_timeout).unwrap_or(deadline), connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last_error = ExchangeError::Connect(error),
            Err(_) => last_error = ExchangeError::ConnectTimeout,
        }
    }
    Err(last_error)
}
