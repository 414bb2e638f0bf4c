//! Plugins: providers at their mounts, called under limits.
//!
//! `PluginRuntime` loads plugins; a `Plugin` is a loaded one, with one method for each function of the contract. Its
//! provider is a component in a sandbox, or a native one. Each call of a component gets a fresh instance with the
//! plugin's grants, or a pooled one if the plugin opted into reuse (`instances`). A call begins on the caller's thread
//! and continues on the engine's worker threads, under the plugin's limits:
//!
//! | resource | bound |
//! |---|---|
//! | calls | admission control: a rate limit (`limits.rate`), a concurrency limit (`limits.concurrency`) and a queue for it (`limits.queue`, `limits.queue-timeout`), of both of which each client has a share; instance slots for all plugins, of which each plugin has a share |
//! | wall clock | a timeout around the call, instantiation included (`limits.deadline`) |
//! | CPU time | the processor time of the thread while it polls the call; checked by the guest at each tick of the engine's epoch, every half millisecond, and by the host as it validates the answer (`limits.cpu`) |
//! | memory | a budget that all instances of the plugin share, with what the host allocates for them, what their component declares, and the answers of calls in progress (`limits.memory`); each client has a share |
//! | answer | the bytes that the host copies out of the guest (`limits.response-size`), and the number of items (`limits.response-items`) |
//! | preparations | one call at a time, with memory of its own (`limits.prepare.memory`); the CPU time of all calls together (`limits.prepare.cpu`) |
//! | log | an allowance of bytes per minute (`limits.log`) |
//! | handles, random bytes | the resource table of one instance (`limits.handles`); the random bytes of one request (`limits.random-bytes`) |
//! | files | permits for what one instance has open (`limits.files`); a quota for each writable directory |
//!
//! A trap, a timeout, a limit or a panic ends only its call, with a typed [`Fault`]. A caller that drops the future
//! cancels its call. A plugin that keeps failing is suspended by a circuit breaker with back-off. A request that makes
//! the provider fail is refused to the client that sends it. [`NativePlugin`] documents which limits apply to a native
//! provider.

mod admission;
mod backend;
mod call;
mod fault_recorder;
mod health;
mod input_faults;
mod inspect;
mod load_counts;
mod load_error;
mod metrics;
mod native_plugin;
mod needs;
mod panics;
mod preparation;
mod recorder;
mod replay;
mod requirements;
mod runtime;
mod search_source;
mod validation;
mod work_budget;

use std::collections::BTreeMap;
use std::mem;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use mcp_host_base::circuit_breaker::CircuitBreaker;
use mcp_host_config::UriGlob;
use mcp_host_model::caller::{Caller, Identity};
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::{self, Outage, Programs, ProviderInfo};
use mcp_host_model::resource::{Argument, Completion, Resource, ResourceContents, ResourceTemplate, WatchedChanges};
use mcp_host_model::uri::{Mount, Path};
use mcp_host_sandbox::Sandbox;
use mcp_host_sandbox::grant_usage::{BucketUsage, GrantUsage};
use mcp_host_sandbox::guest_log::GuestLog;
use mcp_host_sandbox::sql::DatabaseNotifications;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use self::backend::Backend;
use self::call::{CallContext, Keep, check_page};
use self::fault_recorder::FaultRecorder;
use self::health::{Health, HealthChange};
use self::input_faults::InputFaults;
use self::panics::contain_panic;
use self::preparation::Preparation;
use crate::CallOrigin;
use crate::function::{Changes, Complete, Describe, ListEntries, ListTemplates, Read, Stat};

pub use self::health::{Failing, FailingCause};
pub use self::inspect::Inspection;
pub use self::load_counts::{FailureCount, LoadCounts};
pub use self::load_error::{LoadError, UpstreamError};
pub use self::metrics::{CallCounts, CallDurations, CallMetrics};
pub use self::native_plugin::{BuiltIn, BuiltInContents, MountedPlugin, NativePlugin};
pub use self::needs::{MAX_LEN as MAX_NEEDS_LEN, SECTION as NEEDS_SECTION};
pub use self::needs::{
    NeededBucket, NeededDatabase, NeededDir, NeededLimit, NeededLimits, NeededMode, NeededOrigin, NeededSetting,
    NeededVariable, Needs, NeedsError, SettingType,
};
pub use self::preparation::{PreparationState, PreparationStatus, preparation_note};
pub use self::recorder::{ProfilingGuard, RecordingGuard};
pub use self::replay::ReplayError;
pub use self::requirements::{Capability, GrantStatus, Requirement, Requirements};
pub use self::runtime::{ConnectUpstream, PluginRuntime, RuntimeError};
pub use self::search_source::SearchSource;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub use self::validation::fuzzing;
pub use self::validation::{FilteredPage, HOST_PREFIX, is_icon_size, is_mime_type};
pub use crate::fault::{Fault, FaultKind};
pub use mcp_host_sandbox::guest_log::RecentLine;

/// The resource use of a plugin's calls at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginUsage {
    /// The calls of clients that hold a permit.
    pub running: usize,
    /// The calls that wait for a permit or for an instance slot.
    pub waiting: usize,
    /// The number of permits (`limits.concurrency`, or fewer if fewer instances fit into `limits.memory`).
    pub concurrency: usize,
    /// The number of calls that may wait for a permit (`limits.queue`).
    pub queue: usize,
    /// The memory in use, in bytes.
    pub memory: u64,
    /// `limits.memory`.
    pub memory_limit: u64,
    /// The idle instances that are kept for later calls.
    pub idle_instances: usize,
    /// The number of bytes of its log that were dropped (`limits.log`) since it was loaded.
    pub dropped_log_bytes: u64,
}

/// A call of a plugin. The functions that make one, and their filters, are type-erased: what a call does is compiled
/// once, in this crate, and not again for each caller and filter.
type Calling<'a, T> = BoxFuture<'a, Result<T, Fault>>;

/// Decides which items of an answer are returned.
type Filter<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// A loaded plugin.
pub struct Plugin {
    name: Arc<str>,
    title: Option<String>,
    mount: Mount,
    digest: Option<Digest>,
    requirements: Requirements,
    watch_interval: Duration,
    /// A key that determines the changes that its provider reports; none if each replica of a cluster must poll the
    /// provider.
    poll_identity: Option<Box<[u8]>>,
    info: ProviderInfo,
    /// The declared needs of its provider, once they have been requested.
    needs: OnceCell<Result<Option<Needs>, NeedsError>>,
    /// The preparation of its provider; none if it does not export `prepare`.
    preparation: Option<Preparation>,
    call_context: Arc<CallContext>,
    breaker: CircuitBreaker,
    /// The client inputs that make the provider fail.
    input_faults: InputFaults,
    /// Whether it fails most of its calls.
    health: Health,
    faults: Arc<FaultRecorder>,
    /// The log of its guest, or its program's standard error; none for other native providers.
    guest_log: Option<Arc<GuestLog>>,
    caches_responses: bool,
    /// The source of its search index; none if it is not searched.
    search: Option<Arc<SearchSource>>,
    /// The directories that are skills if they have a manifest.
    skills: Arc<[UriGlob]>,
    /// The provider, if it is built in.
    built_in: Option<Arc<dyn BuiltIn>>,
}

impl Plugin {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its title, a prefix for the titles of its entries and templates in merged listings.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// The URI prefix that it owns.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// The digest of its component; none for a native provider.
    pub fn digest(&self) -> Option<Digest> {
        self.digest
    }

    /// The imports of its component, compared with its grants; none for a native provider.
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Returns its last log lines, oldest first: lines of its guest, and its faults.
    pub fn recent_log(&self) -> Vec<RecentLine> {
        let mut lines = self.faults.recent();
        lines.extend(self.guest_log.iter().flat_map(|log| log.recent()));
        lines.sort_by_key(|line| line.time);
        lines
    }

    /// The interval of `changes` while clients watch it, unless the provider returns a hint.
    pub fn watch_interval(&self) -> Duration {
        self.watch_interval
    }

    /// A key that determines the changes that its provider reports: all replicas of a cluster with the same key may
    /// rely on the poll of one of them. None if each replica must poll.
    pub fn poll_identity(&self) -> Option<&[u8]> {
        self.poll_identity.as_deref()
    }

    /// Returns whether its responses with a time to live may be cached.
    pub fn caches_responses(&self) -> bool {
        // A debugger is to see each call.
        self.caches_responses && self.call_context.engine.debugger().is_none()
    }

    /// The source of its search index; none if it is not searched.
    pub fn search_source(&self) -> Option<&Arc<SearchSource>> {
        self.search.as_ref()
    }

    /// The directories that are skills if they have a `SKILL.md`, by their URIs.
    pub fn skills(&self) -> &Arc<[UriGlob]> {
        &self.skills
    }

    /// The provider, if it is built in.
    pub fn built_in(&self) -> Option<&Arc<dyn BuiltIn>> {
        self.built_in.as_ref()
    }

    /// The provider's description of itself.
    pub fn info(&self) -> &ProviderInfo {
        &self.info
    }

    /// The number of faults since it was loaded, by kind. Kinds that did not occur are left out.
    pub fn faults(&self) -> BTreeMap<FaultKind, u64> {
        self.faults.counts()
    }

    /// The counters of its calls since a plugin with its name was first loaded.
    pub fn metrics(&self) -> &CallMetrics {
        &self.call_context.metrics
    }

    /// Returns the current resource use of its calls, with their limits.
    pub fn usage(&self) -> PluginUsage {
        let CallContext { backend, limits, admission, memory, .. } = &*self.call_context;
        let (running, waiting) = admission.calls();
        PluginUsage {
            running,
            waiting: waiting.saturating_add(backend.waiting()),
            concurrency: admission.concurrency(),
            queue: limits.queue.get(),
            memory: self.memory().0,
            memory_limit: memory.limit(),
            idle_instances: backend.idle_instances(),
            dropped_log_bytes: self.guest_log.as_ref().map_or(0, |log| log.dropped()),
        }
    }

    /// Returns the use of its grants; none for a native provider.
    pub fn grant_usage(&self) -> Option<GrantUsage<'_>> {
        self.call_context.backend.sandbox().map(Sandbox::grant_usage)
    }

    /// Returns the size and the limits of its key-value buckets. Empty if they cannot be read. Blocks.
    pub fn bucket_usage(&self) -> Vec<BucketUsage> {
        self.call_context.backend.sandbox().map(Sandbox::bucket_usage).unwrap_or_default()
    }

    /// Reads the contents of its shared buckets, for [`bucket_usage`](Self::bucket_usage).
    pub async fn read_shared_bucket_usage(&self) {
        if let Some(sandbox) = self.call_context.backend.sandbox() {
            sandbox.read_shared_bucket_usage().await;
        }
    }

    /// Returns the time for which the circuit breaker still suspends it; none if it is not suspended.
    pub fn suspended_for(&self) -> Option<Duration> {
        self.breaker.suspended_for(Instant::now())
    }

    /// Returns why its provider cannot reach its data, and since when; none if it can.
    pub fn outage(&self) -> Option<Outage> {
        let provider = self.call_context.backend.native()?;
        contain_panic(|| provider.outage()).ok().flatten()
    }

    /// Returns the identity that a caller has at its provider; none if the caller sees nothing, or the provider has no
    /// views.
    pub fn identity(&self, caller: &Caller) -> Option<Identity> {
        let provider = self.call_context.backend.native().filter(|_| self.info.views > 0)?;
        contain_panic(|| provider.identity(caller)).ok().flatten()
    }

    /// Returns whether its provider wants the listing to be watched for an identity whose clients watch no resource.
    pub fn reports_listing(&self, identity: &Identity) -> bool {
        let provider = self.call_context.backend.native().filter(|_| self.info.views > 0);
        provider.is_some_and(|provider| contain_panic(|| provider.reports_listing(identity)).unwrap_or_default())
    }

    /// Completes when [`reports_listing`](Self::reports_listing) may have become true for an identity.
    pub async fn identities_changed(&self) {
        match &*self.call_context.backend {
            Backend::Native(provider) => provider.identities_changed().await,
            Backend::Component(_) => std::future::pending().await,
        }
    }

    /// Informs its provider that the listing is watched for this identity, and no resource.
    pub fn end_subscriptions(&self, identity: &Identity) {
        self.inform(|provider| provider.end_subscriptions(identity));
    }

    /// Informs its provider that no subscriber has this identity any more.
    pub fn end_view(&self, identity: &Identity) {
        self.inform(|provider| provider.end_view(identity));
    }

    /// Informs a native provider. A panic of the provider ends nothing else.
    fn inform(&self, message: impl FnOnce(&dyn provider::Provider)) {
        if let Some(provider) = self.call_context.backend.native() {
            contain_panic(|| message(&**provider)).unwrap_or_default();
        }
    }

    /// Returns the memory that its calls and idle instances hold, and its limit (`limits.memory`), in bytes. For an
    /// upstream that is a program, this is the memory of its processes, which has a limit of the same size.
    pub fn memory(&self) -> (u64, u64) {
        let CallContext { backend, memory, .. } = &*self.call_context;
        let of_provider = backend.native().and_then(|provider| contain_panic(|| provider.memory()).ok().flatten());
        (of_provider.unwrap_or_else(|| memory.used()), memory.limit())
    }

    /// The programs that its provider runs; none if it runs none.
    pub fn programs(&self) -> Option<Programs> {
        let provider = self.call_context.backend.native()?;
        contain_panic(|| provider.programs()).ok().flatten()
    }

    /// Returns whether, although loaded, it fails most of its calls or cannot use a grant.
    pub fn failing(&self) -> Option<Failing> {
        let grant = self.call_context.backend.sandbox().and_then(Sandbox::unusable_grant);
        grant.map(Failing::from).or_else(|| self.health.failing(Instant::now()))
    }

    /// Returns whether its provider has answered a call since it was loaded or [`reset`](Self::reset), except calls for
    /// loading: `describe` and `prepare`.
    pub fn has_answered(&self) -> bool {
        self.health.has_answered()
    }

    /// Closes the circuit breaker, clears its failing state and the client inputs that made it fail, prepares its data
    /// again, and lets a native provider end its back-off.
    pub fn reset(&self) {
        self.reset_preparation();
        self.inform(|provider| provider.reset());
        if let Some(change) = self.breaker.close() {
            self.log_transition(change);
        }
        self.input_faults.clear();
        if self.health.failing(Instant::now()).is_some() {
            self.log_health(&HealthChange::Recovered);
        }
        self.health.clear();
        if let Some(sandbox) = self.call_context.backend.sandbox() {
            sandbox.forget_unusable_grant();
        }
    }

    /// Returns one page of its default listing, or of the children of `parent`, for a client or for the host itself.
    /// `limit` is a hint: a page may be longer. `keep` runs as part of the call, and returns the part of each entry
    /// that is kept.
    pub fn list<T: Send + 'static>(
        &self,
        origin: CallOrigin,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        mut keep: impl FnMut(Resource) -> Option<T> + Send + 'static,
    ) -> impl Future<Output = Result<FilteredPage<T>, Fault>> + Send {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let items = kept.clone();
        let keep = move |entry, page_size| {
            let item = keep(entry)?;
            let mut items = items.lock();
            if items.capacity() == 0 {
                items.reserve_exact(page_size);
            }
            items.push(item);
            Some(())
        };
        let listing = self.list_kept(origin, parent, cursor, limit, Box::new(keep));
        async move {
            let FilteredPage { size, next_cursor, .. } = listing.await?;
            Ok(FilteredPage { items: mem::take(&mut *kept.lock()), size, next_cursor })
        }
    }

    /// Calls `list-entries`. `keep` gets each entry with the size of the page.
    fn list_kept(
        &self,
        origin: CallOrigin,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        keep: Keep,
    ) -> Calling<'_, FilteredPage<()>> {
        let cursor: Option<Arc<str>> = cursor.map(Arc::from);
        let parent = parent.map(|parent| Arc::from(parent.as_str()));
        let function = ListEntries { parent, cursor: cursor.clone(), limit };
        Box::pin(self.call(origin, function, check_page(cursor, keep)))
    }

    /// Returns one page of its templates, for a client or for the host itself. `filter` runs as part of the call, and
    /// decides which templates are returned.
    pub fn templates(
        &self,
        origin: CallOrigin,
        cursor: Option<&str>,
        filter: impl FnMut(&ResourceTemplate) -> bool + Send + 'static,
    ) -> BoxFuture<'_, Result<FilteredPage<ResourceTemplate>, Fault>> {
        self.templates_filtered(origin, cursor.map(Arc::from), Box::new(filter))
    }

    fn templates_filtered(
        &self,
        origin: CallOrigin,
        cursor: Option<Arc<str>>,
        filter: Filter<ResourceTemplate>,
    ) -> Calling<'_, FilteredPage<ResourceTemplate>> {
        let function = ListTemplates { cursor: cursor.clone() };
        Box::pin(self.call(origin, function, |check, page| async move {
            check.template_page(page, cursor.as_deref(), filter).await
        }))
    }

    /// Reads a resource. Contents whose URI differs from the requested one belong to resources below it. `filter` runs
    /// as part of the call, and decides which contents are returned: possibly none.
    pub fn read(
        &self,
        path: &Path,
        filter: impl FnMut(&ResourceContents) -> bool + Send + 'static,
    ) -> BoxFuture<'_, Result<Vec<ResourceContents>, Fault>> {
        self.read_as(CallOrigin::Client, path, filter)
    }

    /// Reads a resource, as a call of a client or of an indexer.
    pub fn read_as(
        &self,
        origin: CallOrigin,
        path: &Path,
        filter: impl FnMut(&ResourceContents) -> bool + Send + 'static,
    ) -> BoxFuture<'_, Result<Vec<ResourceContents>, Fault>> {
        self.read_filtered(origin, path.as_str().into(), Box::new(filter))
    }

    fn read_filtered(
        &self,
        origin: CallOrigin,
        path: Arc<str>,
        filter: Filter<ResourceContents>,
    ) -> Calling<'_, Vec<ResourceContents>> {
        let function = Read { path: path.clone() };
        Box::pin(self.call(
            origin,
            function,
            |check, contents| async move { check.contents(contents, &path, filter).await },
        ))
    }

    /// Returns a resource without its content.
    pub fn stat(&self, path: &Path) -> BoxFuture<'_, Result<Resource, Fault>> {
        self.stat_as(CallOrigin::Client, path)
    }

    /// Returns a resource without its content, as a call of a client or of the host itself.
    pub fn stat_as(&self, origin: CallOrigin, path: &Path) -> BoxFuture<'_, Result<Resource, Fault>> {
        let path: Arc<str> = path.as_str().into();
        let function = Stat { path: path.clone() };
        Box::pin(self.call(origin, function, |check, entry| async move { check.stat_entry(entry, &path).await }))
    }

    /// Completes a variable of one of its path templates. `filter` runs as part of the call, and decides which values
    /// are returned.
    pub fn complete(
        &self,
        template: &str,
        argument: Argument,
        context: Vec<Argument>,
        is_unrestricted: bool,
        filter: impl FnMut(&str) -> bool + Send + 'static,
    ) -> BoxFuture<'_, Result<Completion, Fault>> {
        let function = Complete { template: template.to_owned(), argument, context };
        self.complete_filtered(function, is_unrestricted, Box::new(filter))
    }

    fn complete_filtered(
        &self,
        function: Complete,
        is_unrestricted: bool,
        filter: Box<dyn FnMut(&str) -> bool + Send>,
    ) -> Calling<'_, Completion> {
        Box::pin(
            self.call(CallOrigin::Client, function, move |check, given| {
                check.completion(given, is_unrestricted, filter)
            }),
        )
    }

    /// Returns which of the watched paths changed since a token of an earlier answer. Without a token, returns the
    /// initial token.
    pub fn changes(&self, watched: &[Path], since: Option<&str>) -> BoxFuture<'_, Result<WatchedChanges, Fault>> {
        let watched: Arc<[String]> = watched.iter().map(ToString::to_string).collect();
        let function = Changes { watched: watched.clone(), since: since.map(str::to_owned) };
        Box::pin(self.call(CallOrigin::Host, function, |check, changes| async move {
            check.change_set(changes, &watched).await
        }))
    }

    /// The maximum number of items in a listing over all its pages (`limits.listing-items`).
    pub fn max_listing_items(&self) -> usize {
        self.call_context.limits.listing_items.get()
    }

    /// The maximum number of items in one answer (`limits.response-items`).
    pub fn max_items(&self) -> usize {
        self.call_context.limits.response_items.get()
    }

    /// Records a fault that only shows in the further processing of an answer to this function.
    pub fn record_fault(&self, function: &str, fault: &Fault) {
        self.faults.record(function, None, fault);
    }

    /// Closes its open resources besides its instances: the database of its key-value buckets, which checkpoints the
    /// write-ahead log. A later call opens the database again.
    pub async fn close(&self) {
        if let Some(sandbox) = self.call_context.backend.sandbox() {
            sandbox.close().await;
        }
    }

    /// Takes its last lines of standard error, escaped, if they are [kept](PluginRuntime::keep_last_errors). Only for
    /// the provider's author.
    pub fn take_last_errors(&self) -> Vec<String> {
        self.call_context.backend.sandbox().map(Sandbox::take_last_errors).unwrap_or_default()
    }

    /// Returns the names of buckets that it opened without a grant, or some of them if there are many.
    pub fn denied_buckets(&self) -> Vec<String> {
        self.call_context.backend.sandbox().map(Sandbox::denied_buckets).unwrap_or_default()
    }

    /// Returns why a grant cannot be used, or warnings about its grants. Creates no database of buckets. `offline`
    /// prevents connections to servers.
    pub async fn check_grants(&self, offline: bool) -> Result<Vec<String>, String> {
        match self.call_context.backend.sandbox() {
            Some(sandbox) => sandbox.check_grants(offline).await,
            None => Ok(Vec::new()),
        }
    }

    /// Runs the checks of its native provider for `mcp-host check`. Returns warnings, or why it does not work with its
    /// config.
    pub async fn check_provider(&self) -> Result<Vec<String>, String> {
        match self.call_context.backend.native() {
            Some(provider) => provider.check().await,
            None => Ok(Vec::new()),
        }
    }

    /// Tries whether its stored data can be used. If not, [`failing`](Self::failing) reports it.
    async fn try_stored_data(&self) {
        if let Some(sandbox) = self.call_context.backend.sandbox() {
            sandbox.try_stored_data().await;
        }
    }

    /// Returns why the host refuses the role of a granted database. If the database cannot be reached now, its role is
    /// checked on connection.
    async fn check_roles(&self) -> Result<(), String> {
        match self.call_context.backend.sandbox() {
            Some(sandbox) => sandbox.check_roles().await,
            None => Ok(()),
        }
    }

    /// Returns the directories of the host that it was granted.
    pub fn granted_directories(&self) -> impl Iterator<Item = &FilePath> {
        self.call_context.backend.sandbox().into_iter().flat_map(Sandbox::granted_directories)
    }

    /// Listens to notifications of the databases that it was granted.
    pub fn listen_to_databases(&self) -> DatabaseNotifications {
        self.call_context.backend.sandbox().map(Sandbox::listen_to_databases).unwrap_or_default()
    }

    /// Completes when a native provider reports that there may be changes. Never completes for a component.
    pub async fn changed(&self) {
        match &*self.call_context.backend {
            Backend::Native(provider) => Caller::scope(Caller::of_view(), provider.changed()).await,
            Backend::Component(_) => std::future::pending().await,
        }
    }

    fn describe(&self) -> Calling<'_, ProviderInfo> {
        Box::pin(self.call(CallOrigin::Host, Describe, |check, info| check.info(info)))
    }
}
