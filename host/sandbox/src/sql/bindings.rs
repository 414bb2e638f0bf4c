//! Generated bindings of `mcp-host:sql`.

mod generated {
    #![allow(missing_docs, unreachable_pub, reason = "generated; the WIT files are the documentation")]
    wasmtime::component::bindgen!({
        path: "../../wit",
        inline: "
            package mcp-host:sql-host;
            world sql {
                import mcp-host:sql/databases@0.1.0;
            }
        ",
        imports: { default: async | trappable },
        // A child process that runs SQLite sends them.
        additional_derives: [serde::Deserialize, serde::Serialize],
        trappable_error_type: { "mcp-host:sql/databases.query-failure" => super::super::error::QueryError },
    });
}

pub(super) use self::generated::mcp_host::sql::databases;
