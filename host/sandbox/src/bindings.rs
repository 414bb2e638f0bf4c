//! The generated bindings of `wasi:logging` and `wasi:config`.

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "contract",
        inline: "
            package mcp-host:imports;
            world imports {
                import wasi:config/store@0.2.0-rc.1;
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        imports: { default: tracing | trappable },
    });
}

pub(crate) use generated::wasi::config::store;
pub(crate) use generated::wasi::logging::logging;
