//! Bindings that wit-bindgen generates from the WIT contract.
#![allow(missing_docs, unsafe_code, unreachable_pub, dead_code, clippy::all, clippy::restriction, reason = "generated")]

wit_bindgen::generate!({
    path: "../../wit",
    world: "provider",
    generate_all,
    pub_export_macro: true,
    export_macro_name: "export_component",
    default_bindings_module: "mcp_provider::__private::bindings",
});
