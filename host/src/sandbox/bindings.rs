//! `wasi:logging` as wasmtime's generated code has it.

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "../wit",
        inline: "
            package mcp-host:logging;
            world logging {
                import wasi:logging/logging@0.1.0-draft;
            }
        ",
        imports: { default: trappable },
    });
}

pub(crate) use generated::wasi::logging::logging;
