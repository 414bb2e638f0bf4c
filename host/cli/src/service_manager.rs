//! The service manager, such as systemd: the listening socket that it passes (socket activation, `sd_listen_fds(3)`),
//! and the messages that it expects from a service of `Type=notify` (`sd_notify(3)`). Without a manager, nothing
//! happens.
//!
//! | message | when |
//! |---|---|
//! | `READY=1` | the server accepts requests, or has reloaded; with the outcome of a reload as `STATUS=` |
//! | `RELOADING=1` | a reload on request has begun |
//! | `STOPPING=1` | the server received a termination signal |
//! | `WATCHDOG=1` | twice per `WatchdogSec`, by a task on the threads that serve clients: the manager restarts a server whose threads run no tasks |
//!
//! The manager keeps its socket open during a restart of the server. New connections wait in the backlog of the socket,
//! and none is refused.

use std::io;
use std::net::TcpListener as StdTcpListener;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
#[cfg(unix)]
use std::os::unix::ffi::OsStrExt as _;
#[cfg(unix)]
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::time::Duration;

use listenfd::ListenFd;
use mcp_host_base::log_target;
use mcp_host_base::task;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// The number of watchdog messages per `WatchdogSec`, as sd_watchdog_enabled(3) recommends.
const WATCHDOG_MESSAGES: u32 = 2;

/// The maximum number of passed sockets that are examined.
const MAX_PASSED: u32 = 64;
/// The number of attempts to send a message that must arrive, and the pause between attempts.
const ATTEMPTS: usize = 50;
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The service manager of a server.
#[derive(Debug, Default)]
pub(super) struct ServiceManager {
    pub(super) socket: Option<PassedSocket>,
    pub(super) notifier: Notifier,
}

/// The listening socket that the service manager passed.
#[derive(Debug)]
pub(super) struct PassedSocket {
    listener: StdTcpListener,
    address: std::net::SocketAddr,
}

impl PassedSocket {
    /// Takes the socket of this process, if the manager passed one. Call it while the process has one thread: it
    /// removes environment variables.
    ///
    /// # Errors
    ///
    /// The manager passed several sockets, or one that is not a TCP socket.
    pub(super) fn take() -> io::Result<Option<Self>> {
        let invalid = |message: String| io::Error::new(io::ErrorKind::InvalidInput, message);
        let count = std::env::var("LISTEN_FDS").ok().and_then(|count| count.parse::<u32>().ok());
        if let Some(count) = count.filter(|count| *count > MAX_PASSED) {
            return Err(invalid(format!("expected one TCP socket, found `LISTEN_FDS={count}`")));
        }
        let mut passed = ListenFd::from_env();
        if passed.len() > 1 {
            return Err(invalid(format!("expected one TCP socket, found {} sockets", passed.len())));
        }
        let Some(listener) = passed.take_tcp_listener(0)? else { return Ok(None) };
        #[cfg(unix)]
        if !rustix::net::sockopt::socket_acceptconn(&listener)? {
            let message = "expected a socket that listens, found another one; the unit of the socket needs `Accept=no`";
            return Err(invalid(message.to_owned()));
        }
        Ok(Some(Self { address: listener.local_addr()?, listener }))
    }

    /// The address of the socket.
    pub(super) fn address(&self) -> std::net::SocketAddr {
        self.address
    }

    /// Returns the socket as the listener of the server.
    ///
    /// # Errors
    ///
    /// The socket cannot be made non-blocking.
    pub(super) fn into_listener(self) -> io::Result<TcpListener> {
        self.listener.set_nonblocking(true)?;
        TcpListener::from_std(self.listener)
    }
}

/// The connection to the service manager, if there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct Notifier {
    #[cfg(unix)]
    socket: Option<Arc<UnixDatagram>>,
}

impl Notifier {
    /// Connects to the manager (`NOTIFY_SOCKET`). Call it before the process is confined: after that, Unix sockets
    /// cannot be opened, and a permission for this socket would extend to every provider's host calls.
    ///
    /// # Errors
    ///
    /// There is a manager, but its socket cannot be used.
    #[cfg(unix)]
    pub(super) fn connect() -> io::Result<Self> {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()) else {
            return Ok(Self::default());
        };
        let address = match path.as_bytes().strip_prefix(b"@") {
            #[cfg(target_os = "linux")]
            Some(name) => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(&path)?,
        };
        let socket = UnixDatagram::unbound()?;
        socket.connect_addr(&address)?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket: Some(Arc::new(socket)) })
    }

    /// Other systems have no such manager.
    #[cfg(not(unix))]
    pub(super) fn connect() -> io::Result<Self> {
        Ok(Self::default())
    }

    /// Reports readiness with a status, and then sends watchdog messages until the task is dropped.
    pub(super) fn ready(&self, status: &str) -> Option<AbortOnDropHandle<()>> {
        self.deliver_ready(status);
        let timeout = sd_notify::watchdog_enabled()?;
        let period = timeout.checked_div(WATCHDOG_MESSAGES).filter(|period| !period.is_zero())?;
        let notifier = self.clone();
        Some(AbortOnDropHandle::new(task::spawn(async move {
            let mut ticks = interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                // A lost message is followed by another one.
                let _ = notifier.send(&NotifyState::Watchdog.to_string());
            }
        })))
    }

    /// Reports that the server shuts down.
    pub(super) fn stopping(&self) {
        self.deliver(NotifyState::Stopping.to_string());
    }

    /// Reports that a reload has begun.
    pub(super) fn reloading(&self) {
        let now = NotifyState::monotonic_usec_now().map(|now| now.to_string()).unwrap_or_default();
        self.deliver(format!("{}\n{now}", NotifyState::Reloading));
    }

    /// Reports how a reload ended.
    pub(super) fn reloaded(&self, status: &str) {
        self.deliver_ready(status);
    }

    fn deliver_ready(&self, status: &str) {
        // In a message, each line is a variable.
        let status = status.replace('\n', " ");
        self.deliver(format!("{}\n{}", NotifyState::Ready, NotifyState::Status(&status)));
    }

    /// Sends a message that must arrive: retries while the manager's socket is full.
    fn deliver(&self, message: String) {
        let notifier = self.clone();
        task::spawn(async move {
            for _ in 0..ATTEMPTS {
                match notifier.send(&message) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => tokio::time::sleep(RETRY_PAUSE).await,
                    Err(error) => return log_failure(&error),
                    Ok(()) => return,
                }
            }
            log_failure(&io::ErrorKind::WouldBlock.into());
        });
    }

    #[cfg(unix)]
    fn send(&self, message: &str) -> io::Result<()> {
        self.socket.as_ref().map_or(Ok(()), |socket| socket.send(message.as_bytes()).map(drop))
    }

    #[cfg(not(unix))]
    fn send(&self, _: &str) -> io::Result<()> {
        Ok(())
    }
}

fn log_failure(error: &io::Error) {
    tracing::warn!(target: log_target::SERVER, %error, "cannot notify the service manager (NOTIFY_SOCKET)");
}
