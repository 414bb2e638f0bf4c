//! Connections to an origin: resolve once, validate, connect to a validated address.
//!
//! A name is resolved once per exchange. The addresses of that one answer are validated, and the connection is made to
//! exactly one of them, so a name that resolves differently a moment later (DNS rebinding, a TOCTOU attack) has no
//! effect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use mcp_host_base::task;
use mcp_host_model::net::{HostName, Origin, UrlHost, is_public};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, timeout_at};

use super::error::ExchangeError;
use super::tls::TlsClient;

/// The maximum number of addresses that are tried per name.
pub(super) const MAX_ADDRESSES: usize = 8;

/// Name resolution and connections.
pub(super) trait Network: Send + Sync {
    /// Returns all addresses of a name. Called once per exchange with a name, and never for an exchange with an
    /// address.
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// Connects to a validated address.
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

/// The allowed addresses of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressPolicy {
    /// Addresses of the public internet, for requests of guests.
    Public,
    /// All addresses, for requests of the host to a name that the admin chose.
    Any,
}

/// Connects to an origin until `deadline`, over TLS if a client is given. The permit is held while the name is
/// resolved.
pub(super) async fn connect(
    network: &Arc<dyn Network>,
    origin: &Origin,
    policy: AddressPolicy,
    tls: Option<&TlsClient>,
    permit: &Arc<impl Send + Sync + 'static>,
    deadline: Instant,
) -> Result<Box<dyn IoStream>, ExchangeError> {
    let addresses = match origin.host() {
        UrlHost::Address(address) => vec![*address],
        UrlHost::Name(name) => {
            let answer = resolve(network, name, permit);
            let addresses = timeout_at(deadline, answer).await.map_err(|_| ExchangeError::ResolveTimeout)??;
            select(addresses, policy)?
        }
    };
    let stream = connect_any(network, &addresses, origin.port(), deadline).await?;
    // Messages are small, and each is awaited: Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let handshake = tls.handshake(origin.host(), stream);
            Ok(Box::new(timeout_at(deadline, handshake).await.map_err(|_| ExchangeError::ConnectTimeout)??))
        }
    }
}

/// Resolves a name. The system's resolver cannot be cancelled, so the permit is held until the resolver has answered,
/// even if the caller stops waiting.
async fn resolve(
    network: &Arc<dyn Network>,
    name: &HostName,
    permit: &Arc<impl Send + Sync + 'static>,
) -> Result<Vec<IpAddr>, ExchangeError> {
    let (lookup, permit) = (network.resolve(name), permit.clone());
    let answer = task::spawn(async move {
        let answer = lookup.await;
        drop(permit);
        answer
    });
    answer
        .await
        .map_err(|error| ExchangeError::Resolve(error.to_string()))?
        .map_err(|error| ExchangeError::Resolve(error.to_string()))
}

/// Returns the addresses that the policy allows. Fails if there are none.
fn select(addresses: Vec<IpAddr>, policy: AddressPolicy) -> Result<Vec<IpAddr>, ExchangeError> {
    let is_allowed = |address: &IpAddr| policy == AddressPolicy::Any || is_public(*address);
    let (allowed, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(is_allowed);
    match (allowed.is_empty(), other.first()) {
        (false, _) => Ok(allowed),
        (true, Some(address)) => Err(ExchangeError::PrivateAddress(*address)),
        (true, None) => Err(ExchangeError::Resolve("the name has no address".to_owned())),
    }
}

/// Connects to the first address that accepts. Each attempt gets an equal share of the remaining time, so an address
/// that does not respond leaves time for the next one.
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
