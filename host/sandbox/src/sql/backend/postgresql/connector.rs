//! Connects to a server: the stream, TLS, the role.
//!
//! A role that can write is refused, because functions of PostgreSQL and its extensions reach beyond a transaction. The
//! check includes all roles that the connected role is a member of, because a statement can switch to them.

use std::error::Error as _;
use std::fmt::Write as _;
use std::future::poll_fn;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use std::time::Duration;

use deadpool::managed::{Manager, Metrics, RecycleError, RecycleResult};
use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use mcp_host_base::text::with_causes;
use mcp_host_base::time::thread_cpu_time;
use mcp_host_config::Secret;
use mcp_host_config::grants::{CaBundle, SqlGrant, client_config};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OnceCell};
use tokio::task::coop::consume_budget;
use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect};
use tokio_postgres::{AsyncMessage, Config, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::endpoint::Endpoint;
use super::session::{Session, Statements};
use super::stream::{ByteMeter, MeteredStream};
use crate::http::TlsRoots;
use crate::sql::error::QueryError;

/// The maximum time for connecting to one of the servers of a URL, unless the URL has a shorter one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The name of the connections for the server's administrator.
const APPLICATION_NAME: &str = "mcp-host";

/// The connections of one grant.
pub(super) struct Connector {
    url: Secret<String>,
    ca: Option<CaBundle>,
    allow_writing_role: bool,
    statements: Arc<Statements>,
    tls_roots: Arc<TlsRoots>,
    /// Created at first use.
    tls: OnceCell<MakeRustlsConnect>,
}

impl Connector {
    pub(super) fn new(url: Secret<String>, grant: &SqlGrant, schemas: &[String], tls_roots: Arc<TlsRoots>) -> Self {
        Self {
            url,
            ca: grant.ca.clone(),
            allow_writing_role: grant.allow_writing_role,
            statements: Arc::new(Statements::new(schemas)),
            tls_roots,
            tls: OnceCell::new(),
        }
    }

    /// Connects to the first server that answers. Notifications are counted by `notifications`, if that is given.
    async fn connect(&self, notifications: Option<&Arc<Notifications>>) -> Result<Session, QueryError> {
        let mut config =
            client_config(self.url.expose()).map_err(|error| QueryError::Unreachable(error.to_string()))?;
        config.application_name(APPLICATION_NAME);
        let limit = config.get_connect_timeout().copied().unwrap_or(CONNECT_TIMEOUT).min(CONNECT_TIMEOUT);
        let mut reasons = String::new();
        for endpoint in Endpoint::all(&config) {
            let reason = match timeout(limit, self.connect_to(endpoint, &config, notifications)).await {
                Ok(Ok(session)) => return Ok(session),
                Ok(Err(QueryError::Unreachable(reason))) => reason,
                Ok(Err(error)) => return Err(error),
                Err(_) => format!("no answer within {limit:?}"),
            };
            // Writing to a string cannot fail.
            let _ = write!(reasons, "{}{reason}", if reasons.is_empty() { "" } else { "; " });
        }
        Err(QueryError::Unreachable(reasons))
    }

    async fn connect_to(
        &self,
        endpoint: Endpoint,
        config: &Config,
        notifications: Option<&Arc<Notifications>>,
    ) -> Result<Session, QueryError> {
        let mut config = config.clone();
        let Some(name) = endpoint.tls_name.clone() else {
            config.ssl_mode(SslMode::Disable);
            return self.handshake(endpoint, NoTls, &config, notifications).await;
        };
        config.ssl_mode(SslMode::Require);
        let mut tls = self.tls.get_or_try_init(|| self.tls_connector()).await?.clone();
        let tls = MakeTlsConnect::<MeteredStream>::make_tls_connect(&mut tls, &name);
        let tls = tls.map_err(|error| QueryError::Unreachable(error.to_string()))?;
        self.handshake(endpoint, tls, &config, notifications).await
    }

    async fn handshake<T>(
        &self,
        endpoint: Endpoint,
        tls: T,
        config: &Config,
        notifications: Option<&Arc<Notifications>>,
    ) -> Result<Session, QueryError>
    where
        T: TlsConnect<MeteredStream, Stream: Send + 'static>,
    {
        let unreachable = |error: &dyn std::error::Error| QueryError::Unreachable(with_causes(error));
        let stream = endpoint.open().await.map_err(|error| unreachable(&error))?;
        let meter = ByteMeter::new();
        let connected = config.connect_raw(MeteredStream::new(stream, meter.clone()), tls).await;
        let (client, mut connection) = connected.map_err(|error| match error.as_db_error() {
            // The server's message names the user and the database, and is for the admin.
            Some(error) => QueryError::Unreachable(error.message().to_owned()),
            None => unreachable(error.source().unwrap_or(&error)),
        })?;
        let server_version = connection.parameter("server_version").unwrap_or_default().to_owned();
        let runtime = Handle::current();
        let notifications = notifications.map(|notifications| (notifications.clone(), meter.clone()));
        let charged = meter.clone();
        let task = runtime.spawn(async move {
            // Notices are dropped: a statement can cause any number of them, and their texts may contain values of
            // tables. The texts of notifications are dropped, too. An error belongs to the request in progress.
            let mut poll = |context: &mut Context<'_>| {
                let begun = thread_cpu_time();
                let polled = connection.poll_message(context);
                charged.charge_cpu(thread_cpu_time().saturating_sub(begun));
                polled
            };
            while let Some(Ok(message)) = poll_fn(&mut poll).await {
                if let (AsyncMessage::Notification(_), Some((notifications, meter))) = (message, &notifications) {
                    if !notifications.record() {
                        break;
                    }
                    // The notification is not part of an answer, and is not kept.
                    meter.settle();
                }
                // Many messages may have arrived together.
                consume_budget().await;
            }
        });
        Ok(Session {
            client,
            meter,
            endpoint,
            tls: self.tls.get().cloned(),
            runtime,
            task,
            server_version,
            statements: self.statements.clone(),
        })
    }

    /// Connects for notifications, with the role of queries.
    pub(super) async fn connect_to_listen(&self, notifications: &Arc<Notifications>) -> Result<Session, QueryError> {
        let session = self.connect(Some(notifications)).await?;
        self.check_role(&session).await?;
        Ok(session)
    }

    async fn tls_connector(&self) -> Result<MakeRustlsConnect, QueryError> {
        let more = self.ca.as_ref().map(CaBundle::certificates).unwrap_or_default();
        let config = self.tls_roots.client_config(more).await;
        config.map(MakeRustlsConnect::new).map_err(|error| QueryError::Failed(error.to_string()))
    }

    /// Checks that the role cannot write.
    async fn check_role(&self, session: &Session) -> Result<(), QueryError> {
        if self.allow_writing_role {
            return Ok(());
        }
        let messages = session.client.simple_query(WRITE_ACCESS).await;
        let messages = messages.map_err(|error| QueryError::Unreachable(with_causes(&error)))?;
        let reason = messages.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten(),
            _ => None,
        });
        match reason {
            None => Ok(()),
            Some(reason) => Err(QueryError::Refused(format!(
                "its role can write: {reason}. Connect as a role that is granted CONNECT, USAGE and SELECT only, or \
                 set `allow-writing-role`"
            ))),
        }
    }
}

impl Manager for Connector {
    type Type = Session;
    type Error = QueryError;

    async fn create(&self) -> Result<Session, QueryError> {
        let session = self.connect(None).await?;
        self.check_role(&session).await?;
        Ok(session)
    }

    async fn recycle(&self, session: &mut Session, _: &Metrics) -> RecycleResult<QueryError> {
        if session.is_closed() { Err(RecycleError::message("the connection is closed")) } else { Ok(()) }
    }
}

/// Returns the most serious reason why the role can write, or no row.
pub(super) const WRITE_ACCESS: &str = r"
WITH member AS (
    SELECT * FROM pg_catalog.pg_roles WHERE pg_catalog.pg_has_role(session_user, oid, 'MEMBER')
), reason (rank, text) AS (
    SELECT 1, pg_catalog.format('%I is a superuser', rolname) FROM member WHERE rolsuper
    UNION ALL
    SELECT 2, pg_catalog.format('%I may create roles or databases, or replicate', rolname)
    FROM member WHERE rolcreaterole OR rolcreatedb OR rolreplication
    UNION ALL
    SELECT 3, pg_catalog.format('it is a member of %I', rolname)
    FROM member WHERE rolname IN (
        'pg_checkpoint', 'pg_create_subscription', 'pg_execute_server_program', 'pg_maintain', 'pg_read_server_files',
        'pg_signal_backend', 'pg_write_all_data', 'pg_write_server_files'
    )
    UNION ALL
    SELECT 4, pg_catalog.format('%I may create schemas in the database', rolname)
    FROM member WHERE pg_catalog.has_database_privilege(oid, pg_catalog.current_database(), 'CREATE')
    UNION ALL
    SELECT 5, pg_catalog.format('%I may create objects in the schema %I', rolname, nspname)
    FROM member, pg_catalog.pg_namespace
    WHERE nspname !~ '^pg_' AND pg_catalog.has_schema_privilege(member.oid, pg_namespace.oid, 'CREATE')
    UNION ALL
    SELECT 6, pg_catalog.format('%I may write to %I.%I', rolname, nspname, relname)
    FROM member, pg_catalog.pg_class JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
    WHERE relkind IN ('r', 'p', 'v', 'm', 'f') AND nspname !~ '^pg_' AND nspname <> 'information_schema'
    AND (
        pg_catalog.has_table_privilege(member.oid, pg_class.oid, 'INSERT, UPDATE, DELETE, TRUNCATE')
        OR pg_catalog.has_any_column_privilege(member.oid, pg_class.oid, 'INSERT, UPDATE')
    )
)
SELECT text FROM reason ORDER BY rank, text LIMIT 1";

/// The maximum rate and burst of notifications.
pub(super) const MAX_NOTIFICATIONS_PER_SECOND: u32 = 10_000;

/// The notifications of one connection.
pub(super) struct Notifications {
    received: Arc<Notify>,
    rate: DefaultDirectRateLimiter,
    is_flooded: AtomicBool,
}

impl Notifications {
    pub(super) fn new(received: Arc<Notify>) -> Self {
        let most = NonZeroU32::new(MAX_NOTIFICATIONS_PER_SECOND).unwrap_or(NonZeroU32::MIN);
        let rate = RateLimiter::direct(Quota::per_second(most));
        Self { received, rate, is_flooded: AtomicBool::new(false) }
    }

    /// Counts a notification. Returns whether the connection is within the rate and may be kept.
    pub(super) fn record(&self) -> bool {
        self.received.notify_one();
        let is_within = self.rate.check().is_ok();
        if !is_within {
            self.is_flooded.store(true, Ordering::Relaxed);
        }
        is_within
    }

    /// Whether the rate was exceeded.
    pub(super) fn is_flooded(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }
}
