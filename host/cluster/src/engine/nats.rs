//! NATS: messages without persistence for what replicas tell each other, and a JetStream key-value bucket for the records.
//!
//! The bucket is a stream, `KV_NAME`, whose subjects are its keys (`$KV.NAME.KEY`), as NATS documents it (ADR-8). Three requests of its API are
//! used: create the stream, read the last message of a subject from the stream's leader, and publish one with an expected sequence.
//! The bucket is made with three copies where the servers are a cluster that can keep them, and else with one.
//!
//! An answer is input from outside: bounded, parsed, and no permission for anything.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::rustls::crypto::ring;
use async_nats::rustls::pki_types::CertificateDer;
use async_nats::rustls::{ClientConfig, RootCertStore};
use async_nats::{Client, ConnectOptions, HeaderMap, Request, ServerAddr};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use serde::Deserialize;
use tokio::sync::{OnceCell, mpsc};

use super::{Engine, EngineError, Entry};
use crate::record::MAX_RECORD_BYTES;

/// The number of messages that wait for a subscriber; further ones are lost.
const CAPACITY: usize = 4096;
/// The maximum size of these messages, in bytes.
const CAPACITY_BYTES: usize = 64 * 1024 * 1024;
/// The longest pause between two attempts to connect.
const MAX_RECONNECT_PAUSE: Duration = Duration::from_secs(2);
/// The time after which a record that nobody writes is dropped.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The header with the revision that is replaced.
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// Error codes of JetStream.
const NO_MESSAGE: u64 = 10_037;
const NO_STREAM: u64 = 10_059;
const WRONG_SEQUENCE: [u64; 2] = [10_071, 10_164];
const NAME_IN_USE: u64 = 10_058;
const NOT_CLUSTERED: [u64; 2] = [10_074, 10_005];

/// How to connect to NATS.
#[derive(Clone, Debug)]
pub struct NatsOptions {
    /// The servers: `nats://` or `tls://`.
    pub servers: Vec<String>,
    /// How to authenticate.
    pub login: Login,
    /// The certificate authorities of the servers; none: those of the machine.
    pub ca: Vec<CertificateDer<'static>>,
    /// The name of the bucket: letters, digits, `-` and `_`.
    pub bucket: String,
    /// The time after which a request has failed.
    pub timeout: Duration,
}

/// How to authenticate.
#[derive(Clone, Default)]
pub enum Login {
    /// Not at all, or by a client certificate of the network.
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

/// A connection to NATS. It connects with its first request, and again by itself.
#[derive(Clone, Debug)]
pub struct Nats {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    client: OnceCell<Client>,
    servers: Vec<ServerAddr>,
    login: Login,
    tls: Option<ClientConfig>,
    bucket: String,
    timeout: Duration,
}

/// The options are not valid.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// A server's URL is none.
    #[error("`{0}` is not the URL of a NATS server, such as `tls://n1.example:4222`")]
    Url(String),
    /// The certificate authorities cannot be used.
    #[error("TLS to NATS cannot be set up: {0}")]
    Tls(#[from] async_nats::rustls::Error),
}

/// TLS that trusts those authorities only.
fn tls_config(ca: Vec<CertificateDer<'static>>) -> Result<ClientConfig, NatsError> {
    let mut roots = RootCertStore::empty();
    for authority in ca {
        roots.add(authority)?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    Ok(builder.with_safe_default_protocol_versions()?.with_root_certificates(roots).with_no_client_auth())
}

/// An answer of JetStream.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Answer {
    error: Option<ApiError>,
    /// The sequence of a message that was stored.
    seq: Option<u64>,
    message: Option<StoredMessage>,
}

#[derive(Debug, Deserialize)]
struct ApiError {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

#[derive(Debug, Deserialize)]
struct StoredMessage {
    seq: u64,
    #[serde(default)]
    data: String,
    #[serde(default)]
    hdrs: String,
}

/// The last message of a key.
struct Last {
    revision: u64,
    /// None if the key was deleted.
    value: Option<Vec<u8>>,
}

impl Nats {
    /// A connection with those options. Needs no runtime, and does nothing yet.
    ///
    /// # Errors
    ///
    /// The URL of a server, or a certificate authority, is none.
    pub fn new(options: NatsOptions) -> Result<Self, NatsError> {
        let NatsOptions { servers, login, ca, bucket, timeout } = options;
        let parse = |url: &String| url.parse().map_err(|_| NatsError::Url(url.clone()));
        let servers = servers.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let tls = (!ca.is_empty()).then(|| tls_config(ca)).transpose()?;
        let shared = Shared { client: OnceCell::new(), servers, login, tls, bucket, timeout };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The client, which connects in the background: requests fail until a server answers.
    async fn client(&self) -> Result<&Client, EngineError> {
        let Shared { client, servers, login, tls, timeout, .. } = &*self.shared;
        let connect = async || {
            let mut options = ConnectOptions::new()
                .name("mcp-host")
                .retry_on_initial_connect()
                .max_reconnects(None)
                .ping_interval(*timeout)
                .connection_timeout(*timeout)
                .request_timeout(Some(*timeout))
                .reconnect_delay_callback(|attempts| {
                    let exponent = u32::try_from(attempts).unwrap_or(u32::MAX).min(8);
                    Duration::from_millis(10_u64.wrapping_shl(exponent)).min(MAX_RECONNECT_PAUSE)
                })
                .event_callback(|event| async move { tracing::info!(target: "mcp_host", "NATS: {event}") });
            options = match login {
                Login::None => options,
                Login::Token(token) => options.token(token.clone()),
                Login::Password(user, password) => options.user_and_password(user.clone(), password.clone()),
            };
            if let Some(tls) = tls {
                options = options.tls_client_config(tls.clone());
            }
            options.connect(servers.clone()).await
        };
        client.get_or_try_init(connect).await.map_err(|error| EngineError::NoAnswer(error.to_string()))
    }

    /// Whether there is a connection now.
    pub fn is_connected(&self) -> bool {
        self.shared.client.get().is_some_and(|client| client.connection_state() == State::Connected)
    }

    /// The client, if there is a connection: what it keeps until there is one is late.
    async fn connected(&self) -> Result<&Client, EngineError> {
        let client = self.client().await?;
        if self.is_connected() { Ok(client) } else { Err(EngineError::NoAnswer("not connected".to_owned())) }
    }

    async fn request(&self, subject: String, headers: HeaderMap, body: Vec<u8>) -> Result<Answer, EngineError> {
        let client = self.connected().await?;
        let request = Request::new().headers(headers).payload(body.into()).timeout(Some(self.shared.timeout));
        let answered = tokio::time::timeout(self.shared.timeout, client.send_request(subject, request)).await;
        let message = match answered {
            Ok(Ok(message)) => message,
            Ok(Err(error)) => return Err(EngineError::NoAnswer(error.to_string())),
            Err(_) => return Err(EngineError::NoAnswer("the time is over".to_owned())),
        };
        if message.payload.len() > MAX_RECORD_BYTES.saturating_mul(2) {
            return Err(EngineError::NoAnswer("an answer that is too long".to_owned()));
        }
        serde_json::from_slice(&message.payload).map_err(|error| EngineError::NoAnswer(error.to_string()))
    }

    /// Makes the bucket, unless there is one.
    async fn create_bucket(&self) -> Result<(), EngineError> {
        let stream = format!("KV_{}", self.shared.bucket);
        for replicas in [3, 1] {
            let config = serde_json::json!({
                "name": stream,
                "subjects": [format!("$KV.{}.>", self.shared.bucket)],
                "max_msgs_per_subject": 1,
                "max_age": u64::try_from(MAX_AGE.as_nanos()).unwrap_or(u64::MAX),
                "max_msg_size": MAX_RECORD_BYTES,
                "discard": "new",
                "deny_delete": true,
                "allow_rollup_hdrs": true,
                "allow_direct": true,
                "storage": "file",
                "num_replicas": replicas,
            });
            let subject = format!("$JS.API.STREAM.CREATE.{stream}");
            let answer = self.request(subject, HeaderMap::new(), config.to_string().into_bytes()).await?;
            match answer.error {
                None => return Ok(()),
                Some(error) if error.err_code == NAME_IN_USE => return Ok(()),
                Some(error) if replicas > 1 && NOT_CLUSTERED.contains(&error.err_code) => {}
                Some(error) => return Err(EngineError::Refused(error.description)),
            }
        }
        Ok(())
    }

    async fn last(&self, key: &str) -> Result<Option<Last>, EngineError> {
        let subject = format!("$JS.API.STREAM.MSG.GET.KV_{}", self.shared.bucket);
        let body = serde_json::json!({ "last_by_subj": format!("$KV.{}.{key}", self.shared.bucket) });
        let body = body.to_string().into_bytes();
        let answer = self.request(subject.clone(), HeaderMap::new(), body.clone()).await?;
        let answer = match answer.error.as_ref().map(|error| error.err_code) {
            Some(NO_STREAM) => {
                self.create_bucket().await?;
                self.request(subject, HeaderMap::new(), body).await?
            }
            _ => answer,
        };
        match answer {
            Answer { error: Some(error), .. } if error.err_code == NO_MESSAGE => Ok(None),
            Answer { error: Some(error), .. } => Err(EngineError::Refused(error.description)),
            Answer { message: Some(message), .. } => {
                let invalid = |error: base64::DecodeError| EngineError::NoAnswer(error.to_string());
                let headers = STANDARD.decode(&message.hdrs).map_err(invalid)?;
                let is_deleted = headers.windows(DELETED.len()).any(|window| window == DELETED);
                let value = STANDARD.decode(&message.data).map_err(invalid)?;
                Ok(Some(Last { revision: message.seq, value: (!is_deleted).then_some(value) }))
            }
            Answer { .. } => Err(EngineError::NoAnswer("an answer without a message".to_owned())),
        }
    }

    async fn put(&self, key: &str, value: Vec<u8>, expected: u64) -> Result<u64, EngineError> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, expected.to_string());
        let answer = self.request(format!("$KV.{}.{key}", self.shared.bucket), headers, value).await?;
        match answer {
            Answer { error: Some(error), .. } if WRONG_SEQUENCE.contains(&error.err_code) => Err(EngineError::Conflict),
            Answer { error: Some(error), .. } => Err(EngineError::Refused(error.description)),
            Answer { seq: Some(revision), .. } => Ok(revision),
            Answer { .. } => Err(EngineError::NoAnswer("an answer without a sequence".to_owned())),
        }
    }
}

/// The sizes of the messages that wait for a subscriber, in order.
#[derive(Debug, Default)]
struct Waiting {
    lengths: VecDeque<usize>,
    bytes: usize,
}

impl Waiting {
    /// That many wait still: the others were taken.
    fn keep(&mut self, count: usize) {
        while self.lengths.len() > count
            && let Some(length) = self.lengths.pop_front()
        {
            self.bytes = self.bytes.saturating_sub(length);
        }
    }

    fn has_room(&self, length: usize) -> bool {
        self.bytes.saturating_add(length) <= CAPACITY_BYTES
    }

    fn add(&mut self, length: usize) {
        self.lengths.push_back(length);
        self.bytes = self.bytes.saturating_add(length);
    }
}

/// The header of a message that says that its key was deleted.
const DELETED: &[u8] = b"KV-Operation:";

impl Engine for Nats {
    async fn get(&self, key: &str) -> Result<Option<Entry>, EngineError> {
        let last = self.last(key).await?;
        Ok(last.and_then(|last| Some(Entry { revision: last.revision, value: last.value? })))
    }

    async fn write(&self, key: &str, value: Vec<u8>, expected: Option<u64>) -> Result<u64, EngineError> {
        if let Some(expected) = expected {
            return self.put(key, value, expected).await;
        }
        match self.put(key, value.clone(), 0).await {
            // An admin has deleted the key: that is a message, too.
            Err(EngineError::Conflict) => match self.last(key).await? {
                Some(Last { revision, value: None }) => self.put(key, value, revision).await,
                _ => Err(EngineError::Conflict),
            },
            result => result,
        }
    }

    async fn publish(&self, subject: &str, message: Vec<u8>) -> Result<(), EngineError> {
        let client = self.connected().await?;
        let publishing = client.publish(subject.to_owned(), message.into());
        let published = tokio::time::timeout(self.shared.timeout, publishing).await;
        match published {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(EngineError::Refused(error.to_string())),
            Err(_) => Err(EngineError::NoAnswer("the time is over".to_owned())),
        }
    }

    async fn subscribe(&self, subject: &str) -> Result<mpsc::Receiver<Vec<u8>>, EngineError> {
        let subscribing =
            tokio::time::timeout(self.shared.timeout, self.client().await?.subscribe(subject.to_owned())).await;
        let mut subscriber = match subscribing {
            Ok(Ok(subscriber)) => subscriber,
            Ok(Err(error)) => return Err(EngineError::Refused(error.to_string())),
            Err(_) => return Err(EngineError::NoAnswer("the time is over".to_owned())),
        };
        let (sender, receiver) = mpsc::channel(CAPACITY);
        tokio::spawn(async move {
            let mut waiting = Waiting::default();
            loop {
                let message = tokio::select! {
                    message = subscriber.next() => message,
                    () = sender.closed() => None,
                };
                let Some(message) = message else { break };
                // If nobody takes them, they are lost, as NATS loses them.
                waiting.keep(sender.max_capacity().saturating_sub(sender.capacity()));
                let length = message.payload.len();
                if waiting.has_room(length) && sender.try_send(message.payload.to_vec()).is_ok() {
                    waiting.add(length);
                }
            }
            let _ = subscriber.unsubscribe().await;
        });
        Ok(receiver)
    }
}
