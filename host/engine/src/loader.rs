//! From a component file to a linked component that can be instantiated.
//!
//! A component is identified by its content: a component of several plugins is compiled once, held in memory once, and
//! found in the cache at the next start, which reads the file only for its digest. Before any of its code runs, the
//! loader checks that it is the component that its plugin is pinned to, that its imports can be satisfied, and that it
//! exports the contract.
//!
//! Bounds: a file of 256 MiB, of which this process holds a small piece at a time; [`FILE_DEADLINE`] for a disk to
//! respond, and [`FILE_THREADS`] threads that may wait for one; [`MAX_INTERFACES`] imports and as many exports.
//! `compilations` has the bounds of the compiler, `static_content` the bounds of a component's declarations.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;
use std::time::Duration;

use mcp_host_base::regular_file::{self, FileThreads};
use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use mcp_host_sandbox::state::GuestState;
use parking_lot::Mutex;
use wasmtime::component::Component;

use super::Engine;
use super::Progress;
use super::bindings::{self, CONTRACT, PREPARE, ProviderPre};
use super::cache::{Cache, CompiledCode};
use super::compilations::{Compilations, CompileContext};
use super::compile_metrics::CompileMetrics;
use super::compile_queue::CompileQueue;
use super::compiler::Compiler;
use super::component_file::ComponentFile;
use super::custom_section::{self, CustomSectionError};
use super::error::ComponentError;
use super::imports::UnsatisfiedImports;
use super::static_content::StaticContent;

/// The maximum number of imported interfaces of a component, and of exported ones. Toolchains produce a few dozen.
const MAX_INTERFACES: usize = 1000;
/// The deadline for reading a component, or a file of the cache.
const FILE_DEADLINE: Duration = Duration::from_mins(1);
/// The maximum number of concurrent file reads, including reads that hang.
const FILE_THREADS: usize = 8;
/// The maximum number of exports in a message.
const MAX_LISTED_EXPORTS: usize = 5;

/// Loads components for one engine.
pub(crate) struct Loader {
    engine: Arc<Engine>,
    compilations: Compilations,
    /// The maximum number of concurrent compilers.
    compilers: usize,
    threads: FileThreads,
}

/// A compiled component, which may or may not be a provider.
pub(crate) struct CompiledComponent {
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    pub(crate) component: Component,
    /// The cost of an instance.
    static_content: StaticContent,
}

/// The size of a memory page in bytes.
const WASM_PAGE: u64 = 64 << 10;

/// A provider's component whose imports are linked, ready to be instantiated.
pub(crate) struct LinkedComponent {
    /// The size of an instance besides its memories and tables, in bytes.
    instance_bytes: usize,
    pub(super) pre: ProviderPre<GuestState>,
    /// Whether it exports `prepare`.
    prepares: bool,
}

impl LinkedComponent {
    /// Whether it exports `prepare`.
    pub(crate) fn prepares(&self) -> bool {
        self.prepares
    }

    /// Returns the size of an instance besides its memories and tables, in bytes: an upper bound.
    pub(crate) fn instance_bytes(&self) -> usize {
        self.instance_bytes
    }

    /// Returns the initial size of an instance in bytes: its largest memory, and the size besides its memories and
    /// tables.
    pub(crate) fn initial_bytes(&self) -> u64 {
        let required = self.pre.instance_pre().component().resources_required();
        let pages = required.and_then(|required| required.max_initial_memory_size).unwrap_or_default();
        let instance_bytes = u64::try_from(self.instance_bytes).unwrap_or(u64::MAX);
        pages.saturating_mul(WASM_PAGE).saturating_add(instance_bytes)
    }
}

impl Loader {
    /// Creates a loader whose compiler has these limits, and which stores compiled code in `cache`, with the key in
    /// `state`.
    pub(crate) fn new(
        engine: Arc<Engine>,
        compiler: Compiler,
        limits: config::limits::CompileLimits,
        cache: &Path,
        state: Option<&Path>,
        progress: Progress,
    ) -> Result<Self, ComponentError> {
        let threads = FileThreads::new(FILE_THREADS, FILE_DEADLINE);
        let compilers = available_parallelism().map_or(1, usize::from);
        let compilations = Compilations::new(CompileContext {
            engine: engine.clone(),
            compiler,
            limits,
            cache: Arc::new(Cache::open(cache, state)?),
            progress,
            threads: threads.clone(),
            queue: CompileQueue::new(compilers),
            metrics: CompileMetrics::default(),
            is_incremental: AtomicBool::new(false),
            developed: Mutex::default(),
        });
        Ok(Self { engine, compilations, compilers, threads })
    }

    /// Loads the component of a plugin, and compiles it if needed.
    pub(crate) async fn load(&self, plugin: &config::Plugin) -> Result<CompiledComponent, ComponentError> {
        let file = ComponentFile::open(&plugin.component, plugin.digest, &self.threads).await?;
        let (digest, size) = (file.digest, file.size);
        let CompiledCode { component, static_content } = self.compilations.get(file).await?;
        check_interface_count(&plugin.component, &component)?;
        Ok(CompiledComponent { digest, size, component, static_content })
    }

    /// Returns why the component of a plugin cannot be loaded, as far as this is known without compiling it: its file
    /// cannot be read, is not a component, differs from the pinned one, or failed to compile before.
    pub(crate) async fn known_failure(&self, plugin: &config::Plugin) -> Option<ComponentError> {
        match ComponentFile::open(&plugin.component, plugin.digest, &self.threads).await {
            Ok(file) => self.compilations.known_failure(&file),
            Err(error) => Some(error),
        }
    }

    /// Returns the digest of a component file; none for a file that cannot be a component.
    pub(crate) async fn digest_of(&self, file: &Path) -> Option<Digest> {
        Some(ComponentFile::open(file, None, &self.threads).await.ok()?.digest)
    }

    /// Returns the contents of a custom section of a component file; none if there is no such section.
    pub(crate) async fn custom_section(
        &self,
        file: &Path,
        name: &'static str,
        max: u64,
    ) -> Result<Option<Vec<u8>>, CustomSectionError> {
        let file = file.to_owned();
        let find = move || custom_section::find(regular_file::open(&file)?, name, max);
        self.threads.run(find).await.unwrap_or_else(|error| Err(error.into()))
    }

    /// Drops all components except these, and ends the compilers of others. Plugins that use a dropped component keep
    /// it.
    pub(crate) fn retain(&self, wanted: &HashSet<Digest>) {
        self.compilations.retain(wanted);
    }

    /// Reuses functions of earlier compilations, if the compiler is a separate process.
    pub(crate) fn compile_incrementally(&self) {
        self.compilations.compile_incrementally();
    }

    /// Returns the counters of compilations.
    pub(crate) fn compile_metrics(&self) -> &CompileMetrics {
        self.compilations.metrics()
    }

    /// Returns the maximum number of concurrent compilers.
    pub(crate) fn compilers(&self) -> usize {
        self.compilers
    }

    /// Drops compile failures, so that their components are compiled again.
    pub(crate) fn clear_failures(&self) {
        self.compilations.clear_failures();
    }

    /// Links the imports of a plugin's component, and finds the contract among its exports. Fails if no instance of
    /// the component fits into the plugin's memory.
    pub(crate) fn link(
        &self,
        plugin: &config::Plugin,
        compiled: &CompiledComponent,
    ) -> Result<LinkedComponent, ComponentError> {
        let (file, component, content) = (&plugin.component, &compiled.component, compiled.static_content);
        let limit = plugin.limits.memory.bytes();
        if content.instance_bytes > limit {
            return Err(ComponentError::Memory { file: file.clone(), content: content.to_string(), limit });
        }
        let linked = self.engine.linker_for(component).instantiate_pre(component).map_err(|error| {
            ComponentError::Import { file: file.clone(), missing: UnsatisfiedImports::new(component, &error) }
        })?;
        let pre = ProviderPre::new(linked).map_err(|error| ComponentError::NotAProvider {
            file: file.clone(),
            reason: explain_not_a_provider(component, &error),
        })?;
        let prepares = bindings::prepares(pre.instance_pre()).map_err(|error| ComponentError::NotAProvider {
            file: file.clone(),
            reason: format!("its `{PREPARE}` is not as this host knows it ({error:#})"),
        })?;
        let instance_bytes = usize::try_from(content.instance_bytes).unwrap_or(usize::MAX);
        Ok(LinkedComponent { pre, instance_bytes, prepares })
    }
}

/// Fails if a component has more interfaces than [`MAX_INTERFACES`].
fn check_interface_count(file: &Path, component: &Component) -> Result<(), ComponentError> {
    let (engine, ty) = (component.engine(), component.component_type());
    for (count, what) in [(ty.imports(engine).len(), "imports"), (ty.exports(engine).len(), "exports")] {
        if count > MAX_INTERFACES {
            let what = format!("{count} {what}, more than {MAX_INTERFACES}");
            return Err(ComponentError::TooLarge { file: file.to_owned(), what });
        }
    }
    Ok(())
}

/// Explains why a component is not a provider: it exports the contract in another version, not at all, or with
/// other types.
fn explain_not_a_provider(component: &Component, error: &wasmtime::Error) -> String {
    let ty = component.component_type();
    let exports: Vec<_> = ty.exports(component.engine()).map(|(name, _)| name).collect();
    let named = |name: &str| format!("`{}`", name.escape_debug());
    let interface = |name: &str| name.split('@').next().map(str::to_owned);
    if let Some(known) = exports.iter().find(|name| is_known_version(name)) {
        return format!("its {} is not as this host knows it ({error:#})", named(known));
    }
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

/// Returns whether this is the contract's name, in a version that is compatible with this host's version.
fn is_known_version(name: &str) -> bool {
    let series = |name: &str| name.rsplit_once('.').map(|(series, _)| series.to_owned());
    series(name) == series(CONTRACT)
}
