//! The contract as wasmtime's generated code has it, and what a component may import.
//!
//! Nothing outside `plugin` sees these types: `convert` turns them into the domain's own.

use wasmtime::component::{HasSelf, Linker};
use wasmtime_wasi_config::WasiConfig;

use super::sandbox::State;

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package mcp-host:host;
            world plugin {
                import wasi:logging/logging@0.1.0-draft;
                export mcp-host:provider/resource-provider@0.1.0;
            }
        ",
        imports: { default: trappable },
        exports: { default: async },
    });
}

pub(super) use generated::PluginPre as ProviderPre;
pub(super) use generated::exports::mcp_host::provider::resource_provider as contract;
pub(super) use generated::wasi::logging::logging;

/// Everything that a component may import: WASI 0.2 with nothing granted, its configuration, and the log.
pub(super) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    wasmtime_wasi::p2::add_to_linker_async(&mut linker)?;
    wasmtime_wasi_config::add_to_linker(&mut linker, |state: &mut State| WasiConfig::from(&*state.config))?;
    logging::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}
