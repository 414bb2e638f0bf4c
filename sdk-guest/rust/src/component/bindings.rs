//! Bindings that wit-bindgen generates from the WIT contract.
#![allow(missing_docs, unsafe_code, unreachable_pub, dead_code, clippy::all, clippy::restriction, reason = "generated")]

wit_bindgen::generate!({
    path: "wit",
    // Without `provider-dirs` and `provider-env`: std has files and variables.
    inline: "
        package mcp-host:sdk;
        world sdk {
            include mcp-host:provider/provider-http@0.1.1;
            include mcp-host:provider/provider-keyvalue@0.1.1;
            include mcp-host:provider/provider-sql@0.1.1;
        }
    ",
    world: "mcp-host:sdk/sdk",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "mcp_provider::__private::bindings",
});
