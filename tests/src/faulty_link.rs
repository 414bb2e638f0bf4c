//! A TCP proxy on loopback between a program and its server, which injects faults: delays, stalls and cut connections.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// The maximum number of pieces in transit in one direction.
const ON_THE_WAY: usize = 1024;

/// The fault that a link injects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// None: all data is passed on immediately.
    None,
    /// All data is passed on with a delay.
    Delay(Duration),
    /// No data is passed on, and connections stay open: data is lost without an error.
    Stalled,
    /// No data of the server is passed on: a half-open connection.
    HalfOpen,
    /// All connections end, and so do new ones, immediately.
    Cut,
}

/// A proxy in front of one server. It ends on drop.
#[derive(Debug)]
pub struct FaultyLink {
    address: SocketAddr,
    fault: watch::Sender<LinkFault>,
    accepting: JoinHandle<()>,
}

impl FaultyLink {
    /// Starts a proxy on a free port in front of a server, which need not run yet.
    pub async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port for the link");
        let address = listener.local_addr().expect("it is bound");
        let (fault, faults) = watch::channel(LinkFault::None);
        let accepting = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, server, faults.clone()));
            }
        });
        Self { address, fault, accepting }
    }

    /// The address that the program connects to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the fault. Data that was held back before is lost with its connection.
    pub fn set(&self, fault: LinkFault) {
        self.fault.send_replace(fault);
    }
}

impl Drop for FaultyLink {
    fn drop(&mut self) {
        self.accepting.abort();
        // Connections end with the proxy.
        self.fault.send_replace(LinkFault::Cut);
    }
}

async fn connect(client: TcpStream, server: SocketAddr, mut faults: watch::Receiver<LinkFault>) {
    if *faults.borrow() == LinkFault::Cut {
        return;
    }
    let Ok(server) = TcpStream::connect(server).await else { return };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let up = pass(from_client, to_server, faults.clone(), |fault| fault == LinkFault::Stalled);
    let down =
        pass(from_server, to_client, faults.clone(), |fault| matches!(fault, LinkFault::Stalled | LinkFault::HalfOpen));
    let mut had_lost = false;
    let ends = async {
        loop {
            let fault = *faults.borrow_and_update();
            had_lost |= matches!(fault, LinkFault::Stalled | LinkFault::HalfOpen);
            // A byte stream must have no gap: a connection that has lost data ends with the fault.
            if fault == LinkFault::Cut || had_lost && fault == LinkFault::None || faults.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = up => {}
        _ = down => {}
        () = ends => {}
    }
}

/// Passes on data while both ends are open.
async fn pass(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    faults: watch::Receiver<LinkFault>,
    loses: fn(LinkFault) -> bool,
) -> io::Result<()> {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Vec<u8>)>(ON_THE_WAY);
    let reads = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let length = from.read(&mut buffer).await?;
            if length == 0 {
                return io::Result::Ok(());
            }
            let fault = *faults.borrow();
            let delay = if let LinkFault::Delay(delay) = fault { delay } else { Duration::ZERO };
            if !loses(fault) && sender.send((Instant::now() + delay, buffer[..length].to_vec())).await.is_err() {
                return Ok(());
            }
        }
    };
    let writes = async {
        while let Some((at, piece)) = pieces.recv().await {
            sleep_until(at).await;
            to.write_all(&piece).await?;
        }
        Ok(())
    };
    tokio::select! {
        result = reads => result,
        result = writes => result,
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    /// Starts an echo server.
    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.into_split();
                    let _ = tokio::io::copy(&mut from, &mut to).await;
                });
            }
        });
        address
    }

    async fn is_answered(stream: &mut TcpStream, text: &[u8], within: Duration) -> bool {
        stream.write_all(text).await.unwrap();
        let mut answer = vec![0; text.len()];
        timeout(within, stream.read_exact(&mut answer)).await.is_ok_and(|read| read.is_ok() && answer == text)
    }

    #[tokio::test]
    async fn a_link_passes_on_delays_loses_and_cuts() {
        let link = FaultyLink::start(echo().await).await;
        let (long, short) = (Duration::from_secs(60), Duration::from_millis(100));
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        assert!(is_answered(&mut stream, b"one", long).await);
        link.set(LinkFault::Delay(short));
        let sent = Instant::now();
        assert!(is_answered(&mut stream, b"two", long).await);
        assert!(sent.elapsed() >= short * 2, "both ways");
        for fault in [LinkFault::Stalled, LinkFault::HalfOpen] {
            link.set(fault);
            let mut lost = TcpStream::connect(link.address()).await.unwrap();
            assert!(!is_answered(&mut lost, b"three", short).await, "{fault:?}");
            link.set(LinkFault::None);
            let mut rest = Vec::new();
            let ended = timeout(long, lost.read_to_end(&mut rest)).await.unwrap();
            assert!(ended.is_err() || rest.is_empty(), "a connection with a hole ends: {fault:?}");
        }
        let mut stream = TcpStream::connect(link.address()).await.unwrap();
        assert!(is_answered(&mut stream, b"four", long).await);
        link.set(LinkFault::Cut);
        let mut rest = Vec::new();
        let _ = timeout(long, stream.read_to_end(&mut rest)).await.unwrap();
        assert!(rest.is_empty());
    }
}
