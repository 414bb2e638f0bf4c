//! A native host for resources of the Model Context Protocol (MCP) that sandboxed WebAssembly components provide.
//!
//! A *provider* is a component that implements the interface `resource-provider` (the WIT files in the repository's
//! `wit/`). A [`Host`] runs providers as *plugins*. Each has a sandbox in which only its grants exist, its own limits,
//! and a URI prefix that it owns. The host merges the plugins' resources into one catalog, and answers each
//! [`Principal`](access::Principal) with what this principal may see.
//!
//! # Embedding a host
//!
//! ```standalone_crate
//! use std::time::Duration;
//!
//! use mcp_resource_host::access::Principal;
//! use mcp_resource_host::config::{Config, Plugin};
//! use mcp_resource_host::{Host, ListRequest};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! #   std::env::set_current_dir("../..")?;
//!     let mut hello = Plugin::new("hello".parse()?, "target/plugins/hello.wasm", "hello:///".parse()?);
//!     hello.config.insert("names".to_owned(), "Ada, 花子".to_owned());
//!     let builder = Host::builder(Config::new().plugin(hello)?).state_dir("state");
//! #   let kept = tempfile::tempdir()?;
//! #   let builder = builder.cache_dir(kept.path().join("cache")).state_dir(kept.path().join("state"));
//!     let host = builder.start().await?;
//!
//!     let who = Principal::LOCAL;
//!     let page = host.list(&who, ListRequest::default()).await?;
//!     assert!(page.missing.is_empty(), "a plugin that fails is named, and the others are listed");
//!     let uris: Vec<_> = page.items.iter().map(|entry| entry.uri.as_str()).collect();
//!     assert_eq!(uris, ["hello:///Ada", "hello:///%E8%8A%B1%E5%AD%90"]);
//!
//!     let contents = host.read(&who, "hello:///Ada").await?;
//!     assert_eq!(contents[0].body.as_bytes(), b"Hello, Ada!");
//!     host.shutdown(Duration::from_secs(5)).await;
//!     Ok(())
//! }
//! ```
//!
//! # Architecture
//!
//! A crate uses those below it and never those above:
//!
//! | crate | modules |
//! |---|---|
//! | `mcp-resource-host-cli` | the command `mcp-host` |
//! | `mcp-host-server`, `mcp-host-devkit` | MCP over stdio and HTTP; the conformance kit, templates, componentize |
//! | `mcp-resource-host` | [`Host`], the façade: list, read, complete, each for a principal; `catalog`, `watch`, [`access`], `audit`, `response_cache`, [`metrics`]: merged listings and cursors; changes and subscriptions; who may do what; the audit log; encoded responses of plugins; metrics for Prometheus |
//! | `mcp-host-search` | full-text search: the index, and the tasks that keep it level with what plugins serve |
//! | `mcp-host-upstream` | existing MCP servers as providers: `[[upstream]]` |
//! | `mcp-host-engine` | wasmtime: compiling and loading components, the instance pool, the threads that calls run on; [`plugin`], the call path: admission, circuit breaker, calls under limits, validation of answers; `confinement`: seccomp and Landlock |
//! | `mcp-host-sandbox` | the WASI context of an instance: directories, HTTP, SQL databases, key-value buckets, the log, memory |
//! | `mcp-host-child`, `mcp-host-registry` | programs in namespaces, Landlock and seccomp; components from OCI registries, their signatures and the lock |
//! | `mcp-host-config` | [`config`], the file |
//! | `mcp-host-cluster` | replicas over NATS: leases, shared polls, sessions |
//! | `mcp-host-model` | [`uri`], [`net`], [`digest`], [`resource`], [`provider`], principals: mounts and URIs, origins, the domain's own types |
//! | `mcp-host-base` | private files, SQLite databases, file system events, threads, limits, texts |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `cluster` | replicas of one host over NATS: `[cluster]` |
//! | `debugger` | a server for debuggers of guests: [`engine::debugger`] |
//! | `keyvalue` | key-value buckets for plugins, kept in SQLite; with `cluster`, shared ones in NATS |
//! | `otlp` | traces over OTLP/HTTP: `telemetry` |
//! | `search` | full-text search over what plugins serve: `Host::search`, kept in SQLite |
//! | `sql` | SQL databases for plugins: PostgreSQL and SQLite |
//! | `upstream` | existing MCP servers as mounts: `[[upstream]]` |
//!
//! No feature is on by default. If a config needs a feature that is not enabled, the error names the feature.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]

pub mod access;
pub mod audit;
mod catalog;
mod counters;
pub mod host;
pub mod metrics;
pub mod response_cache;
pub mod skills;
#[cfg(feature = "otlp")]
pub mod telemetry;
pub mod watch;

pub use mcp_host_config as config;
pub use mcp_host_engine as engine;
pub use mcp_host_engine::plugin;
pub use mcp_host_model::{digest, net, provider, resource, uri};
#[cfg(feature = "search")]
pub use mcp_host_search as search;
#[cfg(feature = "upstream")]
pub use mcp_host_upstream::process as programs;

pub use audit::AuditError;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use catalog::fuzzing;
pub use catalog::{CursorKey, KeyError};
pub use host::{
    CheckError, CheckReport, CheckedProvider, CompleteRequest, ConfigWatcher, DataDirs, Explanation, Host, HostBuilder,
    InspectError, ListRequest, NativePluginConflict, PluginCheck, PluginState, PluginStatus, ReloadError, ReloadReport,
    ReloadTrigger, StartError, Tried, transport,
};
#[cfg(feature = "keyvalue")]
pub use mcp_host_sandbox::keyvalue::admin as keyvalue;
pub use response_cache::{CacheCounts, CacheUsage};
pub use watch::{SentUpdate, Subscriber, Update, WatchStats};
