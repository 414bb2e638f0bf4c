//! The contract as wasmtime's generated code has it.
//!
//! No other crate sees these types: `convert` turns them into those of [`provider`](mcp_host_model::provider).

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package mcp-host:host;
            world plugin {
                export mcp-host:provider/resource-provider@0.1.0;
            }
        ",
        exports: { default: async },
    });
}

/// The interface that every provider exports.
pub(super) const CONTRACT: &str = "mcp-host:provider/resource-provider@0.1.0";

pub(super) use generated::exports::mcp_host::provider::resource_provider as contract;
pub(super) use generated::{Plugin as Provider, PluginPre as ProviderPre};
