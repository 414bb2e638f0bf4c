//! From a component file to something that can be instantiated.
//!
//! A file is read once and known by its content from then on: the same component behind many plugins is compiled once, kept
//! once in memory, and found in the cache by the next start. It is checked before anything of it runs: that it is a component,
//! that all it imports is here, that it exports the contract.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use tokio::sync::{Mutex, OnceCell, Semaphore};
use wasmtime::component::Component;

use super::bindings::ProviderPre;
use super::cache::Cache;
use super::compiler::Compiler;
use super::digest::Digest;
use super::engine::Engine;
use super::state::State;
use super::{LoadError, Progress};

/// Loads components for one engine.
pub(super) struct Loader {
    engine: Arc<Engine>,
    compiler: Compiler,
    cache: Cache,
    progress: Progress,
    /// What has been loaded already; the cell is filled by the first who asks, while the others wait.
    components: Mutex<HashMap<Digest, Arc<OnceCell<Component>>>>,
    /// One compiler at a time: each uses all processors.
    compiling: Semaphore,
}

/// A component that is a provider, ready to be instantiated.
pub(super) struct Loaded {
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) component: Component,
    pub(super) provider: ProviderPre<State>,
}

impl Loader {
    /// A loader that keeps compiled code in `cache`.
    pub(super) fn new(
        engine: Arc<Engine>,
        compiler: Compiler,
        cache: &Path,
        progress: Progress,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            engine,
            compiler,
            cache: Cache::open(cache)?,
            progress,
            components: Mutex::default(),
            compiling: Semaphore::new(1),
        })
    }

    /// Loads a component file, compiling it if that has not been done before.
    pub(super) async fn load(&self, file: &Path) -> Result<Loaded, LoadError> {
        let bytes = tokio::fs::read(file).await.map_err(|source| LoadError::Read { file: file.to_owned(), source })?;
        check_kind(file, &bytes)?;
        let digest = Digest::of(&bytes);
        let cell = self.components.lock().await.entry(digest).or_default().clone();
        let component = cell.get_or_try_init(|| self.compiled(file, &bytes, &digest)).await?.clone();
        let provider = self.link(file, &component)?;
        Ok(Loaded { digest, size: bytes.len() as u64, component, provider })
    }

    /// Forgets all components but those. Plugins that are made of others keep them.
    pub(super) async fn forget_all_but(&self, used: &HashSet<Digest>) {
        self.components.lock().await.retain(|digest, _| used.contains(digest));
    }

    async fn compiled(&self, file: &Path, bytes: &[u8], digest: &Digest) -> Result<Component, LoadError> {
        let engine = self.engine.wasmtime();
        if let Some(component) = self.cache.load(engine, digest) {
            return Ok(component);
        }
        // A semaphore that is never closed always gives.
        let _turn = self.compiling.acquire().await;
        let _shown = self.progress.compiling(file, bytes.len() as u64);
        let fault = |source| LoadError::Compile { file: file.to_owned(), source };
        let output = self.cache.new_file()?;
        let handle = output.reopen().map_err(|source| LoadError::Read { file: output.path().to_owned(), source })?;
        self.compiler.compile(bytes, handle).await.map_err(fault)?;
        self.cache.keep(engine, digest, output)?;
        self.cache.load(engine, digest).ok_or_else(|| {
            fault(super::compiler::CompileError::Invalid(
                "the compiler's output does not fit this engine; is the compiler of another version?".to_owned(),
            ))
        })
    }

    fn link(&self, file: &Path, component: &Component) -> Result<ProviderPre<State>, LoadError> {
        let linked = self
            .engine
            .linker()
            .instantiate_pre(component)
            .map_err(|error| LoadError::Import { file: file.to_owned(), missing: format!("{error:#}") })?;
        ProviderPre::new(linked)
            .map_err(|error| LoadError::NotAProvider { file: file.to_owned(), reason: format!("{error:#}") })
    }
}

/// Says what a file is that is no component, before a compiler says it less clearly.
fn check_kind(file: &Path, bytes: &[u8]) -> Result<(), LoadError> {
    let found = match bytes {
        // The magic number, then version and layer: 13 and 1 for a component, 1 and 0 for a core module.
        [0, b'a', b's', b'm', _, _, 1, 0, ..] => return Ok(()),
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            "it is a core module; build it for `wasm32-wasip2`, or make a component of it with `wasm-tools component new`"
        }
        [0, b'a', b's', b'm', ..] => "it is WebAssembly of an unknown version",
        [] => "it is empty",
        _ => "it does not begin as WebAssembly does",
    };
    Err(LoadError::NotAComponent { file: file.to_owned(), found: found.to_owned() })
}
