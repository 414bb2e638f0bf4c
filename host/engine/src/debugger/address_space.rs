//! Addresses of the protocol: a guest has several modules and memories, and LLDB one address space of 64 bits. The
//! upper bits of an address are its kind and the index of a module or of a memory, the lower 32 bits the offset in it.
//!
//! Modules keep their index while a debugger is connected. Memories are numbered at each stop: pointers of the guest,
//! which have 32 bits, are addresses in memory 0, so this is the first memory of the instance that stopped.

use gdbstub_arch::wasm::addr::{WasmAddr, WasmAddrType};
use wasmtime::{Memory, Module};

/// The modules and memories of the guest that is stopped.
#[derive(Default)]
pub(super) struct AddressSpace {
    modules: Vec<Module>,
    memories: Vec<Memory>,
}

/// What is at an address.
pub(super) enum Place<'a> {
    /// The bytes of a module from this offset on.
    Code { module: &'a Module, offset: u32 },
    /// A memory, and the offset in it.
    Data { memory: Memory, offset: u32 },
}

impl AddressSpace {
    /// Adds modules that are new, and replaces the memories.
    pub(super) fn update(&mut self, modules: Vec<Module>, memories: Vec<Memory>) {
        for module in modules {
            if self.index_of(&module).is_none() {
                self.modules.push(module);
            }
        }
        self.memories = memories;
    }

    /// Returns the address of an instruction; none if the module is unknown.
    pub(super) fn address(&self, module: &Module, pc: u32) -> Option<WasmAddr> {
        WasmAddr::new(WasmAddrType::Object, u32::try_from(self.index_of(module)?).ok()?, pc)
    }

    /// Returns what is at an address; none if there is no such module or memory.
    pub(super) fn place(&self, address: u64) -> Option<Place<'_>> {
        let address = WasmAddr::from_raw(address)?;
        let (index, offset) = (usize::try_from(address.module_index()).ok()?, address.offset());
        match address.addr_type() {
            WasmAddrType::Object => self.modules.get(index).map(|module| Place::Code { module, offset }),
            WasmAddrType::Memory => self.memories.get(index).map(|memory| Place::Data { memory: *memory, offset }),
        }
    }

    /// The document of `qXfer:libraries:read`: each module with its address. Names are unique, as LLDB loads each name
    /// once.
    pub(super) fn library_list(&self) -> String {
        let libraries: Vec<_> = (0u32..)
            .zip(&self.modules)
            .filter_map(|(index, _)| Some((index, WasmAddr::new(WasmAddrType::Object, index, 0)?.as_raw())))
            .map(|(index, base)| format!("<library name=\"module-{index}\"><section address=\"{base:#x}\"/></library>"))
            .collect();
        format!("<library-list>{}</library-list>", libraries.concat())
    }

    /// The document of `qXfer:memory-map:read`: modules are read-only, memories have these sizes.
    pub(super) fn memory_map(&self, memory_sizes: &[usize]) -> String {
        let modules = self.modules.iter().map(|module| module.debug_bytecode().map_or(0, <[u8]>::len));
        let code = (0u32..).zip(modules).map(|(index, size)| (WasmAddrType::Object, index, size, "rom"));
        let data = (0u32..).zip(memory_sizes).map(|(index, size)| (WasmAddrType::Memory, index, *size, "ram"));
        let regions: Vec<_> = code
            .chain(data)
            .filter(|(.., size, _)| *size > 0)
            .filter_map(|(kind, index, size, access)| Some((WasmAddr::new(kind, index, 0)?.as_raw(), size, access)))
            .map(|(start, size, access)| {
                format!("<memory type=\"{access}\" start=\"{start:#x}\" length=\"{size:#x}\"/>")
            })
            .collect();
        format!(
            "<?xml version=\"1.0\"?><!DOCTYPE memory-map SYSTEM \"memory-map.dtd\"><memory-map>{}</memory-map>",
            regions.concat()
        )
    }

    /// The memories of the guest that is stopped.
    pub(super) fn memories(&self) -> &[Memory] {
        &self.memories
    }

    fn index_of(&self, module: &Module) -> Option<usize> {
        let wanted = module.debug_index_in_engine();
        self.modules.iter().position(|known| known.debug_index_in_engine() == wanted)
    }
}
