//! A native host for resources of the Model Context Protocol (MCP) that sandboxed WebAssembly components provide.
//!
//! A *provider* is a component that implements the interface `resource-provider` (the WIT files in the repository's `wit/`).
//! A [`Host`] runs providers as *plugins*: each in its sandbox, with nothing of the outside world but what it was granted,
//! under limits of its own, at a URI prefix that it owns. It merges what they offer into one catalog and answers for each
//! [`Principal`](access::Principal) what that one may see.
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
//! #   std::env::set_current_dir("..")?;
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
//! A module uses those below it and never those above:
//!
//! | module | what it is for |
//! |---|---|
//! | [`cli`] | the command `mcp-host` |
//! | [`server`] | MCP over stdio and HTTP |
//! | [`conformance`] | tests of a provider: does it keep the contract? |
//! | [`Host`] | the façade: list, read, complete, each for a principal |
//! | `catalog`, `watch`, [`access`], `audit`, `response_cache` | merged listings and cursors; changes and subscriptions; who may do what; the audit log; encoded responses of plugins |
//! | [`search`] | full-text search: the index, and the tasks that keep it level with what plugins serve |
//! | [`plugin`] | the call path: admission, circuit breaker, calls under limits, validation of answers; native plugins |
//! | [`engine`] | wasmtime: compiling and loading components, the instance pool, the threads that calls run on |
//! | `sandbox`, `outbound_http` | the WASI context of an instance: directories, HTTP, key-value buckets, the log, memory; the host's own HTTP client |
//! | [`provider`] | the contract in Rust: native providers, and what components answer |
//! | `componentize`, `wit` | components of core modules; the WIT package of the contract |
//! | `confinement` | seccomp and Landlock: what the compiler process and the command may do |
//! | [`config`] | the file |
//! | [`uri`], [`net`], [`digest`], [`resource`], `principal`, `requester` | mounts and URIs; origins; the digest of a component; the domain's own types; who makes a request |
//! | `fs_watch`, `private_dir`, `sqlite_file`, `regular_file`, `thread_priority`, `worker_pool`, `throttle`, `text`, `quote`, `time` | file system events; files that are private to this user; SQLite databases among them; opening files that may hang; priorities of threads; worker threads; throttled warnings; excerpts of texts; quoted texts; times and durations as numbers, the processor time of a thread |
//!
//! # Features
//!
//! | feature | adds |
//! |---|---|
//! | `http` | MCP over streamable HTTP: `server::http_service` and `server::router` to mount in another server, `server::serve_http` with a listener of its own |
//! | `stdio` | MCP over standard input and output, `server::serve_stdio`, and over any other pair of streams, `server::serve_io` |
//! | `keyvalue` | key-value buckets for plugins, kept in SQLite |
//! | `search` | full-text search over what plugins serve: `Host::search`, kept in SQLite |
//! | `sql` | SQL databases for plugins: PostgreSQL and SQLite |
//! | `cli` | the command `mcp-host`, with all of the above |
//!
//! None is on by default. A config key of a feature that is not enabled is an error that names the feature.

#![cfg_attr(test, allow(clippy::arithmetic_side_effects, reason = "a test that overflows fails, as it should"))]
#![cfg_attr(not(feature = "cli"), allow(rustdoc::broken_intra_doc_links, reason = "the map names all modules"))]

pub mod access;
mod audit;
mod backoff;
mod catalog;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
#[cfg(feature = "cli")]
mod componentize;
pub mod config;
mod confinement;
pub mod conformance;
pub mod digest;
pub mod engine;
mod escape;
mod fs_watch;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
mod host;
#[cfg(feature = "cli")]
mod language;
mod log_target;
pub mod net;
mod outbound_http;
pub mod plugin;
mod principal;
mod private_dir;
pub mod provider;
mod quote;
mod regular_file;
mod requester;
pub mod resource;
mod response_cache;
mod sandbox;
#[cfg(feature = "cli")]
mod scaffold;
#[cfg(feature = "search")]
pub mod search;
#[cfg(any(feature = "http", feature = "stdio"))]
pub mod server;
mod share_limiter;
#[cfg(any(feature = "keyvalue", feature = "search"))]
mod sqlite_file;
#[cfg(test)]
mod testing;
mod text;
mod thread_priority;
mod throttle;
mod time;
#[cfg(feature = "cli")]
mod toolchain;
pub mod uri;
mod watch;
#[cfg(feature = "cli")]
mod wit;
mod worker_pool;

pub use audit::AuditError;
pub use catalog::{CursorKey, KeyError};
pub use host::{
    CheckError, CheckReport, CheckedProvider, CompleteRequest, ConfigWatcher, DataDirs, Explanation, Host, HostBuilder,
    InspectError, ListRequest, NativePluginConflict, PluginCheck, PluginState, PluginStatus, ReloadError, ReloadReport,
    ReloadTrigger, StartError, transport,
};
pub use response_cache::CacheCounts;
#[cfg(feature = "keyvalue")]
pub use sandbox::keyvalue::admin as keyvalue;
pub use watch::{Subscriber, Update, WatchStats};
