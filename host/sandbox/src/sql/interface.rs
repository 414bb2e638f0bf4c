//! `mcp-host:sql`, as components import it.

use super::SqlView;
use super::bindings::databases::{DatabaseInfo, Host, QueryFailure, Rejection, Rows, Value};
use super::error::QueryError;
use crate::cpu::OutOfCpu;

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
