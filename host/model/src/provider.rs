//! Native providers: Rust types that an application mounts beside components.
//!
//! A [`Provider`] answers the functions of the contract (`wit/provider.wit`) in this process, without a sandbox. Its types have
//! the names and the shape of the guest SDK's, so a provider can be moved from one to the other by hand. Answers of components
//! become the same types, and both are validated in the same way: a path that leaves the mount is dropped from a listing and
//! rejected in a read, invalid hints are dropped, and each such fault is counted and logged.
//!
//! ```
//! use mcp_host_model::provider::{Body, Contents, Entry, Failure, Page, Provider, Result, async_trait};
//!
//! struct Greetings;
//!
//! #[async_trait]
//! impl Provider for Greetings {
//!     async fn list(&self, _parent: Option<&str>, _cursor: Option<&str>, _limit: usize) -> Result<Page> {
//!         Ok(Page::last([Entry::new("ada", "Ada").mime_type("text/plain")]))
//!     }
//!
//!     async fn stat(&self, path: &str) -> Result<Entry> {
//!         match path {
//!             "ada" => Ok(Entry::new("ada", "Ada").mime_type("text/plain")),
//!             _ => Err(Failure::NotFound),
//!         }
//!     }
//!
//!     async fn read(&self, path: &str) -> Result<Vec<Contents>> {
//!         Ok(vec![Contents::text(self.stat(path).await?, "Hello, Ada!")])
//!     }
//! }
//!
//! # let runtime = tokio::runtime::Runtime::new()?;
//! # runtime.block_on(async {
//! let contents = Greetings.read("ada").await?;
//! assert_eq!(contents[0].body, Body::Text("Hello, Ada!".to_owned()));
//! # Ok::<(), Failure>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/embedding.md` mounts such a provider in a host.
//!
//! # Threads
//!
//! The first poll of a call runs on its caller's thread, which may be one of a transport; later ones run on the engine's worker
//! threads, shared with components. **A provider that blocks in a poll blocks that thread**, and neither `cpu` nor `deadline`
//! can end the call before the poll returns: use asynchronous I/O, or [`tokio::task::spawn_blocking`], which runs on the
//! engine's runtime.

mod changes;
mod contents;
mod entry;
mod failure;
mod icon;
mod info;
mod metadata;
mod page;
mod template;

use std::sync::Arc;

pub use async_trait::async_trait;

pub use self::changes::ChangeSet;
pub use self::contents::{Body, Contents};
pub use self::entry::Entry;
pub use self::failure::{Failure, Result};
pub use self::icon::Icon;
pub use self::info::ProviderInfo;
pub use self::page::Page;
pub use self::page::TemplatePage;
pub use self::template::Template;
use crate::resource::{Argument, Completion};

/// Answers the functions of the contract for one mount.
///
/// Calls overlap, up to `limits.concurrency`. No function gets the principal: access is decided by the host, before the call and
/// again for each item of the answer.
///
/// # Paths
///
/// Every path comes percent-encoded and in normal form (see [`uri`](crate::uri)), without dot segments, and must be returned so.
/// The empty path is the mount itself.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Describes the provider. Called once, when it is mounted. By default it has no name and does not watch.
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::default()
    }

    /// Lists the direct children of `parent`, or without one the resources that are useful to see first.
    ///
    /// `cursor` is the `next_cursor` of the page before. `limit`, at least 1, is the number of entries that the host can use;
    /// fewer may be returned.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] when there is no such parent; [`Failure::InvalidRequest`] when it is not listable, or the cursor is
    /// not one of this provider's.
    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page>;

    /// Reads a resource: at least one content. Several with the same path are several formats of it, the preferred first; those
    /// with other paths are resources below it.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] when there is none; [`Failure::InvalidRequest`] when the path has no shape that this provider knows.
    async fn read(&self, path: &str) -> Result<Vec<Contents>>;

    /// Returns a resource without its content.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    async fn stat(&self, path: &str) -> Result<Entry>;

    /// Returns the families of resources that can be read by building a path. By default there are none.
    ///
    /// # Errors
    ///
    /// The templates are unavailable, or the provider is at fault.
    async fn templates(&self) -> Result<Vec<Template>> {
        Ok(Vec::new())
    }

    /// Completes a variable of one of the [`templates`](Self::templates). By default nothing matches.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`] when there is no such template or variable. No match is an empty answer, not a failure.
    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let _ = (template, argument, context);
        Ok(Completion::default())
    }

    /// Returns which of the `watched` paths changed since a token, and whether the default listing did. Without a token nothing
    /// has changed, and the token of the answer is the starting point. Called only if [`ProviderInfo::watches`]. By default
    /// nothing ever changes.
    ///
    /// # Errors
    ///
    /// The provider cannot tell at the moment; the host retries. An unknown token is not a failure: see [`ChangeSet::all`].
    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let _ = (watched, since);
        Ok(ChangeSet::none(""))
    }
}

/// A shared provider: the application keeps a handle to what it mounts.
#[async_trait]
impl<P: Provider + ?Sized> Provider for Arc<P> {
    fn describe(&self) -> ProviderInfo {
        P::describe(self)
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        P::list(self, parent, cursor, limit).await
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        P::read(self, path).await
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        P::stat(self, path).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        P::templates(self).await
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        P::complete(self, template, argument, context).await
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        P::changes(self, watched, since).await
    }
}
