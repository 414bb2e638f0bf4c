//! The static content of a component: its declarations, and wasmtime's allocations for them before any code runs.
//!
//! Memories and tables are charged to `limits.memory` as they grow. wasmtime allocates everything else that an instance
//! declares outside of its [`ResourceLimiter`](wasmtime::ResourceLimiter), and partly outside of the bounds of its
//! pool. A few bytes of a component can declare large allocations: an element of a passive segment is one byte in the
//! file and 16 bytes in each core instance, and a nested component that is instantiated twice on each of 20 levels is a
//! million instances. So the compiler measures the compiled code, using the tables that wasmtime reads when it loads
//! and instantiates the code:
//!
//! | content | cost | bound |
//! |---|---|---|
//! | passive element segments | 16 bytes per element and core instance | `limits.memory` |
//! | globals, imports, escaping functions, tags, segments | the context (`VMContext`) of each core instance | `limits.memory`, 4 MiB for all |
//! | trampolines of canonical functions, resources, lowerings | the context of the component instance | the same |
//! | nested components | the state of each, with its table of handles | `limits.memory` |
//! | modules, instantiated or not | an entry in the registry of each store | `limits.memory` |
//! | core instances, tables, memories, elements of a table | slots of the pool, or mappings without it | 40, 40, 4, 60,000 |
//! | the name of a function | a copy in each frame of a backtrace | 64 KiB |
//! | names, types, exports, adapters | the metadata of the code, decoded once per load | 4 MiB encoded, of that 20,000 core types |
//!
//! The numeric bounds are the pool's, and hold without a pool, too. A component beyond them does not compile, and the
//! message names the bound. The remaining cost, [`StaticContent::instance_bytes`], is stored with the code and charged
//! to the plugin's `limits.memory` while an instance lives. A component is rejected at loading if no instance fits.
//! Data segments are not copied: they are mapped from the file of the code, and their pages are charged with the
//! memory. Custom sections are not loaded.

use std::fmt;

use mcp_host_sandbox::memory::MAX_TABLE_ELEMENTS;
use wasmtime_environ::component::{ComponentArtifacts, GlobalInitializer, InstantiateModule, VMComponentOffsets};
use wasmtime_environ::object::read::elf::ElfFile64;
use wasmtime_environ::object::{Endianness, Object, ObjectSection};
use wasmtime_environ::{HostPtr, Module, VMOffsets, obj};

use super::config::{
    MAX_CORE_INSTANCES_PER_COMPONENT, MAX_INSTANCE_SIZE, MAX_MEMORIES_PER_COMPONENT, MAX_TABLES_PER_COMPONENT,
};

/// The maximum size of the encoded metadata of compiled code, in bytes. It is 20 to 200 KB for a provider in Rust or
/// Go, 560 KB for one in Python.
const MAX_METADATA: usize = 4 << 20;
/// The maximum number of core types. wasmtime keeps each in a registry of the engine, with some 500 bytes.
const MAX_CORE_TYPES: usize = 20_000;
/// The maximum length of a function's name in bytes. Each frame of a backtrace has a copy.
const MAX_FUNCTION_NAME: usize = 64 << 10;
/// The size of an element of a passive segment in bytes: a `ValRaw`.
const ELEMENT_SIZE: u64 = 16;
/// An upper bound of the overhead: for each core instance in addition to its context, for each of its memories, tables
/// and passive segments, for each module in the registry of the store, and for the component instance.
const ITEM_OVERHEAD: u64 = 1024;

/// The cost of a component's instance before any of its code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StaticContent {
    /// An upper bound of the bytes that wasmtime allocates for an instance, besides its memories and tables.
    pub(crate) instance_bytes: u64,
    /// The number of elements of passive segments, over all core instances.
    elements: u64,
    /// The number of core instances.
    core_instances: u64,
}

/// `Display` shows what takes the memory.
impl fmt::Display for StaticContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance_bytes, elements, core_instances } = self;
        let of_elements = bytesize::ByteSize(elements.saturating_mul(ELEMENT_SIZE));
        write!(
            f,
            "{} of memory for what it declares: {elements} elements of passive element segments ({of_elements}), and the \
             globals, imports, functions and tables of {core_instances} core instances",
            bytesize::ByteSize(*instance_bytes)
        )
    }
}

impl StaticContent {
    /// The length of the encoded form in bytes.
    pub(super) const ENCODED_LEN: usize = 24;

    /// Measures compiled code.
    ///
    /// # Errors
    ///
    /// It exceeds a bound of a component's declarations, or is not the code of a component. The message names the
    /// bound.
    pub(super) fn measure(code: &[u8]) -> Result<Self, String> {
        let metadata = metadata(code)?;
        at_most(
            "bytes of metadata (names, types, imports, exports, functions, instances)",
            metadata.len(),
            MAX_METADATA,
        )?;
        let artifacts: ComponentArtifacts =
            postcard::from_bytes(metadata).map_err(|error| format!("its metadata cannot be decoded: {error}"))?;
        let names = artifacts.static_modules.values().flat_map(|module| &module.func_names);
        let longest = names.map(|name| name.len as usize).max().unwrap_or_default();
        at_most("bytes in the name of a function", longest, MAX_FUNCTION_NAME)?;
        at_most("core types", artifacts.types.module_types().len_types(), MAX_CORE_TYPES)?;
        let component = &artifacts.info.component;
        let context = VMComponentOffsets::new(HostPtr, component).size_of_vmctx();
        let mut total = Total { contexts: u64::from(context), ..Total::default() };
        for initializer in &component.initializers {
            if let GlobalInitializer::InstantiateModule(InstantiateModule::Static(module, _), _) = initializer
                && let Some(module) = artifacts.static_modules.get(*module)
            {
                total.add(&module.module)?;
            }
        }
        total.check()?;
        // The pool's bounds apply to modules that are not instantiated, too.
        for (_, module) in &artifacts.static_modules {
            let mut alone = Total::default();
            alone.add(&module.module)?;
            alone.check()?;
        }
        let items = [
            total.core_instances,
            total.tables,
            total.memories,
            total.segments,
            artifacts.static_modules.len() as u64,
            u64::from(component.num_runtime_component_instances),
            1,
        ];
        let items = items.into_iter().fold(0, u64::saturating_add);
        let instance_bytes = (items.saturating_mul(ITEM_OVERHEAD))
            .saturating_add(total.contexts)
            .saturating_add(total.elements.saturating_mul(ELEMENT_SIZE));
        Ok(Self { instance_bytes, elements: total.elements, core_instances: total.core_instances })
    }

    /// Encodes it as bytes.
    pub(super) fn encode(&self) -> [u8; Self::ENCODED_LEN] {
        let mut bytes = [0; Self::ENCODED_LEN];
        let numbers = [self.instance_bytes, self.elements, self.core_instances];
        for (place, number) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *place = number.to_le_bytes();
        }
        bytes
    }

    /// Decodes the bytes of [`encode`](Self::encode); none if the length differs.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (numbers, []) = bytes.as_chunks::<8>() else { return None };
        let [instance_bytes, elements, core_instances] = numbers else { return None };
        let [instance_bytes, elements, core_instances] =
            [instance_bytes, elements, core_instances].map(|number| u64::from_le_bytes(*number));
        Some(Self { instance_bytes, elements, core_instances })
    }
}

/// The content of the core instances so far.
#[derive(Default)]
struct Total {
    core_instances: u64,
    tables: u64,
    memories: u64,
    segments: u64,
    elements: u64,
    /// The bytes of the contexts.
    contexts: u64,
}

impl Total {
    /// Adds an instance of this module.
    fn add(&mut self, module: &Module) -> Result<(), String> {
        for (_, table) in module.tables.iter().skip(module.num_imported_tables) {
            at_most("elements in one table", table.limits.min, MAX_TABLE_ELEMENTS)?;
        }
        let context = VMOffsets::new(HostPtr, module).size_of_vmctx();
        let elements = module.passive_elements.iter().map(|(_, (_, len))| *len).fold(0, u64::saturating_add);
        for (sum, more) in [
            (&mut self.core_instances, 1),
            (&mut self.tables, module.num_defined_tables() as u64),
            (&mut self.memories, module.num_defined_memories() as u64),
            (&mut self.segments, module.passive_elements.len() as u64),
            (&mut self.elements, elements),
            // The pool counts the instance itself, too.
            (&mut self.contexts, u64::from(context).saturating_add(ITEM_OVERHEAD)),
        ] {
            *sum = sum.saturating_add(more);
        }
        Ok(())
    }

    fn check(&self) -> Result<(), String> {
        at_most("core instances", self.core_instances, MAX_CORE_INSTANCES_PER_COMPONENT)?;
        at_most("tables in all core instances", self.tables, MAX_TABLES_PER_COMPONENT)?;
        at_most("memories in all core instances", self.memories, MAX_MEMORIES_PER_COMPONENT)?;
        at_most(
            "bytes of globals, imports, functions and trampolines in all core instances",
            self.contexts,
            MAX_INSTANCE_SIZE,
        )
    }
}

/// Returns the section of the code that wasmtime decodes at loading.
fn metadata(code: &[u8]) -> Result<&[u8], String> {
    let file =
        ElfFile64::<Endianness>::parse(code).map_err(|error| format!("its code is not an object file: {error}"))?;
    let section = file.section_by_name(obj::ELF_WASMTIME_INFO).ok_or("its code has no metadata")?;
    section.data().map_err(|error| format!("its code has no metadata: {error}"))
}

fn at_most(what: &str, found: impl TryInto<u64>, max: impl TryInto<u64>) -> Result<(), String> {
    let number = |number: Option<u64>| number.unwrap_or(u64::MAX);
    let (found, max) = (number(found.try_into().ok()), number(max.try_into().ok()));
    match found > max {
        true => Err(format!("it is too large for a component: it has {found} {what}, more than {max}")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Codegen, codegen_config, pooling_engine};

    fn compile(text: &str) -> Vec<u8> {
        let engine = wasmtime::Engine::new(&codegen_config()).unwrap();
        engine.precompile_component(&wat::parse_str(text).unwrap()).unwrap()
    }

    fn measure(text: &str) -> Result<StaticContent, String> {
        StaticContent::measure(&compile(text))
    }

    /// A component that instantiates a core module `count` times.
    fn instances(module: &str, count: usize) -> String {
        format!("(component (core module $m {module}) {})", "(core instance (instantiate $m))".repeat(count))
    }

    #[test]
    fn a_module_that_is_not_instantiated_has_the_same_bounds() {
        for module in [
            "(table 60001 funcref)",
            "(memory 1) (memory 1) (memory 1) (memory 1) (memory 1)",
            &"(table 1 funcref)".repeat(41),
        ] {
            let error = measure(&format!("(component (core module {module}))")).unwrap_err();
            assert!(error.contains("it is too large for a component"), "{error}");
        }
    }

    #[test]
    fn the_elements_of_passive_segments_count_for_each_instance_also_of_nested_components() {
        let module = format!("(func $f) (elem func {})", "$f ".repeat(1000));
        assert_eq!(measure(&instances(&module, 3)).unwrap().elements, 3000);
        let nested = format!(
            "(component (component $a {} (core instance (instantiate $m)))
               (component $b (instance (instantiate $a)) (instance (instantiate $a)))
               (instance (instantiate $b)) (instance (instantiate $b)))",
            format_args!("(core module $m {module})")
        );
        let content = measure(&nested).unwrap();
        assert_eq!((content.core_instances, content.elements), (4, 4000));
        assert!(content.instance_bytes >= 4000 * 16);
        assert_eq!(StaticContent::decode(&content.encode()), Some(content));
        assert_eq!(StaticContent::decode(&[0; 8]), None);
    }

    #[test]
    fn a_component_at_the_bounds_fits_the_pool_and_one_beyond_is_refused_for_what_it_has_too_much_of() {
        let pool = pooling_engine(1, Codegen::Optimized).unwrap();
        let globals = "(global (mut i32) (i32.const 1)) ".repeat(6_000);
        for (module, most, what) in [
            ("", 40, "41 core instances, more than 40"),
            ("(table 1 funcref) (table 1 funcref)", 20, "42 tables in all core instances, more than 40"),
            ("(memory 1)", 4, "5 memories in all core instances, more than 4"),
            (globals.as_str(), 40, "41 core instances, more than 40"),
            (
                globals.repeat(2).as_str(),
                21,
                "bytes of globals, imports, functions and trampolines in all core instances, more than",
            ),
            ("(table 60000 funcref)", 40, "41 core instances, more than 40"),
        ] {
            let fits = compile(&instances(module, most));
            StaticContent::measure(&fits).unwrap();
            // SAFETY: the compiler has just returned these bytes.
            #[allow(unsafe_code, reason = "see above")]
            unsafe { wasmtime::component::Component::deserialize(&pool, &fits) }.unwrap();
            let refused = measure(&instances(module, most + 1)).unwrap_err();
            assert!(refused.contains(what), "{refused}");
        }
        let refused = measure(&instances("(table 60001 funcref)", 1)).unwrap_err();
        assert!(refused.ends_with("it has 60001 elements in one table, more than 60000"), "{refused}");
    }

    #[test]
    fn metadata_and_types_are_bounded() {
        let types: String = (0..20_001)
            .map(|number| {
                let bits = (0..15).map(|bit| if number >> bit & 1 == 0 { "i32 " } else { "i64 " });
                format!("(type (func (param {})))", bits.collect::<String>())
            })
            .collect();
        let refused = measure(&format!("(component (core module {types}))")).unwrap_err();
        assert!(refused.contains("core types, more than 20000"), "{refused}");
        let exports: String = (0..80).map(|number| format!("(export \"{number:060000}\" (func $f))")).collect();
        let refused = measure(&format!("(component (core module (func $f) {exports}))")).unwrap_err();
        assert!(refused.contains("bytes of metadata"), "{refused}");
    }
}
