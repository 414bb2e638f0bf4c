//! Processor time of a call: `limits.cpu` bounds it, and it determines the threads that the call runs on.
//!
//! The clock counts the processor time of the thread while it polls the call (`CLOCK_THREAD_CPUTIME_ID`). Waiting for a
//! file, a permit, a page fault, or a processor that other threads and processes use, costs a call nothing. The host's
//! work for the call within a poll counts like the guest's. Guests check the clock at every tick of the engine's epoch,
//! so the limit also holds within one long poll. Processor time that tasks and processes of the host use for the call
//! is added (`sandbox::cpu`).
//!
//! Reading that clock is a system call (0.2 to 0.6 µs), and a call of 6 µs cannot afford two. The wall clock is read
//! without a system call and is an upper bound: processor time ≤ wall time. So the wall clock is used wherever the
//! difference cannot matter, with an error of at most twice [`RESOLUTION`] for a whole call:
//!
//! | time of | clock |
//! |---|---|
//! | polls shorter than [`RESOLUTION`], until they add up to it | the wall clock |
//! | a longer poll among them | the thread's clock at its end; its beginning is the last reading of that thread, if that is not older than [`RESOLUTION`], else a new one |
//! | all later polls | the thread's clock, at the beginning and at the end |
//! | the comparison with the limit | the wall clock; the thread's clock only if the limit would be reached by the wall clock |

use std::cell::Cell;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use mcp_host_base::time::thread_cpu_time;
use mcp_host_sandbox::cpu::HostTimes;

/// Up to this duration, the wall clock approximates the processor time of a poll, or of a whole call.
const RESOLUTION: Duration = Duration::from_micros(250);

/// The CPU clock of one call.
#[derive(Debug, Default)]
pub(crate) struct CpuClock {
    meter: Mutex<CpuMeter>,
    host: HostTimes,
}

impl CpuClock {
    /// Returns whether the call has used more processor time than the limit. Within a poll, this must be called on the
    /// polling thread.
    pub(crate) fn exceeds(&self, limit: Duration) -> bool {
        limit.checked_sub(self.host.cpu()).is_none_or(|rest| self.meter().exceeds(rest, &ThisThread))
    }

    /// Returns the times of the host's work for the call outside of its polls.
    pub(crate) fn host(&self) -> &HostTimes {
        &self.host
    }

    /// Adds a wait of the call for an event: the time from a poll until it was woken.
    pub(crate) fn record_wait(&self, wait: Duration) {
        let mut meter = self.meter();
        meter.waited = meter.waited.saturating_add(wait);
    }

    /// Returns the call's own time: its processor time and its waits for events. During the rest of the elapsed time it
    /// was ready, while other calls or processes had the processor or another resource. Within a poll, this must be
    /// called on the polling thread.
    pub(crate) fn own_time(&self) -> Duration {
        let meter = self.meter();
        meter.used(&ThisThread).saturating_add(meter.waited).saturating_sub(self.host.contention())
    }

    /// Returns the processor time of the call, including the host's work for it outside of its polls. Within a poll,
    /// this must be called on the polling thread.
    pub(crate) fn cpu_time(&self) -> Duration {
        self.meter().used(&ThisThread).saturating_add(self.host.cpu())
    }

    /// Returns the elapsed time since the current poll began; zero between polls.
    pub(crate) fn elapsed_in_poll(&self) -> Duration {
        self.meter().elapsed_in_poll(&ThisThread)
    }

    /// Runs and measures one poll of the call. Returns its result, and the processor time of the whole call.
    pub(crate) fn poll<T>(&self, poll: impl FnOnce() -> T) -> (T, Duration) {
        self.meter().begin(&ThisThread);
        let polled = poll();
        (polled, self.meter().end(&ThisThread))
    }

    fn meter(&self) -> MutexGuard<'_, CpuMeter> {
        self.meter.lock()
    }
}

/// The two clocks of a meter.
trait Clocks {
    /// The wall clock.
    fn wall(&self) -> Instant;
    /// The processor time of this thread.
    fn thread(&self) -> Duration;
    /// The processor time of this thread at some time from [`RESOLUTION`] before `now` to `now`.
    fn recent(&self, now: Instant) -> Duration;
}

#[derive(Debug, Default)]
struct CpuMeter {
    /// The time of earlier polls.
    finished_polls: Duration,
    /// The current poll, while there is one.
    current: Option<PollStart>,
    /// The waits for events.
    waited: Duration,
}

#[derive(Clone, Copy, Debug)]
struct PollStart {
    wall: Instant,
    thread: Duration,
}

impl CpuMeter {
    fn begin(&mut self, clocks: &impl Clocks) {
        let wall = clocks.wall();
        let thread = if self.is_exact() { clocks.thread() } else { clocks.recent(wall) };
        self.current = Some(PollStart { wall, thread });
    }

    fn end(&mut self, clocks: &impl Clocks) -> Duration {
        self.finished_polls = self.used(clocks);
        self.current = None;
        self.finished_polls
    }

    fn used(&self, clocks: &impl Clocks) -> Duration {
        let Some(begun) = self.current else { return self.finished_polls };
        let wall = clocks.wall().saturating_duration_since(begun.wall);
        let current = match wall < RESOLUTION && !self.is_exact() {
            true => wall,
            false => clocks.thread().saturating_sub(begun.thread).min(wall),
        };
        self.finished_polls.saturating_add(current)
    }

    fn exceeds(&self, limit: Duration, clocks: &impl Clocks) -> bool {
        self.finished_polls.saturating_add(self.elapsed_in_poll(clocks)) > limit && self.used(clocks) > limit
    }

    fn elapsed_in_poll(&self, clocks: &impl Clocks) -> Duration {
        self.current.map_or(Duration::ZERO, |begun| clocks.wall().saturating_duration_since(begun.wall))
    }

    /// Returns whether the call has used up the time for which the wall clock suffices.
    fn is_exact(&self) -> bool {
        self.finished_polls >= RESOLUTION
    }
}

/// The clocks of the current thread.
struct ThisThread;

thread_local! {
    /// The last reading of this thread's processor time, and its time.
    static LAST_READING: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

impl Clocks for ThisThread {
    fn wall(&self) -> Instant {
        Instant::now()
    }

    fn thread(&self) -> Duration {
        thread_cpu_time()
    }

    fn recent(&self, now: Instant) -> Duration {
        match LAST_READING.get() {
            Some((at, thread)) if now.saturating_duration_since(at) < RESOLUTION => thread,
            _ => {
                let thread = self.thread();
                LAST_READING.set(Some((now, thread)));
                thread
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(100);

    /// Clocks that a test advances, with a count of the readings of the thread's clock.
    struct FakeClocks {
        start: Instant,
        wall: Cell<Duration>,
        thread: Cell<Duration>,
        last: Cell<Option<(Instant, Duration)>>,
        reads: Cell<u32>,
    }

    impl FakeClocks {
        fn new() -> Self {
            Self {
                start: Instant::now(),
                wall: Cell::default(),
                thread: Cell::default(),
                last: Cell::default(),
                reads: Cell::default(),
            }
        }

        /// Advances the clocks by a time of computing and a time of waiting for a processor.
        fn advance(&self, computed: Duration, waited: Duration) {
            self.wall.set(self.wall.get() + computed + waited);
            self.thread.set(self.thread.get() + computed);
        }

        fn poll(&self, meter: &mut CpuMeter, computed: Duration, waited: Duration) -> Duration {
            meter.begin(self);
            self.advance(computed, waited);
            meter.end(self)
        }
    }

    impl Clocks for FakeClocks {
        fn wall(&self) -> Instant {
            self.start + self.wall.get()
        }

        fn thread(&self) -> Duration {
            self.reads.set(self.reads.get() + 1);
            self.thread.get()
        }

        fn recent(&self, now: Instant) -> Duration {
            match self.last.get() {
                Some((at, thread)) if now - at < RESOLUTION => thread,
                _ => {
                    let thread = self.thread();
                    self.last.set(Some((now, thread)));
                    thread
                }
            }
        }
    }

    #[test]
    fn waiting_for_a_processor_costs_a_call_nothing() {
        let (clocks, mut meter) = (FakeClocks::new(), CpuMeter::default());
        let (computed, waited) = (Duration::from_millis(1), Duration::from_millis(50));
        let mut used = Duration::ZERO;
        for _ in 0..10 {
            used = clocks.poll(&mut meter, computed, waited);
        }
        assert_eq!(used, computed * 10);
        meter.begin(&clocks);
        clocks.advance(computed, LIMIT * 2);
        assert!(!meter.exceeds(LIMIT, &clocks), "within one long poll neither");
    }

    #[test]
    fn many_short_polls_on_a_busy_machine_are_counted_as_what_they_are() {
        let (clocks, mut meter) = (FakeClocks::new(), CpuMeter::default());
        let (computed, waited) = (Duration::from_micros(10), Duration::from_micros(200));
        let mut used = Duration::ZERO;
        for _ in 0..1000 {
            used = clocks.poll(&mut meter, computed, waited);
        }
        assert!(used >= computed * 1000 && used <= computed * 1000 + RESOLUTION * 2, "{used:?}");
    }

    #[test]
    fn a_guest_that_never_yields_is_found_out_within_its_poll() {
        let (clocks, mut meter) = (FakeClocks::new(), CpuMeter::default());
        meter.begin(&clocks);
        for _ in 0..200 {
            clocks.advance(Duration::from_micros(500), Duration::ZERO);
            assert!(!meter.exceeds(LIMIT, &clocks));
        }
        assert_eq!(clocks.reads.get(), 1, "while the wall clock says that the limit is far, the thread's is not asked");
        clocks.advance(Duration::from_micros(500), Duration::ZERO);
        assert!(meter.exceeds(LIMIT, &clocks));
    }

    #[test]
    fn short_calls_ask_for_the_threads_time_once_in_a_while() {
        let clocks = FakeClocks::new();
        let call = Duration::from_micros(5);
        for _ in 0..100 {
            assert_eq!(clocks.poll(&mut CpuMeter::default(), call, Duration::ZERO), call);
        }
        assert_eq!(clocks.reads.get(), 2, "in 500 µs");
    }

    #[test]
    fn what_the_thread_did_before_a_long_poll_is_charged_up_to_the_resolution_only() {
        let clocks = FakeClocks::new();
        clocks.poll(&mut CpuMeter::default(), Duration::from_micros(5), Duration::ZERO);
        clocks.advance(RESOLUTION / 2, Duration::ZERO);
        let (computed, waited) = (Duration::from_millis(2), Duration::from_millis(20));
        let used = clocks.poll(&mut CpuMeter::default(), computed, waited);
        assert!(used >= computed && used <= computed + RESOLUTION, "{used:?}");
        clocks.advance(Duration::from_secs(1), Duration::ZERO);
        assert_eq!(clocks.poll(&mut CpuMeter::default(), computed, waited), computed);
    }

    #[test]
    fn the_clocks_of_a_thread_tell_computing_from_sleeping() {
        let clock = CpuClock::default();
        let began = Instant::now();
        let asleep = Duration::from_millis(500);
        let ((), used) = clock.poll(|| {
            std::thread::sleep(asleep);
            let before = ThisThread.thread();
            while ThisThread.thread() - before < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
            assert!(clock.exceeds(Duration::from_millis(19)) && !clock.exceeds(asleep));
        });
        assert!(used >= Duration::from_millis(20) && used <= began.elapsed() - asleep, "{used:?}");
        assert!(!clock.exceeds(used), "between polls nothing is added");
    }
}
