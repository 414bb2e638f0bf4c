//! Bindings of the interface `prepare`, which a component exports only if it wants to.
#![allow(missing_docs, unsafe_code, unreachable_pub, dead_code, clippy::all, clippy::restriction, reason = "generated")]

wit_bindgen::generate!({
    path: "wit",
    inline: "
        package mcp-host:sdk;
        world preparing {
            export mcp-host:provider/prepare@0.1.1;
        }
    ",
    world: "mcp-host:sdk/preparing",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_prepare",
    default_bindings_module: "mcp_provider::__private::prepare_bindings",
});
