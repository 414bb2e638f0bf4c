//! Native providers: Rust types that an application mounts beside components.
//!
//! A [`Provider`] implements the functions of the contract (`wit/provider.wit`) in this process, without a sandbox. Its
//! types have the names and the shape of the guest SDK's, so a provider can be ported by hand. Answers of components
//! become the same types, and both are validated in the same way: a path that leaves the mount is dropped from a
//! listing and rejected in a read, invalid hints are dropped, and each such fault is counted and logged.
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
//! The first poll of a call runs on its caller's thread, which may belong to a transport; later polls run on the
//! engine's worker threads, shared with components. **A provider that blocks in a poll blocks that thread**, and
//! neither `cpu` nor `deadline` can end the call before the poll returns: use asynchronous I/O, or
//! [`tokio::task::spawn_blocking`], which runs on the engine's runtime.

mod contents;
mod entry;
mod failure;
mod metadata;
mod program;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::caller::{Caller, Identity};
use crate::resource::{Argument, Completion};

pub use async_trait::async_trait;

pub use self::contents::{Body, Contents};
pub use self::entry::{Entry, Template};
pub use self::failure::{Failure, Result};
pub use self::metadata::Icon;
pub use self::program::{Program, ProgramEnd, ProgramEndReason, ProgramLimits, ProgramUsage, Programs};

/// Implements the functions of the contract for one mount.
///
/// Calls overlap, up to `limits.concurrency`. No function gets the principal: the host decides about access, before the
/// call and again for each item of the answer.
///
/// # Paths
///
/// Every path is percent-encoded and in normal form (see [`uri`](crate::uri)), without dot segments, and must be
/// returned in this form. The empty path is the mount itself.
#[async_trait]
pub trait Provider: Send + Sync + 'static {
    /// Describes the provider. Called once, when it is mounted. By default it has no name and does not watch.
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::default()
    }

    /// Lists the direct children of `parent`, or without a parent the resources that are most useful to see first.
    ///
    /// `cursor` is the `next_cursor` of the previous page. `limit`, at least 1, is the maximum number of entries that
    /// the host can use; a page may have fewer.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if there is no such parent; [`Failure::InvalidRequest`] if the parent is not listable, or
    /// the cursor is not from this provider.
    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page>;

    /// Reads a resource: at least one content. Several contents with the same path are formats of the resource, the
    /// preferred one first; contents with other paths are resources below it.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if there is no such resource; [`Failure::InvalidRequest`] if the path has no form that
    /// this provider knows.
    async fn read(&self, path: &str) -> Result<Vec<Contents>>;

    /// Returns a resource without its content.
    ///
    /// # Errors
    ///
    /// The errors of [`read`](Self::read).
    async fn stat(&self, path: &str) -> Result<Entry>;

    /// Returns the families of resources that can be read by building a path. Default: none.
    ///
    /// # Errors
    ///
    /// The templates are unavailable, or the provider has failed.
    async fn templates(&self) -> Result<Vec<Template>> {
        Ok(Vec::new())
    }

    /// Completes a variable of one of the [`templates`](Self::templates), with at most [`Completion::MAX_OFFERED`]
    /// values. Default: no values.
    ///
    /// # Errors
    ///
    /// [`Failure::InvalidRequest`] if there is no such template or variable. No match is an empty answer, not a
    /// failure.
    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let _ = (template, argument, context);
        Ok(Completion::default())
    }

    /// Returns which of the `watched` paths changed since a token, and whether the default listing did. Without a token
    /// nothing has changed, and the token of the answer is the starting point. Called only if
    /// [`ProviderInfo::watches`]. Default: no changes.
    ///
    /// # Errors
    ///
    /// The provider cannot determine the changes at the moment; the host retries. An unknown token is not a failure:
    /// see [`ChangeSet::all`].
    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let _ = (watched, since);
        Ok(ChangeSet::none(""))
    }

    /// Completes when there may be changes that [`changes`](Self::changes) has not returned, so that the host polls
    /// immediately and not only at its interval. Awaited while a client watches. An event before that is not lost if
    /// the next call completes immediately. Default: never completes.
    async fn changed(&self) {
        std::future::pending().await
    }

    /// Returns the identity that a caller has here; none if the caller sees nothing. Called only if the provider has
    /// [views](ProviderInfo::views), and then often, so it must return immediately. Default: none.
    fn identity(&self, caller: &Caller) -> Option<Identity> {
        let _ = caller;
        None
    }

    /// Returns whether the host is to watch the listing for this identity, on behalf of a client that watches no
    /// resource: not if the provider cannot report its changes. A provider that begins something for each identity,
    /// such as a connection, returns true once the identity has called it, and [`changes`](Self::changes) without
    /// watched paths begins nothing. Called often, so it must return immediately. Default: true.
    fn reports_listing(&self, identity: &Identity) -> bool {
        let _ = identity;
        true
    }

    /// Completes when [`reports_listing`](Self::reports_listing) may have become true for an identity. An event before
    /// that is not lost if the next call completes immediately. Default: never completes.
    async fn identities_changed(&self) {
        std::future::pending().await
    }

    /// Called, also repeatedly, while the listing is watched for this identity and no subscriber of a resource has it.
    /// Must return immediately. Default: nothing.
    fn end_subscriptions(&self, identity: &Identity) {
        let _ = identity;
    }

    /// Called when no subscriber has this identity any more, before the next call of [`changes`](Self::changes) with
    /// this identity. Must return immediately. Default: nothing.
    fn end_view(&self, identity: &Identity) {
        let _ = identity;
    }

    /// Returns why its data cannot be reached now, and since when: for a provider whose data is elsewhere. Called
    /// often, so it must return known state immediately. During an outage the plugin is shown as unreachable, and a
    /// required one makes the server not ready (readiness); calls are still made. Default: no outage.
    fn outage(&self) -> Option<Outage> {
        None
    }

    /// Returns the memory that it holds besides its calls, in bytes, for administrators: for example the memory of a
    /// separate process. Default: none.
    fn memory(&self) -> Option<u64> {
        None
    }

    /// Returns the programs that it runs, for administrators. Called often, so it must return immediately. Default:
    /// none.
    fn programs(&self) -> Option<Programs> {
        None
    }

    /// Called when an administrator resets the plugin: a provider whose data is elsewhere ends its back-off, and tries
    /// to reach them immediately. Must return immediately. Default: nothing.
    fn reset(&self) {}

    /// Tries parts that a call does not cover, for `mcp-host check`, after the first page was listed. Returns warnings
    /// for an admin.
    ///
    /// # Errors
    ///
    /// Why it does not work with its config, for an admin.
    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        Ok(Vec::new())
    }
}

/// A period in which the data of a provider cannot be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The beginning of the outage.
    pub since: SystemTime,
    /// Why the data cannot be reached now, for an admin, in one line.
    pub reason: String,
}

/// A shared provider: the application keeps a handle to the mounted provider.
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

    async fn changed(&self) {
        P::changed(self).await;
    }

    fn identity(&self, caller: &Caller) -> Option<Identity> {
        P::identity(self, caller)
    }

    fn reports_listing(&self, identity: &Identity) -> bool {
        P::reports_listing(self, identity)
    }

    async fn identities_changed(&self) {
        P::identities_changed(self).await;
    }

    fn end_subscriptions(&self, identity: &Identity) {
        P::end_subscriptions(self, identity);
    }

    fn end_view(&self, identity: &Identity) {
        P::end_view(self, identity);
    }

    fn outage(&self) -> Option<Outage> {
        P::outage(self)
    }

    fn memory(&self) -> Option<u64> {
        P::memory(self)
    }

    fn programs(&self) -> Option<Programs> {
        P::programs(self)
    }

    fn reset(&self) {
        P::reset(self);
    }

    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        P::check(self).await
    }
}

/// The changes since a token.
///
/// The host stores the token, which is opaque to it, and passes it back as `since`: it represents the current state of
/// the provider's data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ChangeSet {
    /// The value of `since` for the next call. At most 65536 bytes.
    pub token: String,
    /// The watched paths whose content or metadata changed, appeared or disappeared.
    pub changed: Vec<String>,
    /// Whether the default listing or the templates changed.
    pub listing_changed: bool,
    /// A hint for the time of the next poll, which the host follows within bounds.
    pub poll_after: Option<Duration>,
}

impl ChangeSet {
    /// No changes, with the token of the current state.
    pub fn none(token: impl Into<String>) -> Self {
        Self { token: token.into(), changed: Vec::new(), listing_changed: false, poll_after: None }
    }

    /// All watched paths and the listing changed: the answer to an unknown token. A superfluous change costs a read; a
    /// missing change is never noticed.
    pub fn all(token: impl Into<String>, watched: &[String]) -> Self {
        Self { changed: watched.to_vec(), listing_changed: true, ..Self::none(token) }
    }

    /// Adds a watched path that changed.
    #[must_use]
    pub fn changed(mut self, path: impl Into<String>) -> Self {
        self.changed.push(path.into());
        self
    }

    /// Marks the listing or the templates as changed.
    #[must_use]
    pub fn listing_changed(mut self) -> Self {
        self.listing_changed = true;
        self
    }

    /// Sets the hint for the time of the next poll.
    #[must_use]
    pub fn poll_after(mut self, after: Duration) -> Self {
        self.poll_after = Some(after);
        self
    }
}

/// A provider's description of itself, not of the state of its data. For each loaded plugin the host stores names
/// truncated to 1 KiB each, and the description truncated to 64 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderInfo {
    /// A short name for programs, such as `git`.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Its name for people.
    pub title: Option<String>,
    /// What the provider serves and how its paths are built, for people and models that are about to use it.
    pub description: Option<String>,
    /// Whether [`Provider::changes`](Provider::changes) is implemented. If not, the host never calls it, and no
    /// resource can be subscribed to.
    pub watches: bool,
    /// The maximum number of identities that may have subscriptions to resources at a time, if changes and tokens
    /// depend on the [identity](Provider::identity) of the [caller](crate::caller::Caller), as at an upstream with a
    /// token for each principal; 0 if they are the same for all. With views, [`Provider::changes`] and
    /// [`Provider::changed`] are called for each identity separately, and listable resources cannot be subscribed to.
    pub views: usize,
}

impl ProviderInfo {
    /// Creates the description from a short name and a version, usually `env!("CARGO_PKG_VERSION")`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self { name: name.into(), version: version.into(), ..Self::default() }
    }

    /// Sets the name for people.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets whether it can report changes.
    #[must_use]
    pub fn watches(mut self, watches: bool) -> Self {
        self.watches = watches;
        self
    }

    /// Sets the maximum number of identities with subscriptions at a time.
    #[must_use]
    pub fn views(mut self, max: usize) -> Self {
        self.views = max;
        self
    }
}

/// One page of a listing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Page {
    /// The resources on this page, in an order that is stable while the data is.
    pub entries: Vec<Entry>,
    /// The cursor of the next page; none on the last. At most 4096 bytes, and never the cursor of this page.
    pub next_cursor: Option<String>,
}

impl Page {
    /// The only page, or the last.
    pub fn last(entries: impl IntoIterator<Item = Entry>) -> Self {
        Self { entries: entries.into_iter().collect(), next_cursor: None }
    }
}

/// One page of the templates.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TemplatePage {
    /// The templates of this page.
    pub templates: Vec<Template>,
    /// The cursor of the next page; none on the last.
    pub next_cursor: Option<String>,
}
