//! Opening files: allowed kinds, the limit of open files, and no blocking.

use std::os::unix::net::UnixListener;

use mcp_host_tests::Folder;
use rmcp::model::ErrorCode;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;
use serde_json::json;

use super::{action_uri, files_plugin, run_action, start};

#[tokio::test]
async fn what_is_neither_a_file_nor_a_directory_is_refused_at_once() {
    let folder = Folder::with_files([("good.txt", "good")]);
    let path = |name: &str| folder.path().join(name);
    let _socket = UnixListener::bind(path("socket")).unwrap();
    mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let mut names = vec!["fifo", "socket", "link"];
    folder.symlink("link", "fifo");
    // Only root can create a device.
    match mknodat(CWD, path("zero"), FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, makedev(1, 5)) {
        Ok(()) => names.push("zero"),
        Err(error) => assert_eq!(error, Errno::PERM),
    }
    let server = start(files_plugin().writable_dir(folder.path(), "/a", "1MiB")).await;
    let client = server.client();
    for name in names {
        for deed in [
            "open",
            "open flags=write",
            "open flags=write,write-only",
            "open flags=create",
            "open flags=truncate",
            "open flags=directory",
            "read",
            "list",
            "touch",
        ] {
            let (deed, how) = deed.split_once(' ').unwrap_or((deed, ""));
            let order = format!("{deed} dir=/a path={name} {how}");
            assert_eq!(run_action(client, order.trim()).await, "not-permitted", "{order}");
        }
        assert_eq!(run_action(client, &format!("plain-read dir=/a path={name}")).await, "PermissionDenied", "{name}");
        assert_ne!(run_action(client, &format!("read dir=/a path={name}/")).await, "ok", "{name}/");
        // The concurrency limit is one call: if one of these had blocked, this call would be rejected.
        assert_eq!(run_action(client, "read dir=/a path=good.txt").await, "good", "after {name}");
    }
    let listed = run_action(client, "list dir=/a path=.").await;
    assert!(listed.contains("fifo fifo\nregular-file good.txt\nsocket socket"), "{listed}");
    server.end().await;
}

#[tokio::test]
async fn files_open_at_once_are_limited() {
    let folder = Folder::with_files([("a.txt", "text")]);
    let server = start(files_plugin().dir(folder.path(), "/a").limit("files", 8)).await;
    for (order, outcome) in [
        ("open-many dir=/a path=a.txt", "8, insufficient-memory"),
        ("open-many dir=/a path=.", "8, insufficient-memory"),
        // The listed directory itself is open, too.
        ("list-many dir=/a path=.", "7, insufficient-memory"),
        ("stream-many dir=/a path=a.txt", "16, insufficient-memory"),
        // A stream keeps its file open.
        ("stream-of-many dir=/a path=a.txt", "8, insufficient-memory"),
        ("plain-open-many dir=/a path=a.txt", "OutOfMemory"),
        ("read dir=/a path=a.txt", "text"),
    ] {
        assert_eq!(run_action(server.client(), order).await, outcome, "{order}");
    }
    assert!(server.log_line("limits.files").await.contains("(8)"));
    server.end().await;
}

#[tokio::test]
async fn a_guest_that_leaks_handles_is_ended_and_the_next_call_is_answered() {
    let folder = Folder::with_files([("a.txt", "text")]);
    let server = start(files_plugin().dir(folder.path(), "/a").limit("handles", 100).limit("files", 4096)).await;
    for order in ["leak", "open-many dir=/a path=a.txt"] {
        let refusal = server.client().read_error(&action_uri(order)).await;
        let data = json!({ "kind": "unavailable", "plugin": "files" });
        assert_eq!((refusal.code, refusal.data), (ErrorCode::INTERNAL_ERROR, Some(data)), "{order}");
        assert!(refusal.message.contains("too many handles open"), "{}", refusal.message);
        assert_eq!(run_action(server.client(), "read dir=/a path=a.txt").await, "text", "after {order}");
    }
    server.log_line("`limits.handles` (100)").await;
    server.end().await;
}

#[tokio::test]
async fn random_bytes_at_once_are_limited() {
    let server = start(files_plugin().limit("random-bytes", "64KiB")).await;
    assert_eq!(run_action(server.client(), "random size=65536").await, "65536");
    let refusal = server.client().read_error(&action_uri("random size=65537")).await;
    assert!(refusal.message.contains("too many random bytes"), "{}", refusal.message);
    assert_eq!(run_action(server.client(), "random size=1").await, "1");
    server.log_line("`limits.random-bytes` (64.0 KiB)").await;
    server.end().await;
}
