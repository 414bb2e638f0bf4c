//! Tasks of the current runtime whose futures are type-erased.
//!
//! tokio compiles the code of a task anew for each type of future, and for each of its two schedulers: several KiB.
//! These functions cost one allocation instead, so they are for tasks that start rarely: with the server, a connection
//! or a session, not with a request.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Spawns a task, as [`tokio::spawn`] does.
///
/// # Panics
///
/// If it is called outside of a runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    let future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
    tokio::spawn(future)
}

/// Runs a function on a thread that may block, as [`tokio::task::spawn_blocking`] does.
///
/// # Panics
///
/// If it is called outside of a runtime.
pub fn spawn_blocking<T: Send + 'static>(function: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let function: Box<dyn FnOnce() -> T + Send> = Box::new(function);
    tokio::task::spawn_blocking(function)
}
