//! Where a plugin's file operations block: on threads for that, and on no more than [`MAX_BLOCKING_THREADS`] of them at once.
//!
//! A disk can be slow, or gone: a network that does not answer blocks a thread for as long as it likes, whatever became of the
//! call that wanted something of it. So an operation has its permit until the operating system has answered, not until
//! nobody waits for it any more: a plugin whose directory hangs takes that many threads and no others, and its next calls wait
//! for a permit, without a thread, until their deadline. The pools of threads are large enough for hundreds of plugins.

use std::io;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::LocalBoxFuture;
use tokio::sync::Semaphore;
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{Descriptor, WasiFilesystemCtx, WasiFilesystemCtxView};
use wasmtime_wasi::p2::FsResult;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;

/// Threads that one plugin may block: as many as it has calls at once, unless it has set another number.
const MAX_BLOCKING_THREADS: usize = 8;

/// The threads that one plugin may block.
#[derive(Clone, Debug)]
pub(super) struct DiskPool(Arc<Semaphore>);

impl Default for DiskPool {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_BLOCKING_THREADS)))
    }
}

impl DiskPool {
    /// Does something on a thread that may block. Once begun it goes on to its end, whoever waits for it.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        self.spawn(work).await.unwrap_or_else(Err)
    }

    /// Calls a function of wasmtime-wasi's on such a thread. The descriptors that it is about are in a table of their own.
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
        let call = move || {
            let (mut ctx, mut table) = (WasiFilesystemCtx::default(), ResourceTable::new());
            let mut pushed = descriptors.map(|descriptor| table.push(descriptor).ok()).into_iter().flatten();
            let handles = std::array::from_fn(|_| pushed.next().unwrap_or_else(|| Resource::new_own(u32::MAX)));
            drop(pushed);
            let mut view = WasiFilesystemCtxView { ctx: &mut ctx, table: &mut table };
            // They block this thread, as their descriptors allow: none of them ever waits.
            function(&mut view, handles).now_or_never().unwrap_or_else(|| Err(ErrorCode::WouldBlock.into()))
        };
        self.spawn(call).await.unwrap_or_else(|error| Err(error.into()))
    }

    async fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
        // It is never closed.
        let permit = self.0.clone().acquire_owned().await.map_err(io::Error::other)?;
        let done = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        done.await.map_err(io::Error::other)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_plugin_whose_disk_hangs_blocks_so_many_threads_and_no_others() {
        let (hanging, other) = (DiskPool::default(), DiskPool::default());
        let (end, ended) = mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        // Each is given up by whoever waits for it, as a call is at its deadline, and goes on nevertheless.
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
        assert_eq!(hanging.0.available_permits(), 0);
        other.run(|| Ok(())).await.unwrap();
        end.send(()).unwrap();
        waits.await.unwrap();
        (1..MAX_BLOCKING_THREADS).for_each(|_| end.send(()).unwrap());
    }
}
