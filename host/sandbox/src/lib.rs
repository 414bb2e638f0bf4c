//! The sandbox of a plugin: its guests can access the outside world only through the plugin's grants.
//!
//! Every instance gets a separate context, made from the plugin's grants: its directories (reopened, so that a replaced
//! directory is the new one), its variables, outgoing HTTP, its buckets, its configuration, the log. Sockets are
//! refused, arguments and standard input are empty, clocks and random numbers are real. Files are accessed through a
//! handle of the directory, never by a path of the host: no `..`, link or absolute path escapes (path traversal).
//!
//! All grants have the same shape. `config::grants::NAME` parses the file's text into a validated value, and is the
//! reference of its syntax. `sandbox::NAME` enforces the grant for one plugin: it is built once per plugin from the
//! validated value, gives each call its access, rejects everything else with the errors of the guest's interface, and
//! logs each kind of rejection once a minute. [`Sandbox`] builds the context of an instance from all grants.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub(crate) mod bindings;
mod counted_stream;
pub mod cpu;
pub mod dirs;
pub mod fair_rate;
pub mod grant_usage;
mod guest_config;
pub mod guest_log;
pub mod host_calls;
pub mod http;
pub mod keyvalue;
pub mod memory;
mod nested;
pub mod outbound_http;
pub mod recording;
pub mod sql;
pub mod state;

use std::path::Path;
use std::sync::{Arc, Weak};

use mcp_host_config as config;
use mcp_host_model::requester::Client;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use self::cpu::HostCpuBudget;
use self::dirs::{DirGrants, OpenFileLimit};
use self::grant_usage::{BucketUsage, GrantUsage, UnusableGrant};
use self::guest_config::GuestConfig;
pub use self::guest_config::PreparedPercent;
use self::guest_log::{GuestLog, GuestStreams, Records};
use self::http::{OutboundHttp, TlsRoots};
use self::keyvalue::{BucketStores, Keyvalue};
use self::memory::{Denial, MemoryAccount, MemoryBudget, MemoryMeter, Reclaim};
use self::sql::{DatabaseNotifications, SqlDatabases, WorkerProgram};
use self::state::GuestState;

/// The bytes of a handle in its tables, with the smallest resource: a timer and its pollable.
const HANDLE_COST: usize = 320;

/// The reason why an instance has no context.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// `limits.memory` does not leave room for the table of handles.
    #[error("`limits.memory` does not leave room for another instance's handles")]
    OutOfMemory(Denial),
    /// A granted directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] dirs::GrantError),
}

/// The accounts of the call that uses a grant: the host's memory and processor time for the call are charged to its
/// instance and its client.
#[derive(Clone, Copy)]
pub(crate) struct CallAccounts<'a> {
    memory: &'a Arc<MemoryAccount>,
    cpu: &'a HostCpuBudget,
}

impl CallAccounts<'_> {
    /// The client of the call. None for the host itself.
    fn client(&self) -> Client {
        self.memory.client()
    }
}

/// One plugin's grants, from which the contexts of instances are made.
pub struct Sandbox {
    dirs: DirGrants,
    variables: Vec<(String, String)>,
    http: Arc<OutboundHttp>,
    config: Arc<GuestConfig>,
    prepared: Arc<PreparedPercent>,
    keyvalue: Arc<Keyvalue>,
    sql: Arc<SqlDatabases>,
    memory: Arc<MemoryBudget>,
    /// The memory of the circuit breaker's probe, in addition to the budget and of the same size.
    probe_memory: Arc<MemoryBudget>,
    /// The maximum number of handles of an instance.
    max_handles: usize,
    /// The maximum number of random bytes of one request.
    max_random_bytes: u64,
    log: Arc<GuestLog>,
}

impl Sandbox {
    /// Creates the sandbox of a plugin. It stores buckets in `buckets`, runs SQLite in child processes if
    /// `sqlite_workers` is given, and evicts `idle` instances when it runs out of memory.
    pub fn new(
        plugin: &config::Plugin,
        buckets: BucketStores<'_>,
        sqlite_workers: Option<&WorkerProgram>,
        tls_roots: Arc<TlsRoots>,
        open_files: OpenFileLimit,
        log: Arc<GuestLog>,
        idle: Option<Weak<dyn Reclaim>>,
    ) -> Self {
        let memory = MemoryBudget::new(plugin.limits.memory.bytes(), idle);
        let prepared = Arc::<PreparedPercent>::default();
        Self {
            dirs: DirGrants::new(&plugin.grants, &plugin.limits, open_files, &log),
            variables: plugin
                .grants
                .env
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.expose().clone()))
                .collect(),
            sql: Arc::new(SqlDatabases::new(plugin, sqlite_workers, &tls_roots, &log, memory.clone())),
            http: OutboundHttp::new(&plugin.grants.http, &plugin.limits.http, tls_roots, log.clone()),
            config: Arc::new(GuestConfig::new(plugin, prepared.clone())),
            prepared,
            keyvalue: Arc::new(Keyvalue::new(plugin, buckets, &log)),
            memory,
            probe_memory: MemoryBudget::new(plugin.limits.memory.bytes(), None),
            max_handles: plugin.limits.handles.get(),
            max_random_bytes: plugin.limits.random_bytes.bytes(),
            log,
        }
    }

    /// Closes the plugin's open databases.
    pub async fn close(&self) {
        self.keyvalue.close().await;
    }

    /// Takes the plugin's last lines of standard error, if they are kept.
    pub fn take_last_errors(&self) -> Vec<String> {
        self.log.take_last_errors()
    }

    /// The usage of the plugin's grants.
    pub fn grant_usage(&self) -> GrantUsage<'_> {
        let (sql, sql_time) = self.sql.statements();
        GrantUsage { http: self.http.outcomes(), sql, sql_time }
    }

    /// The contents and quotas of the plugin's key-value buckets. Empty if they cannot be read. Blocks.
    pub fn bucket_usage(&self) -> Vec<BucketUsage> {
        self.keyvalue.usage()
    }

    /// Reads the contents of the plugin's shared buckets, for [`bucket_usage`](Self::bucket_usage).
    pub async fn read_shared_bucket_usage(&self) {
        self.keyvalue.read_shared_usage().await;
    }

    /// Tries the plugin's stored data, if there is any. [`unusable_grant`](Self::unusable_grant) has the result.
    pub async fn try_stored_data(&self) {
        self.keyvalue.try_stored_data().await;
    }

    /// Returns an unusable grant, with the time and the reason. None if the last attempt succeeded or there was none.
    /// Only the plugin's stored data is tried.
    pub fn unusable_grant(&self) -> Option<UnusableGrant> {
        self.keyvalue.unusable()
    }

    /// Forgets that a grant was unusable, until the next attempt.
    pub fn forget_unusable_grant(&self) {
        self.keyvalue.forget_unusable();
    }

    /// Returns the names of buckets that the plugin opened without a grant.
    pub fn denied_buckets(&self) -> Vec<String> {
        self.keyvalue.denied_buckets()
    }

    /// Tries the plugin's stored data, its databases and its sources of access tokens. The error names an unusable
    /// grant and the reason. Each server gets one request, or none with `offline`. Returns warnings about problems
    /// whose cause may be outside of the config, such as an unreachable origin.
    pub async fn check_grants(&self, offline: bool) -> Result<Vec<String>, String> {
        let unusable = |reason| format!("its key-value store cannot be used: {reason}");
        self.keyvalue.check().await.map_err(unusable)?;
        let mut warnings = self.sql.check(offline).await?;
        if !offline {
            warnings.extend(self.keyvalue.check_shared().await);
            self.http.check_access_tokens().await?;
            warnings.extend(self.http.check_origins().await);
        }
        Ok(warnings)
    }

    /// Returns why the host refuses the role of a granted database, if it can connect to the database now.
    pub async fn check_roles(&self) -> Result<(), String> {
        self.sql.check_roles().await
    }

    /// The granted directories of the host.
    pub fn granted_directories(&self) -> impl Iterator<Item = &Path> {
        self.dirs.host_paths()
    }

    /// Listens to notifications of the granted databases.
    pub fn listen_to_databases(&self) -> DatabaseNotifications {
        self.sql.listen()
    }

    /// The memory budget that all calls of the plugin share, except the circuit breaker's probe.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The memory budget of the probe, which calls of clients cannot use.
    pub fn probe_memory(&self) -> &Arc<MemoryBudget> {
        &self.probe_memory
    }

    /// The finished part of the plugin's preparation, which its provider may read.
    pub fn prepared(&self) -> &Arc<PreparedPercent> {
        &self.prepared
    }

    /// Creates the context of one instance, with this memory. Its directories are opened on threads that may block.
    pub async fn new_store_data(&self, memory: MemoryMeter) -> Result<GuestState, SandboxError> {
        let handles = memory.account().try_reserve(self.max_handles.saturating_mul(HANDLE_COST));
        let handles = handles.map_err(SandboxError::OutOfMemory)?;
        let files = self.dirs.open().await?;
        let streams = GuestStreams::new(&self.log);
        let stderr = streams.stderr.clone();
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.variables)
            .stdout(streams.stdout)
            .stderr(streams.stderr)
            // Without this, guests could create sockets, each a file descriptor of the process, although the sockets
            // cannot connect.
            .allow_tcp(false)
            .allow_udp(false)
            .max_random_size(self.max_random_bytes);
        let mut table = ResourceTable::new();
        table.set_max_capacity(self.max_handles);
        Ok(GuestState {
            wasi: wasi.build(),
            files,
            table,
            config: self.config.clone(),
            http: self.http.new_instance(),
            keyvalue: self.keyvalue.clone(),
            sql: self.sql.clone(),
            memory,
            cpu: HostCpuBudget::unlimited(),
            log: self.log.clone(),
            log_records: Records::default(),
            stderr,
            recording: None,
            _handles: handles,
        })
    }
}
