//! A connection to NATS: connecting, and requests with bounded answers.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use async_nats::client::RequestErrorKind;
use async_nats::connection::State;
use async_nats::rustls::ClientConfig;
use async_nats::{Client, ConnectOptions, HeaderMap, Request, ServerAddr};
use futures::future::BoxFuture;
use mcp_host_base::threads::WorkerPool;
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::{Builder, Handle};
use tokio::sync::OnceCell;
use tokio::time::sleep;

use super::connection_log::ConnectionLog;
use super::{ALL_CAPACITY_BYTES, CAPACITY, EngineError, Login};
use crate::bounded_json;
use crate::memory::MemoryPool;

/// The prefix of the subjects of the JetStream API.
pub(super) const API: &str = "$JS.API.";
/// The maximum pause between two attempts to connect.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// The maximum number of messages that wait for a subscriber on a connection with a thread of its own. Further messages
/// are lost.
pub(super) const MAX_PENDING: usize = 1024;
/// The pause between two checks whether the first connection is made.
const LOOK: Duration = Duration::from_millis(10);
/// JetStream is not enabled, on the server or for the account.
const NO_JETSTREAM: [u64; 2] = [10_076, 10_039];

/// A connection, which is made on the first request, and again after it is lost.
pub(super) struct Connection {
    client: OnceCell<Client>,
    servers: Vec<ServerAddr>,
    login: Login,
    tls: Option<ClientConfig>,
    pub(super) timeout: Duration,
    pub(super) log: Arc<ConnectionLog>,
    /// The memory for messages that wait for subscribers.
    pub(super) waiting: Arc<MemoryPool>,
    /// The thread of the connection; none if it belongs to the runtime of the first request.
    thread: Option<ConnectionThread>,
}

/// A thread of its own for a connection, whose requests wait for the first connection. It is started on the first
/// request.
#[derive(Default)]
pub(super) struct ConnectionThread {
    pool: OnceLock<WorkerPool>,
    started: OnceLock<Instant>,
}

impl ConnectionThread {
    fn handle(&self) -> Result<Handle, EngineError> {
        if let Some(pool) = self.pool.get() {
            return Ok(pool.handle().clone());
        }
        let pool = WorkerPool::start(Builder::new_multi_thread().worker_threads(1).thread_name("nats"));
        let pool = pool.map_err(|error| EngineError::NoAnswer(format!("no thread for the connection: {error}")))?;
        Ok(self.pool.get_or_init(|| pool).handle().clone())
    }

    /// Returns whether a request may wait for the first connection.
    fn may_wait(&self, limit: Duration) -> bool {
        self.started.get_or_init(Instant::now).elapsed() < limit
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("servers", &self.servers).finish_non_exhaustive()
    }
}

/// A response of JetStream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Answer {
    pub(super) error: Option<ApiError>,
    /// The sequence of a stored message.
    pub(super) seq: Option<u64>,
    pub(super) message: Option<StoredMessage>,
    /// The config of a stream.
    pub(super) config: Option<Value>,
    /// The contents of a stream.
    pub(super) state: Option<StreamState>,
}

#[derive(Debug, Deserialize)]
pub(super) struct ApiError {
    #[serde(default)]
    pub(super) err_code: u64,
    #[serde(default)]
    pub(super) description: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct StoredMessage {
    pub(super) seq: u64,
    #[serde(default)]
    pub(super) data: String,
    #[serde(default)]
    pub(super) hdrs: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamState {
    pub(super) messages: u64,
    pub(super) bytes: u64,
}

impl Connection {
    pub(super) fn new(
        servers: Vec<ServerAddr>,
        login: Login,
        tls: Option<ClientConfig>,
        timeout: Duration,
        log: ConnectionLog,
        thread: Option<ConnectionThread>,
    ) -> Self {
        let waiting = Arc::new(MemoryPool::new(ALL_CAPACITY_BYTES));
        Self { client: OnceCell::new(), servers, login, tls, timeout, log: Arc::new(log), waiting, thread }
    }

    /// Returns the client, which connects in the background: requests fail until a server responds. Type-erased, as
    /// [`request`](Self::request), so that the client of NATS is compiled in this crate only.
    pub(super) fn client(&self) -> BoxFuture<'_, Result<&Client, EngineError>> {
        Box::pin(self.get_or_connect())
    }

    async fn get_or_connect(&self) -> Result<&Client, EngineError> {
        let connect = async || {
            let (log, rounds, timeout) = (self.log.clone(), self.log.clone(), self.timeout);
            let mut options = ConnectOptions::new()
                .name("mcp-host")
                .retry_on_initial_connect()
                .max_reconnects(None)
                .ping_interval(timeout)
                .connection_timeout(timeout)
                .request_timeout(Some(timeout))
                .reconnect_delay_callback(|attempts| {
                    let exponent = u32::try_from(attempts).unwrap_or(u32::MAX).min(8);
                    Duration::from_millis(10_u64.wrapping_shl(exponent)).min(MAX_RECONNECT_PAUSE)
                })
                // It chooses no server: it is the only place that gets the error of an attempt.
                .reconnect_to_server_callback(move |servers, _| {
                    rounds.retries(&servers);
                    std::future::ready(None)
                })
                .event_callback(move |event| {
                    log.heard(&event);
                    std::future::ready(())
                });
            options = match &self.login {
                Login::None => options,
                Login::Token(token) => options.token(token.clone()),
                Login::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
            };
            if let Some(tls) = &self.tls {
                options = options.tls_client_config(tls.clone());
            }
            options = options.subscription_capacity(if self.thread.is_some() { MAX_PENDING } else { CAPACITY });
            let no_client = |error: async_nats::ConnectError| EngineError::NoAnswer(error.to_string());
            let servers = self.servers.clone();
            match &self.thread {
                None => options.connect(servers).await.map_err(no_client),
                Some(thread) => {
                    let connecting = thread.handle()?.spawn(async move { options.connect(servers).await });
                    let connected = connecting.await;
                    connected.map_err(|error| EngineError::NoAnswer(error.to_string()))?.map_err(no_client)
                }
            }
        };
        self.client.get_or_try_init(connect).await
    }

    /// Returns whether there is a connection now.
    pub(super) fn is_connected(&self) -> bool {
        self.client.get().is_some_and(|client| client.connection_state() == State::Connected)
    }

    /// The maximum size of a message, as the servers have said; none before the first connection.
    pub(super) fn max_payload(&self) -> Option<usize> {
        let said = self.client.get()?.max_payload();
        (said > 0).then_some(said)
    }

    /// Returns the client only if there is a connection, because requests that the client queues until then
    /// would be late. With a thread of its own, the first requests wait for the first connection.
    pub(super) async fn connected(&self) -> Result<&Client, EngineError> {
        let client = self.client().await?;
        while !self.is_connected() {
            if !self.thread.as_ref().is_some_and(|thread| thread.may_wait(self.timeout)) {
                return Err(EngineError::NoAnswer("not connected".to_owned()));
            }
            sleep(LOOK).await;
        }
        Ok(client)
    }

    /// Sends a request to JetStream about a stream. `is_made` becomes false if the stream does not exist.
    pub(super) fn request<'a>(
        &'a self,
        is_made: &'a AtomicBool,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
        max_answer: usize,
    ) -> BoxFuture<'a, Result<Answer, EngineError>> {
        Box::pin(self.send_request(is_made, subject, headers, body, max_answer))
    }

    async fn send_request(
        &self,
        is_made: &AtomicBool,
        subject: String,
        headers: HeaderMap,
        body: Vec<u8>,
        max_answer: usize,
    ) -> Result<Answer, EngineError> {
        let client = self.connected().await?;
        let is_api = subject.starts_with(API);
        let request = Request::new().headers(headers).payload(body.into()).timeout(Some(self.timeout));
        let answered = tokio::time::timeout(self.timeout, client.send_request(subject, request)).await;
        let message = match answered {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => {
                if error.kind() == RequestErrorKind::NoResponders {
                    is_made.store(false, Ordering::Relaxed);
                    // A missing bucket has no subscriber for its subjects, but the JetStream API has one.
                    if is_api {
                        self.log.no_jetstream("nobody answers");
                    }
                }
                return Err(EngineError::NoAnswer(error.to_string()));
            }
            Err(_) => return Err(EngineError::NoAnswer("the time is over".to_owned())),
        };
        let answer: Answer = bounded_json::decode(&message.payload, max_answer)
            .map_err(|error| EngineError::NoAnswer(error.to_string()))?;
        match &answer.error {
            Some(error) if NO_JETSTREAM.contains(&error.err_code) => self.log.no_jetstream(&error.description),
            _ => self.log.has_jetstream(),
        }
        Ok(answer)
    }
}
