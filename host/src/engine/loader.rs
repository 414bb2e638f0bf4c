//! From a component file to something that can be instantiated.
//!
//! A file is known by its content: the same component behind many plugins is compiled once, kept once in memory, and found in
//! the cache by the next start, which then reads the file for its digest only. It is checked before anything of it runs: that
//! it is the component that its plugin is pinned to, that all it imports is here, that it exports the contract.
//!
//! Bounded: a file of 256 MiB, of which this process never holds more than a small piece; [`FILE_DEADLINE`] for a disk to answer,
//! and [`FILE_THREADS`] threads that may wait for one; [`MOST_INTERFACES`] imports and as many exports; for the compiler,
//! what `compilations` says.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use tokio::sync::Semaphore;
use wasmtime::component::Component;

use super::Engine;
use super::Progress;
use super::bindings::{CONTRACT, ProviderPre};
use super::cache::Cache;
use super::compilations::{Compilations, CompileContext};
use super::compiler::Compiler;
use super::component_file::ComponentFile;
use super::error::ComponentError;
use super::imports::UnsatisfiedImports;
use crate::config;
use crate::digest::Digest;
use crate::regular_file::FileThreads;
use crate::sandbox::state::GuestState;

/// The most interfaces that a component may import, and the most that it may export. Those that toolchains make have a few
/// dozen.
const MAX_INTERFACES: usize = 1000;
/// How long reading a component, or something of the cache, may take.
const FILE_DEADLINE: Duration = Duration::from_mins(1);
/// How many files are read at once, or are being waited for in vain.
const FILE_THREADS: usize = 8;
/// How many names of exports a message shows.
const MAX_LISTED_EXPORTS: usize = 5;

/// Loads components for one engine.
pub(crate) struct Loader {
    engine: Arc<Engine>,
    compilations: Compilations,
    threads: FileThreads,
}

/// A component that has been compiled, and may be no provider.
pub(crate) struct CompiledComponent {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) component: Component,
}

impl Loader {
    /// A loader whose compiler has those limits, and that stores compiled code in `cache`, with the key in `state`.
    pub(crate) fn new(
        engine: Arc<Engine>,
        compiler: Compiler,
        limits: config::compile::CompileLimits,
        cache: &Path,
        state: Option<&Path>,
        progress: Progress,
    ) -> Result<Self, ComponentError> {
        let threads = FileThreads::new(FILE_THREADS, FILE_DEADLINE);
        let compilations = Compilations::new(CompileContext {
            engine: engine.clone(),
            compiler,
            limits,
            cache: Arc::new(Cache::open(cache, state)?),
            progress,
            threads: threads.clone(),
            permits: Semaphore::new(available_parallelism().map_or(1, usize::from)),
        });
        Ok(Self { engine, compilations, threads })
    }

    /// Loads the file of a plugin's component, compiling it if that has not been done before.
    pub(crate) async fn load(&self, plugin: &config::Plugin) -> Result<CompiledComponent, ComponentError> {
        let file = ComponentFile::open(&plugin.component, plugin.digest, &self.threads).await?;
        let (digest, size) = (file.digest, file.size);
        let component = self.compilations.get(file).await?;
        self.check_interface_count(&plugin.component, &component)?;
        Ok(CompiledComponent { digest, size, component })
    }

    /// What a component file is by its content; none for one that cannot be a component.
    pub(crate) async fn digest_of(&self, file: &Path) -> Option<Digest> {
        Some(ComponentFile::open(file, None, &self.threads).await.ok()?.digest)
    }

    /// Forgets all components but those, and ends the compilers that work on others. Plugins that are made of others keep them.
    pub(crate) fn retain(&self, wanted: &HashSet<Digest>) {
        self.compilations.retain(wanted);
    }

    /// Has components tried again that did not compile.
    pub(crate) fn clear_failures(&self) {
        self.compilations.clear_failures();
    }

    fn check_interface_count(&self, file: &Path, component: &Component) -> Result<(), ComponentError> {
        let (engine, ty) = (self.engine.wasmtime(), component.component_type());
        for (count, what) in [(ty.imports(engine).len(), "imports"), (ty.exports(engine).len(), "exports")] {
            if count > MAX_INTERFACES {
                let what = format!("{count} {what}, more than {MAX_INTERFACES}");
                return Err(ComponentError::TooLarge { file: file.to_owned(), what });
            }
        }
        Ok(())
    }

    /// Finds what a component imports, and the contract among what it exports.
    pub(crate) fn link(
        &self,
        file: &Path,
        compiled: &CompiledComponent,
    ) -> Result<ProviderPre<GuestState>, ComponentError> {
        let component = &compiled.component;
        let linked = self.engine.linker().instantiate_pre(component).map_err(|error| ComponentError::Import {
            file: file.to_owned(),
            missing: UnsatisfiedImports::new(component, self.engine.wasmtime(), &error),
        })?;
        ProviderPre::new(linked).map_err(|error| ComponentError::NotAProvider {
            file: file.to_owned(),
            reason: self.explain_not_a_provider(component, &error),
        })
    }

    /// Why a component is no provider: it has the contract in another version, not at all, or not as it should be.
    fn explain_not_a_provider(&self, component: &Component, error: &wasmtime::Error) -> String {
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
        let shown: Vec<_> = exports.iter().take(MAX_LISTED_EXPORTS).map(|name| named(name)).collect();
        let found = match exports.len() {
            0 => "nothing".to_owned(),
            all if all > MAX_LISTED_EXPORTS => format!("{} and others", shown.join(", ")),
            _ => shown.join(", "),
        };
        format!("it exports {found}, and not `{CONTRACT}`")
    }
}
