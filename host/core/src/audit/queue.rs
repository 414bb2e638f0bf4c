//! The queue of lines, and reservations of space in it.

use std::io::Write as _;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use mcp_host_base::followers::Followers;
use mcp_host_base::metrics::Counter;
use mcp_host_config::audit::{Audit, OnFull};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::line::encode_losses;
use super::{AuditFailure, AuditUsage, QueueFull};

/// The maximum size of the queue in bytes, including reservations.
pub(super) const MAX_QUEUED: usize = 4 << 20;
/// The queue size at which the writer is woken early, while it collects lines.
const WAKE_AT: usize = MAX_QUEUED / 4;
/// The maximum length of `{"time":"…","sequence":…`.
const MAX_PREFIX: usize = 80;

/// How requests reserve space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Off,
    Drop,
    Refuse,
}

/// The queue, shared by requests and the writer.
#[derive(Debug)]
pub(super) struct Queue {
    /// The [`Mode`], readable without the lock.
    mode: AtomicU8,
    state: Mutex<State>,
    /// Notified when the writer has something to do.
    wake: Condvar,
    /// Notified when the thread has ended.
    ended: Condvar,
    /// All losses, reported or not.
    dropped_lines: Counter,
    refused_requests: Counter,
    /// The followers of the log. They receive each queued line, whether or not it can be written.
    pub(super) followers: Followers<str>,
}

#[derive(Debug, Default)]
struct State {
    config: Option<Audit>,
    lines: Vec<u8>,
    /// The size of the lines that the writer has taken and not yet written, in bytes.
    taken: usize,
    /// Reserved space for the lines of requests in progress, in bytes.
    reserved: usize,
    /// The number of the last line.
    sequence: u64,
    clock: Clock,
    losses: Losses,
    /// Why writes fail, and since when; none if the last write succeeded.
    failure: Option<AuditFailure>,
    /// The writer waits for a line.
    is_idle: bool,
    /// The config has changed.
    is_reconfigured: bool,
    /// The last lines were queued.
    has_last_lines: bool,
    is_closed: bool,
    has_ended: bool,
}

/// Losses that have not been reported yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    pub(super) dropped_lines: u64,
    pub(super) refused_requests: u64,
}

impl Losses {
    /// Returns whether there are no losses.
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }

    fn add(&mut self, other: Self) {
        self.dropped_lines = self.dropped_lines.saturating_add(other.dropped_lines);
        self.refused_requests = self.refused_requests.saturating_add(other.refused_requests);
    }
}

/// Work for the writer.
#[derive(Debug)]
pub(super) struct Work {
    /// The config, if it has changed.
    pub(super) config: Option<Option<Audit>>,
    /// The queue is closed: this is the last work.
    pub(super) is_last: bool,
}

/// Space in the queue for the line of a request. Dropping it releases the space.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    queue: &'a Queue,
    bytes: usize,
}

impl Queue {
    /// An empty queue.
    pub(super) fn new(config: Option<Audit>) -> Self {
        let mode = AtomicU8::new(mode(config.as_ref()) as u8);
        let state = State { config, ..State::default() };
        Self {
            mode,
            state: Mutex::new(state),
            wake: Condvar::new(),
            ended: Condvar::new(),
            dropped_lines: Counter::default(),
            refused_requests: Counter::default(),
            followers: Followers::default(),
        }
    }

    /// Returns whether the log is on.
    pub(super) fn is_on(&self) -> bool {
        self.mode.load(Ordering::Acquire) != Mode::Off as u8
    }

    /// Returns whether the caller must queue the last lines: true for the first call only.
    pub(super) fn begin_close(&self) -> bool {
        let mut state = self.state.lock();
        !state.is_closed && !std::mem::replace(&mut state.has_last_lines, true)
    }

    /// Reserves space for a line; none if the log is off.
    pub(super) fn reserve(&self, bytes: usize) -> Result<Option<Reservation<'_>>, QueueFull> {
        let mode = self.mode.load(Ordering::Acquire);
        if mode == Mode::Off as u8 {
            return Ok(None);
        }
        if mode == Mode::Drop as u8 {
            // In this mode, space is checked when the line is pushed.
            return Ok(Some(Reservation { queue: self, bytes: 0 }));
        }
        let bytes = bytes.saturating_add(MAX_PREFIX);
        let mut state = self.state.lock();
        if state.failure.is_some() || state.is_closed || !state.has_space(bytes) {
            state.losses.refused_requests = state.losses.refused_requests.saturating_add(1);
            self.refused_requests.increment();
            return Err(QueueFull);
        }
        state.reserved = state.reserved.saturating_add(bytes);
        Ok(Some(Reservation { queue: self, bytes }))
    }

    /// Applies another config.
    pub(super) fn reconfigure(&self, config: Option<Audit>) {
        let mut state = self.state.lock();
        if state.config != config {
            self.mode.store(mode(config.as_ref()) as u8, Ordering::Release);
            state.config = config;
            state.is_reconfigured = true;
            self.wake.notify_all();
        }
    }

    /// Ends the thread once it has written what it can. Waits for its end, up to a timeout.
    pub(super) fn close(&self, timeout: Duration) {
        let mut state = self.state.lock();
        state.is_closed = true;
        self.wake.notify_all();
        self.ended.wait_while_for(&mut state, |state| !state.has_ended, timeout);
    }

    /// Waits until there is work, at most for `retry_after` if given, and moves the queued lines to the end
    /// of `pending`.
    pub(super) fn next(&self, pending: &mut Vec<u8>, retry_after: Option<Duration>) -> Work {
        let mut state = self.state.lock();
        let is_retrying = retry_after.is_some();
        let has_nothing_to_do = |state: &mut State| {
            // A new line makes no difference while writes fail.
            (state.lines.is_empty() || is_retrying) && !state.is_reconfigured && !state.is_closed
        };
        state.is_idle = !is_retrying;
        if let Some(after) = retry_after {
            self.wake.wait_while_for(&mut state, has_nothing_to_do, after);
        } else {
            self.wake.wait_while(&mut state, has_nothing_to_do);
        }
        state.is_idle = false;
        if pending.is_empty() {
            std::mem::swap(pending, &mut state.lines);
        } else {
            pending.append(&mut state.lines);
        }
        state.taken = pending.len();
        let config = std::mem::take(&mut state.is_reconfigured).then(|| state.config.clone());
        Work { config, is_last: state.is_closed }
    }

    /// Waits while lines are collected, for at most `interval`.
    pub(super) fn collect(&self, interval: Duration) {
        let is_patient = |state: &mut State| state.lines.len() < WAKE_AT && !state.is_reconfigured && !state.is_closed;
        self.wake.wait_while_for(&mut self.state.lock(), is_patient, interval);
    }

    /// Records the result of a write: why it failed, if it did, and the size of the lines that the writer has
    /// not written yet.
    pub(super) fn written(&self, reason: Option<&str>, left: usize) {
        let mut state = self.state.lock();
        let began = state.failure.as_ref().map_or_else(SystemTime::now, |failure| failure.since);
        state.failure = reason.map(|reason| AuditFailure { since: began, reason: reason.to_owned() });
        state.taken = left;
    }

    /// Takes the losses, which are no longer counted. Returns the line that reports them, and the losses.
    /// None if there are no losses.
    pub(super) fn take_losses(&self) -> Option<(Vec<u8>, Losses)> {
        let mut state = self.state.lock();
        let losses = std::mem::take(&mut state.losses);
        if losses.is_none() {
            return None;
        }
        let mut line = Vec::new();
        state.write_prefix(Timestamp::now(), &mut line);
        line.extend(encode_losses(losses.dropped_lines, losses.refused_requests));
        Some((line, losses))
    }

    /// Counts losses again, because they could not be reported.
    pub(super) fn return_losses(&self, losses: Losses) {
        self.state.lock().losses.add(losses);
    }

    /// Counts lines that the writer dropped.
    pub(super) fn add_dropped_lines(&self, dropped_lines: u64) {
        self.dropped_lines.add(dropped_lines);
        self.return_losses(Losses { dropped_lines, refused_requests: 0 });
    }

    /// Returns the use of the queue, and the losses so far.
    pub(super) fn usage(&self) -> AuditUsage {
        let (queued, failure) = {
            let state = self.state.lock();
            (state.used(), state.failure.clone())
        };
        let (dropped_lines, refused_requests) = (self.dropped_lines.get(), self.refused_requests.get());
        AuditUsage { queued, limit: MAX_QUEUED, failure, dropped_lines, refused_requests }
    }

    /// Records that the thread has ended. Returns the losses.
    pub(super) fn end(&self) -> Losses {
        self.mode.store(Mode::Off as u8, Ordering::Release);
        let mut state = self.state.lock();
        // These are the lines of requests that ended meanwhile.
        let lines = std::mem::take(&mut state.lines).iter().filter(|byte| **byte == b'\n').count();
        state.losses.add(Losses { dropped_lines: u64::try_from(lines).unwrap_or(u64::MAX), refused_requests: 0 });
        state.has_ended = true;
        self.ended.notify_all();
        state.losses
    }

    fn push(&self, members: &[u8], reserved: usize) {
        let now = Timestamp::now();
        let mut guard = self.state.lock();
        let state = &mut *guard;
        state.reserved = state.reserved.saturating_sub(reserved);
        if state.has_ended {
            return;
        }
        let len = MAX_PREFIX.saturating_add(members.len());
        // A reservation is never too small. A line without a reservation needs space now.
        if reserved < len && !state.has_space(len) {
            state.sequence = state.sequence.saturating_add(1);
            state.losses.dropped_lines = state.losses.dropped_lines.saturating_add(1);
            self.dropped_lines.increment();
            return;
        }
        let before = state.lines.len();
        let mut lines = std::mem::take(&mut state.lines);
        state.write_prefix(now, &mut lines);
        lines.extend_from_slice(members);
        let line = lines.get(before..).unwrap_or_default();
        self.followers.send(|| String::from_utf8_lossy(line).trim_end().into());
        let is_large = before < WAKE_AT && lines.len() >= WAKE_AT;
        state.lines = lines;
        if state.is_idle || is_large {
            self.notify(guard);
        }
    }

    /// Notifies the writer after releasing the lock, because the writer takes the lock immediately.
    fn notify(&self, mut state: MutexGuard<'_, State>) {
        state.is_idle = false;
        drop(state);
        self.wake.notify_one();
    }
}

impl State {
    fn has_space(&self, bytes: usize) -> bool {
        self.used().saturating_add(bytes) <= MAX_QUEUED
    }

    /// The bytes that are queued, being written, or reserved.
    fn used(&self) -> usize {
        self.lines.len().saturating_add(self.taken).saturating_add(self.reserved)
    }

    /// Writes the beginning of the next line: its time and its number.
    fn write_prefix(&mut self, now: Timestamp, out: &mut Vec<u8>) {
        self.sequence = self.sequence.saturating_add(1);
        let (second, millisecond) = self.clock.split(now);
        // Writing to memory does not fail.
        let _ = write!(out, "{{\"time\":\"{second}.{millisecond:03}Z\",\"sequence\":{}", self.sequence);
    }
}

/// The last second that was formatted: most lines have the second of the line before them.
#[derive(Debug, Default)]
struct Clock {
    second: i64,
    text: String,
}

impl Clock {
    /// Returns the date and time to the second, in UTC, and the millisecond.
    fn split(&mut self, now: Timestamp) -> (&str, i64) {
        let milliseconds = now.as_millisecond();
        let second = milliseconds.div_euclid(1000);
        if second != self.second || self.text.is_empty() {
            self.second = second;
            self.text = Timestamp::from_second(second).unwrap_or(now).strftime("%FT%T").to_string();
        }
        (&self.text, milliseconds.rem_euclid(1000))
    }
}

impl Reservation<'_> {
    /// Queues a line with these members, which begin with a comma.
    pub(super) fn push(mut self, members: &[u8]) {
        let reserved = std::mem::take(&mut self.bytes);
        self.queue.push(members, reserved);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let mut state = self.queue.state.lock();
            state.reserved = state.reserved.saturating_sub(self.bytes);
        }
    }
}

fn mode(config: Option<&Audit>) -> Mode {
    match config.map(|config| config.on_full) {
        None => Mode::Off,
        Some(OnFull::Drop) => Mode::Drop,
        Some(OnFull::Refuse) => Mode::Refuse,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(on_full: OnFull) -> Queue {
        let mut config = Audit::to_stderr();
        config.on_full = on_full;
        Queue::new(Some(config))
    }

    fn take(queue: &Queue) -> Vec<u8> {
        let mut pending = Vec::new();
        queue.next(&mut pending, None);
        pending
    }

    #[test]
    fn lines_have_a_time_and_are_numbered() {
        let queue = queue(OnFull::Drop);
        for _ in 0..2 {
            queue.reserve(0).unwrap().unwrap().push(b",\"a\":1}\n");
        }
        let text = String::from_utf8(take(&queue)).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.iter().map(|line| line["sequence"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        for line in lines {
            let time = line["time"].as_str().unwrap();
            assert_eq!((time.len(), time.parse::<Timestamp>().is_ok()), ("2026-01-01T00:00:00.000Z".len(), true));
        }
    }

    #[test]
    fn a_full_queue_drops_lines_counts_them_and_reports_the_count_once() {
        let queue = queue(OnFull::Drop);
        let members = format!(",\"a\":\"{}\"}}\n", "x".repeat(MAX_QUEUED / 4));
        for _ in 0..5 {
            queue.reserve(0).unwrap().unwrap().push(members.as_bytes());
        }
        let (line, losses) = queue.take_losses().unwrap();
        assert_eq!(losses, Losses { dropped_lines: 2, refused_requests: 0 });
        let line: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&line["dropped_lines"], &line["sequence"]), (&2.into(), &6.into()), "dropped lines have numbers");
        assert_eq!(queue.take_losses(), None);
        assert!(take(&queue).len() > MAX_QUEUED / 2);
    }

    #[test]
    fn space_is_reserved_until_the_line_is_written_or_the_request_dropped() {
        let queue = queue(OnFull::Refuse);
        let reserve = || queue.reserve(MAX_QUEUED / 3);
        let (first, second) = (reserve().unwrap(), reserve().unwrap());
        assert_eq!(reserve().unwrap_err(), QueueFull);
        drop(first);
        let third = reserve().unwrap().unwrap();
        drop(second);
        third.push(format!("{}\n", "x".repeat(MAX_QUEUED / 3)).as_bytes());
        let mut pending = take(&queue);
        let fourth = reserve().unwrap();
        assert_eq!(reserve().unwrap_err(), QueueFull, "the writer has not written what it took");
        pending.clear();
        queue.written(None, 0);
        drop((fourth, reserve().unwrap()));
        assert_eq!(queue.take_losses().unwrap().1, Losses { dropped_lines: 0, refused_requests: 2 });
    }

    #[test]
    fn while_writes_fail_requests_are_refused_although_there_is_space() {
        let queue = queue(OnFull::Refuse);
        queue.written(Some("no space"), 0);
        let first = queue.usage().failure.unwrap();
        queue.written(Some("no space left"), 0);
        let later = queue.usage().failure.unwrap();
        assert_eq!((later.since, later.reason.as_str()), (first.since, "no space left"));
        assert_eq!(queue.reserve(1).unwrap_err(), QueueFull);
        queue.written(None, 0);
        assert_eq!(queue.usage().failure, None);
        assert!(queue.reserve(1).unwrap().is_some());
        queue.reconfigure(None);
        assert!(queue.reserve(1).unwrap().is_none());
    }
}
