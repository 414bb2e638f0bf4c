//! Official clients in several languages against the real server.

mod frameworks;
mod mcp_inspector;
mod rust_client;
pub(crate) mod ts_and_python_clients;
