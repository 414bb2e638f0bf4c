//! A web server for one test: plain or over TLS, on loopback, with whatever behavior a test needs.
//!
//! It returns the configured response for each path, records every request, and detects that a client disconnects:
//!
//! ```no_run
//! # use mcp_host_tests::{CertificateAuthority, MockOrigin, Reply};
//! # async fn test() {
//! let origin = MockOrigin::http().await;
//! origin.serve("/page", Reply::ok("text/html", "<title>Hello</title>").etag("\"1\"").cache_control("max-age=60"));
//! origin.serve_with("/who", |request| Reply::ok("text/plain", request.header("authorization").unwrap_or("nobody")));
//! let url = origin.url("/page"); // http://127.0.0.1:PORT/page
//! // …
//! assert_eq!(origin.request_count("/page"), 1);
//! assert_eq!(origin.requests()[0].header("if-none-match"), None);
//!
//! origin.take_down().await; // Connections are refused from now on, and open ones are cut,
//! origin.bring_up().await; // until it is back on the same port.
//!
//! let authority = CertificateAuthority::new();
//! let secure = MockOrigin::https(&authority).await; // The grant needs `ca`, a file with `authority.pem()`.
//! # }
//! ```
//!
//! One request per connection. A path without a configured response is a 404.

mod authority;
mod connection;
mod events;
mod reply;
mod request;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::{ReservedPort, TIMEOUT};

pub use self::authority::{CertificateAuthority, CertifiedKey};
pub use self::events::EventSource;
pub use self::reply::Reply;
pub use self::request::RecordedRequest;

type Handler = Arc<dyn Fn(&RecordedRequest) -> Reply + Send + Sync>;

/// A web server on an ephemeral port.
#[derive(Debug)]
pub struct MockOrigin {
    /// Also while the server is down, so that no other process takes the port.
    port: ReservedPort,
    shared: Arc<SharedState>,
    state: Mutex<ListenState>,
}

#[derive(Debug)]
enum ListenState {
    Listening(JoinHandle<()>),
    Down,
    Changing,
}

/// State shared by its connections.
struct SharedState {
    tls: Option<Mutex<TlsAcceptor>>,
    handlers: Mutex<HashMap<String, Handler>>,
    requests: watch::Sender<Vec<RecordedRequest>>,
    /// The number of open connections.
    open_connections: watch::Sender<usize>,
}

impl std::fmt::Debug for SharedState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("requests", &self.requests)
            .field("open", &self.open_connections)
            .finish_non_exhaustive()
    }
}

impl MockOrigin {
    /// Starts a server without TLS.
    pub async fn http() -> Self {
        Self::start(None).await
    }

    /// Starts a server over TLS with a certificate for its address, `127.0.0.1`.
    pub async fn https(authority: &CertificateAuthority) -> Self {
        Self::https_as(authority, "127.0.0.1").await
    }

    /// Starts a server over TLS with a certificate for that name or address.
    pub async fn https_as(authority: &CertificateAuthority, name: &str) -> Self {
        Self::start(Some(authority.acceptor(name))).await
    }

    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let port = ReservedPort::new();
        let shared = Arc::new(SharedState {
            tls: tls.map(Mutex::new),
            handlers: Mutex::default(),
            requests: watch::Sender::default(),
            open_connections: watch::Sender::default(),
        });
        let task = tokio::spawn(listen(listen_at(port.address()), shared.clone()));
        Self { port, shared, state: Mutex::new(ListenState::Listening(task)) }
    }

    /// Uses another certificate for its address, issued by this authority, from the next connection on.
    pub fn change_certificate(&self, authority: &CertificateAuthority) {
        let tls = self.shared.tls.as_ref().expect("it is over TLS");
        *tls.lock().expect("no test panics meanwhile") = authority.acceptor("127.0.0.1");
    }

    /// The origin, as a grant names it: `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.port.address())
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.origin() + path
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port.address().port()
    }

    /// Sets the response for requests of that path (with its query, if there is one).
    pub fn serve(&self, path: &str, reply: Reply) {
        self.serve_with(path, move |_| reply.clone());
    }

    /// Sets the response for requests of that path with any query that has no response of its own.
    pub fn serve_any_query(&self, path: &str, reply: Reply) {
        self.serve(&format!("{path}?*"), reply);
    }

    /// Sets a function that responds to requests of that path.
    pub fn serve_with(&self, path: &str, answer: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) {
        self.shared.handlers.lock().expect("no test panics meanwhile").insert(path.to_owned(), Arc::new(answer));
    }

    /// The requests so far, in their order.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.borrow().clone()
    }

    /// The number of requests of that path so far.
    pub fn request_count(&self, path: &str) -> usize {
        self.shared.requests.borrow().iter().filter(|request| request.path == path).count()
    }

    /// Waits until there were `count` requests, of all paths together.
    pub async fn wait_for_requests(&self, count: usize) {
        let mut requests = self.shared.requests.subscribe();
        let there = timeout(TIMEOUT, requests.wait_for(|requests| requests.len() >= count)).await;
        assert!(there.is_ok(), "there were not {count} requests, but: {:#?}", self.requests());
    }

    /// Waits until there were `count` requests of that path.
    pub async fn wait_for_count(&self, path: &str, count: usize) {
        let mut requests = self.shared.requests.subscribe();
        let of_path = |requests: &Vec<RecordedRequest>| requests.iter().filter(|request| request.path == path).count();
        let there = timeout(TIMEOUT, requests.wait_for(|requests| of_path(requests) >= count)).await;
        assert!(there.is_ok(), "there were not {count} requests of {path}, but: {:#?}", self.requests());
    }

    /// Waits until no connection is open: every response was sent, or its client disconnected.
    pub async fn wait_until_idle(&self) {
        let mut open = self.shared.open_connections.subscribe();
        let idle = timeout(TIMEOUT, open.wait_for(|open| *open == 0)).await.is_ok();
        assert!(idle, "{} connections stay open", *self.shared.open_connections.borrow());
    }

    /// Refuses connections, and cuts open ones.
    pub async fn take_down(&self) {
        let ListenState::Listening(task) = self.take_state() else { panic!("it is down already") };
        task.abort();
        // The listener and all connections are dropped with it.
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        self.put_state(ListenState::Down);
    }

    /// Listens again, on the same port.
    pub async fn bring_up(&self) {
        let ListenState::Down = self.take_state() else { panic!("it is up already") };
        let listener = listen_at(self.port.address());
        self.put_state(ListenState::Listening(tokio::spawn(listen(listener, self.shared.clone()))));
    }

    fn take_state(&self) -> ListenState {
        std::mem::replace(&mut *self.state.lock().expect("no test panics meanwhile"), ListenState::Changing)
    }

    fn put_state(&self, state: ListenState) {
        *self.state.lock().expect("no test panics meanwhile") = state;
    }
}

impl Drop for MockOrigin {
    fn drop(&mut self) {
        if let ListenState::Listening(task) = self.take_state() {
            task.abort();
        }
    }
}

/// Listens on a reserved port.
fn listen_at(address: SocketAddr) -> TcpListener {
    let socket = TcpSocket::new_v4().expect("there are sockets");
    socket.set_reuseaddr(true).expect("a port can be shared");
    socket.bind(address).expect("the port is reserved");
    socket.listen(1024).expect("the port is ours")
}

async fn listen(listener: TcpListener, shared: Arc<SharedState>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("loopback works");
        connections.spawn(connection::serve(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}
