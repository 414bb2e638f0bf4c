//! NATS: non-persistent messages between replicas, and a JetStream key-value bucket for the records.
//!
//! The bucket is a stream, `KV_NAME`, whose subjects are its keys (`$KV.NAME.KEY`), as documented by NATS
//! (ADR-8). Three requests of its API are used: create the stream, read the last message of a subject from the
//! stream's leader, and publish one with an expected sequence. The bucket is created with three copies if the
//! servers are a cluster that supports them, else with one.
//!
//! A response is untrusted input: it is bounded and parsed, and grants no access.

mod bucket;
mod connection;
mod connection_log;
mod shared_buckets;
mod shared_snapshots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::rustls::crypto::ring;
use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::{ClientConfig, RootCertStore};
use futures::StreamExt;
use mcp_host_base::task;
use tokio::sync::mpsc;
use tokio::time::sleep;

use self::bucket::Bucket;
use self::connection::{Connection, ConnectionThread};
use self::connection_log::{ConnectionLog, Effects};
use super::{Engine, EngineError, Entry};
use crate::memory::MemoryShare;

pub use self::shared_buckets::NatsBuckets;
pub use self::shared_snapshots::NatsSnapshots;

/// The maximum number of messages that wait for a subscriber. Further messages are lost.
const CAPACITY: usize = 4096;
/// The maximum size of these messages, in bytes.
const CAPACITY_BYTES: usize = 64 * 1024 * 1024;
/// The maximum size of the messages that wait for all subscribers of a connection, in bytes.
const ALL_CAPACITY_BYTES: usize = 256 * 1024 * 1024;
/// The pause after a message before it is noticed that it was taken.
const RECOUNT: Duration = Duration::from_secs(1);

/// How to connect to NATS.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The servers: `nats://` or `tls://`.
    pub servers: Vec<String>,
    /// How to authenticate.
    pub login: Login,
    /// The certificate authorities of the servers; none for the machine's authorities.
    pub ca: Vec<CertificateDer<'static>>,
    /// The name of the bucket: letters, digits, `-` and `_`.
    pub bucket: String,
    /// The timeout of a request.
    pub timeout: Duration,
}

/// How to authenticate.
#[derive(Clone, Default)]
pub enum Login {
    /// No authentication, or by a client certificate of the network.
    #[default]
    None,
    /// With a token.
    Token(String),
    /// With the name of a user and a password.
    Password(String, String),
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Token(_) => "Token(…)",
            Self::Password(..) => "Password(…)",
        })
    }
}

/// A connection to NATS, with a bucket. It connects on the first request, and reconnects automatically.
#[derive(Clone, Debug)]
pub struct Nats {
    connection: Arc<Connection>,
    bucket: Arc<Bucket>,
}

/// Invalid options.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The URL of a server is invalid.
    #[error("`{0}` is not the URL of a NATS server, such as `tls://n1.example:4222`")]
    Url(String),
    /// The certificate authorities cannot be used.
    #[error("TLS to NATS cannot be set up: {0}")]
    Tls(#[from] async_nats::rustls::Error),
}

/// Creates a TLS config that trusts only these authorities.
fn tls_config(ca: Vec<CertificateDer<'static>>) -> Result<ClientConfig, NatsError> {
    let mut roots = RootCertStore::empty();
    for authority in ca {
        roots.add(authority)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

impl Nats {
    /// Creates a connection with these options. Needs no runtime, and does not connect yet.
    ///
    /// # Errors
    ///
    /// The URL of a server, or a certificate authority, is invalid.
    pub fn new(options: NatsOptions) -> Result<Self, NatsError> {
        let bucket = Bucket::of_records(options.bucket.clone());
        let connection = connection(options, Effects::OF_SHARED_POLLS, None)?;
        Ok(Self { connection: Arc::new(connection), bucket: Arc::new(bucket) })
    }

    /// Returns the same connection with a bucket of this name for session records: values that expire.
    #[must_use]
    pub fn with_session_bucket(&self, name: String) -> Self {
        Self { connection: self.connection.clone(), bucket: Arc::new(Bucket::of_sessions(name)) }
    }

    /// Returns whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.connection.is_connected()
    }
}

/// Creates a connection, without connecting yet.
fn connection(
    options: NatsOptions,
    effects: Effects,
    thread: Option<ConnectionThread>,
) -> Result<Connection, NatsError> {
    let NatsOptions { servers, login, ca, bucket: _, timeout } = options;
    let parse = |url: &String| url.parse().map_err(|_| NatsError::Url(url.clone()));
    let servers = servers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let tls = (!ca.is_empty()).then(|| tls_config(ca)).transpose()?;
    let log = ConnectionLog::new(&servers, effects);
    Ok(Connection::new(servers, login, tls, timeout, log, thread))
}

/// The sizes of the messages that wait for a subscriber, in order.
#[derive(Debug, Default)]
struct Waiting {
    lengths: VecDeque<usize>,
    bytes: usize,
    /// Its part of the memory of all subscribers.
    memory: MemoryShare,
}

impl Waiting {
    /// Keeps the last `count` messages: the others were taken.
    fn keep(&mut self, count: usize) {
        while self.lengths.len() > count
            && let Some(length) = self.lengths.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(length);
        }
        self.memory.resize(self.bytes);
    }

    /// Takes the memory for a message, if there is room.
    fn make_room(&mut self, length: usize) -> bool {
        let bytes = self.bytes.saturating_add(length);
        bytes <= CAPACITY_BYTES && self.memory.resize(bytes)
    }

    fn add(&mut self, length: usize) {
        self.lengths.push_back(length);
        self.bytes = self.bytes.saturating_add(length);
    }
}

impl Engine for Nats {
    async fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
        let last = self.last(key).await?;
        Ok(last.and_then(|last| Some(Entry { revision: last.revision, value: last.value? })))
    }

    async fn write(&self, key: &str, value: Vec<u8>, expected: Option<u64>) -> Result<u64, EngineError> {
        self.put_expected(key, value, expected, None).await
    }

    async fn write_expiring(
        &self,
        key: &str,
        value: Vec<u8>,
        expected: Option<u64>,
        lifetime: Duration,
    ) -> Result<u64, EngineError> {
        self.put_expected(key, value, expected, Some(lifetime)).await
    }

    async fn overwrite(&self, key: &str, value: Vec<u8>, lifetime: Duration) -> Result<u64, EngineError> {
        self.put(key, value, None, Some(lifetime)).await
    }

    async fn publish(&self, subject: &str, message: Vec<u8>) -> Result<(), EngineError> {
        let client = self.connection.connected().await?;
        let publishing = client.publish(subject.to_owned(), message.into());
        let published = tokio::time::timeout(self.connection.timeout, publishing).await;
        match published {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(EngineError::Refused(error.to_string())),
            Err(_) => Err(EngineError::NoAnswer("the time is over".to_owned())),
        }
    }

    async fn subscribe(&self, subject: &str) -> Result<mpsc::Receiver<Vec<u8>>, EngineError> {
        let subscribing = tokio::time::timeout(
            self.connection.timeout,
            self.connection.client().await?.subscribe(subject.to_owned()),
        )
        .await;
        let mut subscriber = match subscribing {
            Ok(Ok(subscriber)) => subscriber,
            Ok(Err(error)) => return Err(EngineError::Refused(error.to_string())),
            Err(_) => return Err(EngineError::NoAnswer("the time is over".to_owned())),
        };
        let (sender, receiver) = mpsc::channel(CAPACITY);
        let memory = MemoryShare::of(self.connection.waiting.clone());
        task::spawn(async move {
            let mut waiting = Waiting { memory, ..Waiting::default() };
            loop {
                let message = tokio::select! {
                    message = subscriber.next() => message,
                    () = sender.closed() => None,
                    () = sleep(RECOUNT), if waiting.bytes > 0 => {
                        waiting.keep(sender.max_capacity().saturating_sub(sender.capacity()));
                        continue;
                    }
                };
                let Some(message) = message else { break };
                // If no receiver takes the messages, further ones are lost, as with NATS.
                waiting.keep(sender.max_capacity().saturating_sub(sender.capacity()));
                let length = message.payload.len();
                if waiting.make_room(length) && sender.try_send(message.payload.to_vec()).is_ok() {
                    waiting.add(length);
                }
            }
            let _ = subscriber.unsubscribe().await;
        });
        Ok(receiver)
    }
}
