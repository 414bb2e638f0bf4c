//! The targets of log events, for filters (`MCP_HOST_LOG=warn,mcp_host::plugin=debug`). Every event has one of them.
//!
//! Untrusted text, such as a principal's name or a URI, must be recorded as a `str`: the formatters escape a `str`, but
//! not the output of [`Display`](std::fmt::Display) (`%`).

/// Connections, sessions, shutdown, and the life of the process.
pub const SERVER: &str = "mcp_host::server";
/// Subscriptions, polling for changes, and watched granted directories.
pub const WATCH: &str = "mcp_host::watch";
/// The replicas of a cluster: the connection to NATS, shared polls, and replicas that differ.
pub const CLUSTER: &str = "mcp_host::cluster";
/// Search: the index, and the indexed plugins.
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
/// The span of a request with its trace id, which the request's log lines contain. It has no events, and every filter
/// includes it.
pub const REQUEST: &str = "mcp_host::request";
