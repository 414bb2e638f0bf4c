//! The databases of a build with the feature `sql`: PostgreSQL and SQLite.

mod postgresql;
mod sqlite;

use std::sync::Arc;

use futures::future::BoxFuture;
use mcp_host_config::grants::{NestedPaths, SqlGrant, SqlUrl};
use mcp_host_model::requester::{FairSemaphore, Permit};
use tokio::time::{Instant, timeout_at};

use self::postgresql::{Listener, PostgresqlDatabase, schemas};
use self::sqlite::SqliteDatabase;
pub use self::sqlite::run_sqlite_worker;
use super::bindings::ScalarContent;
use super::bindings::databases::{DatabaseInfo, Value};
use super::error::QueryError;
use super::result::{ChargedRows, ResultBounds};
use super::{Database, Query, SqlDatabases, Usage, WorkerProgram};
use crate::CallAccounts;
use crate::http::TlsRoots;

/// The backend of a database.
pub(super) enum Backend {
    Postgresql(PostgresqlDatabase),
    Sqlite(SqliteDatabase),
}

impl Backend {
    pub(super) fn new(
        grant: &SqlGrant,
        nested: &NestedPaths,
        sqlite_workers: Option<&WorkerProgram>,
        tls_roots: &Arc<TlsRoots>,
    ) -> Self {
        match &grant.url {
            SqlUrl::Postgresql(url) => Self::Postgresql(PostgresqlDatabase::new(url, grant, tls_roots.clone())),
            SqlUrl::Sqlite(file) => Self::Sqlite(SqliteDatabase::new(file, nested.get(file), grant, sqlite_workers)),
        }
    }

    /// Describes the database. Type-erased, because checks call it in other crates, too.
    pub(super) fn describe<'a>(
        &'a self,
        bounds: ResultBounds,
        deadline: Instant,
        accounts: CallAccounts<'a>,
    ) -> BoxFuture<'a, Result<DatabaseInfo, QueryError>> {
        Box::pin(async move {
            match self {
                Self::Postgresql(database) => database.describe(bounds, deadline, &accounts.into()).await,
                Self::Sqlite(database) => database.describe(bounds, deadline, accounts).await,
            }
        })
    }

    pub(super) async fn query(&self, query: Query) -> Result<ChargedRows, QueryError> {
        match self {
            Self::Postgresql(database) => database.query(query).await,
            Self::Sqlite(database) => database.query(query).await,
        }
    }

    pub(super) async fn prepare(&self, query: Query) -> Result<(), QueryError> {
        match self {
            Self::Postgresql(database) => database.prepare(query).await,
            Self::Sqlite(database) => database.prepare(query).await,
        }
    }

    pub(super) fn is_on_a_server(&self) -> bool {
        matches!(self, Self::Postgresql(_))
    }

    pub(super) fn listener(&self) -> Option<Listener> {
        match self {
            Self::Postgresql(database) => database.listener(),
            Self::Sqlite(_) => None,
        }
    }
}

impl SqlDatabases {
    /// Checks that the granted schemas of a database of PostgreSQL exist. Returns warnings about schemas that the role
    /// may not use, and about functions that bypass the check of schemas.
    pub(super) async fn check_schemas(&self, name: &str, database: &Database) -> Result<Vec<String>, String> {
        let Backend::Postgresql(server) = &database.backend else { return Ok(Vec::new()) };
        let schemas = server.schemas();
        let missing = self.texts(name, schemas::find_missing(schemas)).await?;
        if !missing.is_empty() {
            return Err(format!("its `schemas` do not exist in the database: {}", missing.join(", ")));
        }
        let mut warnings = Vec::new();
        let unusable = self.texts(name, schemas::find_unusable(schemas)).await?;
        if !unusable.is_empty() {
            warnings.push(format!(
                "the role of the database `{name}` may not use {} of its `schemas`: GRANT USAGE ON SCHEMA … TO the role",
                unusable.join(", ")
            ));
        }
        let functions = self.texts(name, schemas::find_functions(schemas)).await?;
        if !functions.is_empty() {
            warnings.push(format!(
                "the role of the database `{name}` may call functions whose reads are not limited to its `schemas` (SECURITY DEFINER, a \
                 block with EXCEPTION, or PARALLEL SAFE): {}. REVOKE USAGE ON their schemas, or EXECUTE ON them, from the role and \
                 from PUBLIC",
                functions.join(", ")
            ));
        }
        Ok(warnings)
    }

    /// The texts of the first column of a query's rows.
    async fn texts(&self, name: &str, sql: String) -> Result<Vec<String>, String> {
        let failed = |error: QueryError| match error {
            QueryError::Refused(reason) | QueryError::Unreachable(reason) | QueryError::Failed(reason) => reason,
            error => error.to_string(),
        };
        let host = self.host();
        let (database, query) = self.prepare(name, sql, Vec::new(), None, host.accounts()).map_err(failed)?;
        let result = database.query(query).await.map_err(failed)?;
        let texts = result.rows.rows.iter().filter_map(|row| match row.values.first() {
            Some(Value::Scalar(scalar)) => match ScalarContent::from(scalar) {
                ScalarContent::Text(text) => Some(text.to_owned()),
                _ => None,
            },
            _ => None,
        });
        Ok(texts.collect())
    }
}

impl Usage {
    /// Waits for the permit of one of `max` connections. The wait counts as contention with other queries.
    pub(super) async fn acquire(
        &self,
        permits: &FairSemaphore,
        deadline: Instant,
        max: usize,
    ) -> Result<Permit, QueryError> {
        let acquired = timeout_at(deadline, self.cpu.contend(permits.acquire(self.client.clone()))).await;
        acquired.ok().and_then(Result::ok).ok_or(QueryError::Busy(max))
    }
}
