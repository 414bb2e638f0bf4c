//! The quota of one granted directory: an upper bound on its size after a plugin's writes.
//!
//! A [`QuotaUsage`] holds an upper bound of the bytes used below the directory, and is shared by all instances of the
//! plugin:
//!
//! - an entry (file, directory, link) counts [`ENTRY_COST`] bytes, for its name and its metadata on the disk, and a
//!   file its size in addition, including holes. A file with several hard links counts once. Data of other writers
//!   counts like the plugin's;
//! - growth is charged *before* it happens: the bytes that a write adds to the size of its file, [`ENTRY_COST`] for a
//!   new entry. Nothing is refunded when a file shrinks or is removed; only a measurement lowers the usage;
//! - the directory is measured at the first charge, and again when a charge exceeds the quota: at most once every
//!   [`MIN_RESCAN_INTERVAL`], and with at most a tenth of the time of a processor. A charge waits for the measurement
//!   if it can start within [`MAX_RESCAN_WAIT`]. If the quota is still exceeded, the charge is rejected. The tenth is
//!   measured in processor time, because on a busy machine a cheap measurement may take long, and this must not reject
//!   a charge for which there is room. Waiting for the disk does not count either: a measurement reads metadata on one
//!   thread at a time, and the plugin itself could use several;
//! - a deleted file that the plugin has open still counts: its bytes are still on the disk.
//!
//! Growth and measurement exclude each other (a read-write lock), so a walk never misses growth in a part that it has
//! already visited. Waiting for a measurement takes no thread, and a cancelled wait leaves no state.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use mcp_host_base::time::thread_cpu_time;
use mcp_host_config::grants::DirQuota;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};

use super::disk::DiskPool;
use super::measure::{self, ENTRY_COST};
use crate::guest_log::ThrottledWarnings;

/// The minimum interval between two measurements.
const MIN_RESCAN_INTERVAL: Duration = Duration::from_millis(100);
/// The pause after a measurement, as a multiple of its processor time.
const RESCAN_COST_FACTOR: u32 = 9;
/// The maximum time for which a charge waits for a measurement to start.
const MAX_RESCAN_WAIT: Duration = Duration::from_secs(1);

/// A charge would exceed the quota.
#[derive(Debug, thiserror::Error)]
#[error("the directory's quota is exhausted")]
struct QuotaExceeded;

/// The used part of a quota, shared by all instances of a plugin.
#[derive(Debug)]
pub(super) struct QuotaUsage {
    /// The path under which the guest sees the directory.
    guest_path: Arc<str>,
    quota: DirQuota,
    /// An upper bound of the bytes used below the directory, once it has been measured.
    used: AtomicU64,
    /// Locked shared during growth and exclusively during a measurement.
    last_scan: Arc<RwLock<Option<LastScan>>>,
    /// The opened files below the directory.
    open_files: Mutex<Vec<Weak<File>>>,
    warning: ThrottledWarnings,
    disk: DiskPool,
}

#[derive(Debug)]
struct LastScan {
    started: Instant,
    ended: Instant,
    cpu_time: Duration,
}

impl QuotaUsage {
    /// Creates the usage of a directory that has not been measured yet.
    pub(super) fn new(guest_path: Arc<str>, quota: DirQuota, warning: ThrottledWarnings, disk: DiskPool) -> Self {
        let (used, last_scan, open_files) = (AtomicU64::new(0), Arc::default(), Mutex::default());
        Self { guest_path, quota, used, last_scan, open_files, warning, disk }
    }

    fn charge(&self, bytes: u64) -> io::Result<()> {
        // Operations without growth succeed even in a directory that exceeds its quota.
        if bytes == 0 {
            return Ok(());
        }
        let charged = self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            used.checked_add(bytes).filter(|sum| *sum <= self.quota.bytes())
        });
        charged.map(drop).map_err(|_| io::Error::new(io::ErrorKind::QuotaExceeded, QuotaExceeded))
    }

    /// Returns the size of deleted files that are still open.
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
        self.open_files.lock()
    }
}

/// One instance's handle to a [`QuotaUsage`].
#[derive(Clone, Debug)]
pub(super) struct QuotaHandle {
    usage: Arc<QuotaUsage>,
    /// The instance's handle of the directory.
    dir: Arc<File>,
}

impl QuotaHandle {
    /// Creates a handle to `usage` that measures `dir`.
    pub(super) fn new(usage: Arc<QuotaUsage>, dir: Arc<File>) -> Self {
        Self { usage, dir }
    }

    /// Tracks a file for as long as it is open.
    pub(super) fn track_open_file(&self, file: &Arc<File>) {
        let mut files = self.usage.lock_open_files();
        files.retain(|file| file.strong_count() > 0);
        files.push(Arc::downgrade(file));
    }

    /// Acquires a guard that excludes measurements of the directory. Measures the directory first if it has not been
    /// measured yet.
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

    /// Acquires a guard and charges a new entry.
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

    /// Runs `work`, which may make the directory grow, on a thread that may block. `work` charges its guard before any
    /// growth. If the charge exceeds the quota, `work` is run again after a measurement.
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
        // The guard moves into the operation, so it lives as long as the operation, even if the caller stops waiting.
        self.usage.disk.run(move || work(&guard)).await
    }

    /// Logs a warning if the quota is exceeded.
    fn warn_if_full<T>(&self, result: io::Result<T>) -> io::Result<T> {
        if is_quota_exceeded(&result) {
            let QuotaUsage { guest_path, quota, warning, .. } = &*self.usage;
            warning.warn(
                "quota",
                format_args!("quota exhausted: the directory `{guest_path}` has no room left (`quota` is {quota})"),
            );
        }
        result
    }

    /// Measures the directory, unless a measurement has started since the call, or none can start soon.
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
            let (started, cpu_before) = (Instant::now(), thread_cpu_time());
            let used_bytes = measure::disk_usage(&dir, usage.quota.bytes())?;
            usage.used.store(used_bytes.saturating_add(usage.deleted_bytes()?), Ordering::Relaxed);
            let cpu_time = thread_cpu_time().saturating_sub(cpu_before);
            *last_scan = Some(LastScan { started, ended: Instant::now(), cpu_time });
            Ok(())
        })
        .await
    }
}

impl LastScan {
    /// Returns the time until the directory may be measured again.
    fn time_until_due(&self) -> Duration {
        let pause = MIN_RESCAN_INTERVAL.max(self.cpu_time.saturating_mul(RESCAN_COST_FACTOR));
        pause.saturating_sub(self.ended.elapsed())
    }
}

/// A shared lock during which the directory is not measured, and may grow.
#[derive(Debug)]
pub(super) struct GrowthGuard {
    usage: Arc<QuotaUsage>,
    _scan_lock: OwnedRwLockReadGuard<Option<LastScan>>,
}

impl GrowthGuard {
    /// Charges `bytes` that are about to be written.
    pub(super) fn charge(&self, bytes: u64) -> io::Result<()> {
        self.usage.charge(bytes)
    }

    /// Refunds a charge whose operation failed.
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
