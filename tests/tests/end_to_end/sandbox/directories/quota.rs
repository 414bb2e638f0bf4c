//! Quotas of directories.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use futures::future::join_all;
use mcp_host_tests::{Client, ConfigFile, Folder, Plugin, StdioServer, TIMEOUT, fixture};
use tokio::time::timeout;

use super::{files_plugin, run_action, start};

const QUOTA: u64 = 64 << 10;
/// The cost of an entry in addition to the size of its file.
const ENTRY_COST: u64 = 4096;

/// Returns the size of a folder as the quota counts it.
fn disk_usage(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| {
            let found = fs::symlink_metadata(&path).unwrap();
            let inner = if found.is_dir() { disk_usage(&path) } else { 0 };
            ENTRY_COST + inner + if found.is_file() { found.size() } else { 0 }
        })
        .sum()
}

/// Repeats an order until it succeeds. A slow measurement, as on a busy machine, delays the next one, and the freed
/// space is not available before.
async fn run_until_ok(client: &Client, order: &str) {
    let trying = async { while run_action(client, order).await != "ok" {} };
    timeout(TIMEOUT, trying).await.unwrap_or_else(|_| panic!("{order} does not succeed"));
}

#[tokio::test]
async fn a_directory_never_outgrows_its_quota() {
    // Each order starts with a new directory that has a file of 1 KiB.
    for (order, outcome) in [
        ("write path=a flags=write size=65536", "quota"),
        ("write path=a flags=write size=1 at=65536", "quota"),
        ("write path=a flags=write size=1 at=18446744073709551615", "file-too-large"),
        ("write path=new flags=write,create size=65536", "quota"),
        ("stream path=a flags=write size=100000", "quota"),
        ("stream path=a flags=write size=1 at=1099511627776", "quota"),
        ("append path=a flags=write size=100000", "quota"),
        ("set-size path=a flags=write size=65536", "quota"),
        ("set-size path=a flags=write size=1099511627776", "quota"),
        ("plain-set-size path=a size=65536", "QuotaExceeded"),
        ("make-many path=f", "14, quota"),
        ("nest-many", "14, quota"),
        ("delete-while-open path=a to=b flags=write size=40000", "quota"),
    ] {
        let folder = Folder::with_files([("a", [0; 1024])]);
        let server = start(files_plugin().writable_dir(folder.path(), "/a", "64KiB")).await;
        assert_eq!(run_action(server.client(), &format!("{order} dir=/a")).await, outcome, "{order}");
        assert!(disk_usage(folder.path()) <= QUOTA, "{order}: {}", disk_usage(folder.path()));
        server.end().await;
    }
}

#[tokio::test]
async fn a_library_that_knows_of_no_quotas_is_told_that_it_cannot_write() {
    let folder = Folder::with_files([("a", "")]);
    let server = start(files_plugin().writable_dir(folder.path(), "/a", "64KiB")).await;
    // Libraries map a stream's error in different ways.
    assert_ne!(run_action(server.client(), "plain-write dir=/a path=a size=100000").await, "ok");
    assert!(disk_usage(folder.path()) <= QUOTA, "{}", disk_usage(folder.path()));
    server.end().await;
}

#[tokio::test]
async fn new_entries_of_every_kind_count() {
    for order in ["mkdir path=N", "symlink path=N to=a", "link path=a to=N", "open path=N flags=write,create"] {
        let folder = Folder::with_files([("a", "")]);
        let server = start(files_plugin().writable_dir(folder.path(), "/a", "64KiB")).await;
        for number in 1..16 {
            let order = format!("{} dir=/a", order.replace('N', &number.to_string()));
            assert_eq!(run_action(server.client(), &order).await, "ok", "{order}");
        }
        let order = format!("{} dir=/a", order.replace('N', "last"));
        assert_eq!(run_action(server.client(), &order).await, "quota", "{order}");
        // Operations that add nothing still work.
        for order in ["open path=a flags=write,create", "rename path=a to=b", "touch path=b", "unlink path=b"] {
            assert_eq!(run_action(server.client(), &format!("{order} dir=/a")).await, "ok", "{order}");
        }
        server.end().await;
    }
}

#[tokio::test]
async fn all_calls_to_a_plugin_share_its_quota() {
    let folder = Folder::with_files([("a", "")]);
    let plugin = files_plugin().writable_dir(folder.path(), "/a", "64KiB").limit("concurrency", 8);
    let server = start(plugin).await;
    let orders = (0..8).map(|number| format!("stream dir=/a path={number} flags=write,create size=20000"));
    let orders: Vec<_> = orders.collect();
    let outcomes = join_all(orders.iter().map(|order| run_action(server.client(), order))).await;
    assert!(outcomes.iter().any(|outcome| outcome == "quota"), "{outcomes:?}");
    assert!(outcomes.iter().all(|outcome| outcome == "quota" || outcome == "ok"), "{outcomes:?}");
    assert!(disk_usage(folder.path()) <= QUOTA, "{}", disk_usage(folder.path()));
    server.end().await;
}

#[tokio::test]
async fn what_others_write_counts_and_what_is_deleted_makes_room_again() {
    let folder = Folder::with_files([("old", [0; 60 << 10])]);
    let server = start(files_plugin().writable_dir(folder.path(), "/a", "64KiB")).await;
    let client = server.client();
    let write = "write dir=/a path=new flags=write,create size=16384";
    assert_eq!(run_action(client, write).await, "quota");
    let line = server.log_line("no room left").await;
    assert!(line.contains("`/a`") && line.contains("64KiB"), "{line}");
    // The file is deleted by another process, then by the guest.
    fs::write(folder.path().join("old"), [0; 40 << 10]).unwrap();
    run_until_ok(client, write).await;
    let more = "write dir=/a path=more flags=write,create size=30000";
    assert_eq!(run_action(client, more).await, "quota");
    assert_eq!(run_action(client, "unlink dir=/a path=old").await, "ok");
    run_until_ok(client, more).await;
    server.end().await;
}

#[tokio::test]
async fn a_file_may_be_written_anew_as_often_as_one_likes() {
    let folder = Folder::with_files([("a", "")]);
    let server = start(files_plugin().writable_dir(folder.path(), "/a", "64KiB")).await;
    for _ in 0..5 {
        for order in [
            "plain-write dir=/a path=a size=50000",
            "write dir=/a path=a flags=write size=50000",
            "open dir=/a path=a flags=write,truncate",
        ] {
            run_until_ok(server.client(), order).await;
        }
    }
    server.end().await;
}

#[tokio::test]
async fn directories_nested_too_deep_are_no_way_around_a_quota() {
    let folder = Folder::with_files([("a", "")]);
    let server = start(files_plugin().writable_dir(folder.path(), "/a", "1MiB")).await;
    assert_eq!(run_action(server.client(), "nest-many dir=/a").await, "255, quota");
    // The host cannot measure the directory, so nothing more fits, but files can be deleted.
    assert_eq!(run_action(server.client(), "mkdir dir=/a path=more").await, "quota");
    assert_eq!(run_action(server.client(), "unlink dir=/a path=a").await, "ok");
    server.end().await;
}

#[tokio::test]
async fn a_full_directory_of_one_plugin_is_no_concern_of_another() {
    let full = Folder::with_files([("a", [0; 64 << 10])]);
    let other = Folder::with_files([("a", "")]);
    let neighbor = Plugin::new("other", &fixture("files"), "other:///").writable_dir(other.path(), "/a", "64KiB");
    let config = ConfigFile::new().plugin(files_plugin().writable_dir(full.path(), "/a", "64KiB")).plugin(neighbor);
    let server = StdioServer::start(&config.write()).await;
    assert_eq!(run_action(server.client(), "mkdir dir=/a path=new").await, "quota");
    assert_eq!(server.client().text("other:///mkdir?dir=/a&path=new").await, "ok");
    server.end().await;
}
