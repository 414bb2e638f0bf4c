//! The one engine behind all plugins: code settings, instance pool, epoch ticker, guest threads.
//!
//! Instances come from a pool that is sized to calls at once, not to plugins, so that a fresh instance costs tens of
//! microseconds.

pub(crate) mod bindings;
mod cache;
mod call_origin;
mod compilations;
mod compiler;
mod component_file;
mod config;
pub(crate) mod cpu;
pub(crate) mod epoch;
mod error;
pub(crate) mod executor;
mod imports;
pub(crate) mod instance;
pub(crate) mod instance_permits;
pub(crate) mod loader;
pub(crate) mod pool;
mod progress;
pub(crate) mod shares;

use std::sync::Arc;

use wasmtime::component::Linker;

use self::config::{codegen_config, pooling_engine};
use self::epoch::Ticker;
use self::executor::GuestExecutor;
use self::instance_permits::InstancePermits;
use self::shares::Shares;
use crate::log_target;
use crate::sandbox::state::{self, GuestState};

pub(crate) use self::call_origin::CallOrigin;
pub use self::compiler::{CompileError, Compiler, run_compiler};
pub use self::error::{ComponentError, EngineError};
pub use self::imports::UnsatisfiedImports;
pub use self::progress::Progress;

/// Instances alive at once over all plugins, idle ones included. What of them the calls of one plugin may use is its
/// [share](super::shares); a call beyond that waits, as it does for a place when its plugin is busy.
const MAX_INSTANCES: u32 = 256;
/// Compiles nothing and knows no plugin: it runs what `loader` brings.
pub(crate) struct Engine {
    wasmtime: wasmtime::Engine,
    linker: Linker<GuestState>,
    /// Keeps live instances below the pool's size, so that taking one never fails.
    pub(crate) instance_permits: InstancePermits,
    /// Keeps the calls of one plugin from using them all.
    pub(crate) shares: Arc<Shares>,
    pub(crate) ticker: Ticker,
    pub(crate) executor: GuestExecutor,
}

impl Engine {
    /// Reserves the pool, starts the ticker and the guest threads.
    pub(crate) fn start() -> Result<Self, EngineError> {
        let wasmtime = pooling_engine(MAX_INSTANCES).or_else(|error| {
            // The pool reserves address space (not memory) by the terabyte, which `ulimit -v` or a small machine may refuse.
            tracing::warn!(target: log_target::PLUGIN, %error, "no address space for an instance pool: every call will map its own memory, which is slower");
            wasmtime::Engine::new(&codegen_config()).map_err(|error| EngineError::Start(error.to_string()))
        })?;
        let linker = state::linker(&wasmtime).map_err(|error| EngineError::Start(format!("{error:#}")))?;
        Ok(Self {
            ticker: Ticker::start(wasmtime.clone())
                .map_err(|error| EngineError::Start(format!("cannot start the epoch thread: {error}")))?,
            instance_permits: InstancePermits::new(MAX_INSTANCES as usize),
            shares: Shares::new(MAX_INSTANCES as usize),
            executor: GuestExecutor::start()
                .map_err(|error| EngineError::Start(format!("cannot start guest threads: {error}")))?,
            linker,
            wasmtime,
        })
    }

    /// The engine that components are deserialised for.
    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// What a component may import.
    pub(crate) fn linker(&self) -> &Linker<GuestState> {
        &self.linker
    }
}
