//! From a component file to something that can be instantiated.
//!
//! A file is known by its content: the same component behind many plugins is compiled once, kept once in memory, and found in
//! the cache by the next start, which then reads the file for its digest only. It is checked before anything of it runs: that
//! it is the component that its plugin is pinned to, that all it imports is here, that it exports the contract.
//!
//! Bounded: a file of 256 MiB, of which this process never holds more than a small piece; [`MOST_INTERFACES`] imports and as
//! many exports; for the compiler, `server.compile`.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell, Semaphore};
use wasmtime::component::Component;

use super::bindings::{CONTRACT, ProviderPre};
use super::cache::Cache;
use super::compiler::{CompileError, Compiler};
use super::engine::Engine;
use super::file::ComponentFile;
use super::missing::Missing;
use super::state::State;
use super::{LoadError, Progress};
use crate::config::{self, Digest};

/// The most interfaces that a component may import, and the most that it may export. Those that toolchains make have a few
/// dozen.
const MOST_INTERFACES: usize = 1000;
/// How many names of exports a message shows.
const MOST_SHOWN: usize = 5;

/// Loads components for one engine.
pub(super) struct Loader {
    engine: Arc<Engine>,
    compiler: Compiler,
    limits: config::Compile,
    cache: Arc<Cache>,
    progress: Progress,
    /// What has been loaded already; the cell is filled by the first who asks, while the others wait.
    components: Mutex<HashMap<Digest, Arc<OnceCell<Component>>>>,
    /// One compiler at a time: each uses all processors.
    compiling: Semaphore,
}

/// A component that has been compiled, and may be no provider.
pub(super) struct Compiled {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) component: Component,
}

impl Loader {
    /// A loader whose compiler has those limits, and that stores compiled code in `cache`, with the key in `state`.
    pub(super) fn new(
        engine: Arc<Engine>,
        compiler: Compiler,
        limits: config::Compile,
        cache: &Path,
        state: Option<&Path>,
        progress: Progress,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            engine,
            compiler,
            limits,
            cache: Arc::new(Cache::open(cache, state)?),
            progress,
            components: Mutex::default(),
            compiling: Semaphore::new(1),
        })
    }

    /// Loads the file of a plugin's component, compiling it if that has not been done before.
    pub(super) async fn load(&self, plugin: &config::Plugin) -> Result<Compiled, LoadError> {
        let file = ComponentFile::open(&plugin.component, plugin.digest).await?;
        let cell = self.components.lock().await.entry(file.digest).or_default().clone();
        let component = cell.get_or_try_init(|| self.compiled(&file)).await?.clone();
        self.count_interfaces(&file, &component)?;
        Ok(Compiled { digest: file.digest, size: file.size, component })
    }

    /// Forgets all components but those. Plugins that are made of others keep them.
    pub(super) async fn forget_all_but(&self, used: &HashSet<Digest>) {
        self.components.lock().await.retain(|digest, _| used.contains(digest));
    }

    async fn compiled(&self, file: &ComponentFile) -> Result<Component, LoadError> {
        let (engine, digest) = (self.engine.wasmtime().clone(), file.digest);
        let cached = self.with_cache(move |cache| cache.load(&engine, &digest)).await;
        if let Some(component) = cached.flatten() {
            return Ok(component);
        }
        // A semaphore that is never closed always gives.
        let _turn = self.compiling.acquire().await;
        let _shown = self.progress.compiling(&file.path, file.size);
        let fault = |source| LoadError::Compile { file: file.path.clone(), source };
        let read = |path: &Path, source| LoadError::Read { file: path.to_owned(), source };
        let code = self.cache.new_file()?;
        let into = code.reopen().map_err(|source| read(code.path(), source))?;
        let from = file.reopen().map_err(|source| read(&file.path, source))?;
        self.compiler.compile(from, file.digest, into, &self.limits).await.map_err(fault)?;
        let engine = self.engine.wasmtime().clone();
        let stored = self.with_cache(move |cache| cache.store(&engine, &digest, code)).await;
        stored.transpose()?.flatten().ok_or_else(|| {
            fault(CompileError::Invalid(
                "the compiler's output does not fit this engine; is the compiler of another version?".to_owned(),
            ))
        })
    }

    /// Works with the cache where that may block. None if the work panics.
    async fn with_cache<T: Send + 'static>(&self, work: impl FnOnce(&Cache) -> T + Send + 'static) -> Option<T> {
        let cache = self.cache.clone();
        tokio::task::spawn_blocking(move || work(&cache)).await.ok()
    }

    fn count_interfaces(&self, file: &ComponentFile, component: &Component) -> Result<(), LoadError> {
        let (engine, ty) = (self.engine.wasmtime(), component.component_type());
        for (count, what) in [(ty.imports(engine).len(), "imports"), (ty.exports(engine).len(), "exports")] {
            if count > MOST_INTERFACES {
                let what = format!("{count} {what}, more than {MOST_INTERFACES}");
                return Err(LoadError::TooLarge { file: file.path.clone(), what });
            }
        }
        Ok(())
    }

    /// Finds what a component imports, and the contract among what it exports.
    pub(super) fn link(&self, file: &Path, compiled: &Compiled) -> Result<ProviderPre<State>, LoadError> {
        let component = &compiled.component;
        let linked = self.engine.linker().instantiate_pre(component).map_err(|error| LoadError::Import {
            file: file.to_owned(),
            missing: Missing::of(component, self.engine.wasmtime(), &error),
        })?;
        ProviderPre::new(linked).map_err(|error| LoadError::NotAProvider {
            file: file.to_owned(),
            reason: self.no_provider(component, &error),
        })
    }

    /// Why a component is no provider: it has the contract in another version, not at all, or not as it should be.
    fn no_provider(&self, component: &Component, error: &wasmtime::Error) -> String {
        let ty = component.component_type();
        let exports: Vec<_> = ty.exports(self.engine.wasmtime()).map(|(name, _)| name).collect();
        if exports.contains(&CONTRACT) {
            return format!("its `{CONTRACT}` is not as this host knows it ({error:#})");
        }
        let named = |name: &str| format!("`{}`", name.escape_debug());
        let interface = |name: &str| name.split('@').next().map(str::to_owned);
        if let Some(other) = exports.iter().find(|name| interface(name) == interface(CONTRACT)) {
            return format!("it exports {}, and this host knows `{CONTRACT}`", named(other));
        }
        let shown: Vec<_> = exports.iter().take(MOST_SHOWN).map(|name| named(name)).collect();
        let found = match exports.len() {
            0 => "nothing".to_owned(),
            all if all > MOST_SHOWN => format!("{} and others", shown.join(", ")),
            _ => shown.join(", "),
        };
        format!("it exports {found}, and not `{CONTRACT}`")
    }
}
