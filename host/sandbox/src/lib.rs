//! The sandbox of a plugin: what its guests may use of the outside world. Nothing but the grants.
//!
//! Every instance gets a context of its own, made from the plugin's grants: its directories (reopened, so that a
//! directory that was replaced is the new one), its variables, outgoing HTTP, its buckets, its configuration, the log.
//! Sockets refuse, arguments and standard input are empty, clocks and random numbers are real. Files are reached
//! through the capability of the directory, never by a path of the host: no `..`, link or absolute path leads out of
//! it.
//!
//! Grants have one shape. `config::grants::NAME` parses the file's text into a validated value, and is the reference of
//! what may be written there; `sandbox::NAME` enforces it for one plugin. It is built once per plugin from that value,
//! gives each call what the call needs, rejects everything else with the errors of the interface that the guest uses,
//! and logs that, once a minute for each kind of rejection. [`Sandbox`] builds the context of an instance from all of
//! them.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub(crate) mod bindings;
mod counted_stream;
pub mod cpu;
pub mod dirs;
pub mod fair_rate;
pub mod fair_semaphore;
pub mod grant_usage;
mod guest_config;
pub mod guest_log;
pub mod host_calls;
pub mod http;
pub mod keyvalue;
pub mod memory;
pub mod outbound_http;
pub mod recording;
pub mod sql;
pub mod state;

use std::path::Path;
use std::sync::{Arc, Weak};

use mcp_host_config as config;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;

use self::cpu::HostCpuBudget;
use self::dirs::{DirGrants, OpenFileLimit};
use self::grant_usage::{BucketUsage, GrantUsage, UnusableGrant};
use self::guest_config::GuestConfig;
pub use self::guest_config::PreparedPercent;
use self::guest_log::{GuestLog, GuestStreams, Records};
use self::http::{OutboundHttp, TlsRoots};
use self::keyvalue::Keyvalue;
use self::memory::{Denial, MemoryAccount, MemoryBudget, MemoryMeter, Reclaim};
use self::sql::{DatabaseNotifications, SqlDatabases, WorkerProgram};
use self::state::GuestState;
use crate::fair_semaphore::Client;

/// The bytes of a handle in the tables that hold it, with the smallest resource: a timer and its pollable.
const HANDLE_COST: usize = 320;

/// Why an instance has no context.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// `limits.memory` does not leave room for the table of handles.
    #[error("`limits.memory` does not leave room for another instance's handles")]
    OutOfMemory(Denial),
    /// A granted directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] dirs::GrantError),
}

/// The call that uses a grant: what the host keeps and computes for it is charged to its instance and to its client.
#[derive(Clone, Copy)]
pub(crate) struct CallAccounts<'a> {
    memory: &'a Arc<MemoryAccount>,
    cpu: &'a HostCpuBudget,
}

impl CallAccounts<'_> {
    /// The client that the call is made for; none for the host itself.
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
    /// The memory of the probe of the circuit breaker, as much again.
    probe_memory: Arc<MemoryBudget>,
    /// The maximum number of handles of an instance.
    max_handles: usize,
    /// The maximum number of random bytes of one request.
    max_random_bytes: u64,
    log: Arc<GuestLog>,
}

impl Sandbox {
    /// The sandbox of that plugin, which stores its buckets below `state_dir`, runs SQLite in child processes if there is a
    /// program for that, and evicts `idle` when it runs out of memory.
    pub fn new(
        plugin: &config::Plugin,
        state_dir: Option<&Path>,
        sqlite_workers: Option<&WorkerProgram>,
        tls_roots: Arc<TlsRoots>,
        open_files: OpenFileLimit,
        log: Arc<GuestLog>,
        idle: Option<Weak<dyn Reclaim>>,
    ) -> Self {
        let memory = MemoryBudget::new(plugin.limits.memory.bytes(), idle);
        let prepared = Arc::<PreparedPercent>::default();
        Self {
            dirs: DirGrants::new(&plugin.grants.dirs, &plugin.limits, open_files, &log),
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
            keyvalue: Arc::new(Keyvalue::new(plugin, state_dir, &log)),
            memory,
            probe_memory: MemoryBudget::new(plugin.limits.memory.bytes(), None),
            max_handles: plugin.limits.handles.get(),
            max_random_bytes: plugin.limits.random_bytes.bytes(),
            log,
        }
    }

    /// Closes what the plugin has open beside its instances.
    pub async fn close(&self) {
        self.keyvalue.close().await;
    }

    /// Takes the last lines that the plugin wrote on standard error, if they are kept.
    pub fn take_last_errors(&self) -> Vec<String> {
        self.log.take_last_errors()
    }

    /// How much the plugin has used its grants.
    pub fn grant_usage(&self) -> GrantUsage<'_> {
        let (sql, sql_time) = self.sql.statements();
        GrantUsage { http: self.http.outcomes(), sql, sql_time }
    }

    /// What the plugin's key-value buckets hold, and may hold. Empty if that cannot be read. Blocks.
    pub fn bucket_usage(&self) -> Vec<BucketUsage> {
        self.keyvalue.usage()
    }

    /// Tries the plugin's stored data, if there is any. What comes of it is in [`unusable_grant`](Self::unusable_grant).
    pub async fn try_stored_data(&self) {
        self.keyvalue.try_stored_data().await;
    }

    /// Returns the grant that cannot be used, since when and why; none if there is none, as far as it was tried: the plugin's stored data.
    pub fn unusable_grant(&self) -> Option<UnusableGrant> {
        self.keyvalue.unusable()
    }

    /// Forgets that a grant could not be used, until it is tried again.
    pub fn forget_unusable_grant(&self) {
        self.keyvalue.forget_unusable();
    }

    /// Returns the names of buckets that the plugin opened and that it is not granted.
    pub fn denied_buckets(&self) -> Vec<String> {
        self.keyvalue.denied_buckets()
    }

    /// Returns which grant cannot be used, and why: the plugin's stored data, a database, or a source of access tokens. Each is tried.
    /// Each server gets one request, none with `offline`. Returns warnings about conditions that the config may not cause.
    pub async fn check_grants(&self, offline: bool) -> Result<Vec<String>, String> {
        let unusable = |reason| format!("its key-value store cannot be used: {reason}");
        self.keyvalue.check().await.map_err(unusable)?;
        let mut warnings = self.sql.check(offline).await?;
        if !offline {
            self.http.check_access_tokens().await?;
            warnings.extend(self.http.check_origins().await);
        }
        Ok(warnings)
    }

    /// Returns why the host refuses the role of a granted database, as far as it can be connected to now.
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

    /// The memory budget that all calls of the plugin share, without the probe of the circuit breaker.
    pub fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The memory budget of the probe, which no call of a client has a part in.
    pub fn probe_memory(&self) -> &Arc<MemoryBudget> {
        &self.probe_memory
    }

    /// How much of the plugin's preparation is done, as its provider may read it.
    pub fn prepared(&self) -> &Arc<PreparedPercent> {
        &self.prepared
    }

    /// Creates the context of one instance, with that memory. Its directories are opened on threads that may block.
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
            // Otherwise sockets could be created, each a file descriptor of the process, though they lead nowhere.
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
