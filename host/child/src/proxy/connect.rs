//! Connections to granted origins. A name is resolved once, its addresses are checked, and one of them is connected to,
//! so DNS rebinding (another address at a second look-up) has no effect.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use mcp_host_base::task;
use mcp_host_model::net::{Origin, UrlHost, is_public};
use tokio::net::{TcpStream, lookup_host};

/// The maximum number of addresses that are tried.
const MAX_ADDRESSES: usize = 8;

/// Why a connection cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    /// The name resolves only to addresses that are not on the public internet.
    #[error(
        "the name resolves to {0}, which is not an address of the public internet; grant the address instead of the name if that is meant"
    )]
    PrivateAddress(IpAddr),
    /// The name cannot be resolved.
    #[error("the name cannot be resolved: {0}")]
    Resolve(io::Error),
    /// No address accepts a connection.
    #[error("cannot connect: {0}")]
    Connect(io::Error),
}

/// Connects to an origin. The permit is held while the name is resolved, because the system's resolver cannot be
/// cancelled, and a program could otherwise make any number of threads wait for it.
pub(super) async fn connect(
    origin: &Origin,
    permit: Arc<impl Send + Sync + 'static>,
) -> Result<TcpStream, ConnectError> {
    let addresses = match origin.host() {
        UrlHost::Address(address) => vec![*address],
        UrlHost::Name(name) => {
            let name = name.as_str().to_owned();
            let resolved = task::spawn(async move {
                let resolved = lookup_host((name, 0)).await.map(Iterator::collect::<Vec<_>>);
                drop(permit);
                resolved
            });
            let resolved = resolved.await.map_err(|error| ConnectError::Resolve(io::Error::other(error)))?;
            let resolved = resolved.map_err(ConnectError::Resolve)?;
            public(resolved.into_iter().map(|address| address.ip()).collect())?
        }
    };
    let mut last = ConnectError::Resolve(io::Error::other("it has no address"));
    for address in addresses.into_iter().take(MAX_ADDRESSES) {
        match TcpStream::connect(SocketAddr::new(address, origin.port())).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => last = ConnectError::Connect(error),
        }
    }
    Err(last)
}

/// Returns the public addresses. Fails if there are only others.
fn public(addresses: Vec<IpAddr>) -> Result<Vec<IpAddr>, ConnectError> {
    let (public, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|address| is_public(*address));
    match (public.is_empty(), other.first()) {
        (true, Some(address)) => Err(ConnectError::PrivateAddress(*address)),
        _ => Ok(public),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_does_not_lead_to_this_machine_but_an_address_does() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let to = |host: &str| format!("http://{host}:{port}").parse::<Origin>().unwrap();
        assert!(matches!(connect(&to("localhost"), Arc::new(())).await, Err(ConnectError::PrivateAddress(_))));
        connect(&to("127.0.0.1"), Arc::new(())).await.unwrap();
    }

    #[test]
    fn of_the_addresses_of_a_name_the_public_ones_count() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<IpAddr>>();
        assert_eq!(public(all(&["10.0.0.1", "1.1.1.1"])).unwrap(), all(&["1.1.1.1"]));
        assert!(matches!(public(all(&["169.254.169.254"])), Err(ConnectError::PrivateAddress(_))));
    }
}
