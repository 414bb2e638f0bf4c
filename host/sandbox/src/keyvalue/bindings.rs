//! Generated bindings of `wasi:keyvalue`, in the standard's newest draft and in the previous one.

mod generated_draft2 {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "contract",
        inline: "
            package mcp-host:keyvalue;
            world keyvalue {
                import wasi:keyvalue/store@0.2.0-draft2;
                import wasi:keyvalue/atomics@0.2.0-draft2;
                import wasi:keyvalue/batch@0.2.0-draft2;
            }
        ",
        imports: { default: async | tracing | trappable },
        with: {
            "wasi:keyvalue/store.bucket": super::super::Bucket,
            "wasi:keyvalue/atomics.cas": super::super::Cas,
        },
        trappable_error_type: {
            "wasi:keyvalue/store.error" => super::super::StoreError,
            "wasi:keyvalue/atomics.cas-error" => super::super::SwapError,
        },
    });
}

mod generated_draft1 {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "wit",
        world: "wasi:keyvalue/imports",
        imports: { default: async | tracing | trappable },
        with: { "wasi:keyvalue/store.bucket": super::super::Bucket },
        trappable_error_type: { "wasi:keyvalue/store.error" => super::super::StoreError },
    });
}

pub(super) use self::generated_draft1::wasi::keyvalue as draft1;
pub(super) use self::generated_draft2::wasi::keyvalue as draft2;
