//! What a guest sees of the outside world: its grants, and nothing else.
//!
//! Every instance gets a context of its own, made from the plugin's grants: its directories (opened anew, so that one that was
//! replaced is the new one), its variables, its way to the web, its buckets, its configuration, the log. Sockets refuse,
//! arguments and standard input are empty, clocks and random numbers are real. Files are reached through the capability of
//! the directory, never by a path of the machine: no `..`, link or absolute path leads out of it.

use std::path::Path;
use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi_config::WasiConfigVariables;

use super::fault::Fault;
use super::grants::dirs::{DirGrants, OpenFileLimit};
use super::grants::http::{OutboundHttp, TlsRoots};
use super::grants::keyvalue::Keyvalue;
use super::guest_log::{GuestLog, GuestStreams};
use super::memory::{MemoryBudget, MemoryMeter};
use super::pool::Pool;
use super::state::GuestState;
use crate::config;

/// What a handle costs in the tables that it is in, with what the smallest resource holds: a timer and its pollable.
const HANDLE_COST: usize = 320;

/// One plugin's grants, ready to be turned into the context of an instance.
pub(super) struct Sandbox {
    dirs: DirGrants,
    variables: Vec<(String, String)>,
    http: Arc<OutboundHttp>,
    config: Arc<WasiConfigVariables>,
    keyvalue: Arc<Keyvalue>,
    memory: Arc<MemoryBudget>,
    /// Handles that an instance may hold at once.
    max_handles: usize,
    /// Random bytes that a guest may ask for at once.
    max_random_bytes: u64,
    log: Arc<GuestLog>,
}

impl Sandbox {
    /// The sandbox of that plugin, which keeps what must last below `state` and whose idle instances are in that pool, if it has
    /// one.
    pub(super) fn new(
        plugin: &config::Plugin,
        state_dir: Option<&Path>,
        tls_roots: Arc<TlsRoots>,
        open_files: OpenFileLimit,
        log: Arc<GuestLog>,
        pool: Option<&Arc<Pool>>,
    ) -> Self {
        let memory = MemoryBudget::new(plugin.limits.memory.bytes(), pool);
        Self {
            dirs: DirGrants::new(&plugin.grants.dirs, &plugin.limits, open_files, &log),
            variables: plugin
                .grants
                .env
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.expose().clone()))
                .collect(),
            http: OutboundHttp::new(&plugin.grants.http, &plugin.limits.http, tls_roots, log.clone()),
            config: Arc::new(plugin.config.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
            keyvalue: Arc::new(Keyvalue::new(plugin, state_dir, &log, memory.clone())),
            memory,
            max_handles: plugin.limits.handles.get(),
            max_random_bytes: plugin.limits.random_bytes.bytes(),
            log,
        }
    }

    /// Closes what the plugin has open beside its instances.
    pub(super) async fn close(&self) {
        self.keyvalue.close().await;
    }

    /// Returns the names of buckets that the plugin opened and that it is not granted.
    pub(super) fn denied_buckets(&self) -> Vec<String> {
        self.keyvalue.denied_buckets()
    }

    /// Why what the plugin keeps cannot be used, if it cannot.
    pub(super) async fn check_stores(&self) -> Result<(), String> {
        self.keyvalue.check().await
    }

    /// The directories of the machine that are granted.
    pub(super) fn granted_directories(&self) -> impl Iterator<Item = &Path> {
        self.dirs.host_paths()
    }

    /// The memory that calls of the plugin may use, together.
    pub(super) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The context of one instance. Its directories are opened where that may block.
    pub(super) async fn new_store_data(&self) -> Result<GuestState, Fault> {
        let mut memory = MemoryMeter::new(self.memory.clone());
        let handles = memory.reserve(self.max_handles.saturating_mul(HANDLE_COST));
        let handles = handles.map_err(|_| Fault::Memory(self.memory.limit()))?;
        let files = self.dirs.open().await.map_err(|error| Fault::Grant(error.to_string()))?;
        let streams = GuestStreams::new(&self.log);
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.variables)
            .stdout(streams.stdout)
            .stderr(streams.stderr)
            // Otherwise they could be made, each a file descriptor of the process, though they lead nowhere.
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
            memory,
            log: self.log.clone(),
            _handles: handles,
        })
    }
}
