//! The contract as wasmtime's generated code has it.
//!
//! Nothing outside this module's parent sees these types.

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package mcp-host:host;
            world plugin {
                export mcp-host:provider/resource-provider@0.1.0;
            }
        ",
        exports: { default: async },
    });
}

/// What every provider exports.
pub(crate) const CONTRACT: &str = "mcp-host:provider/resource-provider@0.1.0";

pub(crate) use generated::exports::mcp_host::provider::resource_provider as contract;
pub(crate) use generated::{Plugin as Provider, PluginPre as ProviderPre};
