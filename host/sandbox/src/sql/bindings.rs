//! `mcp-host:sql`, as components import it: the generated bindings, and their implementation.

use self::databases::{DatabaseInfo, Host, QueryFailure, Rejection, Rows, Scalar, Value};
use super::SqlView;
use super::error::QueryError;
use crate::cpu::OutOfCpu;

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
        imports: { default: async | trappable },
        // A child process that runs SQLite sends them.
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

impl Host for SqlView<'_> {
    async fn granted(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(self.sql.names())
    }

    async fn describe(&mut self, database: String) -> Result<DatabaseInfo, QueryError> {
        self.sql.describe(&database, self.caller).await
    }

    async fn query(
        &mut self,
        database: String,
        sql: String,
        parameters: Vec<Value>,
        max_rows: Option<u32>,
    ) -> Result<Rows, QueryError> {
        self.sql.query(&database, sql, parameters, max_rows, self.caller).await
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
