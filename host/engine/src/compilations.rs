//! Compilations: each component is compiled once, and concurrent requests for it share the result (single-flight).
//!
//! A job belongs to a digest, not to its waiters: a component of many plugins is compiled once, and a reload passes
//! its jobs on to the reload that supersedes it. A job ends when it is done, or when its component is no longer
//! wanted ([`retain`](Compilations::retain)): then the compiler process is killed. When the host ends, the process
//! continues (module `compiler`). If another process is compiling the component, the job waits for it, but no longer
//! than a compilation may take.
//!
//! The result, code or failure, is cached while the component is wanted; the code is shared. The compiler's limits do
//! not change while a host runs, so a component that does not compile within them is not retried because something
//! else changed. Only failures that are not the component's own are dropped immediately: no process could be started,
//! the disk was full, the file changed meanwhile. [`clear_failures`](Compilations::clear_failures) drops all
//! failures.
//!
//! On an engine with a baseline compiler (module `baseline`), a component that is not in the cache is compiled twice,
//! unless its digest is pinned: such a file does not change, and so is compiled for full speed at once. The result of
//! the job is the code of the baseline compiler, or, if that rejects the component, optimized code. Then the component
//! is compiled to optimized code in the background, for the cache only: for other commands and the next start. A new
//! version of the file ends this, and a compilation that somebody waits for interrupts it (module `compile_queue`).
//!
//! Bounds: one concurrent compiler per processor, at a low priority unless an author waits for the code, each within
//! `server.compile`.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcp_host_base::log_target;
use mcp_host_base::private_file::PrivateError;
use mcp_host_base::regular_file::FileThreads;
use mcp_host_base::task;
use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{SemaphorePermit, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Engine;
use super::cache::{Cache, CompiledCode, Missing};
use super::compile_metrics::{CompileMetrics, CompileTimer};
use super::compile_queue::CompileQueue;
use super::compiler::{CompileError, CompileRequest, Compiler};
use super::component_file::ComponentFile;
use super::config::Codegen;
use super::error::ComponentError;
use super::pending_code::PendingCode;

/// The interval of checks whether another process is still compiling a component.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The compilations by digest.
pub(crate) struct Compilations {
    by_digest: Mutex<HashMap<Digest, Arc<Compilation>>>,
    context: Arc<CompileContext>,
}

/// The context that all jobs share.
pub(crate) struct CompileContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) compiler: Compiler,
    pub(crate) limits: config::limits::CompileLimits,
    pub(crate) cache: Arc<Cache>,
    pub(crate) progress: Progress,
    pub(crate) threads: FileThreads,
    pub(crate) queue: CompileQueue,
    pub(crate) metrics: CompileMetrics,
    /// Whether functions of earlier compilations are reused (module `compiler::functions`).
    pub(crate) is_incremental: AtomicBool,
    /// The component files under development.
    pub(crate) developed: Mutex<HashMap<PathBuf, DevelopedFile>>,
}

/// What is known about a component file on an engine with a baseline compiler.
#[derive(Default)]
pub(crate) struct DevelopedFile {
    /// Whether only the baseline compiler has rejected a version of it. Then the next versions are not tried.
    is_rejected: bool,
    /// Ends the compilation of its last version in the background.
    background: Option<CancellationToken>,
}

impl DevelopedFile {
    /// Begins a new version, whose job has this token. Ends the compilation of the version before in the background, or
    /// prevents it if that version has no code yet. Returns the token that ends the new version's.
    fn begin_version(&mut self, cancelled: &CancellationToken) -> CancellationToken {
        let background = cancelled.child_token();
        if let Some(earlier) = self.background.replace(background.clone()) {
            earlier.cancel();
        }
        background
    }
}

/// One compilation of a component.
#[derive(Clone, Copy)]
struct Work {
    codegen: Codegen,
    /// Whether no load waits for the code.
    is_background: bool,
}

/// A component that is compiled, or being compiled.
struct Compilation {
    /// None until the job is done.
    outcome: watch::Receiver<Option<CompileResult>>,
    /// Kills the compiler process when the task is dropped. Without this, the process would continue without the
    /// host.
    cancelled: CancellationToken,
    _task: AbortOnDropHandle<()>,
}

type CompileResult = Result<CompiledCode, CompileFailure>;

/// Why there is no compiled component.
#[derive(Clone, Debug)]
enum CompileFailure {
    Compile(CompileError),
    Cache { dir: PathBuf, source: Arc<PrivateError> },
}

/// The next step for a component that is not in the cache.
enum Begun<'a> {
    /// None: it is compiled.
    Compiled(CompiledCode),
    /// Compile it into this file, with this permit. In the background, the queue has the permit.
    NotCompiled(Option<SemaphorePermit<'a>>, PendingCode),
}

/// Removes the file of a cancelled compilation, because no other host would continue it.
struct RemovedIfCancelled {
    path: Option<PathBuf>,
    cancelled: CancellationToken,
}

impl Drop for RemovedIfCancelled {
    fn drop(&mut self) {
        if let Some(path) = self.path.as_ref().filter(|_| self.cancelled.is_cancelled()) {
            // The file may have been stored, or never written.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Compilations {
    pub(crate) fn new(context: CompileContext) -> Self {
        Self { by_digest: Mutex::default(), context: Arc::new(context) }
    }

    /// Returns the compiled component. Dropping the future does not end the job.
    pub(crate) async fn get(&self, file: ComponentFile) -> Result<CompiledCode, ComponentError> {
        let (digest, path) = (file.digest, file.path.clone());
        let compilation = self.get_or_start(file);
        let outcome = match compilation.outcome.clone().wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone(),
            Err(_) => None,
        };
        let outcome = outcome.unwrap_or(Err(CompileFailure::Compile(CompileError::Cancelled)));
        outcome.map_err(|failure| {
            if !failure.is_permanent() {
                self.remove(digest, &compilation);
            }
            failure.into_load_error(&path)
        })
    }

    /// Returns the cached failure of a component: compiling it again would fail in the same way.
    pub(crate) fn known_failure(&self, file: &ComponentFile) -> Option<ComponentError> {
        let compilation = self.lock().get(&file.digest)?.clone();
        let failure = compilation.outcome.borrow().as_ref()?.as_ref().err()?.clone();
        failure.is_permanent().then(|| failure.into_load_error(&file.path))
    }

    /// Drops all components except these, and ends the jobs of others. Plugins that use a dropped component keep it.
    pub(crate) fn retain(&self, wanted: &HashSet<Digest>) {
        self.lock().retain(|digest, compilation| {
            let is_wanted = wanted.contains(digest);
            if !is_wanted {
                compilation.cancelled.cancel();
            }
            is_wanted
        });
    }

    /// Drops the failures, so that their components are compiled again.
    pub(crate) fn clear_failures(&self) {
        self.lock().retain(|_, compilation| !matches!(*compilation.outcome.borrow(), Some(Err(_))));
    }

    /// Reuses functions of earlier compilations.
    pub(crate) fn compile_incrementally(&self) {
        self.context.is_incremental.store(true, Ordering::Relaxed);
    }

    /// Returns the counters of compilations.
    pub(crate) fn metrics(&self) -> &CompileMetrics {
        &self.context.metrics
    }

    fn get_or_start(&self, file: ComponentFile) -> Arc<Compilation> {
        let mut jobs = self.lock();
        let started = jobs.entry(file.digest).or_insert_with(|| {
            let (sender, outcome) = watch::channel(None);
            let (context, cancelled) = (self.context.clone(), CancellationToken::new());
            let of_task = cancelled.clone();
            let task = task::spawn(async move {
                let (outcome, background) = context.first_code(&file, &of_task).await;
                sender.send_replace(Some(outcome));
                if let Some(background) = background {
                    context.optimize(&file, &background).await;
                }
            });
            Arc::new(Compilation { outcome, cancelled, _task: AbortOnDropHandle::new(task) })
        });
        started.clone()
    }

    /// Removes this job, unless another one has replaced it.
    fn remove(&self, digest: Digest, compilation: &Arc<Compilation>) {
        let mut jobs = self.lock();
        if jobs.get(&digest).is_some_and(|there| Arc::ptr_eq(there, compilation)) {
            jobs.remove(&digest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Digest, Arc<Compilation>>> {
        self.by_digest.lock()
    }
}

impl CompileContext {
    /// Returns the first usable code of a component. If the baseline compiler has made it, a token comes with it, which
    /// ends the compilation in the background.
    async fn first_code(
        &self,
        file: &ComponentFile,
        cancelled: &CancellationToken,
    ) -> (CompileResult, Option<CancellationToken>) {
        let optimized = Work { codegen: self.engine.codegen(), is_background: false };
        if !self.has_baseline() || file.is_pinned {
            return (self.load_or_compile(file, optimized, cancelled).await, None);
        }
        // Now, because a later version may have its code first.
        let background =
            self.developed(|developed| developed.entry(file.path.clone()).or_default().begin_version(cancelled));
        match self.load_cached(file.digest, optimized).await {
            Ok(None) => {}
            Ok(Some(code)) => return (Ok(code), None),
            Err(failure) => return (Err(failure), None),
        }
        let is_rejected = self.developed(|developed| developed.get(&file.path).is_some_and(|known| known.is_rejected));
        if !is_rejected {
            let baseline = Work { codegen: Codegen::Baseline, is_background: false };
            match self.load_or_compile(file, baseline, cancelled).await {
                Err(failure) if failure.is_permanent() => {
                    tracing::debug!(target: log_target::COMPILER, file = %file.path.display(), ?failure, "the baseline compiler does not support the component");
                }
                outcome => {
                    let background = outcome.is_ok().then_some(background);
                    return (outcome, background);
                }
            }
        }
        let outcome = self.load_or_compile(file, optimized, cancelled).await;
        if outcome.is_ok() && !is_rejected {
            // A component that both compilers reject is wrong. The next version may be right, and supported by both.
            self.developed(|developed| developed.entry(file.path.clone()).or_default().is_rejected = true);
        }
        (outcome, None)
    }

    /// Compiles a component to optimized code, for the cache, unless a new version of its file has begun.
    async fn optimize(&self, file: &ComponentFile, background: &CancellationToken) {
        let work = Work { codegen: self.engine.codegen(), is_background: true };
        let compile = |attempt: CancellationToken| async move { self.load_or_compile(file, work, &attempt).await };
        let compiled = background.run_until_cancelled(self.queue.run_in_background(background, compile)).await;
        if let Some(Err(failure)) = compiled {
            tracing::debug!(target: log_target::COMPILER, file = %file.path.display(), ?failure, "the component is not compiled for the cache");
        }
    }

    /// Whether components are compiled by the baseline compiler first. In this process they are not, because that would
    /// take its memory twice.
    fn has_baseline(&self) -> bool {
        self.engine.baseline().is_some() && self.compiler != Compiler::InProcess
    }

    /// Accesses what is known about the component files under development.
    fn developed<T>(&self, access: impl FnOnce(&mut HashMap<PathBuf, DevelopedFile>) -> T) -> T {
        access(&mut self.developed.lock())
    }

    /// Returns the engine for the code of this work.
    fn wasmtime(&self, work: Work) -> &wasmtime::Engine {
        match (work.codegen, self.engine.baseline()) {
            (Codegen::Baseline, Some(baseline)) => baseline,
            _ => self.engine.wasmtime(),
        }
    }

    /// Loads the component from the cache, or compiles it.
    async fn load_or_compile(&self, file: &ComponentFile, work: Work, cancelled: &CancellationToken) -> CompileResult {
        let digest = file.digest;
        if let Some(component) = self.load_cached(digest, work).await? {
            return Ok(component);
        }
        let waiting = self.metrics.waiting.open();
        let (_permit, pending) = match self.begin(file, work).await? {
            Begun::Compiled(component) => return Ok(component),
            Begun::NotCompiled(permit, pending) => (permit, pending),
        };
        drop(waiting);
        let timer = CompileTimer::begin(&self.metrics);
        let compiled = self.compile(file, work, pending, cancelled.clone()).await;
        timer.end(compiled.is_ok());
        compiled
    }

    /// Compiles the component into a file of the cache.
    async fn compile(
        &self,
        file: &ComponentFile,
        work: Work,
        pending: PendingCode,
        cancelled: CancellationToken,
    ) -> CompileResult {
        let digest = file.digest;
        let _shown = if work.is_background { None } else { self.progress.compiling(&file.path, file.size) };
        let _removed =
            RemovedIfCancelled { path: pending.locked_path().map(Path::to_owned), cancelled: cancelled.clone() };
        let request = self.request(file, work, &pending, cancelled);
        let request = request.map_err(|error| CompileFailure::Compile(CompileError::Start(error.to_string())))?;
        let functions = request.functions.clone();
        let (cache, engine) = (self.cache.clone(), self.wasmtime(work).clone());
        if let Err(error) = self.compiler.compile(request, &self.limits).await {
            let discard = move || {
                pending.discard();
                Ok(())
            };
            self.run_blocking(discard).await?;
            return Err(CompileFailure::Compile(error));
        }
        if let Some(functions) = functions {
            self.run_blocking(move || functions.keep()).await?;
        }
        let stored = self.run_blocking(move || match cache.store(&engine, &digest, pending) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Err(error)),
            stored => stored.map(Ok),
        });
        // The compiler has already rejected components beyond the bounds of the engine's pool (module
        // `static_content`).
        let unfit = |error: io::Error| {
            format!("the engine refuses the compiler's output; is the compiler of another version? {error}")
        };
        stored.await?.map_err(|error| CompileFailure::Compile(CompileError::Invalid(unfit(error))))
    }

    /// Returns the request for the compiler.
    fn request(
        &self,
        file: &ComponentFile,
        work: Work,
        pending: &PendingCode,
        cancelled: CancellationToken,
    ) -> io::Result<CompileRequest> {
        let is_developed = self.is_incremental.load(Ordering::Relaxed);
        // The baseline compiler cannot reuse functions. A pinned file has no next version, and may be by another
        // author.
        let is_incremental = is_developed && work.codegen != Codegen::Baseline && !file.is_pinned;
        let engine = self.wasmtime(work);
        Ok(CompileRequest {
            component: file.reopen()?,
            digest: file.digest,
            key: self.cache.code_key(engine, &file.digest),
            functions: is_incremental.then(|| self.cache.functions(engine, &file.path, file.size)),
            into: pending.writer()?,
            codegen: work.codegen,
            is_urgent: is_developed && !work.is_background,
            can_outlive_host: pending.can_outlive_host(),
            cancelled,
        })
    }

    /// Waits until the component may be compiled, or another process has compiled it.
    async fn begin(&self, file: &ComponentFile, work: Work) -> Result<Begun<'_>, CompileFailure> {
        // The permit is kept while another process compiles the component, because compilers that outlived their
        // hosts count, too.
        let permit = if work.is_background { None } else { self.queue.permit().await };
        let mut waiting = None;
        loop {
            let (cache, engine, digest) = (self.cache.clone(), self.wasmtime(work).clone(), file.digest);
            match self.run_blocking(move || cache.begin(&engine, &digest)).await? {
                Missing::Compiled(component) => return Ok(Begun::Compiled(component)),
                Missing::NotCompiled(pending) => return Ok(Begun::NotCompiled(permit, pending)),
                Missing::BeingCompiled => {}
            }
            let (since, _) = waiting.get_or_insert_with(|| {
                let shown = if work.is_background { None } else { self.progress.waiting(&file.path, file.size) };
                (Instant::now(), shown)
            });
            // The other process should have ended by then.
            if since.elapsed() > self.limits.deadline.duration() {
                let cache = self.cache.clone();
                let pending = self.run_blocking(move || cache.begin_unlocked()).await?;
                return Ok(Begun::NotCompiled(permit, pending));
            }
            sleep(LOCK_POLL_INTERVAL).await;
        }
    }

    async fn load_cached(&self, digest: Digest, work: Work) -> Result<Option<CompiledCode>, CompileFailure> {
        let (cache, engine) = (self.cache.clone(), self.wasmtime(work).clone());
        self.run_blocking(move || Ok(cache.load(&engine, &digest))).await
    }

    /// Runs work on the cache on a blocking thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, CompileFailure> {
        let done = self.threads.run(work).await.flatten();
        done.map_err(|error| CompileFailure::Cache { dir: self.cache.dir().to_owned(), source: Arc::new(error.into()) })
    }
}

impl CompileFailure {
    /// Returns whether the failure is the component's own, so that a retry would fail in the same way.
    fn is_permanent(&self) -> bool {
        match self {
            Self::Compile(error) => error.is_permanent(),
            Self::Cache { .. } => false,
        }
    }

    /// Returns the failure as the error of loading this file.
    fn into_load_error(self, file: &Path) -> ComponentError {
        match self {
            Self::Compile(source) => ComponentError::Compile { file: file.to_owned(), source },
            Self::Cache { dir, source } => ComponentError::Cache { dir, source },
        }
    }
}

/// Called before a component is compiled. Its result is dropped when the compilation ends.
type Compiling = dyn Fn(&Path, u64) -> Box<dyn Send> + Send + Sync;

/// The receiver of progress reports about long work.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Compiling>>);

impl Progress {
    /// Calls `compiling` with the file and the size in bytes of every component that this host or another process
    /// compiles. The result is dropped when the compilation ends.
    pub fn new<T: Send + 'static>(compiling: impl Fn(&Path, u64) -> T + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(move |file, size| Box::new(compiling(file, size)))))
    }

    pub(crate) fn compiling(&self, file: &Path, size: u64) -> Option<Box<dyn Send>> {
        tracing::info!(target: log_target::COMPILER, file = %file.display(), bytes = size, "compiling a component; this is done once");
        self.0.as_ref().map(|compiling| compiling(file, size))
    }

    /// Reports that another process compiles the component.
    pub(crate) fn waiting(&self, file: &Path, size: u64) -> Option<Box<dyn Send>> {
        tracing::info!(target: log_target::COMPILER, file = %file.display(), "waiting for another process that compiles this component");
        self.0.as_ref().map(|compiling| compiling(file, size))
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_of_a_file_ends_the_work_in_the_background_for_the_one_before() {
        let (mut file, job) = (DevelopedFile::default(), CancellationToken::new());
        let first = file.begin_version(&job);
        // The first version has no code yet: it gets it later than the second one.
        let second = file.begin_version(&job);
        assert!(first.is_cancelled() && !second.is_cancelled());
        let third = file.begin_version(&job);
        assert!(second.is_cancelled() && !third.is_cancelled());
        job.cancel();
        assert!(third.is_cancelled());
    }
}
