//! The engine: wasmtime's settings, the instance pool, the epoch thread, the worker threads, and the compiler.
//!
//! Instances come from a pool that is sized to concurrent calls, not to plugins, so a fresh instance costs only tens of
//! microseconds. One engine serves all plugins of a host, and may serve several hosts.
//!
//! | module | subject |
//! |---|---|
//! | `config`, `epoch`, `error` | settings of wasmtime; the thread that preempts guests; why an engine cannot be started |
//! | `baseline` | a second engine, whose code is compiled faster and is slower, for components under development |
//! | `component_file`, `custom_section`, `imports`, `static_content` | a component before it is compiled: its file, sections, imports, and what it makes wasmtime allocate |
//! | `compiler`, `compilations`, `compile_queue`, `pending_code`, `compile_metrics` | compilation, in a child process under limits, once for concurrent requests (single-flight) |
//! | `cache`, `code_key`, `loader` | compiled components on disk with a message authentication code; from a file to a linked component |
//! | `bindings`, `function`, `instance`, `trap`, `fault` | the contract in wasmtime's types; one call of an instance, and what ended it |
//! | `pool`, `instance_permits`, `shares` | idle instances of a plugin; the slots of the instance pool, and how plugins share them |
//! | `executor`, `cpu` | the threads that calls run on, and their processor time |
//! | [`plugin`] | the call path: admission, circuit breaker, calls under limits, validation of responses |
//! | [`debugger`] | for authors: a server that debuggers of guests connect to |
//! | [`diagnostics`], [`recording`] | for authors: what a call did, and recordings of calls with their replays |
//! | `confinement` | seccomp and Landlock for this project's processes |

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

mod baseline;
mod bindings;
mod cache;
mod code_key;
mod compilations;
mod compile_metrics;
mod compile_queue;
mod compiler;
mod component_file;
mod config;
pub mod confinement;
pub(crate) mod cpu;
mod custom_section;
#[cfg_attr(not(feature = "debugger"), path = "debugger/absent.rs")]
pub mod debugger;
pub mod diagnostics;
pub(crate) mod epoch;
mod error;
pub(crate) mod executor;
mod fault;
pub mod function;
mod imports;
pub(crate) mod instance;
pub(crate) mod instance_permits;
pub(crate) mod loader;
mod pending_code;
pub mod plugin;
pub(crate) mod pool;
pub mod recording;
pub(crate) mod shares;
mod static_content;
mod trap;

use std::fmt;
use std::sync::Arc;
use std::thread::available_parallelism;

use mcp_host_base::log_target;
use mcp_host_sandbox::state::{self, GuestState};
use tokio::sync::Semaphore;
use wasmtime::component::{Component, Linker};

use self::baseline::Baseline;
use self::config::{Codegen, engine_config, pooling_engine};
use self::debugger::Debugger;
use self::epoch::Ticker;
use self::executor::GuestExecutor;
use self::instance_permits::InstancePermits;
use self::shares::Shares;

pub use self::compilations::Progress;
pub use self::compile_metrics::CompileMetrics;
pub(crate) use self::compiler::CHILD_ENV_VAR;
pub use self::compiler::{CompileError, Compiler, run_compiler};
pub use self::config::MAX_COMPONENT_SIZE;
pub use self::custom_section::CustomSectionError;
pub use self::error::{ComponentError, EngineError};
pub use self::imports::UnsatisfiedImports;
pub(crate) use self::trap::CallEnd;

/// The default of [`EngineOptions::max_instances`].
const DEFAULT_MAX_INSTANCES: u32 = 256;

/// The size of an [`Engine`], and its debugger.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    max_instances: u32,
    worker_threads: usize,
    debugger: Option<Debugger>,
    has_baseline: bool,
}

impl Default for EngineOptions {
    /// 256 instances, one worker thread per processor, no debugger, and no baseline compiler.
    fn default() -> Self {
        let worker_threads = available_parallelism().map_or(1, usize::from);
        Self { max_instances: DEFAULT_MAX_INSTANCES, worker_threads, debugger: None, has_baseline: false }
    }
}

impl EngineOptions {
    /// The default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of live component instances, including idle ones, over all plugins of all hosts that
    /// share the engine; at least 1. The calls of one plugin may use a share of them. A call beyond the share waits, as
    /// it does when its plugin is busy (`limits.concurrency`). The pool reserves gigabytes of address space for each
    /// instance, but no memory.
    #[must_use]
    pub fn max_instances(mut self, instances: u32) -> Self {
        self.max_instances = instances.max(1);
        self
    }

    /// Sets the number of worker threads for calls that compute little; at least 1. Calls that compute much have twice
    /// as many threads, with a lower priority. The host's own calls (`changes`, `describe`, probes) have as many, and
    /// half as many beyond their CPU budget.
    #[must_use]
    pub fn worker_threads(mut self, threads: usize) -> Self {
        self.worker_threads = threads.max(1);
        self
    }

    /// Sets the debugger of all guests of the engine. Their code is instrumented and slow, and their calls have no
    /// deadline: for the author of a provider, never for a server that has clients.
    #[must_use]
    pub fn debugger(mut self, debugger: Debugger) -> Self {
        self.debugger = Some(debugger);
        self
    }

    /// Compiles components first with a compiler that is several times as fast, and whose code is slower, and then
    /// again for full speed, in the background: for the author of a provider. A component that is pinned to a digest,
    /// or that this compiler does not support, is compiled for full speed at once. Without effect with a debugger, or
    /// if components are compiled [in this process](Compiler::InProcess).
    #[must_use]
    pub fn baseline_compiler(mut self) -> Self {
        self.has_baseline = true;
        self
    }
}

/// The engine that runs providers: the instance pool, the worker threads, the epoch thread. Opaque. Several hosts may
/// share one, and with it the bounds of its [`EngineOptions`].
///
/// ```
/// use mcp_host_engine::{Engine, EngineOptions};
///
/// // Several hosts may share it: `HostBuilder::engine` takes a clone.
/// let engine = Engine::new(EngineOptions::new().max_instances(16).worker_threads(2))?;
/// # Ok::<(), mcp_host_engine::EngineError>(())
/// ```
pub struct Engine {
    wasmtime: wasmtime::Engine,
    linker: Linker<GuestState>,
    /// Keeps the number of live instances below the pool's size, so that an allocation never fails.
    pub(crate) instance_permits: InstancePermits,
    /// Keeps the calls of one plugin from using all slots.
    pub(crate) shares: Arc<Shares>,
    pub(crate) ticker: Ticker,
    pub(crate) executor: GuestExecutor,
    /// One permit for each recorded instance.
    pub(crate) recorded: Arc<Semaphore>,
    /// One permit for each preparing call. Plugins take turns.
    pub(crate) preparations: Arc<Semaphore>,
    debugger: Option<Debugger>,
    /// The engine for code that was compiled in little time.
    baseline: Option<Baseline>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").finish_non_exhaustive()
    }
}

impl Engine {
    /// Reserves the pool, and starts the epoch thread and the worker threads.
    ///
    /// Ends the process if a host started it as its [compiler](Compiler::CurrentExe): the `main` of such a program must
    /// begin with [`run_compiler`], which does not return in this case.
    ///
    /// # Errors
    ///
    /// The operating system or wasmtime reports an error.
    pub fn new(options: EngineOptions) -> Result<Arc<Self>, EngineError> {
        compiler::exit_if_started_as_compiler();
        let EngineOptions { max_instances, worker_threads, debugger, has_baseline } = options;
        let codegen = codegen_for(debugger.as_ref());
        let wasmtime = pooling_engine(max_instances, codegen).or_else(|error| {
            // The pool reserves address space (not memory) by the terabyte, which `ulimit -v` or a small machine may
            // refuse.
            tracing::warn!(target: log_target::PLUGIN, %error, "no address space for an instance pool: every call will map its own memory, which is slower");
            wasmtime::Engine::new(&engine_config(codegen)).map_err(EngineError::wasmtime)
        })?;
        let baseline = (has_baseline && debugger.is_none() && Baseline::IS_SUPPORTED).then(Baseline::new).transpose().unwrap_or_else(|error| {
            tracing::debug!(target: log_target::COMPILER, %error, "there is no baseline compiler for this processor");
            None
        });
        let ticked = baseline.iter().map(Baseline::wasmtime).chain([&wasmtime]).cloned().collect();
        let slots = usize::try_from(max_instances).unwrap_or(usize::MAX);
        Ok(Arc::new(Self {
            linker: state::linker(&wasmtime).map_err(EngineError::wasmtime)?,
            ticker: Ticker::start(ticked).map_err(EngineError::Threads)?,
            instance_permits: InstancePermits::new(slots),
            shares: Arc::new(Shares::new(slots)),
            executor: GuestExecutor::start(worker_threads).map_err(EngineError::Threads)?,
            recorded: Arc::new(Semaphore::new(config::MAX_RECORDED)),
            preparations: Arc::new(Semaphore::new(worker_threads.div_ceil(2))),
            wasmtime,
            debugger,
            baseline,
        }))
    }

    /// Returns the engine that components are deserialized for.
    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Returns the debugger of all guests, if there is one.
    pub(crate) fn debugger(&self) -> Option<&Debugger> {
        self.debugger.as_ref()
    }

    /// Returns the engine for code of the baseline compiler, if there is one.
    pub(crate) fn baseline(&self) -> Option<&wasmtime::Engine> {
        self.baseline.as_ref().map(Baseline::wasmtime)
    }

    /// Returns the linker for this component, which has all functions that it may import.
    pub(crate) fn linker_for(&self, component: &Component) -> &Linker<GuestState> {
        self.baseline.as_ref().and_then(|baseline| baseline.linker_for(component)).unwrap_or(&self.linker)
    }

    /// Returns how code for [`wasmtime`](Self::wasmtime) is generated.
    pub(crate) fn codegen(&self) -> Codegen {
        codegen_for(self.debugger())
    }
}

/// How code for the pooling engine is generated.
fn codegen_for(debugger: Option<&Debugger>) -> Codegen {
    if debugger.is_some() { Codegen::Debuggable } else { Codegen::Optimized }
}

/// The origin of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallOrigin {
    /// A client.
    Client,
    /// An indexer of search, in the queue of the clients, with a lower priority.
    Indexer,
    /// The host itself, which makes only a few concurrent calls.
    Host,
    /// The host itself: the probe of the circuit breaker, in a fresh instance whose memory is separate from clients'
    /// calls.
    Probe,
    /// The host itself: a preparation, with the priority of an indexer, in a fresh instance with separate memory.
    Preparation,
}

impl CallOrigin {
    /// Returns whether the host makes the call for itself.
    pub(crate) fn is_host(self) -> bool {
        matches!(self, Self::Host | Self::Probe | Self::Preparation)
    }
}
