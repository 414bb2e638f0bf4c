//! One connection, and a query on it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, NoTls};
use tokio_postgres::{CancelToken, Client, SimpleQueryMessage, SimpleQueryRow, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::endpoint::Endpoint;
use super::failure::query_error;
use super::parameter::Parameter;
use super::stream::{ByteMeter, MeteredStream};
use super::text;
use crate::sandbox::memory::{MemoryBudget, Reservation};
use crate::sandbox::sql::Query;
use crate::sandbox::sql::bindings::databases::{Column, Value};
use crate::sandbox::sql::error::QueryError;
use crate::sandbox::sql::result::{ChargedRows, ResultBounds, ResultBuilder};

/// What stands in front of a guest's statement.
const DECLARE: &str = "DECLARE mcp_host_rows NO SCROLL CURSOR FOR ";
/// Ends the transaction, and what a function may leave behind it.
const END: &str = "ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()";
/// The maximum time to end a transaction that failed.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time to cancel a statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Received bytes for each byte of a result: bytes are received as hexadecimal digits.
const RECEIVED_PER_BYTE: u64 = 2;

/// The host's own statements for one grant.
pub(super) struct Statements {
    /// Begins a transaction, without its timeout.
    begin: String,
    /// Finds a relation that the transaction used and that is not granted.
    find_ungranted: String,
}

impl Statements {
    /// The statements for a grant of those schemas.
    pub(super) fn new(schemas: &[String]) -> Self {
        let path: Vec<_> = schemas.iter().map(|schema| format!("\"{}\"", schema.replace('"', "\"\""))).collect();
        let names: Vec<_> = schemas.iter().map(|schema| format!("'{}'", schema.replace('\'', "''"))).collect();
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL search_path = {}; \
             SET LOCAL standard_conforming_strings = on; SET LOCAL bytea_output = hex; SET LOCAL datestyle = ISO; \
             SET LOCAL intervalstyle = iso_8601; SET LOCAL timezone = UTC; SET LOCAL extra_float_digits = 1; \
             SET LOCAL statement_timeout = ",
            path.join(", ")
        );
        // The catalogs without those that have values of tables. Indexes are locked with their tables.
        let find_ungranted = format!(
            "SET LOCAL search_path = pg_catalog; \
             SELECT format('%I.%I', nspname, relname) FROM pg_locks \
             JOIN pg_class ON pg_class.oid = relation JOIN pg_namespace ON pg_namespace.oid = relnamespace \
             WHERE locktype = 'relation' AND pid = pg_backend_pid() AND relkind NOT IN ('i', 'I', 't') \
             AND nspname NOT IN ({}) AND CASE \
             WHEN nspname IN ('pg_catalog', 'information_schema') THEN relname IN ('pg_largeobject', 'pg_statistic', \
             'pg_statistic_ext_data', 'pg_stats', 'pg_stats_ext', 'pg_stats_ext_exprs') \
             ELSE EXISTS (SELECT FROM pg_roles WHERE pg_has_role(session_user, pg_roles.oid, 'MEMBER') \
             AND (has_table_privilege(pg_roles.oid, pg_class.oid, 'SELECT') \
             OR has_any_column_privilege(pg_roles.oid, pg_class.oid, 'SELECT'))) END LIMIT 1",
            names.join(", ")
        );
        Self { begin, find_ungranted }
    }
}

/// A query, for one connection after another.
pub(super) struct Transaction {
    declare: String,
    parameters: Vec<Parameter>,
    bounds: ResultBounds,
    /// The memory of the query, and later that of the result.
    memory: Reservation,
    budget: Arc<MemoryBudget>,
}

impl From<Query> for Transaction {
    fn from(query: Query) -> Self {
        Self {
            declare: format!("{DECLARE}{}", query.sql),
            parameters: query.parameters.into_iter().map(Parameter).collect(),
            bounds: query.bounds,
            memory: query.memory,
            budget: query.budget,
        }
    }
}

/// A connection to a server.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) meter: Arc<ByteMeter>,
    pub(super) endpoint: Endpoint,
    pub(super) tls: Option<MakeRustlsConnect>,
    pub(super) runtime: Handle,
    pub(super) task: JoinHandle<()>,
    pub(super) server_version: String,
    pub(super) statements: Arc<Statements>,
}

impl Session {
    /// The version of the server, such as `15.18`.
    pub(super) fn server_version(&self) -> &str {
        // Distributions add their own: `15.18 (Debian 15.18-0+deb12u1)`.
        self.server_version.split(' ').next().unwrap_or_default()
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Begins the transaction, and prepares its statement.
    pub(super) async fn begin(&self, query: &mut Transaction, limit: Duration) -> Result<Statement, QueryError> {
        let memory = query.budget.try_reserve(0).ok_or(QueryError::OutOfMemory)?;
        self.meter.allow(query.bounds.bytes.saturating_mul(RECEIVED_PER_BYTE), memory);
        let begin = format!("{}{}", self.statements.begin, limit.as_millis());
        // Both are sent at once; the server runs them in this order.
        let (begun, prepared) = futures::join!(self.client.batch_execute(&begin), self.client.prepare(&query.declare));
        begun.map_err(|error| self.error(&error, query.bounds))?;
        let statement = prepared.map_err(|error| self.error(&error, query.bounds))?;
        let (expected, found) = (statement.params().len(), query.parameters.len());
        if expected != found {
            let message = format!("the statement has {expected} parameters, and {found} values");
            return Err(QueryError::rejected("08P01", message));
        }
        Ok(statement)
    }

    /// Runs the statement, and reads its rows.
    pub(super) async fn query(&self, query: Transaction, statement: &Statement) -> Result<ChargedRows, QueryError> {
        let Transaction { parameters, bounds, memory, .. } = query;
        let fetch = format!("FETCH FORWARD {} FROM mcp_host_rows", bounds.rows.saturating_add(1));
        let (declared, described) =
            futures::join!(self.client.execute_raw(statement, parameters), self.client.prepare(&fetch));
        declared.map_err(|error| self.error(&error, bounds))?;
        let described = described.map_err(|error| self.error(&error, bounds))?;
        let columns = described
            .columns()
            .iter()
            .map(|column| Column { name: column.name().to_owned(), type_name: column.type_().name().to_owned() });
        let mut result = ResultBuilder::new(columns.collect(), bounds, memory)?;
        let batch = format!("{fetch}; {}; {END}", self.statements.find_ungranted);
        let messages = self.client.simple_query_raw(&batch).await.map_err(|error| self.error(&error, bounds))?;
        let mut messages = pin!(messages);
        // The results of the batch, counted by their descriptions: the rows, a relation that is not granted, the end.
        let mut part = 0_usize;
        while let Some(message) = messages.try_next().await.map_err(|error| self.error(&error, bounds))? {
            match message {
                SimpleQueryMessage::RowDescription(_) => part = part.saturating_add(1),
                SimpleQueryMessage::Row(row) if part == 1 => {
                    result.push(values(&described, &row)?)?;
                }
                SimpleQueryMessage::Row(row) if part == 2 => {
                    let relation = row.try_get(0).ok().flatten().unwrap_or_default();
                    let message = format!("permission denied for {relation}: its schema is not granted");
                    return Err(QueryError::rejected("42501", message));
                }
                _ => {}
            }
        }
        // Without its last part the batch has not shown that every relation is granted.
        if part < 3 {
            return Err(QueryError::Unreachable("the server's answer is not that of PostgreSQL".to_owned()));
        }
        Ok(result.finish())
    }

    /// Ends a query. Returns whether the connection can be used for another.
    pub(super) async fn end(&self, has_failed: bool) -> bool {
        let is_usable = match has_failed {
            false => true,
            true => matches!(timeout(END_TIMEOUT, self.client.batch_execute(END)).await, Ok(Ok(()))),
        };
        self.meter.settle();
        is_usable && !self.is_closed()
    }

    /// Cancels the statement that runs, and closes the connection.
    pub(super) fn cancel(self) {
        let Self { client, endpoint, tls, runtime, task, .. } = self;
        if client.is_closed() {
            return;
        }
        let token = client.cancel_token();
        runtime.spawn(async move {
            let _ = timeout(CANCEL_TIMEOUT, send_cancel(token, endpoint, tls)).await;
            // The server has ended the statement, or will notice the end of the connection.
            drop(client);
            task.abort();
        });
    }

    fn error(&self, error: &tokio_postgres::Error, bounds: ResultBounds) -> QueryError {
        query_error(error, self.meter.exceeded(), bounds, DECLARE.len())
    }
}

/// Tells the server to cancel the statement of a connection, which takes a connection of its own. It does not answer.
async fn send_cancel(token: CancelToken, endpoint: Endpoint, tls: Option<MakeRustlsConnect>) -> Option<()> {
    let stream = MeteredStream::new(endpoint.open().await.ok()?, ByteMeter::new());
    match (endpoint.tls_name, tls) {
        (Some(name), Some(mut tls)) => {
            let tls = MakeTlsConnect::<MeteredStream>::make_tls_connect(&mut tls, &name).ok()?;
            token.cancel_query_raw(stream, tls).await.ok()
        }
        _ => token.cancel_query_raw(stream, NoTls).await.ok(),
    }
}

fn values(described: &Statement, row: &SimpleQueryRow) -> Result<Vec<Value>, QueryError> {
    let columns = described.columns().iter().enumerate();
    let values = columns.map(|(index, column)| match row.try_get(index) {
        Ok(value) => Ok(text::value(column.type_(), value)),
        Err(_) => Err(QueryError::rejected("22021", "a text of the result is not valid UTF-8")),
    });
    values.collect()
}
