//! The socket of the administration listener: TCP, or a Unix socket that only its owner and root can use.
//!
//! A Unix socket is protected twice: its file has mode 0600, and the kernel names the peer's user. A socket file that
//! an earlier process left behind is replaced, unless another process listens on it.

use std::io;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_config::admin::AdminAddress;
use mcp_host_config::http::HttpAddress;
use tokio::net::{TcpListener, TcpStream};

use crate::client_id::ClientId;

/// The back-off after a failed accept, as when file descriptors are exhausted.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);
/// The first byte of a TLS connection: a record of the handshake.
const TLS_HANDSHAKE: u8 = 22;

/// The socket of the administration listener. The file of a Unix socket is removed when this is dropped.
#[derive(Debug)]
pub struct AdminListener {
    socket: Socket,
    address: AdminAddress,
    /// The file of a Unix socket, for its `Drop`.
    _file: Option<SocketFile>,
}

/// The file of a Unix socket. It is removed when this is dropped, unless another file has replaced it.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The device and the inode.
    #[cfg(unix)]
    id: (u64, u64),
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(tokio::net::UnixListener),
}

/// An accepted connection.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    /// The peer is the socket's owner or root; the number is its user id.
    #[cfg(unix)]
    Unix(tokio::net::UnixStream, u32),
    #[cfg(not(unix))]
    Unix(TcpStream, u32),
}

impl Stream {
    /// The client, for its share of the connections.
    pub(super) fn client(&self) -> ClientId {
        match self {
            Self::Tcp(stream) => {
                let address = stream.peer_addr().map_or(Ipv4Addr::UNSPECIFIED.into(), |address| address.ip());
                ClientId::from_address(address)
            }
            Self::Unix(..) => ClientId::Local,
        }
    }
}

impl AdminListener {
    /// Listens at this address.
    ///
    /// # Errors
    ///
    /// The error of the system, such as [`AddrInUse`](io::ErrorKind::AddrInUse) if another process listens there.
    pub async fn bind(address: &AdminAddress) -> io::Result<Self> {
        Ok(match address {
            AdminAddress::Tcp(tcp) => {
                let listener = TcpListener::bind(tcp.socket_addr()).await?;
                let address = AdminAddress::Tcp(HttpAddress::from(listener.local_addr()?));
                Self { socket: Socket::Tcp(listener), address, _file: None }
            }
            AdminAddress::Unix(path) => {
                let (socket, file) = bind_unix(path)?;
                Self { socket, address: address.clone(), _file: Some(file) }
            }
        })
    }

    /// The address of the listener, with the port that the system chose.
    pub(super) fn address(&self) -> &AdminAddress {
        &self.address
    }

    /// Accepts a connection of an authorized peer.
    pub(super) async fn accept(&self) -> Stream {
        loop {
            let accepted = match &self.socket {
                Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| Some(Stream::Tcp(stream))),
                #[cfg(unix)]
                Socket::Unix(listener) => listener.accept().await.map(|(stream, _)| of_owner(stream)),
            };
            match accepted {
                Ok(Some(stream)) => return stream,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(target: log_target::SERVER, %error, "accept failed on the administration listener");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                }
            }
        }
    }
}

#[cfg(unix)]
impl SocketFile {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), id: Self::id(path)? })
    }

    fn id(path: &Path) -> io::Result<(u64, u64)> {
        use std::os::unix::fs::MetadataExt as _;

        let metadata = std::fs::symlink_metadata(path)?;
        Ok((metadata.dev(), metadata.ino()))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        #[cfg(unix)]
        if Self::id(&self.path).is_ok_and(|id| id == self.id) {
            // The file may be removed concurrently.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns whether the client begins with TLS. Waits for the first byte of the client.
pub(super) async fn begins_tls(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1..)) && first == [TLS_HANDSHAKE]
}

/// Returns the stream if its peer is the user of this process, or root.
#[cfg(unix)]
fn of_owner(stream: tokio::net::UnixStream) -> Option<Stream> {
    let peer = stream.peer_cred().ok()?.uid();
    if peer == 0 || peer == rustix::process::geteuid().as_raw() {
        return Some(Stream::Unix(stream, peer));
    }
    tracing::warn!(target: log_target::SERVER, user = peer, "the administration socket was refused to another user");
    None
}

#[cfg(unix)]
fn bind_unix(path: &Path) -> io::Result<(Socket, SocketFile)> {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
    use std::os::unix::net;

    let is_left_behind = || {
        fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
            && net::UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let holder = |error: io::Error| {
        let is_socket = fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
        match error.kind() == io::ErrorKind::AddrInUse && !is_socket {
            true => io::Error::new(io::ErrorKind::AlreadyExists, "a file that is no socket is there"),
            false => error,
        }
    };
    let listener = match net::UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_behind() => {
            fs::remove_file(path)?;
            net::UnixListener::bind(path)?
        }
        bound => bound.map_err(holder)?,
    };
    let file = SocketFile::of(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    listener.set_nonblocking(true)?;
    Ok((Socket::Unix(tokio::net::UnixListener::from_std(listener)?), file))
}

#[cfg(not(unix))]
fn bind_unix(_: &Path) -> io::Result<(Socket, SocketFile)> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "this system has no Unix sockets"))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_socket_is_private_replaces_a_dead_one_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let address = AdminAddress::Unix(path.clone());
        let listener = AdminListener::bind(&address).await.unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(AdminListener::bind(&address).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_socket_that_another_process_made_in_its_place_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("admin.sock");
        let address = AdminAddress::Unix(path.clone());
        let first = AdminListener::bind(&address).await.unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = AdminListener::bind(&address).await.unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notes.md");
        std::fs::write(&path, "text").unwrap();
        let error = AdminListener::bind(&AdminAddress::Unix(path.clone())).await.unwrap_err();
        assert_eq!(
            (error.kind(), std::fs::read_to_string(path).unwrap().as_str()),
            (io::ErrorKind::AlreadyExists, "text")
        );
    }
}
