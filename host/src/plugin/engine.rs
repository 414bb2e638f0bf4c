//! The one engine behind all plugins: code settings, instance pool, epoch ticker, guest threads.
//!
//! Instances come from a pool that is sized to calls at once, not to plugins, so that a fresh instance costs tens of
//! microseconds.

use std::sync::Arc;

use wasmtime::component::Linker;
use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use super::EngineError;
use super::epoch::Ticker;
use super::executor::GuestExecutor;
use super::instance_permits::InstancePermits;
use super::shares::Shares;
use super::state::{self, GuestState};

use crate::log_target;

/// Instances alive at once over all plugins, idle ones included. What of them the calls of one plugin may use is its
/// [share](super::shares); a call beyond that waits, as it does for a place when its plugin is busy.
const MAX_INSTANCES: u32 = 256;
/// Core instances and tables that one component may consist of: what Python and JavaScript toolchains need, with room.
const MAX_CORE_INSTANCES_PER_COMPONENT: u32 = 40;
/// Core instances, tables and memories in the pool for each component instance, on average.
const AVG_CORE_INSTANCES_PER_COMPONENT: u32 = 8;
const MAX_MEMORIES_PER_COMPONENT: u32 = 4;
const MAX_TABLE_ELEMENTS: usize = 60_000;
const MAX_INSTANCE_SIZE: usize = 4 << 20;
const MAX_WASM_STACK: usize = 512 << 10;
const ASYNC_STACK_SIZE: usize = 2 << 20;
/// How much of a memory slot stays mapped for the next instance: resetting it is cheaper than mapping it anew.
const KEEP_RESIDENT: usize = 2 << 20;
/// The same for table slots.
const TABLE_KEEP_RESIDENT: usize = 64 << 10;

/// Compiles nothing and knows no plugin: it runs what `loader` brings.
pub(super) struct Engine {
    wasmtime: wasmtime::Engine,
    linker: Linker<GuestState>,
    /// Keeps live instances below the pool's size, so that taking one never fails.
    pub(super) instance_permits: InstancePermits,
    /// Keeps the calls of one plugin from using them all.
    pub(super) shares: Arc<Shares>,
    pub(super) ticker: Ticker,
    pub(super) executor: GuestExecutor,
}

impl Engine {
    /// Reserves the pool, starts the ticker and the guest threads.
    pub(super) fn start() -> Result<Self, EngineError> {
        let wasmtime = with_pooling_allocator().or_else(|error| {
            // The pool reserves address space (not memory) by the terabyte, which `ulimit -v` or a small machine may refuse.
            tracing::warn!(target: log_target::PLUGIN, %error, "no address space for an instance pool: every call will map its own memory, which is slower");
            wasmtime::Engine::new(&codegen_config()).map_err(|error| EngineError::Start(error.to_string()))
        })?;
        let linker = state::linker(&wasmtime).map_err(|error| EngineError::Start(format!("{error:#}")))?;
        Ok(Self {
            ticker: Ticker::start(wasmtime.clone())?,
            instance_permits: InstancePermits::new(MAX_INSTANCES as usize),
            shares: Shares::new(MAX_INSTANCES as usize),
            executor: GuestExecutor::start()
                .map_err(|error| EngineError::Start(format!("cannot start guest threads: {error}")))?,
            linker,
            wasmtime,
        })
    }

    /// The engine that components are deserialised for.
    pub(super) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// What a component may import.
    pub(super) fn linker(&self) -> &Linker<GuestState> {
        &self.linker
    }
}

/// Settings that decide what compiled code looks like: the same here and in the compiler's child process.
pub(super) fn codegen_config() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .epoch_interruption(true)
        .wasm_memory64(false)
        .max_wasm_stack(MAX_WASM_STACK)
        .async_stack_size(ASYNC_STACK_SIZE)
        // A frame of a backtrace has the name of its function, which is as long as the component likes.
        .wasm_backtrace_max_frames(None);
    config
}

fn with_pooling_allocator() -> wasmtime::Result<wasmtime::Engine> {
    let parts = MAX_INSTANCES.saturating_mul(AVG_CORE_INSTANCES_PER_COMPONENT);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(MAX_INSTANCES)
        .total_core_instances(parts)
        .total_tables(parts)
        .total_memories(MAX_INSTANCES.saturating_mul(2))
        .total_stacks(MAX_INSTANCES)
        .max_core_instances_per_component(MAX_CORE_INSTANCES_PER_COMPONENT)
        .max_tables_per_component(MAX_CORE_INSTANCES_PER_COMPONENT)
        .max_memories_per_component(MAX_MEMORIES_PER_COMPONENT)
        .max_component_instance_size(MAX_INSTANCE_SIZE)
        .max_core_instance_size(MAX_INSTANCE_SIZE)
        .table_elements(MAX_TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(TABLE_KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    let mut config = codegen_config();
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}
