//! The executor: the threads that calls run on. A call begins on its caller's thread, and continues on worker threads
//! separate from the transport's. Bulkheads: heavy calls, light calls and the host's own calls have separate thread
//! pools.
//!
//! A computing guest yields after one to two ticks of the epoch. Most calls end on the caller's thread before a worker
//! would have woken up. A call that yields or waits continues on worker threads; its timers and I/O belong to their
//! runtime from the beginning. So a guest takes at most two ticks of a transport's thread, plus the host's work for it
//! in one piece: instantiation, and lifting of the answer, which `limits.response-size` bounds. A call of a native
//! provider, whose code is the host's, stays on its caller's thread while it only waits and is light: two threads less
//! are woken for a request to an upstream. It moves to the workers when it yields
//! ([`yield_ready`](threads::yield_ready)).
//!
//! Workers run the ready calls in turn. With this alone, calls would delay each other: beside eight spinning guests, a
//! call would wait eight ticks for each turn. So there are further bounds:
//!
//! - The calls of one plugin run on at most `worker_threads` workers at the same time (the number of processors by
//!   default). Further calls queue in their plugin's [`PluginQueue`], not in the workers' queues, where they would be
//!   ahead of other plugins' calls.
//! - A call that has used [`LIGHT_CPU_BUDGET`](call::LIGHT_CPU_BUDGET) of processor time moves to the *heavy* workers.
//!   Heavy workers have a lower priority, so the operating system runs a light call immediately, not at the next tick.
//!   There are twice as many heavy workers, so that a plugin that is heavy for a good reason finds one beside a
//!   spinning plugin.
//! - After a call that used [`HEAVY_PLUGIN_CPU`], the calls of its plugin begin on the heavy workers instead of their
//!   callers' threads, for [`HEAVY_PENALTY_FACTOR`] times the processor time of that call. A call of a few milliseconds
//!   has no such effect: the first call of a reused instance may take that long, and later ones are light. But
//!   [`LONG_PIECE`] in one piece on a caller's thread, for example in one host call, has this effect too.
//! - Reads of indexers ([`CallOrigin::Indexer`]) and preparations ([`CallOrigin::Preparation`]) run on the heavy
//!   workers from the beginning. Preparations have a separate [`PluginQueue`], so that they do not make the plugin
//!   heavy.
//! - The host's own calls ([`CallOrigin::Host`]: `changes`, `describe`, the probe of the circuit breaker) have a
//!   separate runtime, with as many workers, a queue, and threads for blocking work. Clients' calls are never in these
//!   queues, whatever their number and rate, and the system wakes these workers before computing ones (short time
//!   slices). The host's own calls never wait for a turn of the plugin's queue. A leaky bucket per plugin bounds their
//!   processor time (one part in [`HOST_CPU_DIVISOR`] of a processor, with bursts of [`HOST_CPU_BURST`]). Beyond that,
//!   they continue in a second such runtime, with half as many workers of a slightly lower priority. There, plugins
//!   whose `changes` spin compete with each other; they delay other plugins' watchers only until the bucket is full.
//!
//! So a light call of another plugin waits for at most two ticks (1 ms) per turn. Processor time counts, not elapsed
//! time ([`CpuClock`]): a busy machine makes no plugin heavy.

mod call;

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures::FutureExt;
use mcp_host_base::threads;
use mcp_host_base::threads::WorkerPool;
use mcp_host_base::time::saturating_millis;
use parking_lot::{Mutex, MutexGuard};
use tokio::runtime::{Builder, Handle};
use tokio::sync::Semaphore;
use tokio_util::task::AbortOnDropHandle;

pub(crate) use self::call::{CallAborted, panic_message};

use self::call::{Call, PendingRunPermit};
use super::CallOrigin;
use super::cpu::CpuClock;

/// The processor time of a call that makes its plugin heavy.
const HEAVY_PLUGIN_CPU: Duration = Duration::from_millis(10);
/// The processor time of one piece of a call on its caller's thread that makes its plugin heavy.
const LONG_PIECE: Duration = Duration::from_millis(3);
/// The time for which a plugin is heavy, as a multiple of the processor time of such a call.
const HEAVY_PENALTY_FACTOR: u32 = 100;
/// The maximum number of threads that all plugins together may block in files, databases and name look-ups. Each plugin
/// has separate bounds of a few threads on each of these, so that a plugin with a hanging disk does not exhaust the
/// pool. This size tolerates hundreds of hanging plugins.
const MAX_BLOCKING_THREADS: usize = 4096;
/// The maximum time for which a plugin is heavy.
const MAX_HEAVY_PENALTY: Duration = Duration::from_secs(10);
/// The divisor of elapsed time: the part that the host's own calls of a plugin may use at normal priority.
const HOST_CPU_DIVISOR: u32 = 20;
/// The burst of processor time of the host's own calls of a plugin.
const HOST_CPU_BURST: Duration = Duration::from_millis(250);
/// The niceness of heavy workers.
const HEAVY_NICENESS: i32 = 10;
/// The niceness of workers for the host's own heavy calls, which subscribers wait for.
const HOST_HEAVY_NICENESS: i32 = 2;

/// Where a call of a client continues after it has begun to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// On a worker.
    OnWorker,
    /// On its caller's thread, while it is light.
    OnCallersThread,
}

/// The worker threads of one engine.
pub(crate) struct GuestExecutor {
    light: WorkerPool,
    heavy: WorkerPool,
    host: WorkerPool,
    host_heavy: WorkerPool,
    workers: usize,
}

impl GuestExecutor {
    /// Starts the worker pools: `workers` threads for light calls and for the host's own calls, twice as many for heavy
    /// calls, half as many for the host's own heavy calls.
    pub(crate) fn start(workers: usize) -> io::Result<Self> {
        let [mut light, mut heavy, mut host, mut host_heavy] = std::array::from_fn(|_| {
            let mut builder = Builder::new_multi_thread();
            builder.max_blocking_threads(MAX_BLOCKING_THREADS);
            builder
        });
        Ok(Self {
            light: WorkerPool::start(light.thread_name("guest").worker_threads(workers))?,
            heavy: WorkerPool::start(
                heavy
                    .thread_name("heavy-guest")
                    .worker_threads(workers.saturating_mul(2))
                    .on_thread_start(|| threads::lower_priority(HEAVY_NICENESS)),
            )?,
            host: WorkerPool::start(
                host.thread_name("host-call").worker_threads(workers).on_thread_start(threads::set_short_time_slice),
            )?,
            host_heavy: WorkerPool::start(
                host_heavy
                    .thread_name("heavy-host-call")
                    .worker_threads(workers.div_ceil(2))
                    .on_thread_start(|| threads::lower_priority(HOST_HEAVY_NICENESS)),
            )?,
            workers,
        })
    }

    /// Creates a queue for the calls of one plugin.
    pub(crate) fn plugin_queue(&self) -> Arc<PluginQueue> {
        Arc::new(PluginQueue {
            heavy: self.heavy.handle().clone(),
            host_heavy: self.host_heavy.handle().clone(),
            run_permits: Arc::new(Semaphore::new(self.workers)),
            start: Instant::now(),
            heavy_until: AtomicU64::new(0),
            host_budget: Mutex::new(LeakyBucket::empty(Instant::now())),
        })
    }

    /// Runs a call of a plugin and measures it with this clock. A panic ends only this call. Dropping the future ends
    /// the call, too.
    ///
    /// # Errors
    ///
    /// The call panicked, or the workers were shut down.
    pub(crate) fn call<F>(
        &self,
        queue: &Arc<PluginQueue>,
        origin: CallOrigin,
        waits: Waits,
        clock: Arc<CpuClock>,
        call: F,
    ) -> impl Future<Output = Result<F::Output, CallAborted>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // Type-erased with its output, so that the queues and workers are compiled once and not for each type of call.
        let output = Arc::new(Mutex::new(None));
        let slot = output.clone();
        let call = call.map(move |output| *slot.lock() = Some(output));
        // Boxed before a future exists, which would reserve space for the call while it runs.
        let running = self.run(queue, origin, waits, Call::new(call, clock));
        async move {
            running.await?;
            let output = output.lock().take();
            output.ok_or(CallAborted::NoOutput)
        }
    }

    /// Runs a call on its caller's thread first, and then on workers.
    async fn run(
        &self,
        queue: &Arc<PluginQueue>,
        origin: CallOrigin,
        waits: Waits,
        mut call: Call,
    ) -> Result<(), CallAborted> {
        let is_background = matches!(origin, CallOrigin::Indexer | CallOrigin::Preparation);
        if origin.is_host() && !is_background {
            call.record_waits();
            let task = self.host.handle().spawn(queue.clone().run_host_call(call));
            return AbortOnDropHandle::new(task).await?;
        }
        // Not on the caller's thread: threads that it starts for blocking work inherit its priority, and serve other
        // calls later.
        if !is_background && !queue.is_heavy() {
            if waits == Waits::OnCallersThread {
                call.record_waits();
            }
            let begun = poll_fn(|context| {
                let _runtime = self.light.handle().enter();
                threads::take_yielded();
                match queue.poll_on_callers_thread(&mut call, context) {
                    Poll::Pending
                        if waits == Waits::OnCallersThread && !call.is_heavy() && !threads::take_yielded() =>
                    {
                        Poll::Pending
                    }
                    polled => Poll::Ready(polled),
                }
            });
            if let Poll::Ready(output) = begun.await {
                return output;
            }
        }
        call.record_waits();
        let queue = queue.clone();
        let task = match is_background || call.is_heavy() || queue.is_heavy() {
            true => self.heavy.handle().spawn(queue.run_heavy(call)),
            false => self.light.handle().spawn(queue.run(call)),
        };
        AbortOnDropHandle::new(task).await?
    }

    /// Spawns a background task.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortOnDropHandle<()> {
        AbortOnDropHandle::new(self.light.handle().spawn(task))
    }
}

/// The queue of one plugin: the permits for its calls to run on workers.
pub(crate) struct PluginQueue {
    heavy: Handle,
    host_heavy: Handle,
    run_permits: Arc<Semaphore>,
    start: Instant,
    /// The end of the plugin's heavy period, in milliseconds from the start.
    heavy_until: AtomicU64,
    /// The leaky bucket of the host's own calls.
    host_budget: Mutex<LeakyBucket>,
}

impl PluginQueue {
    /// Runs a call while it is light, and then moves it to the heavy workers.
    async fn run(self: Arc<Self>, mut call: Call) -> Result<(), CallAborted> {
        let light = poll_fn(|context| match call.is_heavy() || self.is_heavy() {
            true => Poll::Ready(None),
            false => self.poll_with_permit(&mut call, context).map(Some),
        });
        if let Some(output) = light.await {
            return output;
        }
        // The call waits for a permit on the heavy workers, and must not hold one here as well.
        call.run_permit = PendingRunPermit::default();
        let heavy = self.heavy.clone();
        AbortOnDropHandle::new(heavy.spawn(self.run_heavy(call))).await?
    }

    async fn run_heavy(self: Arc<Self>, mut call: Call) -> Result<(), CallAborted> {
        poll_fn(|context| yield_if_pending(self.poll_with_permit(&mut call, context))).await
    }

    /// Runs one of the host's own calls while the leaky bucket has room, and then moves it to the workers for the
    /// host's heavy calls.
    async fn run_host_call(self: Arc<Self>, mut call: Call) -> Result<(), CallAborted> {
        let within_budget = poll_fn(|context| {
            let is_over_budget = self.host_budget().is_full(Instant::now());
            if is_over_budget {
                return Poll::Ready(None);
            }
            let before = call.cpu_time;
            let polled = call.poll(context);
            self.host_budget().fill(call.cpu_time.saturating_sub(before));
            polled.map(Some)
        });
        if let Some(output) = within_budget.await {
            return output;
        }
        let heavy = self.host_heavy.clone();
        let rest = async move { poll_fn(|context| yield_if_pending(call.poll(context))).await };
        AbortOnDropHandle::new(heavy.spawn(rest)).await?
    }

    /// Polls a client's call once it has a run permit.
    fn poll_with_permit(&self, call: &mut Call, context: &mut Context<'_>) -> Poll<Result<(), CallAborted>> {
        let _run_permit = ready!(call.run_permit.poll(&self.run_permits, context));
        self.poll_for_client(call, context)
    }

    /// Polls a client's call, which may make its plugin heavy.
    fn poll_for_client(&self, call: &mut Call, context: &mut Context<'_>) -> Poll<Result<(), CallAborted>> {
        let polled = call.poll(context);
        if call.cpu_time >= HEAVY_PLUGIN_CPU {
            self.make_heavy(call.cpu_time);
        }
        polled
    }

    /// Polls a client's call on the thread of its caller, which other clients may share.
    fn poll_on_callers_thread(&self, call: &mut Call, context: &mut Context<'_>) -> Poll<Result<(), CallAborted>> {
        let before = call.cpu_time;
        let polled = self.poll_for_client(call, context);
        let piece = call.cpu_time.saturating_sub(before);
        if piece >= LONG_PIECE {
            self.make_heavy(piece);
        }
        polled
    }

    /// Makes the plugin heavy, for a multiple of this processor time.
    fn make_heavy(&self, cpu_time: Duration) {
        let heavy_for = cpu_time.saturating_mul(HEAVY_PENALTY_FACTOR).min(MAX_HEAVY_PENALTY);
        self.heavy_until.fetch_max(self.now().saturating_add(saturating_millis(heavy_for)), Ordering::Relaxed);
    }

    fn is_heavy(&self) -> bool {
        let until = self.heavy_until.load(Ordering::Relaxed);
        until > 0 && self.now() < until
    }

    fn host_budget(&self) -> MutexGuard<'_, LeakyBucket> {
        self.host_budget.lock()
    }

    fn now(&self) -> u64 {
        saturating_millis(self.start.elapsed())
    }
}

/// Yields the processor to another thread of the same priority, unless this poll ended its call. Without this, the
/// system would let one thread run for some ticks before another one, whatever their priority.
fn yield_if_pending<T>(polled: Poll<T>) -> Poll<T> {
    if polled.is_pending() {
        std::thread::yield_now();
    }
    polled
}

/// A leaky bucket of processor time. Use fills it, one part in [`HOST_CPU_DIVISOR`] of the elapsed time leaks from it,
/// and no more may be used while it is full. A single poll may overfill it by at most [`HOST_CPU_BURST`].
#[derive(Debug)]
struct LeakyBucket {
    level: Duration,
    updated_at: Instant,
}

impl LeakyBucket {
    fn empty(now: Instant) -> Self {
        Self { level: Duration::ZERO, updated_at: now }
    }

    fn is_full(&mut self, now: Instant) -> bool {
        let gone = now.saturating_duration_since(self.updated_at).checked_div(HOST_CPU_DIVISOR).unwrap_or_default();
        self.level = self.level.saturating_sub(gone);
        self.updated_at = now;
        self.level >= HOST_CPU_BURST
    }

    fn fill(&mut self, used: Duration) {
        self.level = self.level.saturating_add(used).min(HOST_CPU_BURST.saturating_mul(2));
    }
}

#[cfg(test)]
mod tests {
    use super::call::LIGHT_CPU_BUDGET;
    use super::*;
    use futures::future::BoxFuture;
    use mcp_host_base::time::thread_cpu_time;

    /// Computes for this time, and returns the name of the thread.
    async fn compute(cpu: Duration) -> Option<String> {
        let start = thread_cpu_time();
        while thread_cpu_time() - start < cpu {
            std::hint::spin_loop();
        }
        std::thread::current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn calls_begin_with_their_callers_unless_one_before_computed_for_long() {
        let executor = GuestExecutor::start(1).unwrap();
        let queue = executor.plugin_queue();
        let call = async |cpu: Duration| {
            let call = compute(cpu);
            executor.call(&queue, CallOrigin::Client, Waits::OnWorker, Arc::default(), call).await.unwrap()
        };
        let caller = compute(Duration::ZERO).await;
        for cpu in [LIGHT_CPU_BUDGET * 3 / 2, Duration::ZERO, HEAVY_PLUGIN_CPU * 10] {
            assert_eq!(call(cpu).await, caller, "{cpu:?}");
        }
        assert_eq!(call(Duration::ZERO).await.as_deref(), Some("heavy-guest"));
    }

    #[tokio::test]
    async fn a_long_piece_on_a_callers_thread_makes_the_plugin_heavy() {
        let executor = GuestExecutor::start(1).unwrap();
        let (on_callers, on_workers) = (executor.plugin_queue(), executor.plugin_queue());
        let call = async |queue: &Arc<PluginQueue>, first: Duration, second: Duration| {
            let pieces = async move {
                compute(first).await;
                threads::yield_ready().await;
                compute(second).await
            };
            executor.call(queue, CallOrigin::Client, Waits::OnWorker, Arc::default(), pieces).await.unwrap()
        };
        // It is heavy for 300 ms only, and on a busy machine the call may end later.
        let was_made_heavy = |queue: &PluginQueue| queue.heavy_until.load(Ordering::Relaxed) > 0;
        call(&on_callers, LONG_PIECE, Duration::ZERO).await;
        assert!(was_made_heavy(&on_callers));
        call(&on_workers, Duration::ZERO, LONG_PIECE).await;
        assert!(!was_made_heavy(&on_workers));
    }

    #[tokio::test]
    async fn a_call_that_is_not_light_continues_on_heavy_workers() {
        let executor = GuestExecutor::start(1).unwrap();
        let queue = executor.plugin_queue();
        let call = async {
            compute(LIGHT_CPU_BUDGET * 3 / 2).await;
            tokio::task::yield_now().await;
            compute(Duration::ZERO).await
        };
        let thread = executor.call(&queue, CallOrigin::Client, Waits::OnWorker, Arc::default(), call).await.unwrap();
        assert_eq!(thread.as_deref(), Some("heavy-guest"));
        assert!(!queue.is_heavy(), "the calls after it are light");
    }

    #[tokio::test]
    async fn a_call_is_charged_for_each_time_that_it_is_suspended() {
        let executor = GuestExecutor::start(1).unwrap();
        let (queue, clock) = (executor.plugin_queue(), Arc::<CpuClock>::default());
        let call = async {
            for _ in 0..1000 {
                tokio::task::yield_now().await;
            }
        };
        executor.call(&queue, CallOrigin::Client, Waits::OnWorker, clock.clone(), call).await.unwrap();
        assert!(clock.exceeds(Duration::from_micros(9999)), "{clock:?}");
        assert!(clock.host().cpu() < Duration::from_millis(20), "{clock:?}");
    }

    #[tokio::test]
    async fn a_call_of_a_native_provider_waits_on_its_callers_thread_until_it_yields() {
        let executor = GuestExecutor::start(1).unwrap();
        let queue = executor.plugin_queue();
        let (tell, told) = tokio::sync::oneshot::channel();
        let call = async {
            told.await.unwrap();
            let waited = compute(Duration::ZERO).await;
            threads::yield_ready().await;
            (waited, compute(Duration::ZERO).await)
        };
        let call = executor.call(&queue, CallOrigin::Client, Waits::OnCallersThread, Arc::default(), call);
        let tell = async {
            tokio::task::yield_now().await;
            tell.send(()).unwrap();
        };
        let (threads, ()) = tokio::join!(call, tell);
        let caller = compute(Duration::ZERO).await;
        assert_eq!(threads.unwrap(), (caller, Some("guest".to_owned())));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_call_has_taken_the_time_that_it_computed_or_waited_and_not_that_in_which_others_computed() {
        let executor = GuestExecutor::start(1).unwrap();
        let (queue, time) = (executor.plugin_queue(), Duration::from_millis(200));
        let own_time = async |call: BoxFuture<'static, ()>| {
            let (clock, begun) = (Arc::<CpuClock>::default(), Instant::now());
            let of_call = clock.clone();
            let call = async move {
                call.await;
                of_call.own_time()
            };
            (executor.call(&queue, CallOrigin::Indexer, Waits::OnWorker, clock, call).await.unwrap(), begun.elapsed())
        };
        let (slept, _) = own_time(Box::pin(tokio::time::sleep(time))).await;
        assert!(slept > time * 3 / 4, "{slept:?}");
        // Two calls of one plugin with a single run permit: each waits while the other computes, piece by piece.
        let pieces = || async move {
            for _ in 0..20 {
                compute(time / 20).await;
                threads::yield_ready().await;
            }
        };
        let ((one, elapsed), (other, _)) = tokio::join!(own_time(Box::pin(pieces())), own_time(Box::pin(pieces())));
        assert!(one + other < elapsed + time / 2 && one < elapsed * 3 / 4, "{one:?} and {other:?} of {elapsed:?}");
    }

    #[test]
    fn host_calls_may_compute_for_a_twentieth_of_the_time_and_a_moment_at_once() {
        let start = Instant::now();
        let mut bucket = LeakyBucket::empty(start);
        bucket.fill(HOST_CPU_BURST - Duration::from_millis(1));
        assert!(!bucket.is_full(start));
        bucket.fill(Duration::from_millis(11));
        assert!(bucket.is_full(start + Duration::from_millis(200)));
        assert!(!bucket.is_full(start + Duration::from_millis(201)));
        bucket.fill(HOST_CPU_BURST * 100);
        assert!(!bucket.is_full(start + HOST_CPU_BURST * 21), "one long poll counts for twice as much at most");
    }
}
