//! The generated bindings of `mcp-host:sql`, and their implementation.

use self::databases::{Column, DatabaseInfo, Host, QueryFailure, Rejection, Row, Rows, Scalar, SqlArray, Value};
use super::SqlView;
use super::error::QueryError;
use crate::cpu::OutOfCpu;
use crate::host_calls::{self, HostCalls};

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "contract",
        inline: "
            package mcp-host:sql-host;
            world sql {
                import mcp-host:sql/databases@0.1.0;
            }
        ",
        imports: { default: async | tracing | trappable },
        // A child process that runs SQLite sends these types.
        additional_derives: [serde::Deserialize, serde::Serialize],
        trappable_error_type: { "mcp-host:sql/databases.query-failure" => super::super::error::QueryError },
    });
}

pub(super) use self::generated::mcp_host::sql::databases;

/// The content of a scalar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ScalarContent<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Bytes(&'a [u8]),
    Text(&'a str),
}

impl<'a> From<&'a Scalar> for ScalarContent<'a> {
    fn from(scalar: &'a Scalar) -> Self {
        match scalar {
            Scalar::Null => Self::Null,
            Scalar::Boolean(value) => Self::Boolean(*value),
            Scalar::Integer(value) => Self::Integer(*value),
            Scalar::Float(value) => Self::Float(*value),
            Scalar::Bytes(bytes) => Self::Bytes(bytes),
            Scalar::Decimal(text)
            | Scalar::Text(text)
            | Scalar::Date(text)
            | Scalar::Time(text)
            | Scalar::Timestamp(text)
            | Scalar::Instant(text)
            | Scalar::Uuid(text)
            | Scalar::Json(text)
            | Scalar::Other(text) => Self::Text(text),
        }
    }
}

/// The size of columns in memory, in bytes.
pub(super) fn columns_size(columns: &[Column]) -> usize {
    columns.iter().fold(0, |sum: usize, column| {
        let text = column.name.len().saturating_add(column.type_name.len());
        sum.saturating_add(text).saturating_add(size_of::<Column>())
    })
}

/// The size of rows in memory, in bytes.
pub(super) fn rows_size(rows: &Rows) -> usize {
    rows.rows.iter().fold(columns_size(&rows.columns), |sum, row| sum.saturating_add(row_size(&row.values)))
}

/// The size of a row in memory, in bytes.
pub(super) fn row_size(values: &[Value]) -> usize {
    values.iter().fold(size_of::<Row>(), |sum, value| sum.saturating_add(value_size(value)))
}

/// The size of a value in memory, in bytes.
pub(super) fn value_size(value: &Value) -> usize {
    let heap = match value {
        Value::Scalar(scalar) => scalar_heap(scalar),
        Value::SqlArray(SqlArray { dimensions, elements }) => {
            elements.iter().fold(size_of_val(&**dimensions), |sum, scalar| {
                sum.saturating_add(size_of::<Scalar>()).saturating_add(scalar_heap(scalar))
            })
        }
    };
    heap.saturating_add(size_of::<Value>())
}

fn scalar_heap(scalar: &Scalar) -> usize {
    match scalar.into() {
        ScalarContent::Null | ScalarContent::Boolean(_) | ScalarContent::Integer(_) | ScalarContent::Float(_) => 0,
        ScalarContent::Bytes(bytes) => bytes.len(),
        ScalarContent::Text(text) => text.len(),
    }
}

impl Host for SqlView<'_> {
    async fn granted(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.sql.names())
    }

    async fn describe(&mut self, database: String) -> Result<DatabaseInfo, QueryError> {
        self.sql.describe(&database, self.accounts).await
    }

    async fn query(
        &mut self,
        database: String,
        sql: String,
        parameters: Vec<Value>,
        max_rows: Option<u32>,
    ) -> Result<Rows, QueryError> {
        let rows = self.sql.query(&database, sql, parameters, max_rows, self.accounts).await?;
        if HostCalls::is_observed() {
            host_calls::transferred(rows_size(&rows));
        }
        Ok(rows)
    }

    fn convert_query_failure(&mut self, error: QueryError) -> wasmtime::Result<QueryFailure> {
        let message = error.to_string();
        Ok(match error {
            QueryError::OutOfCpu => return Err(OutOfCpu.into()),
            QueryError::NotGranted(_) => QueryFailure::NotGranted,
            QueryError::Rejected { sqlstate, message, position } => {
                QueryFailure::Rejected(Rejection { sqlstate, message, position })
            }
            QueryError::TooLarge(_) | QueryError::OutOfMemory => QueryFailure::TooLarge(message),
            QueryError::Timeout => QueryFailure::Timeout,
            QueryError::Busy(_) | QueryError::Refused(_) | QueryError::Unreachable(_) | QueryError::Failed(_) => {
                QueryFailure::Unavailable(message)
            }
        })
    }
}
