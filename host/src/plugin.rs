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
mod bindings;
mod cache;
mod caller;
mod compilations;
mod compiler;
mod convert;
mod cpu;
mod engine;
mod epoch;
mod error;
mod excerpt;
mod fault;
mod faults;
mod file;
mod grants;
mod guest_log;
mod health;
mod inspect;
mod instance;
mod limits;
mod loader;
mod missing;
mod needs;
mod pool;
mod progress;
mod sandbox;
mod seats;
mod shares;
mod state;
mod threads;
mod throttle;
mod work;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::admission::Admission;
use self::bindings::{ProviderPre, contract};
use self::caller::Caller;
use self::convert::AnswerRules;
use self::engine::Engine;
use self::faults::Faults;
use self::grants::dirs::OpenFileLimit;
use self::grants::http::TlsRoots;
use self::guest_log::GuestLog;
use self::health::Health;
use self::loader::{Compiled, Loader};
use self::pool::Pool;
use self::sandbox::Sandbox;
use self::state::State;
use crate::config::{self, Digest};
use crate::resource::{Argument, Completion, Contents, Entry, EntryTemplate};
use crate::uri::{Mount, Path};

pub(crate) use self::admission::Turn;
pub(crate) use self::backoff::Backoff;
pub use self::compiler::{CompileError, Compiler, run_compiler};
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) use self::convert::fuzzing;
pub use self::convert::{ChangeSet, Page};
pub use self::error::{EngineError, LoadError};
pub use self::fault::{Fault, FaultKind};
pub use self::inspect::{Info, Inspection};
pub use self::missing::Missing;
pub use self::needs::{Capability, Need, Needs, Standing};
pub use self::progress::Progress;
pub(crate) use self::throttle::Throttle;

/// The engine, and what loads plugins for it.
pub struct Plugins {
    engine: Arc<Engine>,
    trust: Arc<TlsRoots>,
    open_files: OpenFileLimit,
    loader: Loader,
    state: Option<PathBuf>,
}

/// Why [`Plugins::start`] failed.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The engine cannot be started.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The cache of compiled components cannot be used.
    #[error(transparent)]
    Cache(#[from] LoadError),
}

impl Plugins {
    /// Starts the engine. Components are compiled within `limits`, and compiled ones are kept in `cache`. What plugins have in
    /// key-value buckets is kept in `state`, and the key that compiled components are authenticated with; without it, buckets
    /// are granted and fail, and components are compiled at each start. It blocks.
    pub fn start(
        compiler: Compiler,
        limits: config::CompileLimits,
        cache: &FilePath,
        state: Option<PathBuf>,
        progress: Progress,
    ) -> Result<Self, StartError> {
        let engine = Arc::new(Engine::start()?);
        let loader = Loader::new(engine.clone(), compiler, limits, cache, state.as_deref(), progress)?;
        let open_files = OpenFileLimit::from_rlimit();
        Ok(Self { engine, trust: Arc::default(), open_files, loader, state })
    }

    /// Loads a plugin: its component is checked, linked, compiled if need be, and asked to describe itself.
    pub async fn load(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let compiled = self.loader.load(config).await?;
        let provider = self.loader.link(&config.component, &compiled)?;
        let mut plugin = self.assemble(config, &compiled, provider);
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
    pub(crate) fn forget_failures(&self) {
        self.loader.forget_failures();
    }

    fn assemble(&self, config: &config::Plugin, compiled: &Compiled, provider: ProviderPre<State>) -> Plugin {
        let component = compiled.component.component_type();
        let imports = component.imports(self.engine.wasmtime()).map(|(name, _)| name);
        let name: Arc<str> = config.name.as_str().into();
        let log = GuestLog::new(name.clone(), config.limits.log.bytes());
        let faults = Arc::new(Faults::new(name.clone(), config.limits.log.bytes()));
        let items = config.limits.response_items.get();
        let pool = Pool::of(config, &self.engine);
        Plugin {
            mount: config.mount.clone(),
            digest: compiled.digest,
            watch_interval: config.watch_interval.duration(),
            needs: Needs::of(imports, config),
            info: Info::default(),
            caller: Arc::new(Caller {
                engine: self.engine.clone(),
                provider,
                sandbox: Sandbox::new(
                    config,
                    self.state.as_deref(),
                    self.trust.clone(),
                    self.open_files.clone(),
                    log,
                    pool.as_ref(),
                ),
                limits: config.limits.clone(),
                rules: Arc::new(AnswerRules { mount: config.mount.clone(), items, faults: faults.clone() }),
                admission: Admission::new(&config.limits),
                lane: self.engine.threads.lane(),
                share: self.engine.shares.share(),
                pool,
            }),
            health: Health::default(),
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
    needs: Needs,
    watch_interval: Duration,
    info: Info,
    caller: Arc<Caller>,
    health: Health,
    faults: Arc<Faults>,
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
    pub fn needs(&self) -> &Needs {
        &self.needs
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
    pub fn set_aside(&self) -> Option<Duration> {
        self.health.set_aside(Instant::now())
    }

    /// One page of its default listing, or of what is directly below `parent`. `limit` is a hint: a page may be longer. `keep`
    /// says, as a part of the call, which entries are answered.
    pub async fn list(
        &self,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        keep: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        self.list_as(Turn::Client, parent, cursor, limit, keep).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn list_as(
        &self,
        turn: Turn,
        parent: Option<&Path>,
        cursor: Option<&str>,
        limit: u32,
        keep: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        let parent = parent.map(ToString::to_string);
        let cursor: Option<Arc<str>> = cursor.map(Arc::from);
        let asked = cursor.clone();
        self.call(
            "list-entries",
            turn,
            move |guest, store| {
                Box::pin(
                    async move { guest.call_list_entries(store, parent.as_deref(), asked.as_deref(), limit).await },
                )
            },
            |check, page| async move { check.page(page, cursor.as_deref(), keep).await },
        )
        .await
    }

    /// One page of its templates. `keep` says, as a part of the call, which are answered.
    pub async fn templates(
        &self,
        cursor: Option<&str>,
        keep: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        self.templates_as(Turn::Client, cursor, keep).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn templates_as(
        &self,
        turn: Turn,
        cursor: Option<&str>,
        keep: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        let cursor: Option<Arc<str>> = cursor.map(Arc::from);
        let asked = cursor.clone();
        self.call(
            "list-templates",
            turn,
            move |guest, store| Box::pin(async move { guest.call_list_templates(store, asked.as_deref()).await }),
            |check, page| async move { check.template_page(page, cursor.as_deref(), keep).await },
        )
        .await
    }

    /// Reads a resource. Contents with other URIs than the one asked for are of what is below it. `keep` says, as a part of the
    /// call, which are answered: there may be none left.
    pub async fn read(
        &self,
        path: &Path,
        keep: impl FnMut(&Contents) -> bool + Send + 'static,
    ) -> Result<Vec<Contents>, Fault> {
        let path: Arc<str> = path.as_str().into();
        let asked = path.clone();
        self.call(
            "read",
            Turn::Client,
            move |guest, store| Box::pin(async move { guest.call_read(store, &asked).await }),
            |check, contents| async move { check.contents(contents, &path, keep).await },
        )
        .await
    }

    /// Tells about a resource without reading it.
    pub async fn stat(&self, path: &Path) -> Result<Entry, Fault> {
        self.stat_as(Turn::Client, path).await
    }

    /// The same, as a call of a client or of the host itself.
    pub(crate) async fn stat_as(&self, turn: Turn, path: &Path) -> Result<Entry, Fault> {
        let path: Arc<str> = path.as_str().into();
        let asked = path.clone();
        self.call(
            "stat",
            turn,
            move |guest, store| Box::pin(async move { guest.call_stat(store, &asked).await }),
            |check, entry| async move { check.stat_entry(entry, &path).await },
        )
        .await
    }

    /// Completes a variable of one of its path templates. `keep` says, as a part of the call, which values are answered.
    pub async fn complete(
        &self,
        template: &str,
        argument: Argument,
        known: Vec<Argument>,
        keep: impl FnMut(&str) -> bool + Send + 'static,
    ) -> Result<Completion, Fault> {
        let template = template.to_owned();
        let argument = wit_argument(argument);
        let known: Vec<_> = known.into_iter().map(wit_argument).collect();
        self.call(
            "complete",
            Turn::Client,
            move |guest, store| Box::pin(async move { guest.call_complete(store, &template, &argument, &known).await }),
            |check, completion| check.completion(completion, keep),
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
            Turn::Host,
            move |guest, store| Box::pin(async move { guest.call_changes(store, &paths, since.as_deref()).await }),
            |check, changes| async move { check.change_set(changes, &watched).await },
        )
        .await
    }

    /// How many items a listing of its may have over all its pages (`limits.listing-items`).
    pub(crate) fn most_listed(&self) -> usize {
        self.caller.limits.listing_items.get()
    }

    /// How many items one answer of its may have (`limits.response-items`).
    pub(crate) fn max_items(&self) -> usize {
        self.caller.limits.response_items.get()
    }

    /// Takes note of a fault in its answers to that function which shows only in what is made of them.
    pub(crate) fn note(&self, function: &str, fault: &Fault) {
        self.faults.note(function, fault);
    }

    /// Closes what it has open beside its instances: the database of its key-value buckets, which has its write-ahead log
    /// checkpointed by that. A later call opens it again.
    pub(crate) async fn close(&self) {
        self.caller.sandbox.close().await;
    }

    /// Why the database of its key-value buckets cannot be used, if there is one and it cannot. Makes none.
    pub(crate) async fn check_stores(&self) -> Result<(), String> {
        self.caller.sandbox.check_stores().await
    }

    /// The directories of the machine that it was granted.
    pub fn directories(&self) -> impl Iterator<Item = &FilePath> {
        self.caller.sandbox.directories()
    }

    async fn describe(&self) -> Result<Info, Fault> {
        self.call(
            "describe",
            Turn::Host,
            |guest, store| Box::pin(async move { Ok(Ok(guest.call_describe(store).await?)) }),
            |check, info| check.info(info),
        )
        .await
    }
}

fn wit_argument(argument: Argument) -> contract::Argument {
    contract::Argument { name: argument.name, value: argument.value }
}
