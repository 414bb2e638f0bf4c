//! Worker threads of one priority: a tokio runtime apart from the caller's.

use std::io;

use tokio::runtime::{Builder, Handle, Runtime};

/// Worker threads. When it is dropped, they end in the background.
pub struct WorkerPool {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl WorkerPool {
    /// Starts the threads that the builder describes.
    pub fn start(builder: &mut Builder) -> io::Result<Self> {
        let runtime = builder.enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// The runtime of the threads.
    pub fn handle(&self) -> &Handle {
        &self.handle
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for them would block, which is not allowed where a host is usually dropped: in a task.
            runtime.shutdown_background();
        }
    }
}
