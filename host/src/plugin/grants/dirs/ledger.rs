//! The quota of one granted directory: how large it may become by a plugin's writing.
//!
//! A [`Ledger`] knows an upper bound of what is below the directory, and is shared by all instances of the plugin:
//!
//! - an entry (file, directory, link) counts [`ENTRY`] bytes, for its name and its place on the disk, and a file its size as
//!   well, also where it has holes. A file with several names counts once. What others write counts like what the plugin writes;
//! - growth is charged *before* it happens: what a write adds to the size of its file, [`ENTRY`] for a new entry. Nothing is
//!   given back when something shrinks or goes away, except by measuring;
//! - the directory is measured at the first charge, and again when a charge finds no room: not more often than every [`PAUSE`],
//!   and not for more than a tenth of the time. A charge waits for that, if it is not long. If there is still no room, it
//!   is refused;
//! - a file that was deleted while the plugin has it open still counts: its bytes are still on the disk.
//!
//! While something grows, nothing is measured, and the other way round: so no growth is missed by a walk that has passed already.
//! Those that wait for a walk wait without a thread, and whoever goes away while waiting leaves nothing behind.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::disk::Disk;
use super::measure;
use crate::config::DirQuota;
use crate::plugin::grants::notice::Notice;

/// What an entry of a directory counts beside the size of a file.
pub(super) const ENTRY: u64 = 4096;
/// The shortest time between two measurements.
const PAUSE: Duration = Duration::from_millis(100);
/// How many times as long as a measurement took the next one has to wait.
const REST: u32 = 9;
/// How long a charge waits for a measurement to begin.
const PATIENCE: Duration = Duration::from_secs(1);

/// There is no room for what was to be written.
#[derive(Debug, thiserror::Error)]
#[error("the directory's quota is used up")]
struct Full;

/// What is used of a quota, for all instances of a plugin.
#[derive(Debug)]
pub(super) struct Ledger {
    /// Where the guest sees the directory.
    guest: Arc<str>,
    quota: DirQuota,
    /// At least what is below the directory, once it has been measured.
    used: AtomicU64,
    /// Shared by those that grow, alone with the one who measures.
    measured: Arc<RwLock<Option<Measured>>>,
    /// Files below the directory that were opened.
    open: Mutex<Vec<Weak<File>>>,
    notice: Notice,
    disk: Disk,
}

#[derive(Debug)]
struct Measured {
    when: Instant,
    took: Duration,
}

impl Ledger {
    /// The ledger of a directory that has not been measured yet.
    pub(super) fn new(guest: Arc<str>, quota: DirQuota, notice: Notice, disk: Disk) -> Self {
        let (used, measured, open) = (AtomicU64::new(0), Arc::default(), Mutex::default());
        Self { guest, quota, used, measured, open, notice, disk }
    }

    fn charge(&self, bytes: u64) -> io::Result<()> {
        // What does not grow may go on, even in a directory that is larger than its quota.
        if bytes == 0 {
            return Ok(());
        }
        let charged = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.quota.bytes())
        });
        charged.map(drop).map_err(|_| io::Error::new(io::ErrorKind::QuotaExceeded, Full))
    }

    /// The bytes of deleted files that are open.
    fn deleted(&self) -> io::Result<u64> {
        let open: Vec<_> = self.files().iter().filter_map(Weak::upgrade).collect();
        let mut seen = HashSet::new();
        let mut bytes = 0_u64;
        for file in open {
            let found = file.metadata()?;
            if found.nlink() == 0 && seen.insert((found.dev(), found.ino())) {
                bytes = bytes.saturating_add(found.len());
            }
        }
        Ok(bytes)
    }

    fn files(&self) -> MutexGuard<'_, Vec<Weak<File>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger, as one instance uses it.
#[derive(Clone, Debug)]
pub(super) struct Account {
    ledger: Arc<Ledger>,
    /// The directory, as the instance has it open.
    dir: Arc<File>,
}

impl Account {
    /// An account for that directory.
    pub(super) fn new(ledger: Arc<Ledger>, dir: Arc<File>) -> Self {
        Self { ledger, dir }
    }

    /// Remembers a file for as long as it is open.
    pub(super) fn opened(&self, file: &Arc<File>) {
        let mut files = self.ledger.files();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file));
    }

    /// Keeps the directory from being measured, until the turn ends.
    pub(super) async fn turn(&self) -> io::Result<Turn> {
        loop {
            let measured = self.ledger.measured.clone().read_owned().await;
            if measured.is_some() {
                return Ok(Turn { ledger: self.ledger.clone(), _measured: measured });
            }
            drop(measured);
            self.measure().await?;
        }
    }

    /// A turn in which a new entry has been charged.
    pub(super) async fn entry(&self) -> io::Result<Turn> {
        let turn = self.turn().await?;
        if turn.charge(ENTRY).is_ok() {
            return Ok(turn);
        }
        drop(turn);
        self.measure().await?;
        let turn = self.turn().await?;
        self.noted(turn.charge(ENTRY)).map(|()| turn)
    }

    /// Does what may make the directory grow, where it may block. `work` charges its turn before anything grows, and is done once
    /// more if the charge found no room.
    pub(super) async fn grow<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(&Turn) -> io::Result<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let first = self.attempt(work.clone()).await;
        if !is_full(&first) {
            return first;
        }
        self.measure().await?;
        let second = self.attempt(work).await;
        self.noted(second)
    }

    async fn attempt<T, F>(&self, work: Arc<F>) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(&Turn) -> io::Result<T> + Send + Sync + 'static,
    {
        let turn = self.turn().await?;
        // The turn goes along, and so lasts for as long as the work does, whoever waits for it.
        self.ledger.disk.run(move || work(&turn)).await
    }

    /// Says in the log that there is no room, if that is so.
    fn noted<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if is_full(&result) {
            let Ledger { guest, quota, notice, .. } = &*self.ledger;
            notice.give(format_args!("the directory `{guest}` has no room left: its `quota` is {quota}"));
        }
        result
    }

    /// Measures the directory, unless that has been done since now, or cannot be done soon.
    async fn measure(&self) -> io::Result<()> {
        let asked = Instant::now();
        loop {
            let measured = self.ledger.measured.clone().write_owned().await;
            match &*measured {
                Some(last) if last.when >= asked => return Ok(()),
                Some(last) if last.rest() > PATIENCE => return Ok(()),
                Some(last) if !last.rest().is_zero() => {
                    let rest = last.rest();
                    drop(measured);
                    tokio::time::sleep(rest).await;
                }
                _ => return self.measure_now(measured).await,
            }
        }
    }

    async fn measure_now(&self, mut measured: OwnedRwLockWriteGuard<Option<Measured>>) -> io::Result<()> {
        let Self { ledger, dir } = self.clone();
        let disk = ledger.disk.clone();
        disk.run(move || {
            let when = Instant::now();
            let below = measure::below(&dir, ledger.quota.bytes())?;
            ledger.used.store(below.saturating_add(ledger.deleted()?), Ordering::Relaxed);
            *measured = Some(Measured { when, took: when.elapsed() });
            Ok(())
        })
        .await
    }
}

impl Measured {
    /// How long it is until the directory may be measured again.
    fn rest(&self) -> Duration {
        let pause = PAUSE.max(self.took.saturating_mul(REST));
        self.took.saturating_add(pause).saturating_sub(self.when.elapsed())
    }
}

/// A time in which the directory is not being measured, and may grow.
#[derive(Debug)]
pub(super) struct Turn {
    ledger: Arc<Ledger>,
    _measured: OwnedRwLockReadGuard<Option<Measured>>,
}

impl Turn {
    /// Charges that many bytes, which are about to be written.
    pub(super) fn charge(&self, bytes: u64) -> io::Result<()> {
        self.ledger.charge(bytes)
    }

    /// Gives back what was charged for something that did not come about.
    pub(super) fn give_back(&self, bytes: u64) {
        let _ = self
            .ledger
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }
}

fn is_full<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.get_ref().is_some_and(|inner| inner.is::<Full>()))
}

#[cfg(test)]
pub(super) mod tests;
