//! Files, directories and links, with names of any kind.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mcp_host_tests::{ConfigFile, GitRepo, Plugin, StdioServer, content_bytes, reserved_expansion, run};

use super::{assert_same_files, assert_same_listing, percent_encode, repo_config, repo_with_history, tree_files};

/// Names that have broken parsers, shells or URI libraries.
const HOSTILE: [&[u8]; 22] = [
    b"README.md",
    b"with space.txt",
    b" leading and trailing ",
    b"new\nline.txt",
    b"tab\there",
    b"quo\"te'd.txt",
    b"back\\slash.txt",
    b"100%.txt",
    b"%2e%2e",
    b"%00.txt",
    b"hash#tag.md",
    b"what?.md",
    b"a&b=c;d+e,f.txt",
    b"{brace}[bracket]<angle>|^`.txt",
    "日本語/メモ.md".as_bytes(),
    "é-composed-é.txt".as_bytes(),
    b"not-utf8-\xff\xfe.bin",
    b"...",
    b"..hidden",
    b"-rf",
    b"deep/er/and/deeper/still.txt",
    b"a:b@c.txt",
];

#[tokio::test]
async fn every_file_with_a_hostile_name_is_listed_and_read_as_git_has_it() {
    let contents = |name: &'static [u8]| (Path::new(OsStr::from_bytes(name)), [name, b"\n\xf0\x9f\x98\x80"].concat());
    let repo = GitRepo::with_files(HOSTILE.map(contents));
    repo.worktree().write("binary.bin", b"\x00\x01\xff\xfe");
    repo.worktree().write("empty", b"");
    repo.worktree().symlink("link", "deep/er");
    repo.worktree().symlink("link-away", "/etc/passwd");
    repo.commit("more");
    let config = repo_config(&repo).page_size(7).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(tree_files(&repo, "HEAD").len(), HOSTILE.len() + 4);
    assert_same_listing(server.client(), &repo).await;
    assert_same_files(server.client(), &repo, "HEAD").await;
    server.end().await;
}

#[tokio::test]
async fn paths_are_completed_to_what_the_template_makes_the_right_uri_of() {
    let repo = GitRepo::with_files(HOSTILE.map(|name| (Path::new(OsStr::from_bytes(name)), name)));
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let complete = async |typed: &str| {
        client.complete("git://repo/blob/{rev}/{+path}", ("path", typed), &[("rev", "main")]).await.unwrap().values
    };
    let mut files = Vec::new();
    for value in complete("").await {
        match value.ends_with('/') {
            true => files.extend(complete(&value).await),
            false => files.push(value),
        }
    }
    assert!(files.len() > HOSTILE.len() / 2, "{files:?}");
    for value in files.iter().filter(|value| !value.ends_with('/')) {
        let uri = format!("git://repo/blob/main/{}", reserved_expansion(value));
        let read = client.read(&uri).await.unwrap_or_else(|error| panic!("{value:?}: {error:?}"));
        assert!(HOSTILE.contains(&&*content_bytes(&read[0])), "{value:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_directory_lists_what_git_ls_tree_lists() {
    let repo = repo_with_history();
    repo.worktree().write("d/sub dir/f.txt", "f");
    repo.commit("deeper");
    let config = repo_config(&repo).page_size(2).write();
    for (uri, dir) in [
        ("git://repo/tree/main", ""),
        ("git://repo/tree/main/d", "d/"),
        ("git://repo/tree/main/d/sub%20dir", "d/sub dir/"),
    ] {
        let listed = run(["list", uri, "--all", "--json", "--config", config.path().to_str().unwrap()]).await.success();
        let pages: Vec<serde_json::Value> =
            listed.text().lines().map(|page| serde_json::from_str(page).unwrap()).collect();
        let uris =
            pages.iter().flat_map(|page| page["resources"].as_array().unwrap()).map(|one| one["uri"].as_str().unwrap());
        let records =
            repo.git_records(["ls-tree", "-z", "main", dir].into_iter().filter(|argument| !argument.is_empty()));
        let expected = records.iter().map(|record| {
            let tab = record.iter().position(|byte| *byte == b'\t').unwrap();
            let family = if record[..tab].windows(4).any(|word| word == b"tree") { "tree" } else { "blob" };
            format!("git://repo/{family}/main/{}", percent_encode(&record[tab + 1..]))
        });
        assert_eq!(uris.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{uri}");
    }
}

#[tokio::test]
async fn a_link_is_shown_as_its_target_and_never_followed() {
    let repo = GitRepo::with_files([("secret.txt", "secret")]);
    repo.worktree().symlink("away", "/etc/passwd");
    repo.worktree().symlink("here", "secret.txt");
    repo.commit("links");
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("git://repo/blob/main/away").await, "/etc/passwd");
    assert_eq!(server.client().text("git://repo/blob/main/here").await, "secret.txt");
    server.end().await;
}

#[tokio::test]
async fn a_submodule_is_shown_as_the_commit_that_it_stands_at() {
    let repo = GitRepo::with_files([("a.txt", "A")]);
    let id = "0123456789abcdef0123456789abcdef01234567";
    repo.git(["update-index", "--add", "--cacheinfo", &format!("160000,{id},module")]);
    repo.git(["commit", "--quiet", "--message", "a submodule"]);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    assert_same_listing(server.client(), &repo).await;
    let shown = server.client().text("git://repo/blob/main/module").await;
    assert!(shown.contains(id), "{shown}");
    server.end().await;
}

#[tokio::test]
async fn a_pointer_of_large_file_storage_is_the_text_that_it_is() {
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n";
    let repo = GitRepo::with_files([(".gitattributes", "*.bin filter=lfs\n"), ("big.bin", pointer)]);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(server.client().text("git://repo/blob/main/big.bin").await, pointer);
    server.end().await;
}

#[tokio::test]
async fn the_revision_of_the_config_is_what_is_listed() {
    let repo = repo_with_history();
    let plugin = Plugin::git("repo", repo.path()).config("rev", "feature/x");
    let config = ConfigFile::new().plugin(plugin).write();
    let server = StdioServer::start(&config).await;
    let uris = server.client().uris().await;
    assert!(uris.contains(&"git://repo/blob/feature%2Fx/feature.txt".to_owned()), "{uris:?}");
    assert!(uris.contains(&"git://repo/blob/feature%2Fx/go.txt".to_owned()), "{uris:?}");
    server.end().await;
}
