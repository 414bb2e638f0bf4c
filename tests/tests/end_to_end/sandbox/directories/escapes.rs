//! Links, dots and slashes.

use std::os::unix::fs::symlink;

use mcp_host_tests::Folder;

use super::{action_uri, files_plugin, run_action, snapshot, start};

/// Actions that read or change the target of a path.
const FOLLOWING_ACTIONS: [&str; 11] = [
    "read",
    "read flags=directory",
    "open flags=write",
    "open flags=write,truncate",
    "open flags=write,create",
    "list",
    "stat",
    "hash",
    "touch",
    "append flags=write size=1",
    "set-size flags=write size=1",
];

/// Links of all kinds to `outside`, a sibling of the directory, and `self`, which stays within the directory.
fn folder_with_links(outside: &Folder) -> Folder {
    let folder = Folder::with_files([("in/a.txt", "mine"), ("in/sub/b.txt", "mine too")]);
    let dir = folder.path().join("in");
    let up = format!("../../{}", outside.path().file_name().unwrap().to_str().unwrap());
    for (name, to) in [
        ("absolute", outside.path().join("secret.txt").to_str().unwrap().to_owned()),
        ("absolute-dir", outside.path().to_str().unwrap().to_owned()),
        ("relative", format!("{up}/secret.txt")),
        ("relative-dir", up),
        ("chained", "sub/chain".to_owned()),
        ("parent", "..".to_owned()),
        ("root", "/".to_owned()),
        ("zero", "/dev/zero".to_owned()),
        ("magic", "/proc/self/root".to_owned()),
        ("self", "sub/../a.txt".to_owned()),
    ] {
        symlink(to, dir.join(name)).unwrap();
    }
    symlink("../relative", dir.join("sub/chain")).unwrap();
    folder
}

#[tokio::test]
async fn no_path_and_no_link_leads_out_of_a_granted_directory() {
    let outside = Folder::with_files([("secret.txt", "secret"), ("sub/deep.txt", "secret")]);
    let folder = folder_with_links(&outside);
    let dir = folder.path().join("in");
    let before = (snapshot(outside.path()), snapshot(&dir));
    let server = start(files_plugin().writable_dir(&dir, "/a", "1MiB")).await;
    for path in [
        "absolute",
        "absolute-dir",
        "absolute-dir/secret.txt",
        "absolute-dir/.",
        "absolute-dir/",
        "relative",
        "relative-dir",
        "relative-dir/",
        "relative-dir/secret.txt",
        "relative-dir/sub/../secret.txt",
        "chained",
        "sub/../relative",
        "parent",
        "parent/",
        "parent/in",
        "parent/in/a.txt",
        "root",
        "root/etc/passwd",
        "zero",
        "magic/etc/passwd",
        "..",
        "../",
        "../in/a.txt",
        "sub/../..",
        "sub/../../in/a.txt",
        "/",
        "/etc/passwd",
        "//etc/passwd",
    ] {
        for deed in FOLLOWING_ACTIONS {
            let (deed, how) = deed.split_once(' ').map_or((deed, ""), |(deed, how)| (deed, how));
            let order = format!("{deed} dir=/a path={path} {how}");
            assert_eq!(run_action(server.client(), order.trim()).await, "not-permitted", "{order}");
        }
    }
    assert_eq!(run_action(server.client(), "read dir=/a path=self").await, "mine");
    assert_eq!((snapshot(outside.path()), snapshot(&dir)), before);
    server.end().await;
}

#[tokio::test]
async fn a_guest_does_not_redirect_a_grant_below_a_directory_that_it_may_write_to() {
    let folder = Folder::with_files([("in/sub/a.txt", "mine"), ("outside/a.txt", "secret")]);
    let dir = folder.path().join("in");
    let server = start(files_plugin().writable_dir(&dir, "/a", "1MiB").dir(&dir.join("sub"), "/b")).await;
    assert_eq!(run_action(server.client(), "read dir=/b path=a.txt").await, "mine");
    assert_eq!(run_action(server.client(), "rename dir=/a path=sub to=moved").await, "ok");
    // A guest with two plugins makes the link itself; this one has none to call while there is no `sub`.
    symlink("../outside", dir.join("sub")).unwrap();
    server.client().read_error(&action_uri("read dir=/b path=a.txt")).await;
    let line = server.log_line("follows no link there").await;
    assert!(line.contains("in/sub"), "{line}");
    server.end().await;
}

#[tokio::test]
async fn nothing_is_made_moved_or_deleted_through_a_link_that_leads_out() {
    let outside = Folder::with_files([("secret.txt", "secret"), ("sub/deep.txt", "secret"), ("empty/x/y", "")]);
    std::fs::remove_file(outside.path().join("empty/x/y")).unwrap();
    let folder = folder_with_links(&outside);
    let dir = folder.path().join("in");
    let before = (snapshot(outside.path()), snapshot(&dir));
    let server = start(files_plugin().writable_dir(&dir, "/a", "1MiB")).await;
    for link in ["absolute-dir", "relative-dir", "../in/relative-dir"] {
        for order in [
            "mkdir path=LINK/new",
            "rmdir path=LINK/empty/x",
            "unlink path=LINK/secret.txt",
            "symlink path=LINK/new to=a.txt",
            "link path=LINK/secret.txt to=stolen",
            "link path=a.txt to=LINK/new",
            "rename path=LINK/secret.txt to=stolen",
            "rename path=a.txt to=LINK/new",
            "rename path=sub to=LINK/new",
            "rename path=LINK/sub to=stolen",
            "readlink path=LINK/secret.txt",
            "touch path=LINK/secret.txt flags=nofollow",
            "open path=LINK/new flags=create,exclusive,write",
        ] {
            let order = format!("{} dir=/a", order.replace("LINK", link));
            assert_eq!(run_action(server.client(), &order).await, "not-permitted", "{order}");
        }
    }
    assert_eq!((snapshot(outside.path()), snapshot(&dir)), before);
    server.end().await;
}

#[tokio::test]
async fn a_slash_at_the_end_makes_no_link_a_directory_that_is_changed() {
    let outside = Folder::with_files([("secret.txt", "secret"), ("sub/deep.txt", "secret"), ("empty/x", "")]);
    std::fs::remove_file(outside.path().join("empty/x")).unwrap();
    let folder = folder_with_links(&outside);
    let dir = folder.path().join("in");
    symlink(outside.path().join("empty"), dir.join("empty")).unwrap();
    let before = (snapshot(outside.path()), snapshot(&dir));
    let server = start(files_plugin().writable_dir(&dir, "/a", "1MiB")).await;
    for path in ["empty/", "empty//", "empty/.", "absolute-dir/", "relative/", "absolute/", "chained/", "a.txt/"] {
        for order in [
            "rmdir path=PATH",
            "unlink path=PATH",
            "mkdir path=PATH",
            "rename path=PATH to=new",
            "rename path=sub to=PATH",
            "rename path=a.txt to=PATH",
            "link path=PATH to=new",
            "link path=a.txt to=PATH",
            "symlink path=PATH to=a.txt",
            "touch path=PATH flags=nofollow",
            "open path=PATH flags=nofollow",
            "open path=PATH flags=nofollow,write,create",
        ] {
            let order = format!("{} dir=/a", order.replace("PATH", path));
            let outcome = run_action(server.client(), &order).await;
            assert_ne!(outcome, "ok", "{order}");
            assert_eq!(snapshot(outside.path()), before.0, "{order}: {outcome}");
            assert_eq!(snapshot(&dir), before.1, "{order}: {outcome}");
        }
    }
    server.end().await;
}

#[tokio::test]
async fn links_that_a_guest_makes_lead_nowhere_either() {
    let outside = Folder::with_files([("secret.txt", "secret")]);
    let folder = Folder::with_files([("in/a.txt", "mine")]);
    let server = start(files_plugin().writable_dir(&folder.path().join("in"), "/a", "1MiB")).await;
    let client = server.client();
    let absolute = outside.path().join("secret.txt");
    let order = format!("symlink dir=/a path=absolute to={}", absolute.display());
    assert_eq!(run_action(client, &order).await, "not-permitted");
    let name = outside.path().file_name().unwrap().to_str().unwrap();
    let order = format!("symlink dir=/a path=relative to=../../{name}/secret.txt");
    assert_eq!(run_action(client, &order).await, "ok");
    assert_eq!(run_action(client, "read dir=/a path=relative").await, "not-permitted");
    assert_eq!(run_action(client, "open dir=/a path=relative flags=write,truncate").await, "not-permitted");
    assert_eq!(run_action(client, "symlink dir=/a path=loop to=loop").await, "ok");
    assert_eq!(run_action(client, "read dir=/a path=loop").await, "loop");
    // A link still stays within the directory after it was moved, or it leads nowhere.
    assert_eq!(run_action(client, "mkdir dir=/a path=sub").await, "ok");
    assert_eq!(run_action(client, "symlink dir=/a path=sub/up to=../a.txt").await, "ok");
    assert_eq!(run_action(client, "read dir=/a path=sub/up").await, "mine");
    assert_eq!(run_action(client, "rename dir=/a path=sub/up to=up").await, "ok");
    assert_eq!(run_action(client, "read dir=/a path=up").await, "not-permitted");
    assert_eq!(std::fs::read_to_string(absolute).unwrap(), "secret");
    server.end().await;
}

#[tokio::test]
async fn a_read_only_grant_refuses_everything_that_would_change_it() {
    let folder = Folder::with_files([("a.txt", "text"), ("empty/x", "")]);
    std::fs::remove_file(folder.path().join("empty/x")).unwrap();
    let before = snapshot(folder.path());
    let server = start(files_plugin().dir(folder.path(), "/a")).await;
    for order in [
        "open path=new flags=create",
        "open path=new flags=create,exclusive",
        "open path=a.txt flags=write",
        "open path=a.txt flags=write,write-only",
        "open path=a.txt flags=truncate",
        "write path=a.txt size=1",
        "stream path=a.txt size=1",
        "append path=a.txt size=1",
        "set-size path=a.txt size=1",
        "set-times path=a.txt",
        "set-times path=empty",
        "touch path=a.txt",
        "touch path=a.txt flags=nofollow",
        "mkdir path=new",
        "rmdir path=empty",
        "unlink path=a.txt",
        "symlink path=new to=a.txt",
        "link path=a.txt to=new",
        "rename path=a.txt to=new",
    ] {
        assert_eq!(run_action(server.client(), &format!("{order} dir=/a")).await, "not-permitted", "{order}");
    }
    assert_eq!(run_action(server.client(), "plain-write dir=/a path=a.txt").await, "PermissionDenied");
    assert_eq!(snapshot(folder.path()), before);
    server.end().await;
}

#[tokio::test]
async fn nothing_is_linked_or_moved_from_one_grant_into_another() {
    let folder = Folder::with_files([("read/a", "read"), ("one/b", "one"), ("other/c", "other")]);
    let (read, one, other) = (folder.path().join("read"), folder.path().join("one"), folder.path().join("other"));
    let before = snapshot(folder.path());
    let plugin =
        files_plugin().dir(&read, "/read").writable_dir(&one, "/one", "1MiB").writable_dir(&other, "/other", "1MiB");
    // The same directory twice, once with write access.
    let server = start(plugin.writable_dir(&read, "/same", "1MiB")).await;
    for (order, outcome) in [
        ("dir=/read path=a into=/one to=a", "not-permitted"),
        ("dir=/read path=a into=/same to=new", "not-permitted"),
        ("dir=/one path=b into=/read to=b", "not-permitted"),
        ("dir=/one path=b into=/other to=b", "cross-device"),
        ("dir=/other path=c into=/one to=c", "cross-device"),
        ("dir=/other path=c into=/same to=c", "cross-device"),
    ] {
        for deed in ["link", "rename"] {
            assert_eq!(run_action(server.client(), &format!("{deed} {order}")).await, outcome, "{deed} {order}");
        }
    }
    assert_eq!(snapshot(folder.path()), before);
    // The file may be written, but only through the writable grant.
    assert_eq!(run_action(server.client(), "link dir=/same path=a to=again").await, "ok");
    assert_eq!(run_action(server.client(), "open dir=/read path=again flags=write").await, "not-permitted");
    server.end().await;
}
