use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::*;
use crate::dirs::quota::tests::QuotaFixture;

fn request(flags: DescriptorFlags) -> OpenRequest {
    OpenRequest::new(PathFlags::SYMLINK_FOLLOW, OpenFlags::empty(), flags, FsPerms::ReadWrite).unwrap()
}

/// Creates a directory with a FIFO `fifo` that no other process has open.
fn dir_with_a_fifo() -> (TempDir, File) {
    let dir = tempfile::tempdir().unwrap();
    mknodat(CWD, dir.path().join("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let handle = File::open(dir.path()).unwrap();
    (dir, handle)
}

#[test]
fn a_fifo_is_refused() {
    let (_kept, dir) = dir_with_a_fifo();
    for flags in [DescriptorFlags::READ, DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::WRITE] {
        let error = request(flags).open_existing(&dir, "fifo").unwrap_err();
        assert_eq!(Errno::from_io_error(&error), Some(Errno::PERM));
    }
}

#[test]
fn a_fifo_that_takes_the_place_of_a_file_at_the_last_moment_is_refused_without_waiting() {
    let (_kept, dir) = dir_with_a_fifo();
    for flags in [DescriptorFlags::READ, DescriptorFlags::WRITE, DescriptorFlags::READ | DescriptorFlags::WRITE] {
        // As `open_existing` does after its `stat`.
        request(flags).open(&dir, "fifo", false).unwrap_err();
    }
}

#[tokio::test]
async fn only_what_is_made_is_charged() {
    let fixture = QuotaFixture::new("8KiB");
    let create = |flags| {
        let path = PathFlags::SYMLINK_FOLLOW;
        OpenRequest::new(path, OpenFlags::CREATE | flags, DescriptorFlags::WRITE, FsPerms::ReadWrite).unwrap()
    };
    let open = async |request: OpenRequest, path: &'static str| {
        let dir = fixture.dir();
        fixture.quota().grow(move |guard| request.open_or_create(&dir, path, guard)).await.map(drop)
    };
    open(create(OpenFlags::empty()), "one").await.unwrap();
    for _ in 0..10 {
        open(create(OpenFlags::empty()), "one").await.unwrap();
        open(create(OpenFlags::EXCLUSIVE), "one").await.unwrap_err();
        open(create(OpenFlags::empty()), "no/such/folder").await.unwrap_err();
    }
    open(create(OpenFlags::EXCLUSIVE), "two").await.unwrap();
    let full = open(create(OpenFlags::empty()), "three").await.unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::QuotaExceeded);
    assert!(!fixture.path().join("three").exists());
}
