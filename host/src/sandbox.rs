//! What a guest sees of the outside world: its grants, and nothing else.
//!
//! Every instance gets a context of its own, made from the plugin's grants: its directories (opened anew, so that one that was
//! replaced is the new one), its variables, its way to the web, its buckets, its configuration, the log. Sockets refuse,
//! arguments and standard input are empty, clocks and random numbers are real. Files are reached through the capability of
//! the directory, never by a path of the machine: no `..`, link or absolute path leads out of it.
//!
//! Grants have one shape. `config::grants::NAME` parses the file's text into a validated value, and is the reference of what may be
//! written there; `sandbox::NAME` enforces it for one plugin. It is built once per plugin from that value, gives each call what
//! the call needs, rejects everything else with the errors of the standard interface that the guest uses, and logs that, once a
//! minute for each kind of rejection. [`Sandbox`] builds the context of an instance from all of them.

pub(crate) mod bindings;
pub(crate) mod dirs;
pub(crate) mod guest_log;
pub(crate) mod http;
pub(crate) mod keyvalue;
pub(crate) mod memory;
pub(crate) mod state;
mod throttled_warning;

use std::path::Path;
use std::sync::{Arc, Weak};

use wasmtime::component::ResourceTable;
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi_config::WasiConfigVariables;

use self::dirs::{DirGrants, OpenFileLimit};
use self::guest_log::{GuestLog, GuestStreams};
use self::http::{OutboundHttp, TlsRoots};
use self::keyvalue::Keyvalue;
use self::memory::{MemoryBudget, MemoryMeter, Reclaim};
use self::state::GuestState;
use crate::config;

/// What a handle costs in the tables that it is in, with what the smallest resource holds: a timer and its pollable.
const HANDLE_COST: usize = 320;

/// Why an instance has no context.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SandboxError {
    /// `limits.memory` does not leave room for the table of handles.
    #[error("`limits.memory` does not leave room for another instance's handles")]
    OutOfMemory,
    /// A granted directory cannot be opened.
    #[error(transparent)]
    Directory(#[from] dirs::GrantError),
}

/// One plugin's grants, ready to be turned into the context of an instance.
pub(crate) struct Sandbox {
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
    /// The sandbox of that plugin, which stores its buckets below `state_dir` and evicts `idle` when it runs out of memory.
    pub(crate) fn new(
        plugin: &config::Plugin,
        state_dir: Option<&Path>,
        tls_roots: Arc<TlsRoots>,
        open_files: OpenFileLimit,
        log: Arc<GuestLog>,
        idle: Option<Weak<dyn Reclaim>>,
    ) -> Self {
        let memory = MemoryBudget::new(plugin.limits.memory.bytes(), idle);
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
    pub(crate) async fn close(&self) {
        self.keyvalue.close().await;
    }

    /// Returns the names of buckets that the plugin opened and that it is not granted.
    pub(super) fn denied_buckets(&self) -> Vec<String> {
        self.keyvalue.denied_buckets()
    }

    /// Why what the plugin keeps cannot be used, if it cannot.
    pub(crate) async fn check_stores(&self) -> Result<(), String> {
        self.keyvalue.check().await
    }

    /// The directories of the machine that are granted.
    pub(crate) fn granted_directories(&self) -> impl Iterator<Item = &Path> {
        self.dirs.host_paths()
    }

    /// The memory that calls of the plugin may use, together.
    pub(crate) fn memory(&self) -> &Arc<MemoryBudget> {
        &self.memory
    }

    /// The context of one instance. Its directories are opened where that may block.
    pub(crate) async fn new_store_data(&self) -> Result<GuestState, SandboxError> {
        let mut memory = MemoryMeter::new(self.memory.clone());
        let handles = memory.reserve(self.max_handles.saturating_mul(HANDLE_COST));
        let handles = handles.map_err(|_| SandboxError::OutOfMemory)?;
        let files = self.dirs.open().await?;
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
