//! The state directory and the cache: files that other users own or that this host did not write are not used.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, Output, Plugin, StdioServer, WrittenConfig, run};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn keyvalue_config() -> WrittenConfig {
    ConfigFile::new().plugin(Plugin::keyvalue("a").bucket("pages")).write()
}

/// A config with a separate cache.
fn config_with_own_cache() -> WrittenConfig {
    ConfigFile::new().server("cache", "cache").plugin(Plugin::keyvalue("a").bucket("pages")).write()
}

fn state_dir(config: &WrittenConfig) -> PathBuf {
    config.dir().join("state")
}

fn database_path(config: &WrittenConfig) -> PathBuf {
    state_dir(config).join("keyvalue/a.sqlite3")
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

async fn list(config: &WrittenConfig) -> Output {
    run(["list".as_ref(), "--config".as_ref(), config.path().as_os_str()]).await
}

async fn assert_list_fails(config: &WrittenConfig, expected: &[&str]) {
    let output = list(config).await;
    assert_eq!(output.code(), 1, "{}", output.stderr);
    for part in expected {
        assert!(output.stderr.contains(part), "`{part}` in {}", output.stderr);
    }
}

#[tokio::test]
async fn a_key_that_is_no_file_ends_the_start_with_its_name() {
    for key in ["cursor.key", "compiled.key"] {
        let config = keyvalue_config();
        let file = state_dir(&config).join(key);
        let _ = fs::remove_file(&file);
        mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_list_fails(&config, &[key, "a FIFO", "`server.state`"]).await;
        fs::remove_file(&file).unwrap();
        symlink("/dev/zero", &file).unwrap();
        assert_list_fails(&config, &[key, "a symbolic link"]).await;
        fs::remove_file(&file).unwrap();
        list(&config).await.success();
    }
}

#[tokio::test]
async fn a_key_that_others_may_read_or_write_is_not_used() {
    let config = keyvalue_config();
    list(&config).await.success();
    for (mode, shown) in [(0o666, "mode 0666"), (0o640, "mode 0640")] {
        chmod(&state_dir(&config).join("cursor.key"), mode);
        assert_list_fails(&config, &["cursor.key", shown, "chmod 600"]).await;
    }
}

#[tokio::test]
async fn a_state_directory_that_others_may_write_to_is_not_used() {
    let config = keyvalue_config();
    chmod(&state_dir(&config), 0o777);
    assert_list_fails(&config, &["mode 0777", "chmod go-w", "`server.state`"]).await;
}

/// Reads through a bucket, and returns the server's log.
async fn unavailable_log(config: &WrittenConfig) -> String {
    let server = StdioServer::start(config).await;
    let error = server.client().read_error("keyvalue://a/get/pages/key").await;
    assert_eq!(error.data.unwrap_or_default()["kind"], "unavailable");
    server.end().await.log
}

#[tokio::test]
async fn a_database_that_others_may_write_to_is_not_used() {
    let config = keyvalue_config();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("keyvalue://a/set/pages/key?value=kept").await, "done");
    server.end().await;
    for other in ["", "-wal"] {
        let file = PathBuf::from(format!("{}{other}", database_path(&config).display()));
        fs::OpenOptions::new().append(true).create(true).open(&file).unwrap();
        chmod(&file, 0o666);
        let log = unavailable_log(&config).await;
        assert!(log.contains("mode 0666") && log.contains("a.sqlite3"), "{log}");
        chmod(&file, 0o600);
    }
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("keyvalue://a/get/pages/key").await, "kept");
    server.end().await;
}

#[tokio::test]
async fn a_database_that_was_emptied_is_an_error_and_not_begun_anew() {
    let config = keyvalue_config();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("keyvalue://a/set/pages/key?value=kept").await, "done");
    server.end().await;
    fs::write(database_path(&config), b"").unwrap();
    let log = unavailable_log(&config).await;
    assert!(log.contains("it is empty"), "{log}");
    assert_eq!(fs::read(database_path(&config)).unwrap(), b"");
}

async fn check(config: &WrittenConfig) -> Output {
    run(["check".as_ref(), "--config".as_ref(), config.path().as_os_str()]).await
}

/// Asserts that `check` fails with an error that contains these texts.
async fn assert_check_fails(config: &WrittenConfig, expected: &[&str]) {
    let output = check(config).await;
    let said = format!("{}{}", output.text(), output.stderr);
    assert_eq!(output.code(), 1, "{said}");
    for part in expected {
        assert!(said.contains(part), "`{part}` in {said}");
    }
}

#[tokio::test]
async fn check_fails_for_a_database_that_cannot_be_used_and_makes_none() {
    let config = keyvalue_config();
    check(&config).await.success();
    assert!(!database_path(&config).parent().unwrap().exists(), "there was none, and is none");
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("keyvalue://a/set/pages/key?value=kept").await, "done");
    server.end().await;
    check(&config).await.success();
    let file = database_path(&config);
    let sound = fs::read(&file).unwrap();
    for (bytes, reason) in [(&b""[..], "it is empty"), (&[b'x'; 5000], "not a database")] {
        fs::write(&file, bytes).unwrap();
        assert_check_fails(&config, &["failing", "its key-value store cannot be used", "a.sqlite3", reason]).await;
        assert_eq!(fs::read(&file).unwrap(), bytes, "nothing is written");
    }
    fs::write(&file, &sound).unwrap();
    for (path, mode, own) in [(file.clone(), 0o666, 0o600), (file.parent().unwrap().to_owned(), 0o777, 0o700)] {
        chmod(&path, mode);
        assert_check_fails(&config, &["failing", "chmod go-w"]).await;
        chmod(&path, own);
    }
    check(&config).await.success();
    fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert_check_fails(&config, &["failing", "a FIFO"]).await;
}

#[tokio::test]
async fn check_fails_for_a_key_for_cursors_that_cannot_be_used_and_makes_none() {
    let config = keyvalue_config();
    check(&config).await.success();
    let key = state_dir(&config).join("cursor.key");
    assert!(!key.exists());
    fs::write(&key, b"short").unwrap();
    chmod(&key, 0o600);
    assert_check_fails(&config, &["cursor.key", "expected a file of 32 bytes"]).await;
    fs::write(&key, [7; 32]).unwrap();
    check(&config).await.success();
    chmod(&key, 0o666);
    assert_check_fails(&config, &["cursor.key", "mode 0666"]).await;
}

#[tokio::test]
async fn a_server_that_ends_in_order_leaves_no_write_ahead_log() {
    let config = keyvalue_config();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("keyvalue://a/set/pages/key?value=kept").await, "done");
    server.end().await;
    let left: Vec<_> = fs::read_dir(database_path(&config).parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "the database alone: {left:?}");
}

#[tokio::test]
async fn a_command_that_ends_leaves_no_write_ahead_log() {
    let config = keyvalue_config();
    let uri = "keyvalue://a/set/pages/key?value=kept";
    run(["read".as_ref(), uri.as_ref(), "--config".as_ref(), config.path().as_os_str()]).await.success();
    let left: Vec<_> = fs::read_dir(database_path(&config).parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "the database alone: {left:?}");
}

/// Returns the only file of a cache.
fn compiled_file(config: &WrittenConfig) -> PathBuf {
    let files: Vec<_> = fs::read_dir(config.dir().join("cache")).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    files.into_iter().next().unwrap()
}

#[tokio::test]
async fn compiled_code_that_this_host_did_not_write_is_compiled_anew_and_never_run() {
    let config = config_with_own_cache();
    let first = list(&config).await.success();
    let file = compiled_file(&config);
    let sound = fs::read(&file).unwrap();
    let mut flipped = sound.clone();
    flipped[sound.len() / 2] ^= 1;
    for forged in [flipped, sound[..sound.len() - 1].to_vec(), Vec::new()] {
        fs::write(&file, forged).unwrap();
        let again = list(&config).await.success();
        assert_eq!(again.text(), first.text());
        assert!(again.stderr.contains("compiling it again"), "{}", again.stderr);
        assert_eq!(fs::read(compiled_file(&config)).unwrap().len(), sound.len());
    }
    let sound = list(&config).await.success();
    assert!(!sound.stderr.contains("compiling it again"), "{}", sound.stderr);
    // A FIFO does not block.
    fs::remove_file(&file).unwrap();
    mknodat(CWD, &file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let again = list(&config).await.success();
    assert!(again.stderr.contains("compiling it again"), "{}", again.stderr);
}
