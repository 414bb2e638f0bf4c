//! SQL databases, which the host connects to.
//!
//! A provider names a [`Database`] that the administrator granted (`grants.sql = [{ name = "shop", … }]`) and queries
//! it. The host has the address and the password, and enforces that a provider only reads.
//!
//! ```no_run
//! use mcp_provider::Result;
//! use mcp_provider::sql::Database;
//!
//! /// Returns the names of the cheapest items.
//! fn cheapest(below: i64) -> Result<Vec<String>> {
//!     let shop = Database::open("shop");
//!     let rows = shop.query("SELECT name FROM items WHERE price < $1 ORDER BY price", &[below.into()], Some(10))?;
//!     Ok(rows.rows.iter().filter_map(|row| row.first()?.as_text()).map(str::to_owned).collect())
//! }
//! ```
//!
//! A statement is one query, in the dialect of the [kind](DatabaseInfo::kind) of database; `$1` stands for the first
//! parameter in both. Each query sees one state of the database, and two queries may see two.
//!
//! # Failures
//!
//! A database that is not granted and a statement that the database rejects are [`Failure::Internal`], whose text the
//! host logs. A result that is too large is [`Failure::InvalidRequest`]. A database that cannot be reached, or takes
//! too long, is [`Failure::Unavailable`]. To return other failures, match [`QueryError`].
//!
//! # Native targets
//!
//! There is no host on native targets, and every query fails. A provider with native tests has its queries behind a
//! trait of its own.

use crate::Failure;
use crate::component::bindings::mcp_host::sql::databases::{
    self, DatabaseKind, QueryFailure, Rejection, Scalar, SqlArray,
};

/// A granted database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    name: String,
}

/// The kind of a database, and so the dialect of its SQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// PostgreSQL.
    Postgresql,
    /// SQLite.
    Sqlite,
}

/// What a database is, and what a query may return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseInfo {
    /// Its kind.
    pub kind: Kind,
    /// Its version: `15.18`.
    pub version: String,
    /// The schemas that can be read, in the order in which names are looked up.
    pub schemas: Vec<String>,
    /// The maximum number of rows of a result.
    pub max_rows: u32,
    /// The maximum size of a result in bytes.
    pub max_bytes: u64,
}

/// A value: of a parameter, or in a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// SQL's NULL.
    Null,
    /// A boolean.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A floating-point number.
    Float(f64),
    /// An exact decimal number: `-12.50`.
    Decimal(String),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A date: `2026-11-22`.
    Date(String),
    /// A time of day: `12:34:56.789`.
    Time(String),
    /// A date with a time of day, in no particular time zone: `2026-11-22T12:34:56`.
    Timestamp(String),
    /// A point in time, as RFC 3339 in UTC: `2026-11-22T12:34:56Z`.
    Instant(String),
    /// A UUID.
    Uuid(String),
    /// JSON.
    Json(String),
    /// A value of another type, as the database writes it.
    Other(String),
    /// An array.
    Array {
        /// The lengths of its dimensions, outermost first. Empty if the array is.
        dimensions: Vec<u32>,
        /// The elements in row-major order, none of which is an array.
        elements: Vec<Value>,
    },
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, which need not be unique.
    pub name: String,
    /// The name of its type, such as `int4`. Empty if it has none.
    pub type_name: String,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows: a value for each column.
    pub rows: Vec<Vec<Value>>,
    /// Whether the query has more rows than it returned.
    pub has_more: bool,
}

/// Why a query has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueryError {
    /// No database of that name is granted, or this is not a component.
    #[error("the database `{0}` is not granted: add it to `grants.sql`")]
    NotGranted(String),
    /// The database refused the statement.
    #[error("the database refused the statement ({sqlstate}): {message}")]
    Rejected {
        /// The SQLSTATE, such as `42P01`.
        sqlstate: String,
        /// What it means. It names a parameter whose value is refused, as `$1`, if the database tells which.
        message: String,
        /// The position in the statement, in characters from 1.
        position: Option<u32>,
    },
    /// The result is larger than the grant allows.
    #[error("{0}")]
    TooLarge(String),
    /// The query took longer than the grant allows.
    #[error("the query took too long")]
    Timeout,
    /// The database cannot be reached now.
    #[error("{0}")]
    Unavailable(String),
}

impl Database {
    /// The database of that name. Nothing is sent.
    pub fn open(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }

    /// Returns the names of the granted databases, sorted; none on native targets.
    pub fn granted() -> Vec<String> {
        if cfg!(target_family = "wasm") { databases::granted() } else { Vec::new() }
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the database is.
    ///
    /// # Errors
    ///
    /// It is not granted, or cannot be reached.
    pub fn describe(&self) -> Result<DatabaseInfo, QueryError> {
        self.check_target()?;
        let info = databases::describe(&self.name).map_err(|failure| self.error(failure))?;
        Ok(DatabaseInfo {
            kind: match info.kind {
                DatabaseKind::Postgresql => Kind::Postgresql,
                DatabaseKind::Sqlite => Kind::Sqlite,
            },
            version: info.version,
            schemas: info.schemas,
            max_rows: info.max_rows,
            max_bytes: info.max_bytes,
        })
    }

    /// Runs one query and returns its first rows: at most `max_rows`, and at most as many as the grant allows.
    ///
    /// # Errors
    ///
    /// The query has no result.
    pub fn query(&self, sql: &str, parameters: &[Value], max_rows: Option<u32>) -> Result<Rows, QueryError> {
        self.check_target()?;
        let parameters: Vec<_> = parameters.iter().cloned().map(into_binding).collect();
        let rows = databases::query(&self.name, sql, &parameters, max_rows).map_err(|failure| self.error(failure))?;
        let column = |column: databases::Column| Column { name: column.name, type_name: column.type_name };
        Ok(Rows {
            columns: rows.columns.into_iter().map(column).collect(),
            rows: rows.rows.into_iter().map(|row| row.values.into_iter().map(from_binding).collect()).collect(),
            has_more: rows.has_more,
        })
    }

    fn check_target(&self) -> Result<(), QueryError> {
        if cfg!(target_family = "wasm") { Ok(()) } else { Err(QueryError::NotGranted(self.name.clone())) }
    }

    fn error(&self, failure: QueryFailure) -> QueryError {
        match failure {
            QueryFailure::NotGranted => QueryError::NotGranted(self.name.clone()),
            QueryFailure::Rejected(Rejection { sqlstate, message, position }) => {
                QueryError::Rejected { sqlstate, message, position }
            }
            QueryFailure::TooLarge(message) => QueryError::TooLarge(message),
            QueryFailure::Timeout => QueryError::Timeout,
            QueryFailure::Unavailable(message) => QueryError::Unavailable(message),
        }
    }
}

impl Rows {
    /// Returns the values of a column; none if there is no column of that name.
    pub fn column(&self, name: &str) -> Option<impl Iterator<Item = &Value>> {
        let index = self.columns.iter().position(|column| column.name == name)?;
        Some(self.rows.iter().filter_map(move |row| row.get(index)))
    }
}

impl Value {
    /// Returns the text of a value that is one, of whatever type; none of numbers, booleans, bytes, arrays and NULL.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text)
            | Self::Decimal(text)
            | Self::Date(text)
            | Self::Time(text)
            | Self::Timestamp(text)
            | Self::Instant(text)
            | Self::Uuid(text)
            | Self::Json(text)
            | Self::Other(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the integer.
    pub fn as_integer(&self) -> Option<i64> {
        if let Self::Integer(value) = self { Some(*value) } else { None }
    }

    /// Returns the boolean. SQLite has none: there, it is an integer that is not 0.
    pub fn as_boolean(&self) -> Option<bool> {
        match self {
            Self::Boolean(value) => Some(*value),
            Self::Integer(value) => Some(*value != 0),
            _ => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Boolean(value)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl From<QueryError> for Failure {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::NotGranted(_) | QueryError::Rejected { .. } => Self::internal(error.to_string()),
            QueryError::TooLarge(message) => Self::invalid(message),
            QueryError::Timeout | QueryError::Unavailable(_) => Self::unavailable(error.to_string()),
        }
    }
}

fn into_binding(value: Value) -> databases::Value {
    match value {
        Value::Array { dimensions, elements } => databases::Value::SqlArray(SqlArray {
            dimensions,
            elements: elements.into_iter().map(into_scalar).collect(),
        }),
        value => databases::Value::Scalar(into_scalar(value)),
    }
}

/// The value of an element. An array in an array, which no database has, is NULL.
fn into_scalar(value: Value) -> Scalar {
    match value {
        Value::Null | Value::Array { .. } => Scalar::Null,
        Value::Boolean(value) => Scalar::Boolean(value),
        Value::Integer(value) => Scalar::Integer(value),
        Value::Float(value) => Scalar::Float(value),
        Value::Decimal(text) => Scalar::Decimal(text),
        Value::Text(text) => Scalar::Text(text),
        Value::Bytes(bytes) => Scalar::Bytes(bytes),
        Value::Date(text) => Scalar::Date(text),
        Value::Time(text) => Scalar::Time(text),
        Value::Timestamp(text) => Scalar::Timestamp(text),
        Value::Instant(text) => Scalar::Instant(text),
        Value::Uuid(text) => Scalar::Uuid(text),
        Value::Json(text) => Scalar::Json(text),
        Value::Other(text) => Scalar::Other(text),
    }
}

fn from_binding(value: databases::Value) -> Value {
    match value {
        databases::Value::Scalar(scalar) => from_scalar(scalar),
        databases::Value::SqlArray(array) => Value::Array {
            dimensions: array.dimensions,
            elements: array.elements.into_iter().map(from_scalar).collect(),
        },
    }
}

fn from_scalar(scalar: Scalar) -> Value {
    match scalar {
        Scalar::Null => Value::Null,
        Scalar::Boolean(value) => Value::Boolean(value),
        Scalar::Integer(value) => Value::Integer(value),
        Scalar::Float(value) => Value::Float(value),
        Scalar::Decimal(text) => Value::Decimal(text),
        Scalar::Text(text) => Value::Text(text),
        Scalar::Bytes(bytes) => Value::Bytes(bytes),
        Scalar::Date(text) => Value::Date(text),
        Scalar::Time(text) => Value::Time(text),
        Scalar::Timestamp(text) => Value::Timestamp(text),
        Scalar::Instant(text) => Value::Instant(text),
        Scalar::Uuid(text) => Value::Uuid(text),
        Scalar::Json(text) => Value::Json(text),
        Scalar::Other(text) => Value::Other(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_databases_outside_of_a_component() {
        assert!(Database::granted().is_empty());
        let error = Database::open("shop").query("SELECT 1", &[], None).unwrap_err();
        assert_eq!(error, QueryError::NotGranted("shop".to_owned()));
    }

    #[test]
    fn every_value_survives_its_binding() {
        let text = || "x".to_owned();
        let scalars = vec![
            Value::Null,
            Value::from(true),
            Value::from(-1),
            Value::from(1.5),
            Value::Decimal(text()),
            Value::from("x"),
            Value::Bytes(vec![0]),
            Value::Date(text()),
            Value::Time(text()),
            Value::Timestamp(text()),
            Value::Instant(text()),
            Value::Uuid(text()),
            Value::Json(text()),
            Value::Other(text()),
        ];
        let array = Value::Array { dimensions: vec![2, 7], elements: scalars.clone() };
        for value in scalars.into_iter().chain([array]) {
            assert_eq!(from_binding(into_binding(value.clone())), value);
        }
    }

    #[test]
    fn a_result_that_is_too_large_is_the_clients_and_a_rejection_the_providers_fault() {
        assert!(matches!(Failure::from(QueryError::TooLarge("x".into())), Failure::InvalidRequest(_)));
        assert!(matches!(Failure::from(QueryError::Timeout), Failure::Unavailable(_)));
        let rejected = QueryError::Rejected { sqlstate: "42P01".into(), message: "x".into(), position: None };
        assert!(matches!(Failure::from(rejected), Failure::Internal(_)));
    }
}
