//! Panics of native providers: caught where their code runs, and where its values are dropped, because destructors
//! may panic, too.

use std::any::Any;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::BoxFuture;
use mcp_host_base::text;

use crate::executor::panic_message;

/// The maximum length of a panic's message in bytes.
const MAX_PANIC_MESSAGE: usize = 2048;

/// Calls code of a provider. The error is the message of its panic, escaped.
///
/// The state that a panic leaves in a provider is the provider's responsibility, as the documentation of `provider`
/// says.
pub(super) fn contain_panic<T>(code: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(into_message)
}

/// A future of a provider. Its panics are contained, including panics of destructors.
pub(super) struct ContainedFuture<'a, T>(Option<BoxFuture<'a, T>>);

impl<'a, T> ContainedFuture<'a, T> {
    pub(super) fn new(future: BoxFuture<'a, T>) -> Self {
        Self(Some(future))
    }
}

impl<T> Future for ContainedFuture<'_, T> {
    type Output = Result<T, String>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T, String>> {
        let Some(future) = self.0.as_mut() else { return Poll::Pending };
        match contain_panic(|| future.as_mut().poll(context)) {
            Ok(polled) => polled.map(Ok),
            Err(message) => Poll::Ready(Err(message)),
        }
    }
}

impl<T> Drop for ContainedFuture<'_, T> {
    fn drop(&mut self) {
        drop_contained(self.0.take());
    }
}

/// Returns the message of a panic, escaped, and drops its payload.
fn into_message(panic: Box<dyn Any + Send>) -> String {
    let message = text::truncate(panic_message(&*panic), MAX_PANIC_MESSAGE);
    drop_contained(panic);
    message.escape_debug().to_string()
}

/// Drops a value whose destructor may panic. The panic hook reports such a panic.
fn drop_contained<T>(value: T) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        // The destructor of the panic's payload might panic as well, so the payload is leaked.
        mem::forget(panic);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use futures::FutureExt;

    use super::*;

    struct PanicsOnDrop;

    impl Drop for PanicsOnDrop {
        fn drop(&mut self) {
            panic_any(Self);
        }
    }

    #[test]
    fn a_panic_is_its_message() {
        assert_eq!(contain_panic(|| 1), Ok(1));
        assert_eq!(contain_panic(|| panic!("a\n{}", 1)), Err::<(), _>("a\\n1".to_owned()));
        assert_eq!(contain_panic(|| panic_any(1_u8)), Err::<(), _>("with no message".to_owned()));
    }

    #[test]
    fn a_panic_of_a_destructor_is_contained_wherever_it_is_dropped() {
        assert!(contain_panic::<()>(|| panic_any(PanicsOnDrop)).is_err());
        let mut future = ContainedFuture::new(Box::pin(async {
            let _held = PanicsOnDrop;
            std::future::pending::<()>().await;
        }));
        assert_eq!((&mut future).now_or_never(), None);
        drop(future);
        let mut future = ContainedFuture::new(Box::pin(async { panic_any(PanicsOnDrop) }));
        assert_eq!((&mut future).now_or_never(), Some(Err::<(), _>("with no message".to_owned())));
    }
}
