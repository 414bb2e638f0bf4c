//! Standard error: a bounded queue, and a dedicated thread that writes it.
//!
//! Standard error may be a pipe without a reader, a stopped terminal, or a full disk, and a write to it may block or
//! fail. So only one thread writes to it. All other output to standard error (the log, messages, panics, progress) goes
//! into a queue of at most [`MAX_QUEUED`] bytes, at the cost of one copy.
//!
//! - A server never blocks on it (load shedding): when the queue is full, lines are dropped and counted, and a line of
//!   the log reports the count after the next successful write. A command for people blocks.
//! - [`flush`](Stderr::flush) waits until the queue is written, within the caller's timeout.
//! - Output that cannot be written (a closed pipe, a full disk) counts as dropped.
//!
//! The same thread draws progress, and a status line below it, so no line is written into the middle of them.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::{Condvar, Mutex, MutexGuard};

use mcp_host_base::log_target;

use super::journal::Journal;

/// The size of the queue in bytes.
const MAX_QUEUED: usize = 1 << 20;
/// The overhead of a queued item.
const ITEM_OVERHEAD: usize = 64;
/// Space reserved for the line with the number of dropped lines.
const RESERVED: usize = 4 << 10;
/// The interval of a spinner.
const SPINNER_TICK: Duration = Duration::from_millis(100);
/// The minimum interval between reports of dropped lines.
const DROP_WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// This process's standard error. Clones share the queue.
#[derive(Clone, Debug)]
pub(super) struct Stderr(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// The journal for lines of the log.
    journal: OnceLock<Journal>,
    /// Notified when an item is queued.
    not_empty: Condvar,
    /// Notified when items have been written.
    drained: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    bytes: usize,
    /// Whether the thread has taken items that are not written yet.
    is_writing: bool,
    /// Whether the thread could not be started.
    is_threadless: bool,
    /// Whether items are dropped when the queue is full; if not, the caller blocks.
    is_lossy: bool,
    dropped_lines: u64,
    dropped_bytes: u64,
    last_spinner: u64,
    /// The status line, and whether it must be drawn again. Only the latest one counts.
    status: Option<String>,
    is_status_new: bool,
}

#[derive(Debug, PartialEq)]
enum Item {
    Text(Vec<u8>),
    /// A line of the log, as JSON, for the journal.
    Record(Vec<u8>),
    /// Starts a line of progress, with its number and its text.
    StartSpinner(u64, String),
    StopSpinner(u64),
}

impl Item {
    fn cost(&self) -> usize {
        match self {
            Self::Text(text) | Self::Record(text) => text.len().saturating_add(ITEM_OVERHEAD),
            Self::StartSpinner(_, text) => text.len().saturating_add(ITEM_OVERHEAD),
            Self::StopSpinner(_) => ITEM_OVERHEAD,
        }
    }

    /// Writes the item directly.
    fn write(&self) {
        if let Self::Text(text) | Self::Record(text) = self {
            // If standard error cannot be written, the error cannot be reported there.
            let _ = io::stderr().write_all(text);
        }
    }
}

impl Stderr {
    /// Starts the thread. If that fails, callers write directly.
    pub(super) fn start() -> Self {
        let stderr = Self(Arc::default());
        let shared = stderr.0.clone();
        let started = thread::Builder::new().name(WRITER_THREAD.to_owned()).spawn(move || shared.write_all());
        stderr.0.queue().is_threadless = started.is_err();
        stderr
    }

    /// Makes the queue lossy: items that do not fit are dropped, and no caller blocks.
    pub(super) fn become_lossy(&self) {
        self.0.queue().is_lossy = true;
        self.0.drained.notify_all();
    }

    /// Returns whether items that do not fit are dropped.
    pub(super) fn is_lossy(&self) -> bool {
        self.0.queue().is_lossy
    }

    /// Counts a line that is not written.
    pub(super) fn count_dropped(&self) {
        let mut queue = self.0.queue();
        queue.dropped_lines = queue.dropped_lines.saturating_add(1);
    }

    /// Queues text, or writes it if there is no thread.
    pub(super) fn write(&self, text: Vec<u8>) {
        self.0.push(Item::Text(text));
    }

    /// Sends [recorded](Self::record) lines to this journal from now on.
    pub(super) fn use_journal(&self, journal: Journal) {
        // The method is called once.
        let _ = self.0.journal.set(journal);
    }

    /// Queues a line of the log, a JSON object, for the journal. Without a journal the line is written.
    pub(super) fn record(&self, line: Vec<u8>) {
        self.0.push(Item::Record(line));
    }

    /// Shows a spinner, if progress is drawn, until the result is dropped.
    pub(super) fn spin(&self, text: String) -> Spinner {
        let number = {
            let mut queue = self.0.queue();
            queue.last_spinner = queue.last_spinner.saturating_add(1);
            queue.last_spinner
        };
        self.0.push(Item::StartSpinner(number, text));
        Spinner { stderr: self.clone(), number }
    }

    /// Sets the status line below all output, on a terminal; `None` removes it. The line is cut to the width of the
    /// terminal.
    pub(super) fn set_status(&self, status: Option<String>) {
        let mut queue = self.0.queue();
        if queue.is_threadless || queue.status == status {
            return;
        }
        queue.status = status;
        queue.is_status_new = true;
        self.0.not_empty.notify_one();
    }

    /// Waits until the queue is written, up to a timeout.
    pub(super) fn flush(&self, timeout: Duration) {
        let is_busy = |queue: &mut Queue| queue.is_writing || !queue.is_empty();
        self.0.drained.wait_while_for(&mut self.0.queue(), is_busy, timeout);
    }
}

/// A visible spinner.
#[derive(Debug)]
pub(super) struct Spinner {
    stderr: Stderr,
    number: u64,
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.stderr.0.push(Item::StopSpinner(self.number));
    }
}

/// The name of the thread.
const WRITER_THREAD: &str = "stderr";

fn is_writer_thread() -> bool {
    thread::current().name() == Some(WRITER_THREAD)
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }

    fn push(&self, item: Item) {
        let limit = if is_writer_thread() { MAX_QUEUED.saturating_add(RESERVED) } else { MAX_QUEUED };
        let cost = item.cost();
        // Spinners are never dropped: their number is bounded by the running compilations, and a spinner whose end is
        // lost would turn forever.
        let is_text = matches!(item, Item::Text(_) | Item::Record(_));
        let is_full = |queue: &mut Queue| is_text && queue.bytes.saturating_add(cost) > limit;
        // A command waits, at most until the queue is empty. The writer must not wait for itself.
        let must_wait = |queue: &mut Queue| !queue.is_lossy && !queue.items.is_empty() && is_full(queue);
        let mut queue = self.queue();
        if queue.is_threadless {
            drop(queue);
            return item.write();
        }
        if !is_writer_thread() {
            self.drained.wait_while(&mut queue, must_wait);
        }
        if is_full(&mut queue) && (queue.is_lossy || !queue.items.is_empty()) {
            return queue.record_dropped(&item);
        }
        queue.bytes = queue.bytes.saturating_add(cost);
        queue.items.push_back(item);
        self.not_empty.notify_one();
    }

    /// The loop of the thread.
    fn write_all(&self) {
        let bars = MultiProgress::new();
        let mut spinners = HashMap::new();
        let mut status = StatusLine::default();
        let mut warned_at: Option<Instant> = None;
        loop {
            let mut has_written = false;
            let (items, new_status) = self.pop_all(!spinners.is_empty() && !bars.is_hidden());
            for item in items {
                let is_done = match &item {
                    Item::Text(text) => bars.suspend(|| io::stderr().write_all(text)).is_ok(),
                    Item::Record(line) => {
                        let is_sent = self.journal.get().is_some_and(|journal| journal.send(line).is_ok());
                        is_sent || io::stderr().write_all(line).is_ok()
                    }
                    Item::StartSpinner(number, text) => {
                        let bar = status.add_above(&bars, ProgressBar::new_spinner().with_message(text.clone()));
                        spinners.insert(*number, bar).is_none()
                    }
                    Item::StopSpinner(number) => {
                        spinners.remove(number).inspect(|bar: &ProgressBar| {
                            bar.finish_and_clear();
                            bars.remove(bar);
                        });
                        true
                    }
                };
                has_written |= is_done;
                if !is_done {
                    self.queue().record_dropped(&item);
                }
            }
            if let Some(text) = new_status {
                status.set(&bars, text);
            }
            spinners.values().for_each(ProgressBar::tick);
            // Dropped lines are reported after the next successful write, at most once per interval.
            if has_written && warned_at.is_none_or(|at| at.elapsed() >= DROP_WARNING_INTERVAL) && self.warn_of_dropped()
            {
                warned_at = Some(Instant::now());
            }
        }
    }

    /// Waits for items, or another status line. With spinners, returns without either after a tick.
    fn pop_all(&self, has_spinners: bool) -> (VecDeque<Item>, Option<Option<String>>) {
        let mut queue = self.queue();
        queue.is_writing = false;
        self.drained.notify_all();
        let is_idle = |queue: &mut Queue| queue.is_empty();
        if has_spinners {
            self.not_empty.wait_while_for(&mut queue, is_idle, SPINNER_TICK);
        } else {
            self.not_empty.wait_while(&mut queue, is_idle);
        }
        queue.is_writing = !queue.is_empty();
        queue.bytes = 0;
        let status = std::mem::take(&mut queue.is_status_new).then(|| queue.status.clone());
        (std::mem::take(&mut queue.items), status)
    }

    fn warn_of_dropped(&self) -> bool {
        let (lines, bytes) = {
            let mut queue = self.queue();
            (std::mem::take(&mut queue.dropped_lines), std::mem::take(&mut queue.dropped_bytes))
        };
        if lines > 0 {
            tracing::warn!(
                target: log_target::SERVER, lines,
                bytes,
                "lines of the log were dropped: events that clients cause exceeded their rate limit, or the queue of standard error is full"
            );
        }
        lines > 0
    }
}

/// The status line, as the thread draws it.
#[derive(Default)]
struct StatusLine(Option<ProgressBar>);

impl StatusLine {
    /// Draws the status line, or removes it.
    fn set(&mut self, bars: &MultiProgress, text: Option<String>) {
        match (text, &self.0) {
            (Some(text), Some(bar)) => bar.set_message(text),
            (Some(text), None) => {
                let bar = ProgressBar::new_spinner().with_message(text);
                // The default template has a spinner.
                bar.set_style(
                    ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_spinner()),
                );
                self.0 = Some(bars.add(bar));
            }
            (None, _) => {
                if let Some(bar) = self.0.take() {
                    bar.finish_and_clear();
                    bars.remove(&bar);
                }
            }
        }
        // indicatif skips changes in quick succession; suspending it draws this one.
        bars.suspend(|| ());
    }

    /// Adds a line of progress above the status line.
    fn add_above(&self, bars: &MultiProgress, bar: ProgressBar) -> ProgressBar {
        match &self.0 {
            Some(status) => bars.insert_before(status, bar),
            None => bars.add(bar),
        }
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && !self.is_status_new
    }

    fn record_dropped(&mut self, item: &Item) {
        if let Item::Text(text) | Item::Record(text) = item {
            self.dropped_lines = self.dropped_lines.saturating_add(1);
            self.dropped_bytes = self.dropped_bytes.saturating_add(text.len() as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(length: usize) -> Item {
        Item::Text(vec![b'x'; length])
    }

    #[test]
    fn what_finds_no_room_is_dropped_and_counted() {
        // No thread was started, so nothing is written.
        let stderr = Stderr(Arc::default());
        stderr.become_lossy();
        for _ in 0..10 {
            stderr.0.push(text(300 << 10));
        }
        let spinner = stderr.spin("compiling".to_owned());
        drop(spinner);
        let queue = stderr.0.queue();
        assert_eq!((queue.items.len(), queue.dropped_lines, queue.dropped_bytes), (5, 7, 7 * (300 << 10)));
        assert!(queue.bytes <= MAX_QUEUED + 3 * ITEM_OVERHEAD);
    }

    #[test]
    fn a_command_waits_for_room() {
        let stderr = Stderr(Arc::default());
        // A single item may be larger than the queue.
        stderr.0.push(text(MAX_QUEUED * 2));
        let theirs = stderr.clone();
        let waiting = thread::spawn(move || theirs.0.push(text(1)));
        assert_eq!(stderr.0.pop_all(false).0.len(), 1);
        assert_eq!(stderr.0.pop_all(false).0.len(), 1);
        waiting.join().unwrap();
    }

    #[test]
    fn of_several_status_lines_the_last_one_is_drawn() {
        let stderr = Stderr(Arc::default());
        for status in [Some("building"), None, Some("built")] {
            stderr.set_status(status.map(str::to_owned));
        }
        assert_eq!(stderr.0.pop_all(false), (VecDeque::new(), Some(Some("built".to_owned()))));
    }

    #[test]
    fn flushing_ends_though_nobody_writes() {
        let stderr = Stderr(Arc::default());
        stderr.0.push(text(1));
        stderr.flush(Duration::from_millis(1));
        assert_eq!(stderr.0.queue().items.len(), 1);
    }
}
