//! MCP over a pair of byte streams, one message a line: [`serve_stdio`] serves the client that started this process, on
//! standard input and output; [`serve_io`] serves any other reader and writer, such as a Unix socket.
//!
//! Each line is one message, or in revision 2025-03-26 one batch of messages. A line that is not a message is rejected
//! ([`jsonrpc`](super::jsonrpc)); the others are [dispatched](super::dispatch) in the order of arrival, and each
//! request is answered by a separate task. A line that is not JSON is answered, too. Because an answer is always JSON,
//! two programs cannot exchange errors endlessly.
//!
//! `initialize` opens the session of the connection, and the session's notifications are written as they come. A
//! request that declares a revision without sessions is independent of the session.
//!
//! | limit | value |
//! |---|---|
//! | requests in flight | 64; the next line is read after one of these requests has been answered and its answer has been written (backpressure) |
//! | one line | 16 MiB; a line is dropped as soon as it has been parsed, and [`params`](super::params) bounds the retained parts of a request |
//! | answers that wait to be written | `http.limits.response-memory-per-connection` ([`budget`](super::budget)) |
//! | the rate of requests of a principal other than `local`, over all its connections and HTTP | `http.limits.client-rate`, and its share of `http.limits.rate`: -32603 |
//! | graceful shutdown, a client that reads nothing | 5 s |
//! | graceful shutdown, overall | 35 s |
//!
//! Serving ends at the end of the input, or on shutdown. The remaining answers are then written as long as the client
//! reads: a client that has read nothing for [`STALL_TIMEOUT`] does not delay the end further.

mod batches;
mod codec;
mod connection;
mod output;

use std::sync::Arc;
use std::time::Duration;

use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use self::connection::{Connection, Reader};
use self::output::Output;
use super::server_metrics::ServerMetrics;
use super::{DRAIN_TIMEOUT, ServeError};

/// The time for which the client may read nothing of the remaining answers when serving ends.
const STALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which the server checks whether serving should end, while the client reads nothing.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Serves one client over standard input and output, as this principal, until the client closes standard input or
/// `shutdown` fires; requests in flight are answered first. The principal of a client that started this process is
/// [`Principal::LOCAL`].
///
/// # Errors
///
/// [`ServeError::OutputStalled`] if the client did not read the remaining answers.
pub async fn serve_stdio(host: Arc<Host>, principal: Principal, shutdown: CancellationToken) -> Result<(), ServeError> {
    let (reader, output) = standard_streams(ServerMetrics::of(&host));
    serve(host, reader, output, principal, shutdown, is_input_closed).await
}

/// Serves one client over a pair of streams, as this principal, until the reader ends or `shutdown` fires; requests in
/// flight are answered first. It may be called concurrently for any number of clients.
///
/// While the client does not read its answers, its requests are not read either. So the end of the reader is noticed
/// only after the client has read some answers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use std::sync::Arc;
///
/// use mcp_host_server::access::Principal;
/// use mcp_host_server::config::Config;
/// use mcp_host_server::{Host, serve_io};
/// use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
/// use tokio_util::sync::CancellationToken;
///
/// # let dir = tempfile::tempdir()?;
/// # let mut config = Config::new();
/// # config.server.cache = Some(dir.path().join("cache"));
/// # config.server.state = Some(dir.path().join("state"));
/// let host = Arc::new(Host::start(config).await?);
/// let (client, server) = tokio::io::duplex(4096);
/// let (reader, writer) = tokio::io::split(server);
/// let serving = tokio::spawn(serve_io(host, reader, writer, Principal::new("ada"), CancellationToken::new()));
///
/// let (answers, mut requests) = tokio::io::split(client);
/// let ping = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
/// requests.write_all(ping.as_bytes()).await?;
/// let answer = BufReader::new(answers).lines().next_line().await?;
/// assert_eq!(answer.as_deref(), Some("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
///
/// requests.shutdown().await?;
/// serving.await??;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The same as for [`serve_stdio`].
pub async fn serve_io<R, W>(
    host: Arc<Host>,
    reader: R,
    writer: W,
    principal: Principal,
    shutdown: CancellationToken,
) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let output = Output::new(writer, ServerMetrics::of(&host));
    serve(host, Box::new(reader), output, principal, shutdown, || false).await
}

/// Serves one client. `is_input_closed` returns whether the writing end of the reader is closed, even if unread input
/// remains.
async fn serve(
    host: Arc<Host>,
    reader: Reader,
    output: Output,
    principal: Principal,
    shutdown: CancellationToken,
    is_input_closed: fn() -> bool,
) -> Result<(), ServeError> {
    // At shutdown the streams of `subscriptions/listen` end immediately, which frees their permits for other requests.
    let draining = shutdown.child_token();
    let connection = Connection::new(host, principal, reader, output.clone(), shutdown, draining.clone());
    let stalled = async {
        loop {
            output.wait_stalled(STALL_TIMEOUT).await;
            // While too many requests are in flight, nothing is read, so the end of the input is not noticed.
            if draining.is_cancelled() || is_input_closed() {
                return;
            }
            sleep(POLL_INTERVAL).await;
        }
    };
    let drain_timeout = async {
        draining.cancelled().await;
        sleep(DRAIN_TIMEOUT.saturating_add(STALL_TIMEOUT)).await;
    };
    tokio::select! {
        () = connection.serve() => Ok(()),
        () = stalled => Err(ServeError::OutputStalled),
        () = drain_timeout => Err(ServeError::OutputStalled),
    }
}

/// Returns standard input and output. If both are pipes, the usual case, they are reopened in non-blocking mode: reads
/// and writes then need no thread of the blocking pool, and the descriptors that other processes have inherited stay
/// unchanged.
fn standard_streams(metrics: Arc<ServerMetrics>) -> (Reader, Output) {
    #[cfg(target_os = "linux")]
    {
        use tokio::net::unix::pipe::OpenOptions;

        let options = OpenOptions::new();
        let opened = (options.open_receiver("/proc/self/fd/0"), options.open_sender("/proc/self/fd/1"));
        if let (Ok(reader), Ok(writer)) = opened {
            return (Box::new(reader), Output::new(writer, metrics));
        }
    }
    (Box::new(tokio::io::stdin()), Output::new(tokio::io::stdout(), metrics))
}

/// Returns whether the writing end of standard input is closed, even if unread input remains.
#[cfg(unix)]
fn is_input_closed() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let input = std::io::stdin();
    // No events are requested, because poll(2) always reports HUP and ERR.
    let mut events = [PollFd::new(&input, PollFlags::empty())];
    let polled = poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    polled.is_ok() && events.iter().any(|event| event.revents().intersects(PollFlags::HUP | PollFlags::ERR))
}

/// Returns false, because the platform does not report it.
#[cfg(not(unix))]
fn is_input_closed() -> bool {
    false
}
