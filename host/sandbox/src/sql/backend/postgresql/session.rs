//! One connection, and a query on it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::TryStreamExt;
use mcp_host_model::requester::Permit;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, NoTls};
use tokio_postgres::types::{Kind, Type};
use tokio_postgres::{CancelToken, Client, SimpleQueryMessage, SimpleQueryRow, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::endpoint::Endpoint;
use super::failure::{Phase, nested_types, query_error};
use super::stream::{ByteMeter, MeteredStream};
use super::text::{self, Parameter};
use crate::cpu::HostCpuBudget;
use crate::memory::Reservation;
use crate::sql::Query;
use crate::sql::bindings::databases::{Column, Value};
use crate::sql::error::QueryError;
use crate::sql::result::{ChargedRows, ResultBounds, ResultBuilder};

/// The host's text before a guest's statement.
const DECLARE: &str = "DECLARE mcp_host_rows NO SCROLL CURSOR FOR ";
/// The setting without which no parallel worker is started. Statements can set it.
const PARALLEL_WORKERS: &str = "max_parallel_workers_per_gather";
/// Ends the transaction, and removes state that a function may leave behind.
const END: &str = "ROLLBACK; SELECT pg_catalog.pg_advisory_unlock_all()";
/// The maximum time for ending a failed transaction.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time for cancelling a statement.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum number of received bytes for each byte of a result: bytes arrive as hexadecimal digits.
const RECEIVED_PER_BYTE: u64 = 2;
/// The maximum nesting depth of types.
const MAX_TYPE_DEPTH: usize = 32;
/// The maximum number of types in the columns and parameters of a statement.
const MAX_TYPES: usize = 20_000;

/// The host's own statements for one grant.
pub(super) struct Statements {
    /// Begins a transaction, without its timeout.
    begin: String,
    /// Finds why the transaction is refused: it used a relation without a grant, or may have used one in another
    /// process.
    find_ungranted: String,
    /// Sets the search path of the transaction.
    set_path: String,
}

impl Statements {
    /// Creates the statements for a grant of these schemas.
    pub(super) fn new(schemas: &[String]) -> Self {
        let path: Vec<_> = schemas.iter().map(|schema| format!("\"{}\"", schema.replace('"', "\"\""))).collect();
        let names: Vec<_> = schemas.iter().map(|schema| format!("'{}'", schema.replace('\'', "''"))).collect();
        let set_path = format!("SET LOCAL search_path = {}", path.join(", "));
        // A parallel worker is another process. It releases its locks when it ends, before the host looks. The cursor
        // itself runs without workers, and with this setting SQL that its functions run does so, too.
        let begin = format!(
            "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {set_path}; \
             SET LOCAL standard_conforming_strings = on; SET LOCAL bytea_output = hex; SET LOCAL datestyle = ISO; \
             SET LOCAL intervalstyle = iso_8601; SET LOCAL timezone = UTC; SET LOCAL extra_float_digits = 1; \
             SET LOCAL {PARALLEL_WORKERS} = 0; SET LOCAL statement_timeout = "
        );
        // The catalogs are granted, except those with values of tables. Indexes are locked with their tables. A TOAST
        // table has values of the table that it belongs to, and counts as that table.
        let find_ungranted = format!(
            "SET LOCAL search_path = pg_catalog; \
             (SELECT format('permission denied for %I.%I: its schema is not granted', nspname, used.relname) FROM pg_locks \
             JOIN pg_class AS locked ON locked.oid = relation \
             JOIN pg_class AS used ON used.oid = CASE locked.relkind WHEN 't' THEN COALESCE((SELECT owner.oid \
             FROM pg_class AS owner WHERE owner.reltoastrelid = relation), relation) ELSE relation END \
             JOIN pg_namespace ON pg_namespace.oid = used.relnamespace \
             WHERE locktype = 'relation' AND pid = pg_backend_pid() AND locked.relkind NOT IN ('i', 'I') \
             AND nspname NOT IN ({}) AND CASE \
             WHEN nspname IN ('pg_catalog', 'information_schema') THEN used.relname IN ('pg_largeobject', \
             'pg_statistic', 'pg_statistic_ext_data', 'pg_stats', 'pg_stats_ext', 'pg_stats_ext_exprs') \
             ELSE EXISTS (SELECT FROM pg_roles WHERE pg_has_role(session_user, pg_roles.oid, 'MEMBER') \
             AND (has_table_privilege(pg_roles.oid, relation, 'SELECT') \
             OR has_any_column_privilege(pg_roles.oid, used.oid, 'SELECT'))) END LIMIT 1) UNION ALL \
             SELECT 'a statement must not set {PARALLEL_WORKERS}' WHERE current_setting('{PARALLEL_WORKERS}') <> '0' LIMIT 1",
            names.join(", ")
        );
        Self { begin, find_ungranted, set_path }
    }
}

/// A query, which may be tried on several connections.
pub(super) struct Transaction {
    declare: String,
    parameters: Vec<Parameter>,
    bounds: ResultBounds,
    /// The memory of the query, and later of the result.
    memory: Reservation,
    /// The processor time of the call.
    cpu: HostCpuBudget,
}

impl From<Query> for Transaction {
    fn from(query: Query) -> Self {
        Self {
            declare: format!("{DECLARE}{}", query.sql),
            parameters: query.parameters.into_iter().map(Parameter).collect(),
            bounds: query.bounds,
            memory: query.memory,
            cpu: query.usage.cpu,
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
        // Distributions append their own version: `15.18 (Debian 15.18-0+deb12u1)`.
        self.server_version.split(' ').next().unwrap_or_default()
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Waits until the connection has ended. Must not be called again after that.
    pub(super) async fn closed(&mut self) {
        let _ = (&mut self.task).await;
    }

    /// Closes the connection.
    pub(super) fn close(self) {
        self.task.abort();
    }

    /// Begins the transaction, and prepares its statement.
    pub(super) async fn begin(&self, query: &mut Transaction, limit: Duration) -> Result<Statement, QueryError> {
        let bytes = query.bounds.bytes.saturating_mul(RECEIVED_PER_BYTE);
        self.meter.allow(bytes, query.memory.another(), query.cpu.clone());
        let begin = format!("{}{}", self.statements.begin, limit.as_millis());
        // Both are sent together (pipelining); the server runs them in this order.
        let (begun, prepared) = tokio::join!(self.client.batch_execute(&begin), self.prepare(&query.declare));
        begun.map_err(|error| self.error(&error, query.bounds, Phase::Run))?;
        let phase = Phase::Parse { prefix: DECLARE.len() };
        let statement = prepared.map_err(|error| self.error(&error, query.bounds, phase))?;
        self.check_types(&statement)?;
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
        // The relations that the statement names are locked by now, so it does not run on a relation that is not
        // granted.
        let Statements { find_ungranted, set_path, .. } = &*self.statements;
        let check = format!("{find_ungranted}; {set_path}");
        let (declared, checked, described) = tokio::join!(
            self.client.execute_raw(statement, parameters),
            self.client.simple_query(&check),
            self.prepare(&fetch)
        );
        let run_error = |error| self.error(&error, bounds, Phase::Run);
        let types = statement.params();
        declared.map_err(|error| self.error(&error, bounds, Phase::Bind { types }))?;
        let ungranted = checked.map_err(run_error)?.into_iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(refused(&row)),
            _ => None,
        });
        if let Some(error) = ungranted {
            return Err(error);
        }
        let described = described.map_err(run_error)?;
        self.check_types(&described)?;
        let columns = described
            .columns()
            .iter()
            .map(|column| Column { name: column.name().to_owned(), type_name: column.type_().name().to_owned() });
        let mut result = ResultBuilder::new(columns.collect(), bounds, memory)?;
        let batch = format!("{fetch}; {find_ungranted}; {END}");
        let messages = self.client.simple_query_raw(&batch).await.map_err(run_error)?;
        let mut messages = pin!(messages);
        // The results of the batch, counted by their descriptions: the rows, an ungranted relation, the end.
        let mut part = 0_usize;
        while let Some(message) = messages.try_next().await.map_err(run_error)? {
            match message {
                SimpleQueryMessage::RowDescription(_) => part = part.saturating_add(1),
                SimpleQueryMessage::Row(row) if part == 1 => {
                    result.push(values(&described, &row)?)?;
                }
                SimpleQueryMessage::Row(row) if part == 2 => return Err(refused(&row)),
                _ => {}
            }
        }
        // Without its last part, the batch has not proved that every relation is granted.
        if part < 3 {
            return Err(QueryError::Unreachable("the server's response is not one of PostgreSQL".to_owned()));
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

    /// Cancels the running statement, and closes the connection. The permit is held until then.
    pub(super) fn cancel(self, permit: Permit) {
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
            drop(permit);
        });
    }

    /// Prepares a statement and looks up its types. After a failure, no type of the statement is cached.
    async fn prepare(&self, sql: &str) -> Result<Statement, tokio_postgres::Error> {
        let prepared = self.client.prepare(sql).await;
        if prepared.is_err() {
            self.client.clear_type_cache();
        }
        prepared
    }

    /// Checks that no type is nested so deeply that recursive functions exhaust the stack. Types of one query refer
    /// to types of earlier queries, so the limit of requests per query does not bound the depth.
    fn check_types(&self, statement: &Statement) -> Result<(), QueryError> {
        let columns = statement.columns().iter().map(tokio_postgres::Column::type_);
        let mut left = MAX_TYPES;
        if statement.params().iter().chain(columns).all(|ty| is_nested_at_most(ty, MAX_TYPE_DEPTH, &mut left)) {
            return Ok(());
        }
        self.client.clear_type_cache();
        Err(nested_types())
    }

    fn error(&self, error: &tokio_postgres::Error, bounds: ResultBounds, phase: Phase<'_>) -> QueryError {
        query_error(error, self.meter.exceeded(), bounds, phase)
    }
}

/// Returns whether a type is nested at most `levels` deep. Visits at most `left` types: two fields of one type count
/// twice, so the number of visits can double with each level.
fn is_nested_at_most(ty: &Type, levels: usize, left: &mut usize) -> bool {
    let (Some(levels), Some(fewer)) = (levels.checked_sub(1), left.checked_sub(1)) else { return false };
    *left = fewer;
    match ty.kind() {
        Kind::Domain(inner) | Kind::Array(inner) | Kind::Range(inner) | Kind::Multirange(inner) => {
            is_nested_at_most(inner, levels, left)
        }
        Kind::Composite(fields) => fields.iter().all(|field| is_nested_at_most(field.type_(), levels, left)),
        _ => true,
    }
}

/// The error of a query that is refused for this reason.
fn refused(reason: &SimpleQueryRow) -> QueryError {
    QueryError::rejected("42501", reason.try_get(0).ok().flatten().unwrap_or_default())
}

/// Sends the server a request to cancel the statement of a connection. This requires a separate connection, and the
/// server does not answer.
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

#[cfg(test)]
mod tests {
    use tokio_postgres::types::Field;

    use super::*;

    fn composite(fields: &[&Type]) -> Type {
        let fields = fields.iter().map(|ty| Field::new("a".to_owned(), (*ty).clone())).collect();
        Type::new("c".to_owned(), 100_000, Kind::Composite(fields), "public".to_owned())
    }

    #[test]
    fn types_are_nested_over_a_bounded_number_of_levels() {
        let mut ty = Type::INT4;
        for level in 1..100 {
            assert_eq!(is_nested_at_most(&ty, MAX_TYPE_DEPTH, &mut 1000), level <= MAX_TYPE_DEPTH, "{level}");
            ty = composite(&[&ty]);
        }
    }

    #[test]
    fn types_whose_number_doubles_with_each_level_take_no_time() {
        let doubled = (1..MAX_TYPE_DEPTH).fold(Type::INT4, |ty, _| composite(&[&ty, &ty]));
        assert!(!is_nested_at_most(&doubled, MAX_TYPE_DEPTH, &mut { MAX_TYPES }));
    }
}
