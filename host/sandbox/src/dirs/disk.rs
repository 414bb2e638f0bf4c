//! Blocking file operations of one plugin. They run on blocking threads, and a semaphore limits them to
//! [`MAX_BLOCKING_THREADS`] at the same time (bulkhead).
//!
//! A disk can be slow or unreachable: a network file system that does not respond blocks a thread for an unbounded
//! time, even after the call that started the operation has ended. So an operation holds its permit until the operating
//! system has answered, even if its caller has stopped waiting: a plugin whose directory hangs blocks at most this
//! number of threads, and its next calls wait for a permit, without a thread, until their deadline. The thread pools
//! are large enough for hundreds of plugins.
//!
//! The processor time of an operation is a part of `limits.cpu` of the call that started it. The wait for a permit
//! counts as contention with other calls.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use mcp_host_base::trace;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tracing::field::Empty;
use tracing::{Span, info_span};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

use crate::cpu::HostCpuBudget;

/// The maximum number of threads that one plugin may block, equal to the default of `limits.concurrency`.
const MAX_BLOCKING_THREADS: usize = 8;

/// The semaphore for the threads that one plugin may block, as one call uses it.
#[derive(Clone, Debug)]
pub(super) struct DiskPool {
    permits: Arc<Semaphore>,
    cpu: HostCpuBudget,
    /// None outside of a call.
    trace: Option<Arc<Mutex<FilesTrace>>>,
}

/// The span of all file operations of one call, from the first one to the end of the call.
#[derive(Debug, Default)]
struct FilesTrace {
    /// None before the first operation.
    span: Option<Span>,
    operations: i64,
    waited: Duration,
}

impl FilesTrace {
    fn begin(&mut self) {
        self.span.get_or_insert_with(|| {
            trace::child(|| {
                info_span!(
                    target: trace::TARGET,
                    "files",
                    "mcp_host.file.operations" = Empty,
                    "mcp_host.file.seconds" = Empty,
                )
            })
        });
    }

    fn record(&mut self, waited: Duration) {
        self.operations = self.operations.saturating_add(1);
        self.waited = self.waited.saturating_add(waited);
    }

    /// Ends the span, which excludes operations that are still running.
    fn end(&mut self) {
        if let Some(span) = self.span.take() {
            span.record("mcp_host.file.operations", self.operations);
            span.record("mcp_host.file.seconds", self.waited.as_secs_f64());
        }
    }
}

impl Drop for FilesTrace {
    fn drop(&mut self) {
        self.end();
    }
}

impl Default for DiskPool {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(MAX_BLOCKING_THREADS)), cpu: HostCpuBudget::unlimited(), trace: None }
    }
}

impl DiskPool {
    /// The same pool, for a call with this budget of processor time.
    pub(super) fn for_call(&self, cpu: HostCpuBudget) -> Self {
        Self { permits: self.permits.clone(), cpu, trace: Some(Arc::default()) }
    }

    /// Ends the call.
    pub(super) fn end_call(&self) {
        if let Some(trace) = &self.trace {
            trace.lock().end();
        }
    }

    /// Runs `work` on a thread that may block. Once started it runs to completion, even if the caller stops waiting.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.spawn(work).await.unwrap_or_else(Err)
    }

    /// Calls a function of wasmtime-wasi on such a thread, with `descriptors` in a separate resource table.
    pub(super) async fn call<const N: usize, T: Send + 'static>(
        &self,
        descriptors: [Descriptor; N],
        function: impl for<'a> FnOnce(
            &'a mut WasiFilesystemCtxView<'_>,
            [Resource<Descriptor>; N],
        ) -> LocalBoxFuture<'a, FsResult<T>>
        + Send
        + 'static,
    ) -> FsResult<T> {
        self.spawn(move || call_here(descriptors, function)).await.unwrap_or_else(|error| Err(error.into()))
    }

    async fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        let done = Arc::new(Mutex::new(None));
        let slot = done.clone();
        self.spawn_erased(Box::new(move || *slot.lock() = Some(work()))).await?;
        let done = done.lock().take();
        done.ok_or_else(|| io::Error::other("an operation ended without a result"))
    }

    /// Runs work that stores its result. Type-erased, so that this is compiled once, and not for each operation.
    async fn spawn_erased(&self, work: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        let began = Instant::now();
        if let Some(trace) = &self.trace {
            trace.lock().begin();
        }
        // The semaphore is never closed.
        let permit = self.cpu.contend(self.permits.clone().acquire_owned()).await.map_err(io::Error::other)?;
        let cpu = self.cpu.clone();
        let done = tokio::task::spawn_blocking(move || {
            let _charged = cpu.charge_thread();
            work();
            drop(permit);
        });
        let done = done.await.map_err(io::Error::other);
        if let Some(trace) = &self.trace {
            trace.lock().record(began.elapsed());
        }
        done
    }
}

/// Calls a function of wasmtime-wasi on this thread, with `descriptors` in a separate resource table.
pub(super) fn call_here<const N: usize, T>(
    descriptors: [Descriptor; N],
    function: impl for<'a> FnOnce(
        &'a mut WasiFilesystemCtxView<'_>,
        [Resource<Descriptor>; N],
    ) -> LocalBoxFuture<'a, FsResult<T>>,
) -> FsResult<T> {
    let (mut ctx, mut table) = (WasiFilesystemCtx::default(), ResourceTable::new());
    let mut pushed = descriptors.map(|descriptor| table.push(descriptor).ok()).into_iter().flatten();
    let handles = std::array::from_fn(|_| pushed.next().unwrap_or_else(|| Resource::new_own(u32::MAX)));
    drop(pushed);
    let mut view = WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table };
    // The descriptors allow blocking, so the functions block this thread and their futures are never pending.
    function(&mut view, handles).now_or_never().unwrap_or_else(|| Err(ErrorCode::WouldBlock.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::cpu::HostTimes;
    use mcp_host_base::time::thread_cpu_time;

    #[tokio::test]
    async fn a_plugin_whose_disk_hangs_blocks_so_many_threads_and_no_others() {
        let (hanging, other) = (DiskPool::default(), DiskPool::default());
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        // Each caller stops waiting, as a call does at its deadline, but the operation continues.
        for _ in 0..MAX_BLOCKING_THREADS {
            let ended = ended.clone();
            let hangs = hanging.run(move || {
                ended.lock().unwrap().recv().unwrap();
                Ok(())
            });
            assert!(futures::poll!(Box::pin(hangs)).is_pending());
        }
        let mut waits = Box::pin(hanging.run(|| Ok(())));
        assert!(futures::poll!(&mut waits).is_pending());
        assert_eq!(hanging.permits.available_permits(), 0);
        other.run(|| Ok(())).await.unwrap();
        end.send(()).unwrap();
        waits.await.unwrap();
        (1..MAX_BLOCKING_THREADS).for_each(|_| end.send(()).unwrap());
    }

    #[tokio::test]
    async fn an_operation_is_a_part_of_the_processor_time_of_its_call_and_the_wait_for_a_thread_is_not() {
        let (times, pool) = (HostTimes::default(), DiskPool::default());
        let of_call = pool.for_call(HostCpuBudget::new(times.clone(), Duration::MAX));
        let time = Duration::from_millis(20);
        let compute = move || {
            let before = thread_cpu_time();
            while thread_cpu_time().saturating_sub(before) < time {}
            Ok(())
        };
        of_call.run(compute).await.unwrap();
        assert!(times.cpu() >= time, "{times:?}");
        let held = pool.permits.clone().acquire_many_owned(8).await.unwrap();
        let (waited, ()) = tokio::join!(of_call.run(|| Ok(())), async {
            tokio::time::sleep(time).await;
            drop(held);
        });
        waited.unwrap();
        assert!(times.contention() >= time, "{times:?}");
    }
}
