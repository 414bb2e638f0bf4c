//! A web server for one test: plain or over TLS, on loopback, with whatever behaviour a test needs.
//!
//! It answers what it was told to for each path, records every request, and notices when a client goes away:
//!
//! ```no_run
//! # use mcp_host_tests::{Authority, Origin, Reply};
//! # async fn test() {
//! let origin = Origin::http().await;
//! origin.serve("/page", Reply::ok("text/html", "<title>Hello</title>").etag("\"1\"").cache_control("max-age=60"));
//! origin.serve_with("/who", |request| Reply::ok("text/plain", request.header("authorization").unwrap_or("nobody")));
//! let url = origin.url("/page"); // http://127.0.0.1:PORT/page
//! // …
//! assert_eq!(origin.count("/page"), 1);
//! assert_eq!(origin.requests()[0].header("if-none-match"), None);
//!
//! origin.down().await; // Connections are refused from now on, and those that are open are cut,
//! origin.up().await; // until it is back on the same port.
//!
//! let authority = Authority::new();
//! let secure = Origin::https(&authority).await; // The grant needs `ca`, a file with `authority.pem()`.
//! # }
//! ```
//!
//! Each connection is for one request. A path that was not told is answered with 404.

mod authority;
mod connection;
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

use crate::PATIENCE;

pub use self::authority::{Authority, Certified};
pub use self::reply::Reply;
pub use self::request::Request;

type Answer = Arc<dyn Fn(&Request) -> Reply + Send + Sync>;

/// A web server on a port of its own choice.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    state: Mutex<State>,
}

/// Whether it listens; if not, the port is kept so that nobody else takes it.
#[derive(Debug)]
enum State {
    Up(JoinHandle<()>),
    Down(TcpSocket),
    Changing,
}

/// What its connections share.
struct Shared {
    tls: Option<TlsAcceptor>,
    answers: Mutex<HashMap<String, Answer>>,
    requests: watch::Sender<Vec<Request>>,
    /// How many connections are open.
    open: watch::Sender<usize>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("requests", &self.requests).field("open", &self.open).finish_non_exhaustive()
    }
}

impl Origin {
    /// A server without TLS.
    pub async fn http() -> Self {
        Self::start(None).await
    }

    /// A server over TLS that shows a certificate for its address, `127.0.0.1`.
    pub async fn https(authority: &Authority) -> Self {
        Self::https_as(authority, "127.0.0.1").await
    }

    /// A server over TLS that shows a certificate for that name or address.
    pub async fn https_as(authority: &Authority, name: &str) -> Self {
        Self::start(Some(authority.acceptor(name))).await
    }

    async fn start(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let shared = Arc::new(Shared {
            tls,
            answers: Mutex::default(),
            requests: watch::Sender::default(),
            open: watch::Sender::default(),
        });
        let state = Mutex::new(State::Up(tokio::spawn(listen(listener, shared.clone()))));
        Self { address, shared, state }
    }

    /// It as a grant names it: `http://127.0.0.1:PORT`.
    pub fn origin(&self) -> String {
        let scheme = if self.shared.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        self.origin() + path
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on, answers requests of that path (with its query, if there is one) so.
    pub fn serve(&self, path: &str, reply: Reply) {
        self.serve_with(path, move |_| reply.clone());
    }

    /// From now on, answers requests of that path as it says.
    pub fn serve_with(&self, path: &str, answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) {
        self.shared.answers.lock().expect("no test panics meanwhile").insert(path.to_owned(), Arc::new(answer));
    }

    /// The requests so far, in their order.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.borrow().clone()
    }

    /// How many requests of that path there were so far.
    pub fn count(&self, path: &str) -> usize {
        self.shared.requests.borrow().iter().filter(|request| request.path == path).count()
    }

    /// Waits until there were so many requests, of all paths together.
    pub async fn until_requests(&self, count: usize) {
        let mut requests = self.shared.requests.subscribe();
        let there = timeout(PATIENCE, requests.wait_for(|requests| requests.len() >= count)).await;
        assert!(there.is_ok(), "there were not {count} requests, but: {:#?}", self.requests());
    }

    /// Waits until there were so many requests of that path.
    pub async fn until_count(&self, path: &str, count: usize) {
        let mut requests = self.shared.requests.subscribe();
        let of_path = |requests: &Vec<Request>| requests.iter().filter(|request| request.path == path).count();
        let there = timeout(PATIENCE, requests.wait_for(|requests| of_path(requests) >= count)).await;
        assert!(there.is_ok(), "there were not {count} requests of {path}, but: {:#?}", self.requests());
    }

    /// Waits until no connection is open, because all were answered or their clients went away.
    pub async fn until_idle(&self) {
        let mut open = self.shared.open.subscribe();
        let idle = timeout(PATIENCE, open.wait_for(|open| *open == 0)).await.is_ok();
        assert!(idle, "{} connections stay open", *self.shared.open.borrow());
    }

    /// Refuses connections, and cuts those that are open.
    pub async fn down(&self) {
        let State::Up(task) = self.take_state() else { panic!("it is down already") };
        task.abort();
        // What was listened at and all connections are gone with it.
        assert!(task.await.is_err_and(|error| error.is_cancelled()));
        let socket = TcpSocket::new_v4().expect("there are sockets");
        socket.set_reuseaddr(true).expect("a port can be used again");
        socket.bind(self.address).expect("nobody took the port");
        self.put_state(State::Down(socket));
    }

    /// Listens again, at the same port.
    pub async fn up(&self) {
        let State::Down(socket) = self.take_state() else { panic!("it is up already") };
        let listener = socket.listen(128).expect("the port is ours");
        self.put_state(State::Up(tokio::spawn(listen(listener, self.shared.clone()))));
    }

    fn take_state(&self) -> State {
        std::mem::replace(&mut *self.state.lock().expect("no test panics meanwhile"), State::Changing)
    }

    fn put_state(&self, state: State) {
        *self.state.lock().expect("no test panics meanwhile") = state;
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        if let State::Up(task) = self.take_state() {
            task.abort();
        }
    }
}

async fn listen(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.expect("loopback works");
        connections.spawn(connection::serve(stream, shared.clone()));
        while connections.try_join_next().is_some() {}
    }
}
