//! One read-only connection, and one query on it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rusqlite::config::DbConfig;
use rusqlite::hooks::AuthContext;
use rusqlite::limits::Limit;
use rusqlite::types::{Null, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};

use super::authorizer::GeneratedColumns;
use super::{BUSY_TIMEOUT, CACHE_KIB, Functions, MAX_HEAP, authorizer};
use crate::sql::bindings::ScalarContent;
use crate::sql::bindings::databases::{Column, Scalar, Value};
use crate::sql::error::QueryError;
use crate::sql::result::{ChargedRows, ResultBuilder};
use crate::sql::{MAX_PARAMETERS, MAX_SQL, Query};

/// The number of steps of SQLite's virtual machine between two checks of the deadline. It is small, because each step
/// may call a slow function.
const STEPS: i32 = 20;
/// The limits of a statement: enough for any query that a person writes.
const LIMITS: [(Limit, i32); 8] = [
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 0),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 50),
    (Limit::SQLITE_LIMIT_COLUMN, 2000),
    (Limit::SQLITE_LIMIT_VDBE_OP, 250_000),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000),
];

/// Opens the file for reading. No value, row or intermediate text has more than `max_value` bytes.
pub(super) fn open(file: &Path, max_value: u64) -> Result<Connection, QueryError> {
    open_connection(file, max_value).map_err(|error| QueryError::Unreachable(error.to_string()))
}

fn open_connection(file: &Path, max_value: u64) -> rusqlite::Result<Connection> {
    let mut connection =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    // A misspelt column in double quotes is an error, not a text.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    for (limit, value) in LIMITS {
        connection.set_limit(limit, value)?;
    }
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(max_value).unwrap_or(i32::MAX))?;
    connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, i32::try_from(MAX_SQL).unwrap_or(i32::MAX))?;
    connection.set_limit(Limit::SQLITE_LIMIT_VARIABLE_NUMBER, i32::try_from(MAX_PARAMETERS).unwrap_or(i32::MAX))?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cache_size", CACHE_KIB.saturating_neg())?;
    // SQLite can limit only the total of all connections of the process.
    connection.pragma_update(None, "hard_heap_limit", MAX_HEAP)?;
    connection.authorizer(Some(authorizer::authorize))?;
    Ok(connection)
}

/// Runs `work`, and interrupts its statements once `is_over` returns true.
pub(super) fn run_until<T>(
    connection: &mut Connection,
    is_over: impl FnMut() -> bool + Send + 'static,
    work: impl FnOnce(&mut Connection) -> Result<T, QueryError>,
) -> Result<T, QueryError> {
    let failed = |error: rusqlite::Error| QueryError::Failed(error.to_string());
    connection.progress_handler(STEPS, Some(is_over)).map_err(failed)?;
    let result = work(connection);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    result
}

/// Reads the schema. Fails if the file is not a database.
pub(super) fn check(connection: &mut Connection) -> Result<(), QueryError> {
    let tables = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0));
    tables.map(drop).map_err(|error| run_error(&error, 0))
}

/// Compiles a query with these parameters, without running it.
pub(super) fn prepare(connection: &mut Connection, sql: &str, parameters: &[Value]) -> Result<(), QueryError> {
    let mut statement = connection.prepare(sql).map_err(|error| compile_error(&error, 0))?;
    require_query(&statement)?;
    bind(&mut statement, parameters)
}

/// Fails unless the statement only reads and returns rows.
fn require_query(statement: &Statement<'_>) -> Result<(), QueryError> {
    match statement.readonly() && statement.column_count() > 0 {
        true => Ok(()),
        false => Err(QueryError::rejected("25006", "the statement is not a query")),
    }
}

/// Runs one query. Values have at most the length that was set when the connection was opened, and less in statements
/// with slow functions whose calls cannot be ended.
pub(super) fn query(
    connection: &mut Connection,
    query: Query,
    functions: Functions,
) -> Result<ChargedRows, QueryError> {
    if functions == Functions::Killable {
        let max_value = connection.limit(Limit::SQLITE_LIMIT_LENGTH);
        let max_value = max_value.map_err(|error| QueryError::Failed(error.to_string()))?;
        return run(connection, query, max_value, &AtomicI32::new(i32::MAX));
    }
    // Rereads a changed schema before the limit is lowered, because texts of the schema may be long.
    check(connection)?;
    let failed = |error: rusqlite::Error| QueryError::Failed(error.to_string());
    let generated = GeneratedColumns::read(connection).map_err(|error| run_error(&error, query.bounds.bytes))?;
    let longest = Arc::new(AtomicI32::new(i32::MAX));
    let recorded = longest.clone();
    let authorize = move |context: AuthContext<'_>| {
        if let Some(max_value) = authorizer::max_value(context.action).or_else(|| generated.max_value(context.action)) {
            recorded.fetch_min(max_value, Ordering::Relaxed);
        }
        authorizer::authorize(context)
    };
    connection.authorizer(Some(authorize)).map_err(failed)?;
    // The limit applies to the planner, too, because it computes values.
    let usual = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, authorizer::MIN_VALUE).map_err(failed)?;
    let result = run(connection, query, usual, &longest);
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, usual).map_err(failed)?;
    let longest = longest.load(Ordering::Relaxed);
    match result {
        Err(QueryError::TooLarge(_)) if longest < usual => Err(QueryError::rejected(
            "54000",
            format!(
                "a value has more than {longest} bytes, or the result more than `max-bytes`: the statement calls a \
                 function that takes too long for longer values (like, glob, instr, replace, trim, unhex, json_patch)"
            ),
        )),
        result => result,
    }
}

fn run(connection: &Connection, query: Query, usual: i32, longest: &AtomicI32) -> Result<ChargedRows, QueryError> {
    let Query { sql, parameters, bounds, memory, .. } = query;
    let mut statement = connection.prepare(&sql).map_err(|error| compile_error(&error, bounds.bytes))?;
    let max_value = usual.min(longest.load(Ordering::Relaxed));
    let is_set = connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, max_value);
    is_set.map_err(|error| QueryError::Failed(error.to_string()))?;
    require_query(&statement)?;
    bind(&mut statement, &parameters)?;
    let columns = statement.columns().map(|column| Column {
        name: column.name().to_owned(),
        type_name: column.decl_type().unwrap_or_default().to_owned(),
    });
    let columns: Vec<_> = columns.collect();
    let width = columns.len();
    let mut result = ResultBuilder::new(columns, bounds, memory)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next().map_err(|error| run_error(&error, bounds.bytes))? {
        let values = (0..width).map(|index| row.get_ref(index).map(value));
        let values = values.collect::<rusqlite::Result<_>>().map_err(|error| run_error(&error, bounds.bytes))?;
        if !result.push(values)? {
            break;
        }
    }
    Ok(result.finish())
}

/// Sets the parameters. SQLite numbers parameters in the order of the text, but `$2` must be the second value at any
/// position.
fn bind(statement: &mut Statement<'_>, parameters: &[Value]) -> Result<(), QueryError> {
    let places: Vec<_> = (1..=statement.parameter_count()).map(|index| (index, number(statement, index))).collect();
    let expected = places.iter().map(|(_, number)| *number).max().unwrap_or(0);
    if expected != parameters.len() {
        let message = format!("the statement has {expected} parameters, and {} values", parameters.len());
        return Err(QueryError::rejected("08P01", message));
    }
    for (index, number) in places {
        let scalar = match number.checked_sub(1).and_then(|position| parameters.get(position)) {
            Some(Value::Scalar(scalar)) => scalar,
            Some(Value::SqlArray(_)) => {
                return Err(QueryError::rejected(
                    "0A000",
                    format!("parameter {number} is an array, which SQLite has not"),
                ));
            }
            None => return Err(QueryError::rejected("42P02", format!("there is no parameter {number}"))),
        };
        let bound = match scalar.into() {
            ScalarContent::Null => statement.raw_bind_parameter(index, Null),
            ScalarContent::Boolean(value) => statement.raw_bind_parameter(index, value),
            ScalarContent::Integer(value) => statement.raw_bind_parameter(index, value),
            ScalarContent::Float(value) => statement.raw_bind_parameter(index, value),
            ScalarContent::Bytes(value) => statement.raw_bind_parameter(index, value),
            ScalarContent::Text(value) => statement.raw_bind_parameter(index, value),
        };
        bound.map_err(|error| run_error(&error, 0))?;
    }
    Ok(())
}

/// The number of the parameter with this index: 2 for `$2` and `?2`, else the index.
fn number(statement: &Statement<'_>, index: usize) -> usize {
    let name = statement.parameter_name(index);
    name.and_then(|name| name.trim_start_matches(['$', '?', ':', '@']).parse().ok()).unwrap_or(index)
}

fn value(value: ValueRef<'_>) -> Value {
    Value::Scalar(match value {
        ValueRef::Null => Scalar::Null,
        ValueRef::Integer(number) => Scalar::Integer(number),
        ValueRef::Real(number) => Scalar::Float(number),
        ValueRef::Text(text) => match str::from_utf8(text) {
            Ok(text) => Scalar::Text(text.to_owned()),
            Err(_) => Scalar::Bytes(text.to_owned()),
        },
        ValueRef::Blob(bytes) => Scalar::Bytes(bytes.to_owned()),
    })
}

/// The error of a statement that does not compile. SQLite's message contains names and parts of the statement.
fn compile_error(error: &rusqlite::Error, max_bytes: u64) -> QueryError {
    match error {
        rusqlite::Error::MultipleStatement => QueryError::rejected("42601", "there is more than one statement"),
        rusqlite::Error::SqlInputError { error: failure, msg, offset, .. } if failure.code == ErrorCode::Unknown => {
            QueryError::Rejected {
                sqlstate: "42000".to_owned(),
                message: msg.clone(),
                position: u32::try_from(*offset).ok().map(|offset| offset.saturating_add(1)),
            }
        }
        rusqlite::Error::SqliteFailure(failure, Some(message)) if failure.code == ErrorCode::Unknown => {
            QueryError::rejected("42000", message.clone())
        }
        error => run_error(error, max_bytes),
    }
}

/// The error of a statement that failed while running. The text is the host's, because SQLite's may contain stored
/// data.
fn run_error(error: &rusqlite::Error, max_bytes: u64) -> QueryError {
    let Some(code) = error.sqlite_error_code() else { return QueryError::Failed(error.to_string()) };
    match code {
        ErrorCode::OperationInterrupted => QueryError::Timeout,
        ErrorCode::TooBig => QueryError::TooLarge(max_bytes),
        ErrorCode::OutOfMemory => QueryError::OutOfMemory,
        ErrorCode::AuthorizationForStatementDenied => {
            QueryError::rejected("42501", "the statement does more than to read")
        }
        ErrorCode::ReadOnly => QueryError::rejected("25006", "the database can only be read"),
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            QueryError::rejected("55P03", "the database is locked by a writer; try again")
        }
        ErrorCode::TypeMismatch => QueryError::rejected("22P02", "a value has another type than the statement needs"),
        ErrorCode::Unknown => QueryError::rejected("22000", "the statement failed on the data"),
        _ => QueryError::Unreachable(error.to_string()),
    }
}
