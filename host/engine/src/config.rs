//! Settings of wasmtime: compilation, and the pool of instances.

use std::num::NonZeroUsize;

use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use mcp_host_sandbox::memory::MAX_TABLE_ELEMENTS;

/// The maximum number of concurrently recorded instances of an engine.
pub(crate) const MAX_RECORDED: usize = 8;
/// The maximum number of frames in a backtrace. Each has the name of its function, whose length the compiler
/// bounds (`static_content`).
pub(super) const MAX_FRAMES: NonZeroUsize = NonZeroUsize::new(64).unwrap();
/// The maximum size of a component in bytes.
pub const MAX_COMPONENT_SIZE: u64 = 256 << 20;

/// The maximum number of core instances of one component: the number that Python and JavaScript toolchains
/// need, plus a margin.
pub(super) const MAX_CORE_INSTANCES_PER_COMPONENT: u32 = 40;
/// The maximum number of tables of one component's core instances.
pub(super) const MAX_TABLES_PER_COMPONENT: u32 = 40;
/// The average number of core instances, tables and memories in the pool per component instance.
const AVG_CORE_INSTANCES_PER_COMPONENT: u32 = 8;
/// The maximum number of memories of one component's core instances.
pub(super) const MAX_MEMORIES_PER_COMPONENT: u32 = 4;
/// The maximum size of the contexts of a component and all its core instances, in bytes.
pub(super) const MAX_INSTANCE_SIZE: usize = 4 << 20;
const MAX_WASM_STACK: usize = 512 << 10;
const ASYNC_STACK_SIZE: usize = 2 << 20;
/// The bytes of a memory slot that stay mapped for the next instance: resetting them is cheaper than mapping
/// them again.
const KEEP_RESIDENT: usize = 2 << 20;
/// The bytes of a table slot that stay mapped.
const TABLE_KEEP_RESIDENT: usize = 64 << 10;

/// Settings that affect compiled code: the same here and in the compiler's child process.
pub(super) fn codegen_config() -> wasmtime::Config {
    let mut config = wasmtime::Config::new();
    config
        .epoch_interruption(true)
        .wasm_memory64(false)
        .max_wasm_stack(MAX_WASM_STACK)
        .async_stack_size(ASYNC_STACK_SIZE)
        .wasm_backtrace_max_frames(Some(MAX_FRAMES));
    config
}

/// The settings of an engine, and of the compiler for it. With `is_debuggable`, code is instrumented for a debugger.
pub(super) fn engine_config(is_debuggable: bool) -> wasmtime::Config {
    let mut config = codegen_config();
    if is_debuggable {
        config.guest_debug(true);
    }
    config
}

/// An engine with a pool of `max_instances`.
pub(super) fn pooling_engine(max_instances: u32, is_debuggable: bool) -> wasmtime::Result<wasmtime::Engine> {
    // A recorded instance has a second one between itself and the host.
    let max_instances = max_instances.saturating_add(u32::try_from(MAX_RECORDED).unwrap_or(u32::MAX));
    let parts = max_instances.saturating_mul(AVG_CORE_INSTANCES_PER_COMPONENT);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(max_instances)
        .total_core_instances(parts)
        .total_tables(parts)
        .total_memories(max_instances.saturating_mul(2))
        .total_stacks(max_instances)
        .max_core_instances_per_component(MAX_CORE_INSTANCES_PER_COMPONENT)
        .max_tables_per_component(MAX_TABLES_PER_COMPONENT)
        .max_memories_per_component(MAX_MEMORIES_PER_COMPONENT)
        // One core module may have all tables and memories of its component.
        .max_tables_per_module(MAX_TABLES_PER_COMPONENT)
        .max_memories_per_module(MAX_MEMORIES_PER_COMPONENT)
        .max_component_instance_size(MAX_INSTANCE_SIZE)
        .max_core_instance_size(MAX_INSTANCE_SIZE)
        .table_elements(MAX_TABLE_ELEMENTS)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(TABLE_KEEP_RESIDENT)
        .pagemap_scan(Enabled::Auto);
    let mut config = engine_config(is_debuggable);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}
