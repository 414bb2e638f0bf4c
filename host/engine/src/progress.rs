//! Progress of long work.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use mcp_host_base::log_target;

/// Called when a component is about to be compiled; its result lives until that is done.
type Compiling = dyn Fn(&Path, u64) -> Box<dyn Send> + Send + Sync;

/// The receiver of progress reports about long work.
#[derive(Clone, Default)]
pub struct Progress(Option<Arc<Compiling>>);

impl Progress {
    /// Calls `compiling` with the file and the size in bytes of every component that is compiled, by this host or by another
    /// process. Its result is dropped when that is done.
    pub fn new<T: Send + 'static>(compiling: impl Fn(&Path, u64) -> T + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(move |file, size| Box::new(compiling(file, size)))))
    }

    pub(crate) fn compiling(&self, file: &Path, size: u64) -> Option<Box<dyn Send>> {
        tracing::info!(target: log_target::COMPILER, file = %file.display(), bytes = size, "compiling a component; this is done once");
        self.0.as_ref().map(|compiling| compiling(file, size))
    }

    /// Another process compiles the component.
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
