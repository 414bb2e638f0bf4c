//! Plugins: sandboxed providers that can be called.
//!
//! [`Plugins`] starts the engine and loads plugins; a [`Plugin`] is a loaded one, with one method for each function of the
//! contract. Each call gets a fresh instance with the plugin's grants, runs on the guest threads under the plugin's limits,
//! and leaves nothing behind:
//!
//! | bound | by |
//! |---|---|
//! | calls at once | a semaphore for the plugin (`limits.concurrency`) and one for the whole pool; waiting is bounded by `limits.wait` |
//! | wall clock | a timeout around the call, instantiation included (`limits.deadline`) |
//! | CPU time | the time that the call is polled; the engine's epoch has the guest look at it every millisecond (`limits.cpu`) |
//! | memory | a budget that all instances of the plugin share (`limits.memory`) |
//! | reply | what the host copies out of the guest (`limits.reply`) |
//! | log | an allowance of bytes a minute (`limits.log`) |
//!
//! A trap, a timeout, a limit or a panic ends that call alone and is a typed [`Fault`]. A caller that goes away takes its call
//! with it.

mod bindings;
mod cache;
mod compiler;
mod convert;
mod cpu;
mod digest;
mod engine;
mod epoch;
mod error;
mod fault;
mod guest_log;
mod inspect;
mod instance;
mod limits;
mod loader;
mod progress;
mod sandbox;
mod state;

use std::collections::HashSet;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use self::bindings::contract;
use self::bindings::logging::Level;
use self::engine::Engine;
use self::guest_log::GuestLog;
use self::instance::{Caller, Turn};
use self::loader::{Loaded, Loader};
use self::sandbox::Sandbox;
use crate::config;
use crate::resource::{Argument, Completion, Contents, Entry, EntryTemplate};
use crate::uri::{Mount, Path};

pub use self::compiler::{CompileError, Compiler, run_compiler};
pub use self::convert::{ChangeSet, Page};
pub use self::digest::Digest;
pub use self::error::{EngineError, LoadError};
pub use self::fault::Fault;
pub use self::inspect::{Info, Inspection};
pub use self::progress::Progress;

/// The engine, and what loads plugins for it.
pub struct Plugins {
    engine: Arc<Engine>,
    loader: Loader,
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
    /// Starts the engine. Compiled components are kept in `cache`.
    pub fn start(compiler: Compiler, cache: &FilePath, progress: Progress) -> Result<Self, StartError> {
        let engine = Arc::new(Engine::start()?);
        let loader = Loader::new(engine.clone(), compiler, cache, progress)?;
        Ok(Self { engine, loader })
    }

    /// Loads a plugin: its component is checked, linked, compiled if need be, and asked to describe itself.
    pub async fn load(&self, config: &config::Plugin) -> Result<Plugin, LoadError> {
        let loaded = self.loader.load(&config.component).await?;
        let mut plugin = self.assemble(config, &loaded);
        plugin.info = plugin.describe().await.map_err(LoadError::Describe)?;
        Ok(plugin)
    }

    /// Forgets all components but those: what plugins that are gone were made of.
    pub(crate) async fn forget_all_but(&self, used: &HashSet<Digest>) {
        self.loader.forget_all_but(used).await;
    }

    fn assemble(&self, config: &config::Plugin, loaded: &Loaded) -> Plugin {
        let name: Arc<str> = config.name.as_str().into();
        let log = GuestLog::new(name.clone(), config.limits.log.bytes());
        Plugin {
            name,
            mount: config.mount.clone(),
            digest: loaded.digest,
            watch_interval: config.watch_interval.duration(),
            info: Info::default(),
            caller: Arc::new(Caller {
                engine: self.engine.clone(),
                provider: loaded.provider.clone(),
                sandbox: Sandbox::new(config, log.clone()),
                limits: config.limits.clone(),
                places: Arc::new(Semaphore::new(config.limits.concurrency.get())),
            }),
            log,
            faults: AtomicU64::new(0),
        }
    }
}

/// A loaded plugin: one generation of it.
pub struct Plugin {
    name: Arc<str>,
    mount: Mount,
    digest: Digest,
    watch_interval: Duration,
    info: Info,
    caller: Arc<Caller>,
    log: Arc<GuestLog>,
    /// How often the provider was at fault.
    faults: AtomicU64,
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

    /// How often it is asked what changed while somebody watches it, unless it hints otherwise.
    pub fn watch_interval(&self) -> Duration {
        self.watch_interval
    }

    /// What its provider says of itself.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// How often its provider broke the contract: a path that leaves the mount, a hint that is invalid, a trap.
    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// One page of its default listing, or of what is directly below `parent`. `limit` is a hint: a page may be longer.
    pub async fn list(&self, parent: Option<&Path>, cursor: Option<&str>, limit: u32) -> Result<Page<Entry>, Fault> {
        let (parent, asked) = (parent.map(ToString::to_string), cursor.map(str::to_owned));
        let page = self
            .call("list-entries", Turn::Client, move |guest, store| {
                Box::pin(
                    async move { guest.call_list_entries(store, parent.as_deref(), asked.as_deref(), limit).await },
                )
            })
            .await?;
        self.page(page, cursor).inspect_err(|fault| self.note("list-entries", fault))
    }

    /// One page of its templates.
    pub async fn templates(&self, cursor: Option<&str>) -> Result<Page<EntryTemplate>, Fault> {
        let asked = cursor.map(str::to_owned);
        let page = self
            .call("list-templates", Turn::Client, move |guest, store| {
                Box::pin(async move { guest.call_list_templates(store, asked.as_deref()).await })
            })
            .await?;
        self.template_page(page, cursor).inspect_err(|fault| self.note("list-templates", fault))
    }

    /// Reads a resource: at least one content. Those with other URIs than the one asked for are of what is below it.
    pub async fn read(&self, path: &Path) -> Result<Vec<Contents>, Fault> {
        let asked = path.to_string();
        let contents = self
            .call("read", Turn::Client, move |guest, store| {
                Box::pin(async move { guest.call_read(store, &asked).await })
            })
            .await?;
        self.contents(contents, path).inspect_err(|fault| self.note("read", fault))
    }

    /// Tells about a resource without reading it.
    pub async fn stat(&self, path: &Path) -> Result<Entry, Fault> {
        let asked = path.to_string();
        let entry = self
            .call("stat", Turn::Client, move |guest, store| {
                Box::pin(async move { guest.call_stat(store, &asked).await })
            })
            .await?;
        self.stat_entry(entry, path).inspect_err(|fault| self.note("stat", fault))
    }

    /// Completes a variable of one of its path templates.
    pub async fn complete(
        &self,
        template: &str,
        argument: Argument,
        known: Vec<Argument>,
    ) -> Result<Completion, Fault> {
        let template = template.to_owned();
        let argument = wit_argument(argument);
        let known: Vec<_> = known.into_iter().map(wit_argument).collect();
        let completion = self
            .call("complete", Turn::Client, move |guest, store| {
                Box::pin(async move { guest.call_complete(store, &template, &argument, &known).await })
            })
            .await?;
        Ok(convert::completion(completion))
    }

    /// Tells which of the watched paths changed since a token of an earlier answer; without one, where to start from.
    pub async fn changes(&self, watched: &[Path], since: Option<&str>) -> Result<ChangeSet, Fault> {
        let paths: Vec<_> = watched.iter().map(ToString::to_string).collect();
        let since = since.map(str::to_owned);
        let changes = self
            .call("changes", Turn::Watch, move |guest, store| {
                Box::pin(async move { guest.call_changes(store, &paths, since.as_deref()).await })
            })
            .await?;
        self.change_set(changes).inspect_err(|fault| self.note("changes", fault))
    }

    /// The directories of the machine that it was granted.
    pub fn directories(&self) -> impl Iterator<Item = &FilePath> {
        self.caller.sandbox.directories()
    }

    async fn describe(&self) -> Result<Info, Fault> {
        let info = self
            .call("describe", Turn::Client, |guest, store| {
                Box::pin(async move { Ok(Ok(guest.call_describe(store).await?)) })
            })
            .await?;
        Ok(info.into())
    }

    /// Counts and logs what a provider did wrong.
    fn provider_fault(&self, message: &str) {
        self.faults.fetch_add(1, Ordering::Relaxed);
        self.log.line(Level::Warn, "", message);
    }

    /// Counts and logs a call that failed, unless the failure is an answer.
    fn note(&self, function: &str, fault: &Fault) {
        if fault.is_worth_logging() {
            self.faults.fetch_add(1, Ordering::Relaxed);
            self.log.line(Level::Warn, function, &fault.to_string());
        }
    }
}

fn wit_argument(argument: Argument) -> contract::Argument {
    contract::Argument { name: argument.name, value: argument.value }
}
