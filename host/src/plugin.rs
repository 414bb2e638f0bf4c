//! Plugins: sandboxed providers that can be called.
//!
//! [`Plugins`] starts the engine and loads plugins; a [`Plugin`] is a loaded one, with one method for each function of the
//! contract. Each call gets a fresh instance with the plugin's grants, or one that is kept if the plugin opted into that
//! (`instances`), and begins on the caller's thread and goes on on guest threads (`threads`), under the plugin's
//! limits:
//!
//! | bound | by |
//! |---|---|
//! | calls | a rate (`limits.rate`), places for calls at once (`limits.concurrency`) and a queue for them (`limits.queue`, `limits.queue-timeout`); seats for all instances of all plugins, of which each plugin has a share |
//! | wall clock | a timeout around the call, instantiation included (`limits.deadline`) |
//! | CPU time | the processor time of the thread while it polls the call; the engine's epoch has the guest look at it every half millisecond, and the host looks at it as it checks the answer (`limits.cpu`) |
//! | memory | a budget that all instances of the plugin share, with what the host keeps for them and the answers of calls under way (`limits.memory`) |
//! | reply | what the host copies out of the guest (`limits.response-size`), and how many items it has (`limits.response-items`) |
//! | log | an allowance of bytes a minute (`limits.log`) |
//! | handles, random bytes | what the host keeps for one instance by number (`limits.handles`); what it hands out at once (`limits.random-bytes`) |
//! | files | permits for what one instance has open (`limits.files`); a quota for each directory that may be written |
//!
//! A trap, a timeout, a limit or a panic ends that call alone and is a typed [`Fault`]. A caller that goes away takes its call
//! with it. A plugin that keeps failing is set aside for a growing while.

mod admission;
mod backoff;
mod breaker;
mod call;
mod error;
mod fault;
mod fault_recorder;
mod inspect;
mod requirements;
mod slot;
mod validation;
mod work_budget;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use self::admission::Admission;
use self::breaker::CircuitBreaker;
use self::call::CallContext;
use self::fault_recorder::FaultRecorder;
use self::validation::ValidationContext;
use crate::config;
use crate::digest::Digest;
use crate::engine::bindings::{ProviderPre, contract};
use crate::engine::loader::{CompiledComponent, Loader};
use crate::engine::pool::Pool;
use crate::engine::{CallOrigin, Compiler, ComponentError, Engine, EngineError, Progress};
use crate::resource::{Argument, Completion, Contents, Entry, EntryTemplate};
use crate::sandbox::Sandbox;
use crate::sandbox::dirs::OpenFileLimit;
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::http::TlsRoots;
use crate::sandbox::memory::Reclaim;
use crate::sandbox::state::GuestState;
use crate::uri::{Mount, Path};

pub(crate) use self::backoff::Backoff;
pub use self::error::LoadError;
pub use self::fault::{Fault, FaultKind};
pub use self::inspect::{Info, Inspection};
pub use self::requirements::{Capability, GrantStatus, Requirement, Requirements};
pub(crate) use self::slot::{NotLoaded, PluginSlot};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::validation::fuzzing;
pub use self::validation::{ChangeSet, Page};

/// The engine, and what loads plugins for it.
pub struct PluginRuntime {
    engine: Arc<Engine>,
    tls_roots: Arc<TlsRoots>,
    open_files: OpenFileLimit,
    loader: Loader,
    state_dir: Option<PathBuf>,
}

/// Why [`Plugins::start`] failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cache of compiled components cannot be used.
    #[error(transparent)]
    Cache(#[from] ComponentError),
}

impl PluginRuntime {
    /// Starts the engine. Components are compiled within `limits`, and compiled ones are kept in `cache`. What plugins have in
    /// key-value buckets is kept in `state`, and the key that compiled components are authenticated with; without it, buckets
    /// are granted and fail, and components are compiled at each start. It blocks.
    pub fn start(
        compiler: Compiler,
        limits: config::compile::CompileLimits,
        cache: &FilePath,
        state_dir: Option<PathBuf>,
        progress: Progress,
    ) -> Result<Self, RuntimeError> {
        let engine = Arc::new(Engine::start()?);
        let loader = Loader::new(engine.clone(), compiler, limits, cache, state_dir.as_deref(), progress)?;
        let open_files = OpenFileLimit::from_rlimit();
        Ok(Self { engine, tls_roots: Arc::default(), open_files, loader, state_dir })
    }

    /// Loads a plugin: its component is checked, linked, compiled if need be, and asked to describe itself.
    pub async fn load(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let compiled = self.loader.load(config).await?;
        let provider = self.loader.link(&config.component, &compiled)?;
        let mut plugin = self.build(config, &compiled, provider);
        plugin.info = plugin.describe().await.map_err(LoadError::Describe)?;
        Ok(plugin)
    }

    /// What a component file is by its content; none for one that cannot be a component.
    pub(crate) async fn digest_of(&self, file: &FilePath) -> Option<Digest> {
        self.loader.digest_of(file).await
    }

    /// Forgets all components but those, and ends the compilers that work on others.
    pub(crate) fn retain(&self, wanted: &HashSet<Digest>) {
        self.loader.retain(wanted);
    }

    /// Has components tried again that did not compile.
    pub(crate) fn clear_failures(&self) {
        self.loader.clear_failures();
    }

    fn build(
        &self,
        config: &config::Plugin,
        compiled: &CompiledComponent,
        provider: ProviderPre<GuestState>,
    ) -> Plugin {
        let component = compiled.component.component_type();
        let imports = component.imports(self.engine.wasmtime()).map(|(name, _)| name);
        let name: Arc<str> = config.name.as_str().into();
        let log = GuestLog::new(name.clone(), config.limits.log.bytes_per_minute());
        let faults = Arc::new(FaultRecorder::new(name.clone(), config.limits.log.bytes_per_minute()));
        let items = config.limits.response_items.get();
        let pool = Pool::from_config(config, &self.engine);
        Plugin {
            mount: config.mount.clone(),
            digest: compiled.digest,
            watch_interval: config.watch_interval.duration(),
            requirements: Requirements::new(imports, config),
            info: Info::default(),
            call_context: Arc::new(CallContext {
                engine: self.engine.clone(),
                provider,
                sandbox: Sandbox::new(
                    config,
                    self.state_dir.as_deref(),
                    self.tls_roots.clone(),
                    self.open_files.clone(),
                    log,
                    pool.as_ref().map(|pool| -> Weak<dyn Reclaim> { Arc::<Pool>::downgrade(pool) }),
                ),
                limits: config.limits.clone(),
                validation: Arc::new(ValidationContext {
                    mount: config.mount.clone(),
                    max_items: items,
                    faults: faults.clone(),
                }),
                admission: Admission::new(&config.limits),
                run_queue: self.engine.executor.plugin_queue(),
                share: self.engine.shares.share(),
                pool,
            }),
            breaker: CircuitBreaker::default(),
            faults,
            name,
        }
    }
}

/// A loaded plugin: one generation of it.
pub struct Plugin {
    name: Arc<str>,
    mount: Mount,
    digest: Digest,
    requirements: Requirements,
    watch_interval: Duration,
    info: Info,
    call_context: Arc<CallContext>,
    breaker: CircuitBreaker,
    faults: Arc<FaultRecorder>,
}

impl Plugin {
    /// Its name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The URI prefix that it owns.
    pub fn mount(&self) -> &Mount {
        &self.mount
    }

    /// What its component is, by its content.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// What its component imports against what it is granted.
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// How often it is asked what changed while somebody watches it, unless it hints otherwise.
    pub fn watch_interval(&self) -> Duration {
        self.watch_interval
    }

    /// What its provider says of itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// How often something went wrong with it since it was loaded, by kind. Kinds of which there was nothing are not in it.
    pub fn faults(&self) -> BTreeMap<FaultKind, u64> {
        self.faults.counts()
    }

    /// For how long it is still set aside because it kept failing; none if it is not.
    pub fn suspended_for(&self) -> Option<Duration> {
        self.breaker.suspended_for(Instant::now())
    }

    /// One page of its default listing, or of what is directly below `parent`. `limit` is a hint: a page may be longer. `filter`
    /// says, as a part of the call, which entries are answered.
    pub async fn list(
        &self,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        filter: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        self.list_as(CallOrigin::Client, parent, cursor, limit, filter).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn list_as(
        &self,
        origin: CallOrigin,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        filter: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        let parent = parent.map(ToString::to_string);
        let cursor: Option<Arc<str>> = cursor.map(Arc::from);
        let requested = cursor.clone();
        self.call(
            "list-entries",
            origin,
            move |guest, store| {
                Box::pin(
                    async move { guest.call_list_entries(store, parent.as_deref(), requested.as_deref(), limit).await },
                )
            },
            |check, page| async move { check.page(page, cursor.as_deref(), filter).await },
        )
        .await
    }

    /// One page of its templates. `filter` says, as a part of the call, which are answered.
    pub async fn templates(
        &self,
        cursor: Option<&str>,
        filter: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        self.templates_as(CallOrigin::Client, cursor, filter).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn templates_as(
        &self,
        origin: CallOrigin,
        cursor: Option<&str>,
        filter: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        let cursor: Option<Arc<str>> = cursor.map(Arc::from);
        let requested = cursor.clone();
        self.call(
            "list-templates",
            origin,
            move |guest, store| Box::pin(async move { guest.call_list_templates(store, requested.as_deref()).await }),
            |check, page| async move { check.template_page(page, cursor.as_deref(), filter).await },
        )
        .await
    }

    /// Reads a resource. Contents with other URIs than the one asked for are of what is below it. `filter` says, as a part of the
    /// call, which are answered: there may be none left.
    pub async fn read(
        &self,
        path: &Path,
        filter: impl FnMut(&Contents) -> bool + Send + 'static,
    ) -> Result<Vec<Contents>, Fault> {
        let path: Arc<str> = path.as_str().into();
        let requested = path.clone();
        self.call(
            "read",
            CallOrigin::Client,
            move |guest, store| Box::pin(async move { guest.call_read(store, &requested).await }),
            |check, contents| async move { check.contents(contents, &path, filter).await },
        )
        .await
    }

    /// Tells about a resource without reading it.
    pub async fn stat(&self, path: &Path) -> Result<Entry, Fault> {
        self.stat_as(CallOrigin::Client, path).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn stat_as(&self, origin: CallOrigin, path: &Path) -> Result<Entry, Fault> {
        let path: Arc<str> = path.as_str().into();
        let requested = path.clone();
        self.call(
            "stat",
            origin,
            move |guest, store| Box::pin(async move { guest.call_stat(store, &requested).await }),
            |check, entry| async move { check.stat_entry(entry, &path).await },
        )
        .await
    }

    /// Completes a variable of one of its path templates. `filter` says, as a part of the call, which values are answered.
    pub async fn complete(
        &self,
        template: &str,
        argument: Argument,
        context: Vec<Argument>,
        filter: impl FnMut(&str) -> bool + Send + 'static,
    ) -> Result<Completion, Fault> {
        let template = template.to_owned();
        let argument = wit_argument(argument);
        let context: Vec<_> = context.into_iter().map(wit_argument).collect();
        self.call(
            "complete",
            CallOrigin::Client,
            move |guest, store| {
                Box::pin(async move { guest.call_complete(store, &template, &argument, &context).await })
            },
            |check, completion| check.completion(completion, filter),
        )
        .await
    }

    /// Tells which of the watched paths changed since a token of an earlier answer; without one, where to start from.
    pub async fn changes(&self, watched: &[Path], since: Option<&str>) -> Result<ChangeSet, Fault> {
        let watched: Arc<[String]> = watched.iter().map(ToString::to_string).collect();
        let paths = watched.clone();
        let since = since.map(str::to_owned);
        self.call(
            "changes",
            CallOrigin::Host,
            move |guest, store| Box::pin(async move { guest.call_changes(store, &paths, since.as_deref()).await }),
            |check, changes| async move { check.change_set(changes, &watched).await },
        )
        .await
    }

    /// How many items a listing of its may have over all its pages (`limits.listing-items`).
    pub(crate) fn max_listing_items(&self) -> usize {
        self.call_context.limits.listing_items.get()
    }

    /// How many items one answer of its may have (`limits.response-items`).
    pub(crate) fn max_items(&self) -> usize {
        self.call_context.limits.response_items.get()
    }

    /// Takes note of a fault in its answers to that function which shows only in what is made of them.
    pub(crate) fn record_fault(&self, function: &str, fault: &Fault) {
        self.faults.record(function, fault);
    }

    /// Closes what it has open beside its instances: the database of its key-value buckets, which has its write-ahead log
    /// checkpointed by that. A later call opens it again.
    pub(crate) async fn close(&self) {
        self.call_context.sandbox.close().await;
    }

    /// Returns the names of buckets that it opened and that it is not granted, some of them if there are many.
    pub(crate) fn denied_buckets(&self) -> Vec<String> {
        self.call_context.sandbox.denied_buckets()
    }

    /// Why the database of its key-value buckets cannot be used, if there is one and it cannot. Makes none.
    pub(crate) async fn check_stores(&self) -> Result<(), String> {
        self.call_context.sandbox.check_stores().await
    }

    /// The directories of the machine that it was granted.
    pub fn granted_directories(&self) -> impl Iterator<Item = &FilePath> {
        self.call_context.sandbox.granted_directories()
    }

    async fn describe(&self) -> Result<Info, Fault> {
        self.call(
            "describe",
            CallOrigin::Host,
            |guest, store| Box::pin(async move { Ok(Ok(guest.call_describe(store).await?)) }),
            |check, info| check.info(info),
        )
        .await
    }
}

fn wit_argument(argument: Argument) -> contract::Argument {
    contract::Argument { name: argument.name, value: argument.value }
}
