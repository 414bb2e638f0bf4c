//! PostgreSQL databases: a pool of connections to a server, from which guests read.
//!
//! # Read-only access
//!
//! `BEGIN READ ONLY` is not sufficient: a statement of the transaction can switch it off, end the transaction, or add
//! another statement after a semicolon. So a query passes these barriers:
//!
//! | mechanism | against |
//! |---|---|
//! | the statement stands in `DECLARE … CURSOR FOR`, prepared by the extended protocol | everything that is not a query: `SET`, `COMMIT`, `COPY`, `DO`, `CALL`, a second statement |
//! | `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY` before it | a `WITH` that writes, `FOR UPDATE`, sequences, functions that write |
//! | the first statement is the host's, in that isolation level | a function that sets the transaction to read-write |
//! | `ROLLBACK`, always, and advisory locks are released | state that a function leaves behind: settings, notifications, large objects |
//! | a [role] that is a superuser or can write is refused | functions with effects beyond the transaction: files, programs, other servers |
//!
//! # Schemas
//!
//! PostgreSQL locks every relation that a statement uses until the end of its transaction: relations in the text, in
//! views, in functions, and in SQL that a function such as `query_to_xml` runs. So the host reads the locks before the
//! first row, and again after the last row and before any row reaches the guest. A TOAST table counts as the table that
//! it belongs to. A relation outside of the granted schemas that the role itself may read fails the query. A relation
//! that the role may *not* read itself can only have been read through a view or a function that the database's owner
//! made for this purpose, and does not fail the query. The catalogs can be read, except for their statistics, which
//! contain values of tables.
//!
//! # Messages
//!
//! Only the parser's messages are passed on. A running statement can put stored data into a message, so for errors
//! after the parser the guest gets the SQLSTATE and its meaning; for a value that cannot be converted, it gets the
//! number and the type of the parameter. Side channel: a statement that runs SQL by a function such as `query_to_xml`
//! learns one fact per query about data that it may not read: whether, and with which SQLSTATE, the inner SQL failed.
//!
//! # Bounds
//!
//! At most one row more than the maximum is fetched. The client library buffers messages of any size, so the [stream]
//! below it counts the bytes, charges them to the plugin, and fails when they exceed the maximum of a result.
//! `statement_timeout` ends a statement at the server. At the deadline of the query, and when its caller is gone, a
//! `CancelRequest` ends the statement, and the connection is closed. Until then the connection counts towards
//! `connections`. A connection that the server has closed is replaced.
//!
//! The client library looks up unknown types, and their component types, by nested calls. The stream bounds the
//! requests of a query, and therefore the stack; types that are nested more than 32 levels deep are refused.

mod array;
mod connector;
mod endpoint;
mod failure;
mod listener;
pub(super) mod schemas;
mod session;
mod stream;
mod text;

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError};
use mcp_host_model::requester::{FairSemaphore, Permit};
use tokio::time::{Instant, timeout_at};

use self::connector::Connector;
pub(super) use self::listener::Listener;
use mcp_host_config::Secret;
use mcp_host_config::grants::{ChannelName, SqlGrant};

use self::session::Session;
use crate::http::TlsRoots;
use crate::sql::bindings::databases::{DatabaseInfo, DatabaseKind};
use crate::sql::error::QueryError;
use crate::sql::result::{ChargedRows, ResultBounds};
use crate::sql::{Query, Usage};

/// The minimum `statement_timeout`: 0 means no timeout.
const MIN_STATEMENT_TIMEOUT: Duration = Duration::from_millis(1);

/// One database, and the connections to it.
pub(in crate::sql) struct PostgresqlDatabase {
    /// None if the pool cannot be built.
    pool: Option<Pool<Connector>>,
    max_connections: usize,
    permits: FairSemaphore,
    schemas: Vec<String>,
    channel: Option<ChannelName>,
}

/// A connection in use. Unless it is [released](Self::release), its statement is cancelled and the connection is
/// closed.
struct Lease(Option<(Object<Connector>, Permit)>);

impl PostgresqlDatabase {
    /// Creates the database at this URL. Does not connect.
    pub(super) fn new(url: &Secret<String>, grant: &SqlGrant, tls_roots: Arc<TlsRoots>) -> Self {
        let schemas: Vec<_> = grant.schemas.iter().map(|schema| schema.as_str().to_owned()).collect();
        let max_connections = grant.connections.get();
        let connector = Connector::new(url.clone(), grant, &schemas, tls_roots);
        let pool = Pool::builder(connector).max_size(max_connections).build().ok();
        let permits = FairSemaphore::new(max_connections, usize::MAX);
        Self { pool, max_connections, permits, schemas, channel: grant.listen.clone() }
    }

    /// The granted schemas.
    pub(super) fn schemas(&self) -> &[String] {
        &self.schemas
    }

    /// Returns the listener to the channel of the database, if it has one.
    pub(super) fn listener(&self) -> Option<Listener> {
        Some(Listener::new(self.pool.clone()?, self.channel.as_ref()?))
    }

    /// Returns a description of the database, after connecting and checking the role.
    pub(super) async fn describe(
        &self,
        bounds: ResultBounds,
        deadline: Instant,
        usage: &Usage,
    ) -> Result<DatabaseInfo, QueryError> {
        let lease = self.lease(deadline, usage).await?;
        let version = lease.session()?.server_version().to_owned();
        lease.release();
        Ok(DatabaseInfo {
            kind: DatabaseKind::Postgresql,
            version,
            schemas: self.schemas.clone(),
            max_rows: u32::try_from(bounds.rows).unwrap_or(u32::MAX),
            max_bytes: bounds.bytes,
        })
    }

    /// Runs a query.
    pub(super) async fn query(&self, query: Query) -> Result<ChargedRows, QueryError> {
        let (deadline, usage) = (query.deadline, query.usage.clone());
        let mut transaction = query.into();
        loop {
            let lease = self.lease(deadline, &usage).await?;
            let left = deadline.saturating_duration_since(Instant::now()).max(MIN_STATEMENT_TIMEOUT);
            let session = lease.session()?;
            let result = match session.begin(&mut transaction, left).await {
                Ok(statement) => session.query(transaction, &statement).await,
                // The server has closed the connection meanwhile. This happens at most once for each connection of the
                // pool.
                Err(QueryError::Unreachable(_)) if session.is_closed() && lease.is_reused() => continue,
                Err(error) => Err(error),
            };
            // A failed statement has ended, and the connection is usable.
            if session.end(result.is_err()).await {
                lease.release();
            }
            return result;
        }
    }

    /// Makes the server compile a query without running it.
    pub(super) async fn prepare(&self, query: Query) -> Result<(), QueryError> {
        let (deadline, usage) = (query.deadline, query.usage.clone());
        let mut transaction = query.into();
        let lease = self.lease(deadline, &usage).await?;
        let left = deadline.saturating_duration_since(Instant::now()).max(MIN_STATEMENT_TIMEOUT);
        let prepared = lease.session()?.begin(&mut transaction, left).await.map(drop);
        // The transaction is still open.
        if lease.session()?.end(true).await {
            lease.release();
        }
        prepared
    }

    async fn lease(&self, deadline: Instant, usage: &Usage) -> Result<Lease, QueryError> {
        let Some(pool) = &self.pool else {
            return Err(QueryError::Failed("the pool of connections cannot be built".to_owned()));
        };
        let permit = usage.acquire(&self.permits, deadline, self.max_connections).await?;
        match timeout_at(deadline, pool.get()).await {
            Ok(Ok(object)) => Ok(Lease(Some((object, permit)))),
            Ok(Err(PoolError::Backend(error))) => Err(error),
            Ok(Err(error)) => Err(QueryError::Failed(error.to_string())),
            Err(_) => Err(QueryError::Unreachable("the server does not answer".to_owned())),
        }
    }
}

impl Lease {
    fn session(&self) -> Result<&Session, QueryError> {
        let session = self.0.as_ref().map(|(object, _)| &**object);
        session.ok_or_else(|| QueryError::Failed("the connection was released".to_owned()))
    }

    /// Returns whether the connection has served another query.
    fn is_reused(&self) -> bool {
        self.0.as_ref().is_some_and(|(object, _)| Object::metrics(object).recycle_count > 0)
    }

    /// Returns the connection to the pool.
    fn release(mut self) {
        self.0 = None;
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some((object, permit)) = self.0.take() {
            Object::take(object).cancel(permit);
        }
    }
}
