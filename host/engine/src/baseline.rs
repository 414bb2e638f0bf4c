//! The baseline compiler: a second engine, for components under development.
//!
//! Winch compiles each function in one pass. For a component with CPython it takes a fifth of the time that Cranelift
//! takes, and its code takes about 1.5 times the processor time. It does not support all of WebAssembly: components of
//! JavaScript have tail calls. So a component is first compiled by Winch, by Cranelift if Winch rejects it, and later
//! by Cranelift in any case (module `compilations`).
//!
//! Code of Winch has its own calling convention, so wasmtime runs it only in a separate engine, with a separate linker.
//! Each instance maps its own memory: the engine has no pool, because an author makes few calls. The epoch thread, the
//! permits of instances and the worker threads are shared with the other engine.

use mcp_host_sandbox::state::{self, GuestState};
use wasmtime::component::{Component, Linker};

use super::config::{Codegen, engine_config};

/// An engine for code of the baseline compiler, and its linker.
pub(crate) struct Baseline {
    wasmtime: wasmtime::Engine,
    linker: Linker<GuestState>,
}

impl Baseline {
    /// Whether code of Winch is safe to run on this processor. Its backend for AArch64 is in development (wasmtime's
    /// documentation, tiers of support).
    pub(crate) const IS_SUPPORTED: bool = cfg!(target_arch = "x86_64");

    /// Creates the engine.
    ///
    /// # Errors
    ///
    /// Winch does not support this processor.
    pub(crate) fn new() -> wasmtime::Result<Self> {
        let wasmtime = wasmtime::Engine::new(&engine_config(Codegen::Baseline))?;
        Ok(Self { linker: state::linker(&wasmtime)?, wasmtime })
    }

    /// Returns the engine that code is deserialized for.
    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.wasmtime
    }

    /// Returns the linker, if the component was loaded for this engine.
    pub(crate) fn linker_for(&self, component: &Component) -> Option<&Linker<GuestState>> {
        wasmtime::Engine::same(component.engine(), &self.wasmtime).then_some(&self.linker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_baseline_compiler_is_linked_by_its_own_linker() {
        let baseline = Baseline::new().unwrap();
        let component =
            wat::parse_str("(component (core module $m (func (loop (br 0)))) (core instance (instantiate $m)))");
        let code = baseline.wasmtime().precompile_component(&component.unwrap()).unwrap();
        // SAFETY: the compiler has just returned these bytes.
        #[allow(unsafe_code, reason = "see above")]
        let component = unsafe { Component::deserialize(baseline.wasmtime(), &code) }.unwrap();
        baseline.linker_for(&component).unwrap().instantiate_pre(&component).unwrap();

        let optimized = wasmtime::Engine::new(&engine_config(Codegen::Optimized)).unwrap();
        // SAFETY: the same bytes.
        #[allow(unsafe_code, reason = "see above")]
        let refused = unsafe { Component::deserialize(&optimized, &code) };
        assert!(refused.is_err(), "code of one engine is not loaded by the other");
        let other = Component::new(&optimized, wat::parse_str("(component)").unwrap()).unwrap();
        assert!(baseline.linker_for(&other).is_none());
    }

    #[test]
    fn tail_calls_are_left_to_the_other_compiler() {
        let tail_call = wat::parse_str("(component (core module (func $f (return_call $f))))").unwrap();
        Baseline::new().unwrap().wasmtime().precompile_component(&tail_call).unwrap_err();
        wasmtime::Engine::new(&engine_config(Codegen::Optimized)).unwrap().precompile_component(&tail_call).unwrap();
    }
}
