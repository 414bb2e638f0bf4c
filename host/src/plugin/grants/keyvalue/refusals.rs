//! What was refused, in the log: each kind once a minute, with how often it was.
//!
//! What the guest is at fault for, or what its quota does not let it do, goes through the guest's own log. What only an admin
//! can mend (a damaged file, a full disk) is an error of the host's, with the file and with what to do: a guest that has used
//! up its log does not hide it.

use std::sync::Arc;

use super::database::Place;
use super::error::StoreError;
use crate::plugin::grants::notice::{Notice, PERIOD};
use crate::plugin::guest_log::GuestLog;
use crate::plugin::throttle::Throttle;

/// What one plugin was refused.
#[derive(Debug)]
pub(super) struct Refusals {
    not_granted: Notice,
    quota: Notice,
    /// A key, a value, a number, a cursor, a batch that is none or too large; too many handles.
    request: Notice,
    busy: Notice,
    database: DatabaseNotice,
}

impl Refusals {
    /// None so far.
    pub(super) fn new(plugin: Arc<str>, log: &Arc<GuestLog>) -> Self {
        let notice = || Notice::new(log.clone());
        Self {
            not_granted: notice(),
            quota: notice(),
            request: notice(),
            busy: notice(),
            database: DatabaseNotice { plugin, throttle: Throttle::new(PERIOD) },
        }
    }

    /// Takes note of one.
    pub(super) fn note(&self, error: &StoreError, place: Option<&Place>) {
        let notice = match error {
            StoreError::NotGranted(_) => &self.not_granted,
            StoreError::FullOfBytes { .. } | StoreError::FullOfKeys { .. } => &self.quota,
            StoreError::Busy => &self.busy,
            StoreError::Damaged(reason) => return self.database.give(place, reason, DAMAGED),
            StoreError::Failed(reason) => return self.database.give(place, reason, FAILED),
            StoreError::NoPlace
            | StoreError::Key(_)
            | StoreError::Values
            | StoreError::TooMany(_)
            | StoreError::NoNumber
            | StoreError::Overflow
            | StoreError::Cursor
            | StoreError::Memory
            | StoreError::Handles => &self.request,
        };
        notice.give(format_args!("wasi:keyvalue refused: {error}"));
    }
}

/// An error about one plugin's database, which stands in the log at most once a minute.
#[derive(Debug)]
struct DatabaseNotice {
    plugin: Arc<str>,
    throttle: Throttle,
}

const DAMAGED: &str = "the key-value store of a plugin is damaged, and its buckets cannot be used: end all hosts that use it, \
                       then mend it (`sqlite3 FILE .recover`), or move it and its `-wal` file away to begin anew";
const FAILED: &str = "the key-value store of a plugin cannot be used: see that the user who runs the host can write it and its \
                      directory, and that the disk has room";

impl DatabaseNotice {
    fn give(&self, place: Option<&Place>, reason: &str, message: &str) {
        if let Some(suppressed) = self.throttle.record() {
            let times = suppressed.saturating_add(1);
            let (plugin, file) = (&*self.plugin, place.map(|place| place.file.display().to_string()));
            tracing::error!(plugin, file, reason, times, "{message}");
        }
    }
}
