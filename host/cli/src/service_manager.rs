//! The service manager, such as systemd: the listening socket that it passes (socket activation, `sd_listen_fds(3)`), and the
//! messages that it expects of a service of `Type=notify` (`sd_notify(3)`). Without one, nothing happens.
//!
//! | message | when |
//! |---|---|
//! | `READY=1` | the server accepts requests |
//! | `STOPPING=1` | the server received a termination signal |
//! | `WATCHDOG=1` | twice per `WatchdogSec`, by a task on the threads that serve clients: the manager restarts a server whose threads run no tasks |
//!
//! The manager keeps its socket open while the server restarts. New connections wait in the backlog of the socket, and none is
//! refused.

use std::io;
use std::net::{SocketAddr, TcpListener as StdTcpListener};

use listenfd::ListenFd;
use mcp_host_base::log_target;
use sd_notify::NotifyState;
use tokio::net::TcpListener;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::task::AbortOnDropHandle;

/// The number of watchdog messages per `WatchdogSec`, as sd_watchdog_enabled(3) recommends.
const WATCHDOG_MESSAGES: u32 = 2;

/// The listening socket that the service manager passed.
#[derive(Debug)]
pub(super) struct PassedSocket {
    listener: StdTcpListener,
    address: SocketAddr,
}

impl PassedSocket {
    /// Takes the socket of this process, if the manager passed one. Call it before there are other threads: it removes environment
    /// variables.
    ///
    /// # Errors
    ///
    /// The manager passed several sockets, or one that is not a TCP socket.
    pub(super) fn take() -> io::Result<Option<Self>> {
        let mut passed = ListenFd::from_env();
        if passed.len() > 1 {
            let message = format!("expected one TCP socket, found {} sockets", passed.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let listener = passed.take_tcp_listener(0)?;
        listener.map(|listener| Ok(Self { address: listener.local_addr()?, listener })).transpose()
    }

    /// The address that it listens at.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns it as the listener of the server.
    ///
    /// # Errors
    ///
    /// The system does not allow it to be used without blocking.
    pub(super) fn into_listener(self) -> io::Result<TcpListener> {
        self.listener.set_nonblocking(true)?;
        TcpListener::from_std(self.listener)
    }
}

/// Reports that the server accepts requests, and then that it is alive until this is dropped.
pub(super) fn notify_ready() -> Option<AbortOnDropHandle<()>> {
    notify(NotifyState::Ready);
    let timeout = sd_notify::watchdog_enabled()?;
    let period = timeout.checked_div(WATCHDOG_MESSAGES).filter(|period| !period.is_zero())?;
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            notify(NotifyState::Watchdog);
        }
    })))
}

/// Reports that the server shuts down.
pub(super) fn notify_stopping() {
    notify(NotifyState::Stopping);
}

/// Sends a message. Without a manager there is nobody to send it to, which is no error.
fn notify(state: NotifyState<'_>) {
    if let Err(error) = sd_notify::notify(&[state]) {
        tracing::warn!(target: log_target::SERVER, %error, "cannot notify the service manager (NOTIFY_SOCKET)");
    }
}
