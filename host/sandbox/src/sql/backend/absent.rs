//! The databases of a build without the feature `sql`: every query fails.

use std::convert::Infallible;
use std::sync::Arc;

use mcp_host_config::grants::{NestedPaths, SqlGrant};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::bindings::databases::DatabaseInfo;
use super::error::QueryError;
use super::result::{ChargedRows, ResultBounds};
use super::{Database, Query, SqlDatabases, WorkerProgram};
use crate::CallAccounts;
use crate::http::TlsRoots;

/// A database that an application granted in code.
pub(super) struct Backend;

impl Backend {
    pub(super) fn new(_: &SqlGrant, _: &NestedPaths, _: Option<&WorkerProgram>, _: &Arc<TlsRoots>) -> Self {
        Self
    }

    pub(super) async fn describe(
        &self,
        _: ResultBounds,
        _: Instant,
        _: CallAccounts<'_>,
    ) -> Result<DatabaseInfo, QueryError> {
        Err(unsupported())
    }

    pub(super) async fn query(&self, _: Query) -> Result<ChargedRows, QueryError> {
        Err(unsupported())
    }

    pub(super) async fn prepare(&self, _: Query) -> Result<(), QueryError> {
        Err(unsupported())
    }

    pub(super) fn is_on_a_server(&self) -> bool {
        false
    }

    pub(super) fn listener(&self) -> Option<Listener> {
        None
    }
}

fn unsupported() -> QueryError {
    QueryError::Failed("this build has no databases: it lacks the feature `sql`".to_owned())
}

/// A listener. The type is uninhabited.
pub(super) struct Listener(Infallible);

impl Listener {
    pub(super) async fn run(self, _: Arc<Notify>, _: impl Fn(QueryError)) {
        match self.0 {}
    }
}

impl SqlDatabases {
    pub(super) async fn check_schemas(&self, _: &str, _: &Database) -> Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// Returns immediately: this build starts no process for SQLite.
pub fn run_sqlite_worker() {}
