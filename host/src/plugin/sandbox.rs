//! What a guest sees of the outside world: its grants, and nothing else.
//!
//! Every instance gets a context of its own, made from the plugin's grants: its directories (opened anew, so that one that was
//! replaced is the new one), its variables, its way to the web, its buckets, its configuration, the log. Sockets refuse,
//! arguments and standard input are empty, clocks and random numbers are real. Files are reached through the capability of
//! the directory, never by a path of the machine: no `..`, link or absolute path leads out of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use wasmtime::component::ResourceTable;
use wasmtime_wasi::{FsPerms, WasiCtx};
use wasmtime_wasi_config::WasiConfigVariables;

use super::grants::http::{Http, Trust};
use super::grants::keyvalue::Keyvalue;
use super::guest_log::{GuestLog, GuestStream};
use super::limits::{MAX_HANDLES, MemoryBudget, MemoryMeter};
use super::pool::Pool;
use super::state::State;
use crate::config::{self, DirGrant, GuestPath, Mode};

/// Random bytes that a guest may ask for at once.
const MAX_RANDOM: u64 = 1 << 20;

/// One plugin's grants, ready to be turned into the context of an instance.
pub(super) struct Sandbox {
    dirs: BTreeMap<GuestPath, DirGrant>,
    variables: Vec<(String, String)>,
    http: Arc<Http>,
    config: Arc<WasiConfigVariables>,
    keyvalue: Arc<Keyvalue>,
    memory: Arc<MemoryBudget>,
    log: Arc<GuestLog>,
}

/// A granted directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open the granted directory {}: {reason}", dir.display())]
pub(super) struct GrantError {
    dir: PathBuf,
    reason: String,
}

impl Sandbox {
    /// The sandbox of that plugin, which keeps what must last below `state` and whose idle instances are in that pool, if it has
    /// one.
    pub(super) fn new(
        plugin: &config::Plugin,
        state: Option<&Path>,
        trust: Arc<Trust>,
        log: Arc<GuestLog>,
        pool: Option<&Arc<Pool>>,
    ) -> Self {
        Self {
            dirs: plugin.grants.dirs.clone(),
            variables: plugin
                .grants
                .env
                .iter()
                .map(|(name, value)| (name.as_str().to_owned(), value.expose().clone()))
                .collect(),
            http: Http::new(&plugin.grants.http, &plugin.limits.http, trust, log.clone()),
            config: Arc::new(plugin.config.iter().map(|(key, value)| (key.clone(), value.clone())).collect()),
            keyvalue: Arc::new(Keyvalue::new(plugin, state, &log)),
            memory: MemoryBudget::new(plugin.limits.memory.bytes(), pool),
            log,
        }
    }

    /// The directories of the machine that are granted.
    pub(super) fn directories(&self) -> impl Iterator<Item = &Path> {
        self.dirs.values().map(|grant| grant.host.as_path())
    }

    /// The context of one instance.
    pub(super) fn state(&self) -> Result<State, GrantError> {
        let mut wasi = WasiCtx::builder();
        wasi.envs(&self.variables)
            .stdout(GuestStream::stdout(self.log.clone()))
            .stderr(GuestStream::stderr(self.log.clone()))
            .max_random_size(MAX_RANDOM);
        for (guest, grant) in &self.dirs {
            let permissions = match grant.mode {
                Mode::ReadOnly => FsPerms::ReadOnly,
                Mode::ReadWrite => FsPerms::ReadWrite,
            };
            wasi.preopened_dir(&grant.host, guest.as_str(), permissions)
                .map_err(|error| GrantError { dir: grant.host.clone(), reason: format!("{error:#}") })?;
        }
        let mut table = ResourceTable::new();
        table.set_max_capacity(MAX_HANDLES);
        Ok(State {
            wasi: wasi.build(),
            table,
            config: self.config.clone(),
            http: self.http.instance(),
            keyvalue: self.keyvalue.clone(),
            memory: MemoryMeter::new(self.memory.clone()),
            log: self.log.clone(),
        })
    }
}
