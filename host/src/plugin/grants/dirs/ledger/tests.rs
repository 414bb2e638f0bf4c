use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::plugin::guest_log::GuestLog;

/// A directory with an account.
pub(in crate::plugin::grants::dirs) struct Purse {
    dir: TempDir,
    account: Account,
}

impl Purse {
    pub(in crate::plugin::grants::dirs) fn of(quota: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let notice = Notice::new(GuestLog::new("test".into(), 1024));
        let ledger = Arc::new(Ledger::new("/dir".into(), quota.parse().unwrap(), notice, Disk::default()));
        let account = Account::new(ledger, Arc::new(File::open(dir.path()).unwrap()));
        Self { dir, account }
    }

    pub(in crate::plugin::grants::dirs) fn account(&self) -> &Account {
        &self.account
    }

    pub(in crate::plugin::grants::dirs) fn dir(&self) -> Arc<File> {
        self.account.dir.clone()
    }

    pub(in crate::plugin::grants::dirs) fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn charge(&self, bytes: u64) -> io::Result<()> {
        self.account.grow(move |turn| turn.charge(bytes)).await
    }

    fn used(&self) -> u64 {
        self.account.ledger.used.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_was_there_before_counts() {
    let purse = Purse::of("16KiB");
    fs::write(purse.path().join("old"), [0; 8 << 10]).unwrap();
    let refused = purse.charge((4 << 10) + 1).await.unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::QuotaExceeded);
    purse.charge(4 << 10).await.unwrap();
}

#[tokio::test]
async fn a_charge_without_room_measures_what_others_have_deleted() {
    let purse = Purse::of("16KiB");
    fs::write(purse.path().join("old"), [0; 12 << 10]).unwrap();
    purse.charge(1).await.unwrap_err();
    fs::remove_file(purse.path().join("old")).unwrap();
    purse.charge(16 << 10).await.unwrap();
}

#[tokio::test]
async fn nothing_is_given_back_but_by_measuring() {
    let purse = Purse::of("16KiB");
    purse.charge(8 << 10).await.unwrap();
    assert_eq!(purse.used(), 8 << 10);
    // Nothing of it was ever written.
    purse.charge(12 << 10).await.unwrap();
    assert_eq!(purse.used(), 12 << 10);
}

#[tokio::test]
async fn what_does_not_grow_is_free_in_a_directory_that_is_too_large() {
    let purse = Purse::of("16KiB");
    fs::write(purse.path().join("old"), [0; 64 << 10]).unwrap();
    purse.charge(0).await.unwrap();
    purse.charge(1).await.unwrap_err();
}

#[tokio::test]
async fn deleted_files_count_once_for_as_long_as_they_are_open() {
    let purse = Purse::of("16KiB");
    let path = purse.path().join("file");
    fs::write(&path, [0; 8 << 10]).unwrap();
    let (one, other) = (Arc::new(File::open(&path).unwrap()), Arc::new(File::open(&path).unwrap()));
    purse.account.opened(&one);
    purse.account.opened(&other);
    fs::remove_file(&path).unwrap();
    purse.charge(12 << 10).await.unwrap_err();
    assert_eq!(purse.used(), 8 << 10);
    drop((one, other));
    purse.charge(12 << 10).await.unwrap();
}

#[tokio::test]
async fn a_directory_is_not_measured_while_something_grows_in_it() {
    let purse = Purse::of("16KiB");
    let turn = purse.account.turn().await.unwrap();
    let mut measuring = std::pin::pin!(purse.account.measure());
    tokio::time::timeout(PAUSE * 3, &mut measuring).await.unwrap_err();
    drop(turn);
    measuring.await.unwrap();
}

#[tokio::test]
async fn those_who_find_no_room_together_share_one_measurement() {
    let purse = Purse::of("4KiB");
    fs::write(purse.path().join("old"), [0; 8 << 10]).unwrap();
    purse.charge(1).await.unwrap_err();
    let measured = async || purse.account.ledger.measured.read().await.as_ref().unwrap().when;
    let (before, began) = (measured().await, Instant::now());
    let all = futures::future::join_all((0..100).map(|_| purse.charge(1))).await;
    assert!(all.iter().all(Result::is_err));
    assert!(measured().await > before);
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
}
