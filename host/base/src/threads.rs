//! Worker threads, separate from the caller's, and their scheduling by the operating system: time slices and
//! priorities.
//!
//! Scheduling is only supported on Linux. Since 6.6, its scheduler (EEVDF) lets a running thread, whatever its
//! priority, finish its time slice of a millisecond or more before a thread that has just been woken. Since 6.12, a
//! thread can request shorter time slices; earlier kernels ignore the request.

#[cfg(target_os = "linux")]
mod linux;

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::Poll;

use tokio::runtime::{Builder, Handle, Runtime};

/// Requests short time slices for the current thread: threads that are woken wait less for it, and it waits less for
/// computing threads when it is woken itself.
pub fn set_short_time_slice() {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::adjust(0) {
        tracing::debug!(target: crate::log_target::SERVER, %error, "cannot shorten the time slice of a thread");
    }
}

/// Requests short time slices, and lowers the priority of the current thread. In competition with one thread of normal
/// priority, it gets a tenth of a processor with `nice_delta` 10, and two fifths with 2.
pub fn lower_priority(nice_delta: i32) {
    #[cfg(target_os = "linux")]
    if let Err(error) = linux::adjust(nice_delta) {
        tracing::debug!(target: crate::log_target::SERVER, %error, "cannot lower the priority of a thread");
    }
}

thread_local! {
    static HAS_YIELDED: Cell<bool> = const { Cell::new(false) };
}

/// Yields to other tasks, and is ready again immediately, so that a call of a plugin moves to a worker.
/// [`tokio::task::yield_now`] would wake the task only after others have run, which would count as a wait of the call.
pub async fn yield_ready() {
    let mut has_yielded = false;
    poll_fn(|context| match std::mem::replace(&mut has_yielded, true) {
        true => Poll::Ready(()),
        false => {
            HAS_YIELDED.set(true);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
}

/// Returns whether [`yield_ready`] has yielded on this thread since the last call of this function.
pub fn take_yielded() -> bool {
    HAS_YIELDED.take()
}

/// Worker threads. When the pool is dropped, they end in the background.
pub struct WorkerPool {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl WorkerPool {
    /// Starts the threads that the builder configures.
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
            // Waiting for the threads would block, which is not allowed in a task, where a host is usually dropped.
            runtime.shutdown_background();
        }
    }
}
