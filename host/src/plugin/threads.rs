//! Where guests run: for a moment on the caller's thread, then on threads apart from the transport's, heavy calls apart from
//! light ones.
//!
//! A guest that computes yields at every tick of the epoch. A call begins on its caller's thread, and most are over there
//! before a thread of their own would have woken up; one that yields, or waits, goes on on guest threads, where it waits and
//! computes as a part of their runtime from its beginning. So what a guest can take of a transport's thread is one tick, and
//! what the host does for it in one piece: making its instance, copying its answer, which `limits.reply` bounds.
//!
//! Threads take turns at the calls that are ready. That alone would make everyone wait for everyone: beside eight guests that
//! spin, a call would wait eight ticks for each of its turns. So there are two bounds more:
//!
//! - Once they are there, the calls of one plugin are on as many threads as there are processors, at most. Further ones queue in their plugin's
//!   [`Lane`], not in the threads' queues, where they would be before the calls of others.
//! - A call that has computed for [`LIGHT`] moves over to the *heavy* threads, and for [`HEAVY_TIMES`] as long from then on the
//!   calls of its plugin begin there, and not with their callers: a call that took a little longer for once says little of those
//!   after it. Heavy threads have a lower priority, so the operating system has a light call run at once, not at the next tick;
//!   and there are twice as many of them as processors, so that a plugin that is heavy for good reason finds one beside a plugin
//!   that spins.
//!
//! So a light call of another plugin should wait for at most a tick (0.5 ms) at a time. What counts is processor time, not time
//! that went by ([`Timer`]): nobody becomes heavy because the machine is busy.

use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use futures::FutureExt;
use futures::future::CatchUnwind;
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio_util::sync::PollSemaphore;
use tokio_util::task::AbortOnDropHandle;

use crate::scheduling;

/// For how long a call may compute and still be light.
const LIGHT: Duration = Duration::from_millis(1);
/// For how many polls after one that was long by the wall clock all are timed exactly.
const SUSPECT_FOR: u32 = 32;
/// For how many times as long as a heavy call has computed all of its plugin are heavy from then on.
const HEAVY_TIMES: u32 = 100;
/// The longest that this is.
const HEAVY_MOST: Duration = Duration::from_secs(10);

/// The guest threads of one engine.
pub(super) struct Threads {
    light: Group,
    heavy: Group,
    processors: usize,
}

impl Threads {
    /// Starts them.
    pub(super) fn start() -> io::Result<Self> {
        let processors = available_parallelism().map_or(1, usize::from);
        let mut light = Builder::new_multi_thread();
        let mut heavy = Builder::new_multi_thread();
        Ok(Self {
            light: Group::start(light.thread_name("guest").worker_threads(processors))?,
            heavy: Group::start(
                heavy
                    .thread_name("heavy-guest")
                    .worker_threads(processors.saturating_mul(2))
                    .on_thread_start(scheduling::give_way),
            )?,
            processors,
        })
    }

    /// A lane for the calls of one plugin.
    pub(super) fn lane(&self) -> Arc<Lane> {
        Arc::new(Lane {
            heavy: self.heavy.handle.clone(),
            turns: Arc::new(Semaphore::new(self.processors)),
            start: Instant::now(),
            suspect: AtomicU32::new(0),
            heavy_until: AtomicU64::new(0),
        })
    }

    /// Runs a call of a plugin. A panic in it ends it alone, and so does dropping the future.
    ///
    /// # Errors
    ///
    /// The call panicked, or the threads are gone.
    pub(super) async fn call<F>(&self, lane: &Arc<Lane>, call: F) -> Result<F::Output, Ended>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let mut call = Call::new(call);
        if !lane.is_heavy() {
            let begun = poll_fn(|context| {
                let _runtime = self.light.handle.enter();
                Poll::Ready(lane.run_on(&mut call, context))
            });
            if let Poll::Ready(output) = begun.await {
                return output;
            }
        }
        let lane = lane.clone();
        let task = match lane.is_heavy() {
            true => self.heavy.handle.spawn(lane.run_heavy(call)),
            false => self.light.handle.spawn(lane.run(call)),
        };
        AbortOnDropHandle::new(task).await?
    }

    /// Runs something that is no call.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.light.handle.spawn(task))
    }
}

/// The lane of one plugin: its calls' turns on the threads.
pub(super) struct Lane {
    heavy: Handle,
    turns: Arc<Semaphore>,
    start: Instant,
    /// How many polls are still to be timed exactly.
    suspect: AtomicU32,
    /// Until when the plugin is heavy, in milliseconds from the start.
    heavy_until: AtomicU64,
}

impl Lane {
    /// Runs a call for as long as it is light, and then has it run on the heavy threads.
    async fn run<F>(self: Arc<Self>, mut call: Call<F>) -> Result<F::Output, Ended>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let light = poll_fn(|context| match self.is_heavy() {
            true => Poll::Ready(None),
            false => self.poll(&mut call, context).map(Some),
        });
        if let Some(output) = light.await {
            return output;
        }
        // It waits for its turn there, and must not have one here as well.
        call.turn = Turn::default();
        let heavy = self.heavy.clone();
        AbortOnDropHandle::new(heavy.spawn(self.run_heavy(call))).await?
    }

    async fn run_heavy<F: Future>(self: Arc<Self>, mut call: Call<F>) -> Result<F::Output, Ended> {
        poll_fn(|context| {
            let polled = self.poll(&mut call, context);
            if polled.is_pending() {
                // The system would let a thread of whatever priority run for some ticks before another has its turn.
                std::thread::yield_now();
            }
            polled
        })
        .await
    }

    /// Polls a call when it is its turn.
    fn poll<F: Future>(&self, call: &mut Call<F>, context: &mut Context<'_>) -> Poll<Result<F::Output, Ended>> {
        let _turn = ready!(call.turn.poll(&self.turns, context));
        self.run_on(call, context)
    }

    /// Polls a call, and adds to what it has used of the processor.
    fn run_on<F: Future>(&self, call: &mut Call<F>, context: &mut Context<'_>) -> Poll<Result<F::Output, Ended>> {
        let timer = Timer::start(self.is_suspect());
        let polled = call.future.as_mut().poll(context);
        match timer.computed() {
            Some(computed) => call.used = call.used.saturating_add(computed),
            None => self.suspect.store(SUSPECT_FOR, Ordering::Relaxed),
        }
        if call.used >= LIGHT {
            let heavy_for = call.used.saturating_mul(HEAVY_TIMES).min(HEAVY_MOST);
            self.heavy_until.fetch_max(self.now().saturating_add(millis(heavy_for)), Ordering::Relaxed);
        }
        polled.map_err(|panic| Ended::Panicked(panic_message(&*panic)))
    }

    /// Whether a poll is to be timed exactly.
    fn is_suspect(&self) -> bool {
        let left = self.suspect.load(Ordering::Relaxed);
        if left > 0 {
            self.suspect.store(left.saturating_sub(1), Ordering::Relaxed);
        }
        left > 0
    }

    fn is_heavy(&self) -> bool {
        let until = self.heavy_until.load(Ordering::Relaxed);
        until > 0 && self.now() < until
    }

    fn now(&self) -> u64 {
        millis(self.start.elapsed())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// A call under way.
struct Call<F: Future> {
    future: Pin<Box<CatchUnwind<AssertUnwindSafe<F>>>>,
    turn: Turn,
    /// What it has used of the processor.
    used: Duration,
}

impl<F: Future> Call<F> {
    fn new(future: F) -> Self {
        // Nothing of a call that panicked is used again: its instance goes with it.
        Self { future: Box::pin(AssertUnwindSafe(future).catch_unwind()), turn: Turn::default(), used: Duration::ZERO }
    }
}

/// Why a call gave nothing back, not even a fault.
#[derive(Debug, thiserror::Error)]
pub(super) enum Ended {
    /// The host's own code panicked in it.
    #[error("it panicked: {0}")]
    Panicked(String),
    /// The threads were shut down.
    #[error(transparent)]
    Gone(#[from] JoinError),
}

/// What a panic said.
fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "with no message".to_owned())
}

/// How a call waits for its turn.
#[derive(Default)]
struct Turn(Option<PollSemaphore>);

impl Turn {
    fn poll(
        &mut self,
        turns: &Arc<Semaphore>,
        context: &mut Context<'_>,
    ) -> Poll<Option<tokio::sync::OwnedSemaphorePermit>> {
        if self.0.is_none()
            && let Ok(turn) = turns.clone().try_acquire_owned()
        {
            return Poll::Ready(Some(turn));
        }
        let polled = self.0.get_or_insert_with(|| PollSemaphore::new(turns.clone())).poll_acquire(context);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

/// Threads of one priority. Dropped, they end by and by.
struct Group {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Group {
    fn start(builder: &mut Builder) -> io::Result<Self> {
        let runtime = builder.enable_all().build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Waiting for them would block, which is not allowed where a host is usually dropped: in a task.
            runtime.shutdown_background();
        }
    }
}

/// Says how long a poll computes.
///
/// To ask for a thread's processor time is a system call, and a small call would spend a good part of its time in two of
/// them. So as long as polls are short by the wall clock, which they then are by any clock, it is not asked for.
enum Timer {
    Wall(Instant),
    Exact(Duration),
}

impl Timer {
    fn start(is_exact: bool) -> Self {
        if is_exact { Self::Exact(processor_time()) } else { Self::Wall(Instant::now()) }
    }

    /// How long it was; none if that is not known, because the time that went by may have been others'.
    fn computed(self) -> Option<Duration> {
        match self {
            Self::Wall(began) => Some(began.elapsed()).filter(|passed| *passed < LIGHT),
            Self::Exact(before) => Some(processor_time().saturating_sub(before)),
        }
    }
}

/// How long this thread has been computing.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}
