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

use super::Place;
use super::address::is_public;
use super::failure::Failure;
use super::trust::Tls;
use crate::config::{UrlHost, HostName, Origin};

/// How many addresses of a name are tried.
pub(super) const MOST_ADDRESSES: usize = 8;

/// What resolves and connects.
pub(super) trait Network: Send + Sync {
    /// All addresses of a name. Called once for an exchange with a name, never for one with an address.
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;

    /// A connection to that address, which was checked.
    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>>;
}

/// The network of this machine.
pub(super) struct System;

impl Network for System {
    fn resolve(&self, name: &HostName) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let name = name.as_str().to_owned();
        Box::pin(async move { Ok(lookup_host((name, 0)).await?.map(|address| address.ip()).collect()) })
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        Box::pin(TcpStream::connect(address))
    }
}

/// A connection, encrypted or not.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to an origin until then, over TLS if there is some.
pub(super) async fn connect(
    network: &Arc<dyn Network>,
    origin: &Origin,
    tls: Option<&Tls>,
    place: &Place,
    until: Instant,
) -> Result<Box<dyn Stream>, Failure> {
    let addresses = match origin.host() {
        UrlHost::Address(address) => vec![*address],
        UrlHost::Name(name) => {
            let answer = resolve(network, name, place);
            checked(timeout_at(until, answer).await.map_err(|_| Failure::ResolveTime)??)?
        }
    };
    let stream = first(network, &addresses, origin.port(), until).await?;
    // Small messages, each of which is waited for.
    let _ = stream.set_nodelay(true);
    match tls {
        None => Ok(Box::new(stream)),
        Some(tls) => {
            let handshake = tls.handshake(origin.host(), stream);
            Ok(Box::new(timeout_at(until, handshake).await.map_err(|_| Failure::ConnectTime)??))
        }
    }
}

/// The addresses of a name. The system's resolver cannot be stopped, so the place stays taken until it has answered, even if
/// nobody waits for it any more.
async fn resolve(network: &Arc<dyn Network>, name: &HostName, place: &Place) -> Result<Vec<IpAddr>, Failure> {
    let (lookup, place) = (network.resolve(name), place.clone());
    let answer = tokio::spawn(async move {
        let answer = lookup.await;
        drop(place);
        answer
    });
    answer
        .await
        .map_err(|error| Failure::Resolve(error.to_string()))?
        .map_err(|error| Failure::Resolve(error.to_string()))
}

/// Those that a name may lead to.
fn checked(addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, Failure> {
    let (public, inside): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| is_public(*address));
    match (public.is_empty(), inside.first()) {
        (false, _) => Ok(public),
        (true, Some(address)) => Err(Failure::Inside(*address)),
        (true, None) => Err(Failure::Resolve("the name has no address".to_owned())),
    }
}

/// A connection to the first address that takes one. Each gets its share of the time, so that one that does not answer
/// leaves some for the next.
async fn first(
    network: &Arc<dyn Network>,
    addresses: &[IpAddr],
    port: u16,
    until: Instant,
) -> Result<TcpStream, Failure> {
    let mut failure = Failure::ConnectTime;
    let tried = addresses.iter().take(MOST_ADDRESSES);
    let count = u32::try_from(tried.len()).unwrap_or(u32::MAX);
    for (address, left) in tried.zip((1..=count).rev()) {
        let now = Instant::now();
        let share = until.saturating_duration_since(now).checked_div(left).unwrap_or_default();
        let connecting = network.connect(SocketAddr::new(*address, port));
        match timeout_at(now.checked_add(share).unwrap_or(until), connecting).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => failure = Failure::Connect(error),
            Err(_) => failure = Failure::ConnectTime,
        }
    }
    Err(failure)
}
