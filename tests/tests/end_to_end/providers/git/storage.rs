//! Repositories of all storage formats.

use futures::future::join_all;
use mcp_host_tests::{ConfigFile, GitRepo, Plugin, StdioServer};
use rmcp::model::ErrorCode;

use super::{assert_same_files, assert_same_listing, git_log, repo_config, repo_with_history};

#[tokio::test]
async fn it_does_not_matter_how_objects_and_refs_are_stored() {
    let repo = repo_with_history();
    let steps: [&[&str]; 5] = [
        &["repack", "--quiet", "-d"],
        &["pack-refs", "--all"],
        &["commit-graph", "write", "--reachable"],
        &["repack", "--quiet", "-a", "-d", "--depth=50", "--window=50", "-f"],
        &["multi-pack-index", "write"],
    ];
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    for step in steps {
        repo.git(step);
        assert_same_listing(server.client(), &repo).await;
        assert_same_files(server.client(), &repo, "feature/x").await;
        assert_eq!(server.client().text("git://repo/log/main").await, git_log(&repo, &["main"]), "{step:?}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_repository_of_sha256_is_served_like_any_other() {
    let repo = GitRepo::init(&["--object-format=sha256", "--initial-branch=main"]);
    repo.worktree().write("a.txt", "A");
    repo.commit("first");
    repo.git(["repack", "--quiet", "-a", "-d"]);
    repo.worktree().write("b.txt", "B");
    let id = repo.commit("second");
    assert_eq!(id.len(), 64);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    assert_same_listing(server.client(), &repo).await;
    for rev in ["main", &id, &id[..8]] {
        assert_same_files(server.client(), &repo, rev).await;
    }
    assert_eq!(server.client().text("git://repo/log/main").await, git_log(&repo, &["main"]));
    server.end().await;
}

#[tokio::test]
async fn bare_and_shallow_clones_are_served() {
    let origin = repo_with_history();
    let cut_off = "# This is not complete, as the clone is shallow: older commits are missing; git fetch --unshallow completes it\n";
    for (arguments, end) in [(["--quiet"].as_slice(), ""), (&["--depth=2"], cut_off)] {
        let clone = origin.bare_clone(arguments);
        let config = repo_config(&clone).write();
        let server = StdioServer::start(&config).await;
        assert_same_listing(server.client(), &clone).await;
        assert_eq!(server.client().text("git://repo/log/main").await, git_log(&clone, &["main"]) + end);
        let commit = server.client().text("git://repo/commit/main").await;
        assert!(commit.contains("+more"), "{commit}");
        server.end().await;
    }
}

#[tokio::test]
async fn a_repository_without_a_commit_is_empty_and_fills_up() {
    let repo = GitRepo::empty();
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    assert!(server.client().uris().await.is_empty());
    assert_eq!(server.client().read_error("git://repo/blob/main/a").await.code, ErrorCode(-32002));
    repo.worktree().write("a.txt", "A");
    repo.commit("first");
    assert_same_listing(server.client(), &repo).await;
    server.end().await;
}

#[tokio::test]
async fn repositories_behind_two_plugins_never_mix() {
    let files = |of: &'static str| (0..20).map(move |n| (format!("{n}.txt"), format!("{of} {n}")));
    let (one, other) = (GitRepo::with_files(files("one")), GitRepo::with_files(files("other")));
    let config = ConfigFile::new()
        .page_size(7)
        .plugin(Plugin::git("one", one.path()))
        .plugin(Plugin::git("other", other.path()))
        .write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let reads = (0..20).flat_map(|n| ["one", "other"].map(|of| (n, of))).map(async |(n, of)| {
        assert_eq!(client.text(&format!("git://{of}/blob/main/{n}.txt")).await, format!("{of} {n}"));
    });
    join_all(reads).await;
    let uris = client.uris().await;
    assert_eq!(uris.iter().filter(|uri| uri.starts_with("git://one/")).count(), 20);
    assert_eq!(uris.len(), 40);
    let (of_one, of_other) = (one.git_line(["rev-parse", "HEAD"]), other.git_line(["rev-parse", "HEAD"]));
    assert_ne!(of_one, of_other);
    assert_eq!(client.read_error(&format!("git://one/commit/{of_other}")).await.code, ErrorCode(-32002));
    server.end().await;
}
