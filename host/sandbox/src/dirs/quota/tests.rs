use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::guest_log::GuestLog;

/// A directory and a handle to its quota.
pub(in crate::dirs) struct QuotaFixture {
    dir: TempDir,
    quota: QuotaHandle,
}

impl QuotaFixture {
    pub(in crate::dirs) fn new(quota: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let warning = ThrottledWarnings::new(GuestLog::new("test".into(), 1024));
        let usage = Arc::new(QuotaUsage::new("/dir".into(), quota.parse().unwrap(), warning, DiskPool::default()));
        let quota = QuotaHandle::new(usage, Arc::new(File::open(dir.path()).unwrap()));
        Self { dir, quota }
    }

    pub(in crate::dirs) fn quota(&self) -> &QuotaHandle {
        &self.quota
    }

    pub(in crate::dirs) fn dir(&self) -> Arc<File> {
        self.quota.dir.clone()
    }

    pub(in crate::dirs) fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn charge(&self, bytes: u64) -> io::Result<()> {
        self.quota.grow(move |guard| guard.charge(bytes)).await
    }

    fn used(&self) -> u64 {
        self.quota.usage.used.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_was_there_before_counts() {
    let fixture = QuotaFixture::new("16KiB");
    fs::write(fixture.path().join("old"), [0; 8 << 10]).unwrap();
    let refused = fixture.charge((4 << 10) + 1).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    fixture.charge(4 << 10).await.unwrap();
}

#[tokio::test]
async fn a_charge_without_room_measures_what_others_have_deleted() {
    let fixture = QuotaFixture::new("16KiB");
    fs::write(fixture.path().join("old"), [0; 12 << 10]).unwrap();
    fixture.charge(1).await.unwrap_err();
    fs::remove_file(fixture.path().join("old")).unwrap();
    fixture.charge(16 << 10).await.unwrap();
}

#[tokio::test]
async fn nothing_is_given_back_but_by_measuring() {
    let fixture = QuotaFixture::new("16KiB");
    fixture.charge(8 << 10).await.unwrap();
    assert_eq!(fixture.used(), 8 << 10);
    // None of these bytes was ever written.
    fixture.charge(12 << 10).await.unwrap();
    assert_eq!(fixture.used(), 12 << 10);
}

#[tokio::test]
async fn what_does_not_grow_is_free_in_a_directory_that_is_too_large() {
    let fixture = QuotaFixture::new("16KiB");
    fs::write(fixture.path().join("old"), [0; 64 << 10]).unwrap();
    fixture.charge(0).await.unwrap();
    fixture.charge(1).await.unwrap_err();
}

#[tokio::test]
async fn deleted_files_count_once_for_as_long_as_they_are_open() {
    let fixture = QuotaFixture::new("16KiB");
    let path = fixture.path().join("file");
    fs::write(&path, [0; 8 << 10]).unwrap();
    let (one, other) = (Arc::new(File::open(&path).unwrap()), Arc::new(File::open(&path).unwrap()));
    fixture.quota.track_open_file(&one);
    fixture.quota.track_open_file(&other);
    fs::remove_file(&path).unwrap();
    fixture.charge(12 << 10).await.unwrap_err();
    assert_eq!(fixture.used(), 8 << 10);
    drop((one, other));
    fixture.charge(12 << 10).await.unwrap();
}

#[tokio::test]
async fn a_directory_is_not_measured_while_something_grows_in_it() {
    let fixture = QuotaFixture::new("16KiB");
    let guard = fixture.quota.begin_growth().await.unwrap();
    let mut measuring = std::pin::pin!(fixture.quota.rescan_if_due());
    tokio::time::timeout(MIN_RESCAN_INTERVAL * 3, &mut measuring).await.unwrap_err();
    drop(guard);
    measuring.await.unwrap();
}

#[tokio::test]
#[expect(clippy::await_holding_lock, reason = "a measurement is to wait for it")]
async fn a_measurement_that_was_delayed_does_not_delay_the_next() {
    let fixture = QuotaFixture::new("16KiB");
    let path = fixture.path().join("old");
    fs::write(&path, [0; 16 << 10]).unwrap();
    // The end of a measurement waits for this lock, for longer than the maximum processor time that still lets the
    // next one start in time.
    let delay = fixture.quota.usage.lock_open_files();
    let mut charging = std::pin::pin!(fixture.charge(1));
    tokio::time::timeout(MAX_RESCAN_WAIT * 2 / RESCAN_COST_FACTOR, &mut charging).await.unwrap_err();
    fs::remove_file(&path).unwrap();
    drop(delay);
    charging.await.unwrap();
}

#[test]
fn a_measurement_is_followed_by_a_pause_of_nine_times_its_processor_time() {
    let ended = Instant::now();
    let pause = |cpu_time| LastScan { started: ended, ended, cpu_time }.time_until_due();
    assert!(pause(Duration::ZERO) <= MIN_RESCAN_INTERVAL);
    assert!(pause(Duration::from_secs(60)) > Duration::from_secs(60) * (RESCAN_COST_FACTOR - 1));
}

#[tokio::test]
async fn those_who_find_no_room_together_share_one_measurement() {
    let fixture = QuotaFixture::new("4KiB");
    fs::write(fixture.path().join("old"), [0; 8 << 10]).unwrap();
    fixture.charge(1).await.unwrap_err();
    let measured = async || fixture.quota.usage.last_scan.read().await.as_ref().unwrap().started;
    let (before, began) = (measured().await, Instant::now());
    let all = futures::future::join_all((0..100).map(|_| fixture.charge(1))).await;
    assert!(all.iter().all(Result::is_err));
    assert!(measured().await > before);
    // With one measurement for each charge, they would take a hundred intervals.
    assert!(began.elapsed() < MIN_RESCAN_INTERVAL * 80, "{:?}", began.elapsed());
}
