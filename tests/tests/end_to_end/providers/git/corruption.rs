//! Corrupt repositories, with good ones in the same server.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;

use mcp_host_tests::{ConfigFile, Folder, GitRepo, Plugin, StdioServer};
use rmcp::model::ErrorCode;

use super::repo_config;

/// Returns the file of a loose object.
fn loose_object_path(repo: &GitRepo, id: &str) -> PathBuf {
    repo.path().join(".git/objects").join(&id[..2]).join(&id[2..])
}

#[tokio::test]
async fn a_damaged_object_fails_its_own_read_only() {
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    for damage in ["cut", "flipped", "emptied"] {
        let repo = GitRepo::with_files([("good.txt", "good"), ("bad.txt", &*text)]);
        let file = loose_object_path(&repo, &repo.git_line(["rev-parse", "HEAD:bad.txt"]));
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        match damage {
            "cut" => bytes.truncate(middle),
            "flipped" => bytes[middle] ^= 0xff,
            _ => bytes.clear(),
        }
        fs::remove_file(&file).unwrap();
        fs::write(&file, bytes).unwrap();
        let config = repo_config(&repo).write();
        let server = StdioServer::start(&config).await;
        let error = server.client().read_error("git://repo/blob/main/bad.txt").await;
        assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{damage}");
        assert_eq!(error.data.unwrap()["kind"], "internal", "{damage}");
        assert_eq!(server.client().text("git://repo/blob/main/good.txt").await, "good", "{damage}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_damaged_pack_is_an_error_and_another_repository_is_served_beside_it() {
    let good = GitRepo::with_files([("a.txt", "A")]);
    let text: String = (0..2000).map(|n| format!("line {n}\n")).collect();
    for extension in ["pack", "idx"] {
        let bad = GitRepo::with_files([("bad.txt", &*text)]);
        bad.git(["repack", "--quiet", "-a", "-d"]);
        let packs = fs::read_dir(bad.path().join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let file = packs.into_iter().find(|path| path.extension() == Some(OsStr::new(extension))).unwrap();
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        fs::write(&file, &bytes[..bytes.len() / 3]).unwrap();
        let config =
            ConfigFile::new().plugin(Plugin::git("bad", bad.path())).plugin(Plugin::git("repo", good.path())).write();
        let server = StdioServer::start(&config).await;
        let page = server.client().page(None).await.unwrap();
        assert!(page.resources.iter().any(|resource| resource.uri == "git://repo/blob/HEAD/a.txt"), "{extension}");
        let error = server.client().read_error("git://bad/blob/main/bad.txt").await;
        assert!([ErrorCode::INTERNAL_ERROR, ErrorCode(-32002)].contains(&error.code), "{extension}: {error:?}");
        assert_eq!(server.client().text("git://repo/blob/main/a.txt").await, "A");
        server.end().await;
    }
}

#[tokio::test]
async fn a_directory_that_is_no_repository_leaves_its_plugin_missing() {
    let folder = Folder::with_files([("a.txt", "A")]);
    let config =
        ConfigFile::new().plugin(Plugin::git("repo", folder.path())).plugin(Plugin::misbehaving("good")).write();
    let server = StdioServer::start(&config).await;
    let page = server.client().page(None).await.unwrap();
    assert_eq!(page.meta.unwrap()["mcp-host/missing"][0]["plugin"], "repo");
    assert!(!page.resources.is_empty());
    server.end().await;
}
