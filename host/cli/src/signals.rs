//! Signals: the first SIGINT or SIGTERM requests a graceful shutdown, the second one exits immediately; SIGHUP requests
//! a reload, and SIGUSR1 another login code of the console.

use std::io;

use tokio_util::sync::CancellationToken;

use super::messages::Messages;

use mcp_host_base::log_target;
use mcp_host_base::task;

/// Returns a token that the first termination signal cancels; `begun`, a text about what happens then, is logged. A
/// second signal calls `at_exit` and exits the process immediately, with the exit code that shells report for a process
/// killed by this signal.
///
/// # Errors
///
/// The operating system does not deliver signals.
pub(super) fn shutdown(
    messages: &Messages,
    begun: &'static str,
    at_exit: impl FnOnce() + Send + 'static,
) -> io::Result<CancellationToken> {
    let messages = messages.clone();
    let mut signals = Signals::new()?;
    let shutdown = CancellationToken::new();
    let token = shutdown.clone();
    task::spawn(async move {
        signals.next().await;
        tracing::info!(target: log_target::SERVER, "{begun}; a second signal terminates at once");
        token.cancel();
        let code = signals.next().await;
        at_exit();
        messages.flush();
        std::process::exit(code);
    });
    Ok(shutdown)
}

/// Returns a future that waits for a termination signal: for a command that ends without draining anything, and prints
/// nothing about it.
///
/// # Errors
///
/// The operating system does not deliver signals.
pub(super) fn interrupted() -> io::Result<impl Future<Output = ()>> {
    let mut signals = Signals::new()?;
    Ok(async move {
        signals.next().await;
    })
}

/// The termination signals. None is lost after creation.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for a signal, and returns its exit code.
    async fn next(&mut self) -> i32 {
        tokio::select! {
            _ = self.interrupt.recv() => 130,
            _ = self.terminate.recv() => 143,
        }
    }
}

/// The termination signals. None is lost after creation.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self)
    }

    /// Waits for a signal, and returns its exit code.
    async fn next(&mut self) -> i32 {
        // The call fails where signals are unavailable: then none arrives.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        130
    }
}

/// A signal that requests something repeatedly. None is lost after creation; several may be coalesced.
#[cfg(unix)]
pub(super) struct RepeatedSignal(tokio::signal::unix::Signal);

#[cfg(unix)]
impl RepeatedSignal {
    /// Handles SIGHUP, which then does not terminate the process.
    ///
    /// # Errors
    ///
    /// The operating system does not deliver signals.
    pub(super) fn hangup() -> io::Result<Self> {
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).map(Self)
    }

    /// Handles SIGUSR1, which then does not terminate the process. Fails like [`hangup`](Self::hangup).
    pub(super) fn user_defined() -> io::Result<Self> {
        tokio::signal::unix::signal(tokio::signal::unix::SignalKind::user_defined1()).map(Self)
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        if self.0.recv().await.is_none() {
            std::future::pending::<()>().await;
        }
    }
}

/// This platform has no such signals.
#[cfg(not(unix))]
pub(super) struct RepeatedSignal;

#[cfg(not(unix))]
impl RepeatedSignal {
    /// Never fails.
    pub(super) fn hangup() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never fails.
    pub(super) fn user_defined() -> io::Result<Self> {
        Ok(Self)
    }

    /// Never returns.
    pub(super) async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}
