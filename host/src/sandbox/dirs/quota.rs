//! The quota of one granted directory: how large it may become by a plugin's writing.
//!
//! A [`QuotaUsage`] knows an upper bound of what is below the directory, and is shared by all instances of the plugin:
//!
//! - an entry (file, directory, link) counts [`ENTRY_COST`] bytes, for its name and its place on the disk, and a file its size as
//!   well, also where it has holes. A file with several names counts once. What others write counts like what the plugin writes;
//! - growth is charged *before* it happens: what a write adds to the size of its file, [`ENTRY_COST`] for a new entry. Nothing is
//!   given back when something shrinks or goes away, except by measuring;
//! - the directory is measured at the first charge, and again when a charge finds no room: not more often than every [`MIN_RESCAN_INTERVAL`],
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

use super::disk::DiskPool;
use super::measure::{self, ENTRY_COST};
use crate::config::DirQuota;
use crate::sandbox::throttled_warning::ThrottledWarning;

/// The shortest time between two measurements.
const MIN_RESCAN_INTERVAL: Duration = Duration::from_millis(100);
/// How many times as long as a measurement took the next one has to wait.
const RESCAN_COST_FACTOR: u32 = 9;
/// How long a charge waits for a measurement to begin.
const MAX_RESCAN_WAIT: Duration = Duration::from_secs(1);

/// There is no room for what was to be written.
#[derive(Debug, thiserror::Error)]
#[error("the directory's quota is used up")]
struct QuotaExceeded;

/// What is used of a quota, for all instances of a plugin.
#[derive(Debug)]
pub(super) struct QuotaUsage {
    /// Where the guest sees the directory.
    guest_path: Arc<str>,
    quota: DirQuota,
    /// At least what is below the directory, once it has been measured.
    used: AtomicU64,
    /// Shared by those that grow, alone with the one who measures.
    last_scan: Arc<RwLock<Option<LastScan>>>,
    /// Files below the directory that were opened.
    open_files: Mutex<Vec<Weak<File>>>,
    warning: ThrottledWarning,
    disk: DiskPool,
}

#[derive(Debug)]
struct LastScan {
    started: Instant,
    elapsed: Duration,
}

impl QuotaUsage {
    /// The ledger of a directory that has not been measured yet.
    pub(super) fn new(guest_path: Arc<str>, quota: DirQuota, warning: ThrottledWarning, disk: DiskPool) -> Self {
        let (used, last_scan, open_files) = (AtomicU64::new(0), Arc::default(), Mutex::default());
        Self { guest_path, quota, used, last_scan, open_files, warning, disk }
    }

    fn charge(&self, bytes: u64) -> io::Result<()> {
        // What does not grow may go on, even in a directory that is larger than its quota.
        if bytes == 0 {
            return Ok(());
        }
        let charged = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.quota.bytes())
        });
        charged.map(drop).map_err(|_| io::Error::new(io::ErrorKind::QuotaExceeded, QuotaExceeded))
    }

    /// The bytes of deleted files that are open.
    fn deleted_bytes(&self) -> io::Result<u64> {
        let open_files: Vec<_> = self.lock_open_files().iter().filter_map(Weak::upgrade).collect();
        let mut seen = HashSet::new();
        let mut bytes = 0_u64;
        for file in open_files {
            let found = file.metadata()?;
            if found.nlink() == 0 && seen.insert((found.dev(), found.ino())) {
                bytes = bytes.saturating_add(found.len());
            }
        }
        Ok(bytes)
    }

    fn lock_open_files(&self) -> MutexGuard<'_, Vec<Weak<File>>> {
        self.open_files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A ledger, as one instance uses it.
#[derive(Clone, Debug)]
pub(super) struct QuotaHandle {
    usage: Arc<QuotaUsage>,
    /// The directory, as the instance has it open.
    dir: Arc<File>,
}

impl QuotaHandle {
    /// An account for that directory.
    pub(super) fn new(usage: Arc<QuotaUsage>, dir: Arc<File>) -> Self {
        Self { usage, dir }
    }

    /// Remembers a file for as long as it is open.
    pub(super) fn track_open_file(&self, file: &Arc<File>) {
        let mut files = self.usage.lock_open_files();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file));
    }

    /// Keeps the directory from being measured, until the turn ends.
    pub(super) async fn begin_growth(&self) -> io::Result<GrowthGuard> {
        loop {
            let last_scan = self.usage.last_scan.clone().read_owned().await;
            if last_scan.is_some() {
                return Ok(GrowthGuard { usage: self.usage.clone(), _scan_lock: last_scan });
            }
            drop(last_scan);
            self.rescan_if_due().await?;
        }
    }

    /// A turn in which a new entry has been charged.
    pub(super) async fn charge_entry(&self) -> io::Result<GrowthGuard> {
        let guard = self.begin_growth().await?;
        if guard.charge(ENTRY_COST).is_ok() {
            return Ok(guard);
        }
        drop(guard);
        self.rescan_if_due().await?;
        let guard = self.begin_growth().await?;
        self.warn_if_full(guard.charge(ENTRY_COST)).map(|()| guard)
    }

    /// Does what may make the directory grow, where it may block. `work` charges its turn before anything grows, and is done once
    /// more if the charge found no room.
    pub(super) async fn grow<T, F>(&self, work: F) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(&GrowthGuard) -> io::Result<T> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let first = self.try_grow(work.clone()).await;
        if !is_quota_exceeded(&first) {
            return first;
        }
        self.rescan_if_due().await?;
        let second = self.try_grow(work).await;
        self.warn_if_full(second)
    }

    async fn try_grow<T, F>(&self, work: Arc<F>) -> io::Result<T>
    where
        T: Send + 'static,
        F: Fn(&GrowthGuard) -> io::Result<T> + Send + Sync + 'static,
    {
        let guard = self.begin_growth().await?;
        // The turn goes along, and so lasts for as long as the work does, whoever waits for it.
        self.usage.disk.run(move || work(&guard)).await
    }

    /// Says in the log that there is no room, if that is so.
    fn warn_if_full<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if is_quota_exceeded(&result) {
            let QuotaUsage { guest_path, quota, warning, .. } = &*self.usage;
            warning.warn(format_args!("the directory `{guest_path}` has no room left: its `quota` is {quota}"));
        }
        result
    }

    /// Measures the directory, unless that has been done since now, or cannot be done soon.
    async fn rescan_if_due(&self) -> io::Result<()> {
        let requested_at = Instant::now();
        loop {
            let last_scan = self.usage.last_scan.clone().write_owned().await;
            match &*last_scan {
                Some(last) if last.started >= requested_at => return Ok(()),
                Some(last) if last.time_until_due() > MAX_RESCAN_WAIT => return Ok(()),
                Some(last) if !last.time_until_due().is_zero() => {
                    let wait = last.time_until_due();
                    drop(last_scan);
                    tokio::time::sleep(wait).await;
                }
                _ => return self.rescan(last_scan).await,
            }
        }
    }

    async fn rescan(&self, mut last_scan: OwnedRwLockWriteGuard<Option<LastScan>>) -> io::Result<()> {
        let Self { usage, dir } = self.clone();
        let disk = usage.disk.clone();
        disk.run(move || {
            let started = Instant::now();
            let used_bytes = measure::disk_usage(&dir, usage.quota.bytes())?;
            usage.used.store(used_bytes.saturating_add(usage.deleted_bytes()?), Ordering::Relaxed);
            *last_scan = Some(LastScan { started, elapsed: started.elapsed() });
            Ok(())
        })
        .await
    }
}

impl LastScan {
    /// How long it is until the directory may be measured again.
    fn time_until_due(&self) -> Duration {
        let interval = MIN_RESCAN_INTERVAL.max(self.elapsed.saturating_mul(RESCAN_COST_FACTOR));
        self.elapsed.saturating_add(interval).saturating_sub(self.started.elapsed())
    }
}

/// A time in which the directory is not being measured, and may grow.
#[derive(Debug)]
pub(super) struct GrowthGuard {
    usage: Arc<QuotaUsage>,
    _scan_lock: OwnedRwLockReadGuard<Option<LastScan>>,
}

impl GrowthGuard {
    /// Charges that many bytes, which are about to be written.
    pub(super) fn charge(&self, bytes: u64) -> io::Result<()> {
        self.usage.charge(bytes)
    }

    /// Gives back what was charged for something that did not come about.
    pub(super) fn refund(&self, bytes: u64) {
        let _ =
            self.usage.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }
}

fn is_quota_exceeded<T>(result: &io::Result<T>) -> bool {
    result.as_ref().is_err_and(|error| error.get_ref().is_some_and(|inner| inner.is::<QuotaExceeded>()))
}

#[cfg(test)]
pub(super) mod tests;
