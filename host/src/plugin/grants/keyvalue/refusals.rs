//! What was refused: counted, and told in the log once in a while.
//!
//! What the guest is at fault for, or what its quota does not let it do, goes through the guest's own log. What only an admin can
//! mend (a damaged file, a full disk) is an error of the host's, with the file and with what to do; a guest that has used up its log
//! does not hide it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::database::Place;
use super::error::StoreError;
use crate::plugin::bindings::logging::Level;
use crate::plugin::guest_log::GuestLog;

/// How often either is told.
const PERIOD: Duration = Duration::from_secs(60);

/// What one plugin was refused.
#[derive(Debug)]
pub(super) struct Refusals {
    plugin: Arc<str>,
    log: Arc<GuestLog>,
    of_requests: Mutex<Told>,
    of_the_database: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    last: Option<Instant>,
    untold: u64,
}

impl Told {
    /// Whether to tell of one more; if so, how many were not told since the last.
    fn one_more(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < PERIOD) {
            self.untold = self.untold.saturating_add(1);
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

impl Refusals {
    /// None so far.
    pub(super) fn new(plugin: Arc<str>, log: Arc<GuestLog>) -> Self {
        Self { plugin, log, of_requests: Mutex::default(), of_the_database: Mutex::default() }
    }

    /// Takes note of one.
    pub(super) fn note(&self, error: &StoreError, place: Option<&Place>) {
        let told = if error.is_of_the_database() { &self.of_the_database } else { &self.of_requests };
        let told = told.lock().unwrap_or_else(PoisonError::into_inner).one_more(Instant::now());
        let Some(untold) = told else { return };
        let (plugin, file) = (&*self.plugin, place.map(|place| place.file.display().to_string()).unwrap_or_default());
        match error {
            StoreError::Damaged(reason) => tracing::error!(
                plugin,
                file,
                reason,
                untold,
                "the key-value store of a plugin is damaged, and its buckets cannot be used: end all hosts that use it, then \
                 mend it (`sqlite3 FILE .recover`), or move it and its `-wal` file away to begin anew"
            ),
            StoreError::Failed(reason) => tracing::error!(
                plugin,
                file,
                reason,
                untold,
                "the key-value store of a plugin cannot be used: see that the directory can be written by the user who \
                 runs the host, and that the disk has room"
            ),
            refused => {
                let more = if untold > 0 { format!(" (and {untold} more before)") } else { String::new() };
                self.log.line(Level::Warn, "wasi:keyvalue", &format!("refused: {refused}{more}"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_repeats_is_told_once_in_a_period_with_how_often_it_was_not() {
        let mut told = Told::default();
        let start = Instant::now();
        assert_eq!(told.one_more(start), Some(0));
        assert_eq!(told.one_more(start), None);
        assert_eq!(told.one_more(start + PERIOD / 2), None);
        assert_eq!(told.one_more(start + PERIOD), Some(2));
        assert_eq!(told.one_more(start + PERIOD * 2), Some(0));
    }
}
