//! An SDK for writing providers of MCP resources in Rust.
//!
//! A *provider* makes data readable: files, notes, rows of a database. It is a WebAssembly component; `mcp-host` runs
//! it in a sandbox and serves its resources to clients of the Model Context Protocol. This crate contains the trait
//! [`Provider`], builders for its results, and [`export!`], which creates the component.
//!
//! # A complete provider
//!
//! ```
//! use mcp_provider::{Config, Contents, Entry, Failure, Info, Page, Provider, Result, export};
//!
//! struct Greetings {
//!     name: String,
//! }
//!
//! impl Provider for Greetings {
//!     fn describe() -> Info {
//!         Info::new("greetings", "1.0.0").description("`hello` greets whom the config key `name` names.")
//!     }
//!
//!     fn open(config: &Config) -> Result<Self> {
//!         Ok(Self { name: config.get("name").unwrap_or("world").to_owned() })
//!     }
//!
//!     fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
//!         Ok(Page::last([Entry::new("hello", "hello").mime_type("text/plain")]))
//!     }
//!
//!     fn read(&self, path: &str) -> Result<Vec<Contents>> {
//!         match path {
//!             "hello" => {
//!                 let entry = Entry::new("hello", "hello").mime_type("text/plain");
//!                 Ok(vec![Contents::text(entry, format!("Hello, {}!", self.name))])
//!             }
//!             _ => Err(Failure::NotFound),
//!         }
//!     }
//! }
//!
//! export!(Greetings);
//!
//! // Natively a provider is a type like any other, and is tested like one.
//! let greetings = Greetings::open(&Config::from_pairs([("name", "Ada")]))?;
//! assert_eq!(greetings.read("hello")?[0].as_text(), Some("Hello, Ada!"));
//! # Ok::<(), Failure>(())
//! ```
//!
//! In a crate of type `cdylib`, `cargo build --release --target wasm32-wasip2` builds the component, and three lines
//! of `mcp-host.toml` serve it:
//!
//! ```toml
//! [[plugin]]
//! name = "greetings"
//! component = "target/wasm32-wasip2/release/greetings.wasm"
//! mount = "greetings:///"
//! config = { name = "Ada" }
//! ```
//!
//! # Capabilities
//!
//! The standard library works within the administrator's grants: files below granted directories at their guest paths,
//! clocks, random numbers. There is no network except through `wasi:http`, there are no threads, and no state survives
//! from call to call reliably (see [`Provider`]): persistent state belongs into [buckets](keyvalue). Logs are written
//! with [`log`], and the config is read from [`Config`].
//!
//! # Overview
//!
//! - A provider of functions, the shortest way: [`functions`].
//! - Results of a provider: [`Entry`], [`Contents`], [`Page`], [`Template`], [`Completion`], [`Changes`], [`Info`];
//!   and its errors: [`Failure`].
//! - Paths: [`path`] encodes and decodes names, [`PathTemplate`] matches and expands paths.
//! - HTTP, with the feature `http`: the module `http` sends requests.
//! - Persistent state: [`keyvalue`].
//! - Databases: [`sql`].
//! - The grants and config keys that it requests from the admin: [`needs!`].
//! - Work that takes longer than a call, such as an index: [`Prepare`].
//! - Helpers: [`mime`] guesses types from names, [`keyset`] paginates, [`json`] bounds what is parsed.

mod changes;
mod completion;
#[doc(hidden)]
mod component;
mod config;
mod contents;
mod entry;
mod export;
mod failure;
pub mod functions;
mod grants;
#[cfg(feature = "http")]
pub mod http;
mod icon;
mod info;
pub mod json;
pub mod keyset;
pub mod keyvalue;
mod limits;
pub mod log;
pub mod mime;
mod needs;
mod notice;
mod page;
pub mod path;
mod path_template;
mod prepare;
mod priority;
mod provider;
pub mod sql;
mod template;
mod timestamp;

pub use changes::Changes;
pub use completion::{Argument, Completion};
pub use config::Config;
pub use contents::{Body, Contents};
pub use entry::Entry;
pub use failure::{Failure, Result, Retry};
pub use grants::Grants;
pub use icon::{Icon, Role, Theme};
pub use info::Info;
pub use limits::Limits;
pub use notice::Notice;
pub use page::Page;
pub use path_template::{Captures, PathTemplate, TemplateError};
pub use prepare::{Prepare, Progress};
pub use provider::Provider;
pub use template::Template;
pub use timestamp::Timestamp;

/// Support for the code that [`export!`] generates. It may change at any time.
#[doc(hidden)]
pub mod __private {
    #[cfg(target_family = "wasm")]
    pub use crate::component::config;
    pub use crate::component::{Instance, bindings, prepare_bindings, with};
}

/// The page about subscriptions, so that its example is tested.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/subscriptions.md")]
struct Subscriptions;
