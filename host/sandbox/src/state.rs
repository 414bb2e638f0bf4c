//! The host's state of one instance, and the imports that it implements.

use std::sync::Arc;

use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime_wasi::filesystem::WasiFilesystemCtxView;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::CallAccounts;
use super::bindings::logging::{self, Level};
use super::bindings::store;
use super::cpu::HostCpuBudget;
use super::dirs::{self, Files, FilesView};
use super::guest_config::GuestConfig;
use super::guest_log::{GuestLog, GuestStream, Records};
use super::host_calls;
use super::http::{self, HttpView, InstanceHttp};
use super::keyvalue::{self, Keyvalue, KeyvalueView};
use super::memory::{MemoryMeter, Reservation};
use super::recording::InstanceRecording;
use super::sql::{self, SqlDatabases, SqlView};

/// The host's state of one instance: its opened grants.
pub struct GuestState {
    pub(crate) wasi: WasiCtx,
    pub(crate) files: Files,
    pub(crate) table: ResourceTable,
    pub(crate) config: Arc<GuestConfig>,
    pub(crate) http: InstanceHttp,
    pub(crate) keyvalue: Arc<Keyvalue>,
    pub(crate) sql: Arc<SqlDatabases>,
    /// The memory that is charged to its plugin.
    pub memory: MemoryMeter,
    /// The processor time of the host for the current call.
    pub(crate) cpu: HostCpuBudget,
    pub(crate) log: Arc<GuestLog>,
    /// The records that the guest's log lines are assembled into.
    pub(crate) log_records: Records,
    pub(crate) stderr: GuestStream,
    /// The recorder or the replay of the instance's host calls. None unless its imports are linked for it.
    pub recording: Option<Box<InstanceRecording>>,
    /// The memory of the handle table at its maximum size.
    pub(crate) _handles: Reservation,
}

impl GuestState {
    /// Begins a call with this budget of processor time for the host.
    pub fn begin_call(&mut self, cpu: HostCpuBudget) {
        self.memory.reset();
        self.files.begin_call(cpu.clone());
        self.http.begin_call(cpu.clone(), self.memory.account().client());
        self.cpu = cpu;
    }

    /// Ends a call.
    pub fn end_call(&mut self) {
        self.files.end_call();
        self.stderr.end_record();
        if let Some(record) = self.log_records.finish() {
            self.log.record(record);
        }
    }

    /// The granted directories, with the instance's open files.
    fn files(&mut self) -> FilesView<'_> {
        let wasi = WasiFilesystemCtxView { ctx: self.wasi.filesystem(), table: &mut self.table };
        FilesView { files: &mut self.files, wasi, memory: &mut self.memory }
    }

    /// Outgoing HTTP, with this instance's requests.
    fn http(&mut self) -> HttpView<'_> {
        self.http.view(&mut self.table, &mut self.memory)
    }

    /// The plugin's buckets, with this instance's handles.
    fn keyvalue(&mut self) -> KeyvalueView<'_> {
        KeyvalueView {
            keyvalue: &self.keyvalue,
            table: &mut self.table,
            accounts: CallAccounts { memory: self.memory.account(), cpu: &self.cpu },
        }
    }

    /// The plugin's databases.
    fn sql(&mut self) -> SqlView<'_> {
        SqlView { sql: &self.sql, accounts: CallAccounts { memory: self.memory.account(), cpu: &self.cpu } }
    }
}

impl Drop for GuestState {
    /// Logs the held record of a cancelled call, for which `end_call` is not called.
    fn drop(&mut self) {
        if let Some(record) = self.log_records.finish() {
            self.log.record(record);
        }
    }
}

impl WasiView for GuestState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl store::Host for GuestState {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, store::Error>> {
        Ok(Ok(self.config.get(&key)))
    }

    fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, store::Error>> {
        Ok(Ok(self.config.all()))
    }
}

impl logging::Host for GuestState {
    fn log(&mut self, level: Level, context: String, message: String) -> wasmtime::Result<()> {
        if matches!(level, Level::Error | Level::Critical) {
            host_calls::wrote_errors(&message);
        }
        self.log_records.message(&self.log, level, &context, &message);
        Ok(())
    }
}

/// Links everything that a component may import: WASI 0.2 with HTTP, which grants nothing by itself, the
/// plugin's config, buckets and databases, and the log. `engine::imports` lists it.
pub fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    dirs::add_to_linker(&mut linker, GuestState::files)?;
    http::add_to_linker(&mut linker, GuestState::http)?;
    store::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    logging::add_to_linker::<_, HasSelf<GuestState>>(&mut linker, |state| state)?;
    keyvalue::add_to_linker(&mut linker, GuestState::keyvalue)?;
    sql::add_to_linker(&mut linker, GuestState::sql)?;
    Ok(linker)
}
