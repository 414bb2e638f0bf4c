//! The targets of log events, which filters name (`MCP_HOST_LOG=warn,mcp_host::plugin=debug`). Every event has one of
//! them.
//!
//! Untrusted text, such as a principal's name or a URI, is recorded as a `str`: the formatters escape that, and not what
//! [`Display`](std::fmt::Display) writes (`%`).

/// Connections, sessions, shutdown, and the life of the process.
pub const SERVER: &str = "mcp_host::server";
/// Subscriptions, polling for changes, and watched granted directories.
pub const WATCH: &str = "mcp_host::watch";
/// Search: the index, and the plugins that are indexed.
pub const SEARCH: &str = "mcp_host::search";
/// The configuration and its reloads.
pub const CONFIG: &str = "mcp_host::config";
/// Compilation of components, and the cache of compiled ones.
pub const COMPILER: &str = "mcp_host::compiler";
/// Plugins: loading, faults, the circuit breaker, grants.
pub const PLUGIN: &str = "mcp_host::plugin";
/// The guests' own log output (`wasi:logging`, standard output and standard error).
pub const GUEST: &str = "mcp_host::guest";
/// The access log: one event per request.
pub const ACCESS: &str = "mcp_host::access";
/// The span of a request with its trace id, which lines of the log have that belong to it. It has no events, and every filter has it.
pub const REQUEST: &str = "mcp_host::request";
