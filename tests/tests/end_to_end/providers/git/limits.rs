//! Repositories with unusually large or malformed objects.

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs;
use std::process::Command;

use mcp_host_tests::{Client, GitRepo, StdioServer};
use rmcp::model::{ErrorCode, ResourceContents};

use super::{assert_same_files, git_log, repo_config};

/// Returns the text of a resource, and its entry.
async fn read_with_meta(client: &Client, uri: &str) -> (String, serde_json::Map<String, serde_json::Value>) {
    match client.read(uri).await.unwrap_or_else(|error| panic!("{uri}: {error:?}")).remove(0) {
        ResourceContents::TextResourceContents { text, meta, .. } => {
            (text, meta.map(|meta| meta.0).unwrap_or_default())
        }
        other => panic!("{uri}: {other:?}"),
    }
}

/// Commits with a message of `bytes` bytes after its subject, read from a file.
fn commit_with_size(repo: &GitRepo, subject: &str, bytes: usize) -> String {
    let file = repo.worktree().write(".git/MESSAGE", format!("{subject}\n\n{}", "and on\n".repeat(bytes / 7)));
    repo.git(["commit", "--quiet", "--allow-empty", "--file", file.to_str().unwrap()]);
    repo.git_line(["rev-parse", "HEAD"])
}

#[tokio::test]
async fn a_commit_of_many_megabytes_costs_a_log_one_line() {
    let repo = GitRepo::with_files([("a.txt", "A")]);
    let large = commit_with_size(&repo, "five megabytes", 5 << 20);
    repo.worktree().write("a.txt", "B");
    repo.commit(&"a subject without end ".repeat(5000));
    repo.worktree().write("a.txt", "C");
    repo.commit("third");
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    let expected = git_log(&repo, &["main"]);
    let (shown, _) = read_with_meta(client, "git://repo/log/main").await;
    for (shown, expected) in shown.lines().zip(expected.lines()) {
        let beginning = shown.trim_end_matches('…');
        assert!(expected.starts_with(beginning) && beginning.len() < 2000, "{shown}");
    }
    assert_eq!(shown.lines().count(), 4);
    let (shown, meta) = read_with_meta(client, &format!("git://repo/commit/{large}")).await;
    assert!(shown.contains("five megabytes") && shown.contains("message truncated") && shown.len() < 2 << 20);
    assert_eq!(meta["git/object"], large);
    let larger = commit_with_size(&repo, "twenty megabytes", 20 << 20);
    repo.worktree().write("b.txt", "B");
    let last = repo.commit("last");
    for query in ["", "?path=b.txt"] {
        let (shown, meta) = read_with_meta(client, &format!("git://repo/log/main{query}")).await;
        let lines: Vec<_> = shown.lines().collect();
        assert!(lines[0].starts_with(&last) && lines[0].ends_with("last"), "{shown}");
        assert!(lines[1].starts_with(&larger) && lines[1].contains("not read: 20"), "{shown}");
        assert_eq!((lines.len(), &meta["git/more"]), (2, &true.into()));
    }
    server.end().await;
}

#[tokio::test]
async fn a_hundred_thousand_refs_are_read_in_parts() {
    let repo = GitRepo::with_files([("a.txt", "A")]);
    repo.git(["tag", "--annotate", "v1", "--message", "One"]);
    let (commit, tag) = (repo.git_line(["rev-parse", "main"]), repo.git_line(["rev-parse", "v1"]));
    let mut packed = "# pack-refs with: peeled fully-peeled sorted \n".to_owned();
    for n in 0..100_000 {
        writeln!(packed, "{commit} refs/heads/branch-{n:06}").unwrap();
    }
    writeln!(packed, "{tag} refs/tags/packed\n^{commit}").unwrap();
    fs::write(repo.path().join(".git/packed-refs"), packed).unwrap();
    for n in 0..3000 {
        repo.worktree()
            .write(format!(".git/refs/tags/loose/{n:05}"), format!("{}\n", if n % 1000 == 0 { &tag } else { &commit }));
    }
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let (mut all, mut next, mut parts) = (String::new(), "refs".to_owned(), 0);
    loop {
        let (part, meta) = read_with_meta(server.client(), &format!("git://repo/{next}")).await;
        (all, parts) = (all + &part, parts + 1);
        match meta.get("git/next") {
            Some(path) => next = path.as_str().unwrap().to_owned(),
            None => break,
        }
    }
    let expected = String::from_utf8(repo.git(["show-ref", "--head", "--dereference"])).unwrap();
    assert!(all == expected, "{} of {} lines", all.lines().count(), expected.lines().count());
    assert!((3..6).contains(&parts), "{parts}");
    // Requests that need the refs still work with this number of refs.
    let completed =
        server.client().complete("git://repo/blob/{rev}/{+path}", ("rev", "loose/0001"), &[]).await.unwrap();
    assert_eq!(completed.values.len(), 10);
    assert_same_files(server.client(), &repo, "branch-054321").await;
    server.end().await;
}

#[tokio::test]
async fn a_pack_that_is_a_pipe_is_damage_and_nobody_waits_for_it() {
    for extension in ["pack", "idx"] {
        let repo = GitRepo::with_files([("a.txt", "A")]);
        repo.git(["repack", "--quiet", "-a", "-d"]);
        let packs = fs::read_dir(repo.path().join(".git/objects/pack")).unwrap().map(|entry| entry.unwrap().path());
        let pack = packs.into_iter().find(|path| path.extension() == Some(OsStr::new(extension))).unwrap();
        fs::remove_file(&pack).unwrap();
        assert!(Command::new("mkfifo").arg(&pack).status().unwrap().success());
        let config = repo_config(&repo).write();
        let server = StdioServer::start(&config).await;
        for uri in ["git://repo/blob/main/a.txt", "git://repo/log/main"] {
            let error = server.client().read_error(uri).await;
            assert_eq!(error.code, ErrorCode::INTERNAL_ERROR, "{extension}: {uri}: {error:?}");
        }
        server.log_line("expected a regular file").await;
        server.end().await;
    }
}

#[tokio::test]
async fn a_directory_that_cannot_be_read_is_listed_as_such_and_the_others_with_their_files() {
    let repo = GitRepo::with_files([
        ("a/1.txt", "1"),
        ("bad/2.txt", "2"),
        ("bad/sub/3.txt", "3"),
        ("bad.txt", "4"),
        ("z/5.txt", "5"),
    ]);
    let tree = repo.git_line(["rev-parse", "HEAD:bad"]);
    fs::remove_file(repo.path().join(".git/objects").join(&tree[..2]).join(&tree[2..])).unwrap();
    for page_size in [1, 2, 100] {
        let config = repo_config(&repo).page_size(page_size).write();
        let server = StdioServer::start(&config).await;
        let expected = ["blob/HEAD/a/1.txt", "blob/HEAD/bad.txt", "tree/HEAD/bad", "blob/HEAD/z/5.txt"]
            .map(|path| format!("git://repo/{path}"));
        assert_eq!(server.client().uris().await, expected, "{page_size}");
        server.end().await;
    }
}
