//! Histories that take longer than one call, in a repository without a commit-graph.

use std::fmt::Write as _;
use std::fs::File;
use std::process::Command;

use mcp_host_tests::{ConfigFile, GitRepo, Plugin, StdioServer, run};

use super::{git_log, repo_config};

/// The number of commits. A walk over all of them takes several times the limit of one call.
const COMMITS: usize = 8000;
/// The number of requests after which a history must be complete, on a machine that runs other tests.
const MAX_REQUESTS: usize = 60;

/// A repository whose directories have many files, so comparisons of commits take long.
fn large_repo() -> GitRepo {
    let repo = GitRepo::empty();
    let mut stream = String::new();
    // Writing to a string cannot fail.
    for n in 0..COMMITS {
        let time = 1_600_000_000 + n * 60;
        let _ = write!(stream, "commit refs/heads/main\ncommitter A <a@example.com> {time} +0000\ndata 2\nc\n\n");
        if n == 0 {
            for file in 0..400 {
                let _ = write!(stream, "M 644 inline a/b/c/d/file{file}.txt\ndata 2\n0\n\n");
            }
        }
        let content = format!("{n}\n");
        let file = 1 + n % 399;
        let _ = write!(stream, "M 644 inline a/b/c/d/file{file}.txt\ndata {}\n{content}\n", content.len());
        if n % 1000 == 7 {
            let _ = write!(stream, "M 644 inline a/b/c/d/file0.txt\ndata {}\n{content}\n", content.len());
        }
    }
    let file = repo.worktree().write("stream", stream);
    let mut import = Command::new("git");
    import.arg("-C").arg(repo.path()).args(["fast-import", "--quiet", "--force"]).stdin(File::open(file).unwrap());
    assert!(import.status().unwrap().success());
    repo
}

#[tokio::test]
async fn a_history_and_a_blame_that_ended_early_go_on_at_the_next_request_until_they_are_those_of_git() {
    let repo = large_repo();
    let plugin = Plugin::git("repo", repo.path()).bucket("histories");
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
    let client = server.client();
    let file = "a/b/c/d/file0.txt";
    let uri = format!("git://repo/log/main?path={}", file.replace('/', "%2F"));
    let first = client.text(&uri).await;
    // A fast machine reads everything within one call.
    let last = first.lines().last().unwrap();
    assert!(!last.starts_with("# This is not complete") || last.contains("goes on from there"), "{last}");
    let mut shown = first;
    for _ in 0..MAX_REQUESTS {
        if !shown.contains("# This is not complete") {
            break;
        }
        shown = client.text(&uri).await;
    }
    assert_eq!(shown, git_log(&repo, &["main", "--", file]));
    // The learned entries of one path are reused for the blame of the same commits.
    let mut blame = String::new();
    for _ in 0..MAX_REQUESTS {
        blame = client.text(&format!("git://repo/blame/main/{file}")).await;
        if !blame.contains("# This is not complete") {
            break;
        }
    }
    assert_eq!(blame.split('\t').next(), repo.git_line(["blame", "-s", "-l", "main", "--", file]).split(' ').next());
    server.end().await;
}

#[tokio::test]
async fn check_says_what_helps_a_large_repository_without_a_commit_graph_and_warns_of_no_bucket() {
    let repo = GitRepo::with_files([("a.txt", "A")]);
    let config = repo_config(&repo).write();
    let path = config.path();
    let checked = run(["check", "--strict", "--config", path.to_str().unwrap()]).await.success();
    let note = "it asks for `histories` in `grants.keyvalue`, which is not granted";
    assert!(checked.text().contains(note), "{}", checked.text());
    assert!(
        !checked.stderr.contains("histories"),
        "nothing is refused, and this repository is small: {}",
        checked.stderr
    );

    let large = large_repo();
    let config = repo_config(&large).write();
    let path = config.path();
    let help = "git commit-graph write --reachable --changed-paths";
    let checked = run(["check", "--config", path.to_str().unwrap()]).await.success();
    assert!(checked.stderr.contains(help) && checked.stderr.contains("grant the bucket"), "{}", checked.stderr);
    large.git(help.split(' ').skip(1));
    let checked = run(["check", "--config", path.to_str().unwrap()]).await.success();
    assert!(!checked.stderr.contains("commit-graph"), "{}", checked.stderr);
}
