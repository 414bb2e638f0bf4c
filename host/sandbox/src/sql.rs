//! SQL grants: the host's implementation of `mcp-host:sql` for one plugin.
//!
//! A guest names a granted database and sends the text of one query with parameters. The host knows the address and the
//! password, connects, and returns typed rows.
//!
//! # Guarantees
//!
//! - A database that is not granted does not exist: a query of it returns `not-granted`.
//! - A guest only reads. `backend::postgresql` and `backend::sqlite` each enforce this by several mechanisms, none of
//!   which relies on the text of a query.
//! - Each query is a separate transaction, which is always rolled back, on a connection that no other query uses at
//!   that time. A query leaves no state on its connection.
//! - A query ends at its timeout, and with the call: the host sends a cancellation to the server, or kills the process
//!   that runs SQLite.
//! - Messages to the guest may contain words of the statement and names of the database's objects, but neither stored
//!   data nor the address. Errors that only an admin can repair are logged with the reason.
//!
//! # Without the feature `sql`
//!
//! The interface is linked, so that components that import it load, but no database can be granted: a config that
//! grants one is rejected. Queries of a database that an application grants in code fail.
//!
//! # Bounds
//!
//! | bound | mechanism |
//! |---|---|
//! | rows of a result | `max-rows`: further rows are not fetched |
//! | bytes of a result | `max-bytes`: a larger one is an error |
//! | memory: the query, the received bytes, and the result | `limits.memory` |
//! | memory of SQLite while it computes rows | the limit of its process, charged to `limits.memory`: `backend::sqlite` |
//! | time, with the wait for a connection | `timeout` of the grant, and `limits.deadline` of the call |
//! | connections, and therefore concurrent queries | `connections`, with [a share for each client](mcp_host_base::fair_semaphore) |
//! | processor time of SQLite | `limits.cpu` of the call |
//! | the text of a query, and parameters | [`MAX_SQL`], [`MAX_PARAMETERS`] |

#![cfg_attr(not(feature = "sql"), allow(dead_code, reason = "only databases use it"))]

#[cfg(feature = "sql")]
mod backend;
#[cfg(not(feature = "sql"))]
#[path = "sql/backend/absent.rs"]
mod backend;
mod bindings;
mod error;
mod result;
mod saved_queries;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcp_host_model::requester::Client;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::field::Empty;
use tracing::{Instrument as _, info_span};
use wasmtime::component::{HasData, Linker};

use self::backend::Backend;
pub use self::backend::run_sqlite_worker;
use self::bindings::databases::{self, DatabaseInfo, Rows, Scalar, Value};
use self::bindings::value_size;
use self::error::QueryError;
use self::result::{ChargedRows, ResultBounds};
use self::saved_queries::{SavedQueries, SavedQuery};
use mcp_host_base::metrics::Counter;
use mcp_host_base::text::prefix;
use mcp_host_base::trace::{self, MAX_ATTRIBUTE};
use mcp_host_config as config;
use mcp_host_config::grants::{NestedPaths, SqlGrant};

use crate::CallAccounts;
use crate::cpu::HostCpuBudget;
use crate::grant_usage::OutcomeCounts;
use crate::guest_log::{GuestLog, ThrottledWarnings};
use crate::http::TlsRoots;
use crate::memory::{CallOwner, MemoryAccount, MemoryBudget, Reservation};

/// The maximum length of the text of a query in bytes.
const MAX_SQL: usize = 256 << 10;
/// The maximum number of parameters of a query.
const MAX_PARAMETERS: usize = 1000;
/// The maximum wait for a database when a plugin is loaded, to check the role.
const ROLE_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum length of a name in a message.
const MAX_NAME: usize = 64;

/// The program for child processes that run SQLite.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// A program whose `main` begins with `engine::run_compiler`.
    pub program: PathBuf,
    /// A variable that is set for such processes, so that another program can detect that it was started as one.
    pub child_variable: &'static str,
    /// The directory for SQLite's temporary files.
    pub temp_dir: PathBuf,
}

/// The databases of one plugin.
pub(crate) struct SqlDatabases {
    granted: BTreeMap<String, Database>,
    warnings: Arc<ThrottledWarnings>,
    memory: Arc<MemoryBudget>,
    saved_queries: SavedQueries,
    outcomes: OutcomeCounts,
    statement_time: Counter,
}

/// A granted database.
struct Database {
    backend: Backend,
    bounds: ResultBounds,
    timeout: Duration,
}

/// One query, which the backends run.
struct Query {
    sql: String,
    parameters: Vec<Value>,
    bounds: ResultBounds,
    deadline: Instant,
    /// The memory of the query, and later of the result.
    memory: Reservation,
    usage: Usage,
}

/// The parts of a call that a query uses besides memory.
#[derive(Clone)]
struct Usage {
    /// The client of the query.
    client: Client,
    cpu: HostCpuBudget,
}

impl From<CallAccounts<'_>> for Usage {
    fn from(accounts: CallAccounts<'_>) -> Self {
        Self { client: accounts.client(), cpu: accounts.cpu.clone() }
    }
}

/// The accounts of the host as the caller of a query.
struct HostAccounts {
    memory: Arc<MemoryAccount>,
    cpu: HostCpuBudget,
}

impl HostAccounts {
    fn accounts(&self) -> CallAccounts<'_> {
        CallAccounts { memory: &self.memory, cpu: &self.cpu }
    }
}

impl SqlDatabases {
    /// Creates the databases that are granted to the plugin, without connecting.
    pub(crate) fn new(
        plugin: &config::Plugin,
        sqlite_workers: Option<&WorkerProgram>,
        tls_roots: &Arc<TlsRoots>,
        log: &Arc<GuestLog>,
        memory: Arc<MemoryBudget>,
    ) -> Self {
        let (granted, nested) = (plugin.grants.sql.iter(), &plugin.grants.nested);
        let database = |grant| Database::new(grant, nested, sqlite_workers, tls_roots);
        let granted = granted.map(|(name, grant)| (name.as_str().to_owned(), database(grant)));
        Self {
            granted: granted.collect(),
            warnings: Arc::new(ThrottledWarnings::new(log.clone())),
            memory,
            saved_queries: SavedQueries::of(plugin),
            outcomes: OutcomeCounts::default(),
            statement_time: Counter::default(),
        }
    }

    /// The statements by outcome, and their time, including waits for a connection.
    pub(crate) fn statements(&self) -> (&OutcomeCounts, Duration) {
        (&self.outcomes, self.statement_time.time())
    }

    /// The names of the granted databases, sorted.
    fn names(&self) -> Vec<String> {
        self.granted.keys().cloned().collect()
    }

    async fn describe(&self, name: &str, accounts: CallAccounts<'_>) -> Result<DatabaseInfo, QueryError> {
        let described = match self.database(name) {
            Ok(database) => database.describe(accounts).await,
            Err(error) => Err(error),
        };
        self.log_failure(name, described)
    }

    async fn query(
        &self,
        name: &str,
        sql: String,
        parameters: Vec<Value>,
        max_rows: Option<u32>,
        accounts: CallAccounts<'_>,
    ) -> Result<Rows, QueryError> {
        let began = Instant::now();
        let result = match self.prepare(name, sql, parameters, max_rows, accounts) {
            Ok((database, query)) => {
                // Only the text of a saved query: any other text may contain text of a client.
                let text = self.saved_queries.contains(name, &query.sql).then(|| prefix(&query.sql, MAX_ATTRIBUTE));
                let span = info_span!(
                    target: trace::TARGET,
                    "sql",
                    "otel.kind" = "client",
                    "otel.status_code" = Empty,
                    "db.system.name" = if database.backend.is_on_a_server() { "postgresql" } else { "sqlite" },
                    "db.namespace" = name,
                    "db.query.text" = text,
                );
                let result = database.query(query).instrument(span.clone()).await;
                if result.is_err() {
                    span.record("otel.status_code", "ERROR");
                }
                result
            }
            Err(error) => Err(error),
        };
        self.outcomes.record(result.is_ok());
        self.statement_time.add_time(began.elapsed());
        self.log_failure(name, result).map(|result| result.rows)
    }

    /// Checks that the databases can be reached, that the host accepts their roles, and that their schemas exist, and
    /// prepares the saved queries. With `offline`, databases on servers are skipped. The returned warnings and the
    /// error are for the admin.
    pub(crate) async fn check(&self, offline: bool) -> Result<Vec<String>, String> {
        let (mut warnings, host) = (Vec::new(), self.host());
        for (name, database) in &self.granted {
            if offline && database.backend.is_on_a_server() {
                continue;
            }
            let reason = match database.describe(host.accounts()).await {
                Ok(_) => {
                    let of_schemas = self.check_schemas(name, database).await;
                    warnings.extend(of_schemas.map_err(|reason| admin_message(name, &reason))?);
                    warnings.extend(self.check_saved_queries(name).await);
                    continue;
                }
                Err(QueryError::Refused(reason) | QueryError::Unreachable(reason) | QueryError::Failed(reason)) => {
                    reason
                }
                Err(error) => error.to_string(),
            };
            return Err(admin_message(name, &reason));
        }
        Ok(warnings)
    }

    /// Prepares the saved queries of a database. Returns a warning for each that cannot be prepared.
    async fn check_saved_queries(&self, name: &str) -> Vec<String> {
        let saved = self.saved_queries.queries.iter().filter(|_| self.saved_queries.database == name);
        let (mut warnings, host) = (Vec::new(), self.host());
        for SavedQuery { name: query_name, sql, parameters } in saved {
            let values = vec![Value::Scalar(Scalar::Null); *parameters];
            let prepared = match self.prepare(name, sql.clone(), values, None, host.accounts()) {
                Ok((database, query)) => database.prepare(query).await,
                Err(error) => Err(error),
            };
            if let Err(error) = prepared {
                warnings
                    .push(format!("the saved query `{query_name}` cannot be run on the database `{name}`: {error}"));
            }
        }
        warnings
    }

    /// Checks that the host accepts the roles of the databases that can be reached within [`ROLE_TIMEOUT`]. The error
    /// is for the admin.
    pub(crate) async fn check_roles(&self) -> Result<(), String> {
        let host = self.host();
        for (name, database) in &self.granted {
            let described = timeout(ROLE_TIMEOUT, database.describe(host.accounts())).await;
            if let Ok(Err(QueryError::Refused(reason))) = described {
                return Err(admin_message(name, &reason));
            }
        }
        Ok(())
    }

    /// Listens to the channels of the databases that have one (`listen`), until the result is dropped.
    pub(crate) fn listen(&self) -> DatabaseNotifications {
        let mut notifications = DatabaseNotifications::default();
        for (name, database) in &self.granted {
            if let Some(listener) = database.backend.listener() {
                let (name, warnings) = (name.clone(), self.warnings.clone());
                notifications.add(move |received| listener.run(received, move |error| error.log(&name, &warnings)));
            }
        }
        notifications
    }

    /// The host as a caller, with the memory of the plugin.
    fn host(&self) -> HostAccounts {
        let memory = MemoryAccount::new(self.memory.clone(), CallOwner::default());
        HostAccounts { memory, cpu: HostCpuBudget::unlimited() }
    }

    fn database(&self, name: &str) -> Result<&Database, QueryError> {
        self.granted.get(name).ok_or_else(|| QueryError::NotGranted(short(name).to_owned()))
    }

    fn prepare(
        &self,
        name: &str,
        sql: String,
        parameters: Vec<Value>,
        max_rows: Option<u32>,
        accounts: CallAccounts<'_>,
    ) -> Result<(&Database, Query), QueryError> {
        let database = self.database(name)?;
        if sql.contains('\0') {
            return Err(QueryError::rejected("42601", "the statement contains a NUL"));
        }
        if sql.len() > MAX_SQL {
            return Err(QueryError::rejected(
                "54000",
                format!("a query has at most {MAX_SQL} bytes, not {}", sql.len()),
            ));
        }
        if parameters.len() > MAX_PARAMETERS {
            let message = format!("a query has at most {MAX_PARAMETERS} parameters, not {}", parameters.len());
            return Err(QueryError::rejected("54023", message));
        }
        let bytes = parameters.iter().fold(sql.len(), |sum, value| sum.saturating_add(value_size(value)));
        let memory = accounts.memory.try_reserve(bytes).map_err(|_| QueryError::OutOfMemory)?;
        let asked_for = max_rows.map_or(usize::MAX, |rows| usize::try_from(rows).unwrap_or(usize::MAX));
        let bounds = ResultBounds { rows: database.bounds.rows.min(asked_for), ..database.bounds };
        let deadline = Instant::now().checked_add(database.timeout).unwrap_or_else(Instant::now);
        Ok((database, Query { sql, parameters, bounds, deadline, memory, usage: accounts.into() }))
    }

    fn log_failure<T>(&self, name: &str, result: Result<T, QueryError>) -> Result<T, QueryError> {
        result.inspect_err(|error| error.log(short(name), &self.warnings))
    }
}

impl Database {
    fn new(
        grant: &SqlGrant,
        nested: &NestedPaths,
        sqlite_workers: Option<&WorkerProgram>,
        tls_roots: &Arc<TlsRoots>,
    ) -> Self {
        let bounds = ResultBounds { rows: grant.max_rows.get(), bytes: grant.max_bytes.bytes() };
        let backend = Backend::new(grant, nested, sqlite_workers, tls_roots);
        Self { backend, bounds, timeout: grant.timeout.duration() }
    }

    async fn describe(&self, accounts: CallAccounts<'_>) -> Result<DatabaseInfo, QueryError> {
        let deadline = Instant::now().checked_add(self.timeout).unwrap_or_else(Instant::now);
        let described = timeout_at(deadline, self.backend.describe(self.bounds, deadline, accounts));
        described.await.unwrap_or(Err(QueryError::Timeout))
    }

    /// Compiles a query without running it.
    async fn prepare(&self, query: Query) -> Result<(), QueryError> {
        timeout_at(query.deadline, self.backend.prepare(query)).await.unwrap_or(Err(QueryError::Timeout))
    }

    async fn query(&self, query: Query) -> Result<ChargedRows, QueryError> {
        timeout_at(query.deadline, self.backend.query(query)).await.unwrap_or(Err(QueryError::Timeout))
    }
}

/// The message for an admin about a database.
fn admin_message(name: &str, reason: &str) -> String {
    format!("the database `{name}` of `grants.sql` cannot be used: {reason}")
}

/// Truncates a name from a guest.
fn short(name: &str) -> &str {
    name.get(..name.floor_char_boundary(MAX_NAME)).unwrap_or(name)
}

/// One instance's access to the databases of its plugin.
pub(crate) struct SqlView<'a> {
    pub(crate) sql: &'a SqlDatabases,
    pub(crate) accounts: CallAccounts<'a>,
}

/// Stands for [`SqlView`] where wasmtime wants a type without lifetimes.
struct HasSql;

impl HasData for HasSql {
    type Data<'a> = SqlView<'a>;
}

/// Links `mcp-host:sql`.
pub(crate) fn add_to_linker<T: Send + 'static>(
    linker: &mut Linker<T>,
    sql: fn(&mut T) -> SqlView<'_>,
) -> wasmtime::Result<()> {
    databases::add_to_linker::<_, HasSql>(linker, sql)
}

/// The notifications of all databases of one plugin. Notifications between two waits are merged into one. Dropping this
/// value closes the connections.
#[derive(Debug, Default)]
pub struct DatabaseNotifications {
    received: Arc<Notify>,
    listeners: JoinSet<()>,
}

impl DatabaseNotifications {
    /// Adds a listener, which counts notifications until it is dropped.
    fn add<F>(&mut self, listener: impl FnOnce(Arc<Notify>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.listeners.spawn(listener(self.received.clone()));
    }

    /// Waits for a notification. Without a listener, it waits indefinitely.
    pub async fn received(&self) {
        self.received.notified().await;
    }
}
