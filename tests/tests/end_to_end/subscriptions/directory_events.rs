//! Changes are detected whatever the operating system notifies: at the limits of inotify, when a watched directory is
//! replaced, and when a link to it is retargeted.

use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, has_user_namespaces, wait_until};
use serde_json::json;

const UPDATED: &str = "notifications/resources/updated";
const REVISION: Revision = Revision::V_2025_11_25;
const URI: &str = "faulty://m/a";

async fn wait_until_updated(wire: &mut RawStdio) {
    assert_eq!(wire.notification(UPDATED).await["params"]["uri"], URI);
}

#[tokio::test]
async fn at_the_limit_of_inotify_changes_are_noticed_at_the_interval_and_the_log_says_so_once() {
    if !has_user_namespaces() {
        return;
    }
    let folder = Folder::with_files([("a", "a"), ("deep/er/b", "b")]);
    let faulty = || Plugin::faulty("m", folder.path());
    // No watches, and fewer watches than directories.
    for watches in [0, 2] {
        let config = ConfigFile::new().plugin(faulty()).write();
        let mut wire = RawStdio::start_with_inotify_limit(watches, &config, REVISION).await;
        wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
        wire.log_line("found only by polling").await;
        for round in 0..3 {
            folder.write("a", format!("{watches} {round}"));
            wait_until_updated(&mut wire).await;
        }
        if watches == 0 {
            wire.log_line("changes of the config and of components are detected by polling, every 2 s").await;
        }
        config.replace(ConfigFile::new().plugin(faulty().config("prefix", "new ")));
        wire.log_line("generation=2 ").await;
        wait_until_updated(&mut wire).await;
        let log = wire.end().await.log;
        // Logged once for each of the two plugins that have existed.
        assert!(log.matches("found only by polling").count() <= 2, "{log}");
    }
}

#[tokio::test]
async fn a_directory_that_is_removed_and_made_again_is_watched_again() {
    let folder = Folder::with_files([("data/a", "a")]);
    let data = folder.path().join("data");
    let config = ConfigFile::new().plugin(Plugin::faulty("m", &data)).write();
    let mut wire = RawStdio::start_at(&config.path(), &["--no-reload"], REVISION).await;
    wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
    let watched = wire.inotify_watches();
    assert!(watched > 0);
    for round in 0..2 {
        fs::remove_dir_all(&data).unwrap();
        wait_until("nothing is left to be watched", || wire.inotify_watches() == 0).await;
        folder.write("data/a", format!("made again {round}"));
        wait_until_updated(&mut wire).await;
        wait_until("it is watched again", || wire.inotify_watches() == watched).await;
        folder.write("data/a", format!("edited after that, {round}"));
        wait_until_updated(&mut wire).await;
    }
    wire.end().await;
}

#[tokio::test]
async fn a_directory_that_is_replaced_by_another_is_watched_as_it_is_then() {
    let folder = Folder::with_files([("data/a", "a"), ("new/a", "another"), ("new/sub/b", "b")]);
    let (data, new) = (folder.path().join("data"), folder.path().join("new"));
    let config = ConfigFile::new().plugin(Plugin::faulty("m", &data)).write();
    let mut wire = RawStdio::start_at(&config.path(), &["--no-reload"], REVISION).await;
    wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
    let watched = wire.inotify_watches();
    fs::rename(&data, folder.path().join("old")).unwrap();
    fs::rename(&new, &data).unwrap();
    wait_until_updated(&mut wire).await;
    wait_until("its folders are watched too", || wire.inotify_watches() == watched + 1).await;
    folder.write("old/a", "of no interest any more");
    folder.write("data/a", "edited");
    wait_until_updated(&mut wire).await;
    wire.end().await;
}

#[tokio::test]
async fn a_link_on_the_path_of_a_grant_that_is_retargeted_is_noticed_at_once_and_followed() {
    // The layout of a config map: an update renames a new link to `..data`.
    let folder = Folder::with_files([("..1/data/a", "a"), ("..2/data/a", "another"), ("..3/data/a", "a third")]);
    folder.symlink("..data", "..1");
    let data = folder.path().join("..data/data");
    // The interval is longer than the test, so only events reveal changes.
    let config = ConfigFile::new().plugin(Plugin::faulty("m", &data).set("watch-interval", "1h")).write();
    let mut wire = RawStdio::start_at(&config.path(), &["--no-reload"], REVISION).await;
    wire.request("resources/subscribe", json!({ "uri": URI })).await.result();
    for version in ["..2", "..3"] {
        folder.symlink("..tmp", version);
        fs::rename(folder.path().join("..tmp"), folder.path().join("..data")).unwrap();
        wait_until_updated(&mut wire).await;
        folder.write(format!("{version}/data/a"), "edited where it leads now");
        wait_until_updated(&mut wire).await;
    }
    wire.end().await;
}
