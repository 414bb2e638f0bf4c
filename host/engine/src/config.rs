//! Settings of wasmtime: compilation, and the pool of instances.

use std::num::NonZeroUsize;

use wasmtime::{Enabled, InstanceAllocationStrategy, PoolingAllocationConfig, Strategy};

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

/// How code is generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codegen {
    /// Fast code, by Cranelift.
    Optimized,
    /// Code that is instrumented for a debugger, by Cranelift.
    Debuggable,
    /// Slower code in a fraction of the time, by Winch (module `baseline`).
    Baseline,
}

impl Codegen {
    /// All ways.
    const ALL: [Self; 3] = [Self::Optimized, Self::Debuggable, Self::Baseline];

    /// Returns the name, as an argument of the compiler's child process.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Optimized => "optimized",
            Self::Debuggable => "debuggable",
            Self::Baseline => "baseline",
        }
    }

    /// Returns the way with this name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|codegen| codegen.name() == name)
    }
}

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

/// The settings of an engine, and of the compiler for it.
pub(super) fn engine_config(codegen: Codegen) -> wasmtime::Config {
    let mut config = codegen_config();
    match codegen {
        Codegen::Optimized => &mut config,
        Codegen::Debuggable => config.guest_debug(true),
        Codegen::Baseline => config.strategy(Strategy::Winch),
    };
    config
}

/// An engine with a pool of `max_instances`, each with as many core instances, tables and memories as a component may
/// have: with less, a few plugins with many of them would leave none for the instances of others. Memories and tables
/// that are not used take address space only, some 4 TiB for 256 instances.
pub(super) fn pooling_engine(max_instances: u32, codegen: Codegen) -> wasmtime::Result<wasmtime::Engine> {
    // A recorded instance has a second one between itself and the host.
    let max_instances = max_instances.saturating_add(u32::try_from(MAX_RECORDED).unwrap_or(u32::MAX));
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(max_instances)
        .total_core_instances(max_instances.saturating_mul(MAX_CORE_INSTANCES_PER_COMPONENT))
        .total_tables(max_instances.saturating_mul(MAX_TABLES_PER_COMPONENT))
        .total_memories(max_instances.saturating_mul(MAX_MEMORIES_PER_COMPONENT))
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
    let mut config = engine_config(codegen);
    config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    wasmtime::Engine::new(&config)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use wasmtime::Store;
    use wasmtime::component::{Component, Linker};

    use super::*;

    #[tokio::test]
    async fn the_pool_has_room_for_all_instances_with_as_much_as_a_component_may_have() {
        let engine = pooling_engine(4, Codegen::Optimized).unwrap();
        let mut text =
            "(component (core module $m (memory 0) (table 1 funcref)) (core module $t (table 1 funcref))".to_owned();
        for number in 0..MAX_CORE_INSTANCES_PER_COMPONENT {
            let module = if number < MAX_MEMORIES_PER_COMPONENT { "$m" } else { "$t" };
            write!(text, "(core instance (instantiate {module}))").unwrap();
        }
        let component = Component::new(&engine, wat::parse_str(text + ")").unwrap()).unwrap();
        let linker = Linker::<()>::new(&engine);
        let mut stores = Vec::new();
        for _ in 0..4 + MAX_RECORDED {
            let mut store = Store::new(&engine, ());
            store.set_epoch_deadline(1);
            linker.instantiate_async(&mut store, &component).await.unwrap();
            stores.push(store);
        }
    }
}
