//! Directory grants, and a guest that tries to escape from them, to fill them, or to block the host.

mod escapes;
mod open_files;
mod quota;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use mcp_host_tests::{Client, ConfigFile, Folder, Plugin, StdioServer, fixture};

/// The guest that performs file operations. The concurrency is one call, so the next call detects one that hangs.
fn files_plugin() -> Plugin {
    Plugin::new("files", &fixture("files"), "files:///").limit("concurrency", 1)
}

async fn start(plugin: Plugin) -> StdioServer {
    StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await
}

/// Returns the URI of an action such as `read dir=/a path=b.txt`.
fn action_uri(order: &str) -> String {
    let mut words = order.split(' ');
    let mut uri = format!("files:///{}", words.next().unwrap());
    for (number, word) in words.enumerate() {
        let (key, value) = word.split_once('=').unwrap();
        write!(uri, "{}{key}=", if number == 0 { '?' } else { '&' }).unwrap();
        // Values contain no spaces, because spaces separate the keys.
        let value = value.replace(',', " ");
        value.bytes().for_each(|byte| write!(uri, "%{byte:02X}").unwrap());
    }
    uri
}

/// Performs an action, and returns its result.
async fn run_action(client: &Client, order: &str) -> String {
    client.text(&action_uri(order)).await
}

/// Returns every path below a folder: with its bytes, its link target, or nothing for a folder.
fn snapshot(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            let bytes = if kind.is_file() {
                fs::read(&path).unwrap()
            } else if kind.is_symlink() {
                fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
            } else {
                Vec::new()
            };
            if kind.is_dir() {
                folders.push(path.clone());
            }
            found.insert(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned(), bytes);
        }
    }
    found
}

#[tokio::test]
async fn a_directory_is_read_and_written_as_it_is_granted() {
    let read = Folder::with_files([("a.txt", "text"), ("sub/b.txt", "more")]);
    let written = Folder::with_files([("old.txt", "old")]);
    let server = start(files_plugin().dir(read.path(), "/read").writable_dir(written.path(), "/write", "1MiB")).await;
    let client = server.client();
    assert_eq!(run_action(client, "read dir=/read path=sub/b.txt").await, "more");
    assert_eq!(run_action(client, "list dir=/read path=.").await, "directory sub\nregular-file a.txt");
    assert_eq!(run_action(client, "plain-list dir=/read").await, "a.txt\nsub");
    assert_eq!(run_action(client, "plain-read dir=/write path=old.txt").await, "old");
    assert_eq!(run_action(client, "plain-write dir=/write path=new.txt size=100000").await, "ok");
    assert_eq!(fs::read(written.path().join("new.txt")).unwrap(), [b'x'; 100_000]);
    for (order, file, bytes) in [
        ("write dir=/write path=w flags=write,create size=5 at=3", "w", "\0\0\0xxxxx"),
        ("stream dir=/write path=old.txt flags=write size=2 at=1", "old.txt", "oxx"),
        ("append dir=/write path=old.txt flags=write size=2", "old.txt", "oxxxx"),
        ("set-size dir=/write path=old.txt flags=write size=2", "old.txt", "ox"),
        ("open dir=/write path=old.txt flags=write,truncate", "old.txt", ""),
        ("rename dir=/write path=w to=moved", "moved", "\0\0\0xxxxx"),
        ("link dir=/write path=moved to=again", "again", "\0\0\0xxxxx"),
        ("symlink dir=/write path=soft to=moved", "soft", "\0\0\0xxxxx"),
        ("touch dir=/write path=soft", "soft", "\0\0\0xxxxx"),
    ] {
        assert_eq!(run_action(client, order).await, "ok", "{order}");
        assert_eq!(fs::read_to_string(written.path().join(file)).unwrap(), bytes, "{order}");
    }
    for order in ["mkdir dir=/write path=d", "rmdir dir=/write path=d", "unlink dir=/write path=soft"] {
        assert_eq!(run_action(client, order).await, "ok", "{order}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_name_that_is_not_unicode_is_skipped_and_the_log_says_so() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    let folder = Folder::with_files([("a.txt", ""), ("z.txt", "")]);
    folder.write(OsStr::from_bytes(b"m\xff.txt"), "");
    let server = start(files_plugin().dir(folder.path(), "/a")).await;
    assert_eq!(run_action(server.client(), "list dir=/a path=.").await, "regular-file a.txt\nregular-file z.txt");
    assert_eq!(run_action(server.client(), "plain-list dir=/a").await, "a.txt\nz.txt");
    let line = server.log_line("not Unicode").await;
    assert!(line.contains("`/a`") && line.contains("files"), "{line}");
    server.end().await;
}

#[tokio::test]
async fn a_large_directory_is_listed_to_its_end() {
    let names: Vec<_> = (0..1000).map(|number| format!("{number:04}")).collect();
    let folder = Folder::with_files(names.iter().map(|name| (name, "")));
    let server = start(files_plugin().dir(folder.path(), "/a")).await;
    assert_eq!(run_action(server.client(), "plain-list dir=/a").await, names.join("\n"));
    server.end().await;
}

#[tokio::test]
async fn a_directory_that_was_replaced_is_the_new_one() {
    let folder = Folder::with_files([("d/old", [0; 64 << 10])]);
    let dir = folder.path().join("d");
    let server = start(files_plugin().writable_dir(&dir, "/a", "64KiB")).await;
    assert_eq!(run_action(server.client(), "mkdir dir=/a path=new").await, "quota");
    fs::rename(&dir, folder.path().join("away")).unwrap();
    fs::create_dir(&dir).unwrap();
    assert_eq!(run_action(server.client(), "mkdir dir=/a path=new").await, "ok");
    assert!(dir.join("new").is_dir());
    server.end().await;
}
