//! One call of the executor: it is polled on its clock, caught if it panics, and woken with the time.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::PollSemaphore;

use crate::cpu::CpuClock;

/// The processor time up to which a call counts as light.
pub(super) const LIGHT_CPU_BUDGET: Duration = Duration::from_millis(1);

/// A call in progress.
pub(super) struct Call {
    /// Type-erased: the type would contain everything that a call does. It stores the output for the caller.
    future: BoxFuture<'static, thread::Result<()>>,
    clock: Arc<CpuClock>,
    pub(super) run_permit: PendingRunPermit,
    /// Its processor time.
    pub(super) cpu_time: Duration,
    /// Records when the call is woken. None before the call leaves its caller's thread, unless it may wait there.
    wakes: Option<Arc<WakeTime>>,
    /// The end of its last poll, while it waits.
    paused: Option<Instant>,
}

/// Wakes a call, and records the time.
#[derive(Default)]
struct WakeTime {
    waker: AtomicWaker,
    woken: Mutex<Option<Instant>>,
}

impl Wake for WakeTime {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.lock().get_or_insert_with(Instant::now);
        self.waker.wake();
    }
}

impl Call {
    pub(super) fn new(future: impl Future<Output = ()> + Send + 'static, clock: Arc<CpuClock>) -> Self {
        // No state of a call that panicked is used again: its instance is dropped with it.
        let future = Box::pin(AssertUnwindSafe(future).catch_unwind());
        let (run_permit, cpu_time) = (PendingRunPermit::default(), Duration::ZERO);
        Self { future, clock, run_permit, cpu_time, wakes: None, paused: None }
    }

    /// Starts recording how long the call waits for events. The time to reach a worker is not a wait of the call.
    pub(super) fn record_waits(&mut self) {
        self.wakes.get_or_insert_default();
    }

    /// Returns whether the call has used up the processor time of a light call.
    pub(super) fn is_heavy(&self) -> bool {
        self.cpu_time >= LIGHT_CPU_BUDGET
    }

    /// Polls the call on its clock. The time from its last poll until it was woken is a wait of the call; from then on
    /// it was ready.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<(), CallAborted>> {
        let Self { future, clock, wakes, paused, .. } = self;
        let (polled, used) = match wakes {
            None => clock.poll(|| future.as_mut().poll(context)),
            Some(wakes) => {
                let woken = wakes.woken.lock().take().unwrap_or_else(Instant::now);
                if let Some(paused) = paused.take() {
                    clock.record_wait(woken.saturating_duration_since(paused));
                }
                wakes.waker.register(context.waker());
                let waker = Waker::from(wakes.clone());
                let polled = clock.poll(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
                *paused = polled.0.is_pending().then(Instant::now);
                polled
            }
        };
        self.cpu_time = used;
        if polled.is_pending() {
            self.clock.host().charge_hand_off();
        }
        polled.map_err(|panic| CallAborted::Panicked(panic_message(&*panic)))
    }
}

/// Why a call has neither a result nor a fault.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallAborted {
    /// The host's own code panicked.
    #[error("it panicked: {0}")]
    Panicked(String),
    /// Its output was taken before.
    #[error("it ended without an output")]
    NoOutput,
    /// The workers were shut down.
    #[error(transparent)]
    Shutdown(#[from] JoinError),
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "with no message".to_owned())
}

/// The wait of a call for a run permit.
#[derive(Default)]
pub(super) struct PendingRunPermit(Option<PollSemaphore>);

impl PendingRunPermit {
    pub(super) fn poll(
        &mut self,
        run_permits: &Arc<Semaphore>,
        context: &mut Context<'_>,
    ) -> Poll<Option<tokio::sync::OwnedSemaphorePermit>> {
        if self.0.is_none()
            && let Ok(permit) = run_permits.clone().try_acquire_owned()
        {
            return Poll::Ready(Some(permit));
        }
        let polled = self.0.get_or_insert_with(|| PollSemaphore::new(run_permits.clone())).poll_acquire(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}
