//! Revisions, logs, commits and refs.

use mcp_host_tests::{GitRepo, StdioServer};
use rmcp::model::ErrorCode;

use super::{assert_same_files, git_log, lines, repo_config, repo_with_history};

#[tokio::test]
async fn every_revision_is_read_by_branch_tag_full_and_short_id() {
    let repo = repo_with_history();
    repo.git(["tag", "light", "HEAD~1"]);
    repo.git(["tag", "--annotate", "--message", "a release", "v1.0/rc", "HEAD~2"]);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let full = repo.git_line(["rev-parse", "HEAD~1"]);
    let short = repo.git_line(["rev-parse", "--short", "HEAD~1"]);
    for rev in ["HEAD", "main", "feature/x", "light", "v1.0/rc", "refs/heads/main", &full, &short] {
        assert_same_files(server.client(), &repo, rev).await;
    }
    assert_eq!(server.client().text("git://repo/blob/feature%2Fx/feature.txt").await, "new\n");
    server.end().await;
}

#[tokio::test]
async fn a_log_is_what_git_log_says() {
    let repo = repo_with_history();
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    for (query, arguments) in [
        ("main", ["main"].as_slice()),
        ("feature%2Fx", &["feature/x"]),
        ("main?limit=2", &["-2", "main"]),
        ("main?path=change.txt", &["main", "--", "change.txt"]),
        ("main?path=go.txt", &["main", "--", "go.txt"]),
        ("main?path=d", &["main", "--", "d"]),
        ("main?path=d%2Fe.txt&limit=1", &["-1", "main", "--", "d/e.txt"]),
        ("main?path=feature.txt", &["main", "--", "feature.txt"]),
        ("main?path=never-there", &["main", "--", "never-there"]),
    ] {
        let text = client.text(&format!("git://repo/log/{query}")).await;
        assert_eq!(text, git_log(&repo, arguments), "{query}");
    }
    server.end().await;
}

#[tokio::test]
async fn a_commit_says_what_git_show_says_of_files_and_people() {
    let repo = repo_with_history();
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    for rev in lines(&repo.git_line(["rev-list", "main"])) {
        let commit = server.client().text(&format!("git://repo/commit/{rev}")).await;
        let subject = repo.git_line(["log", "-1", "--format=%s", rev]);
        assert!(commit.starts_with(&format!("commit {rev}\n")) && commit.contains(&subject), "{commit}");
        let show = |what: &[&str]| {
            repo.git_line(
                [["show", "--first-parent", "-m", "--no-renames", "--format="].as_slice(), what, &[rev]].concat(),
            )
        };
        let is_status = |line: &&str| matches!(line.split_once('\t'), Some(("A" | "M" | "D" | "T", _)));
        let statuses: Vec<_> = commit.lines().filter(is_status).collect();
        assert_eq!(statuses, lines(&show(&["--name-status"])), "{commit}");
        let diff_lines = |text: &str| {
            let is_diff = |line: &&str| ["diff --git", "@@", "+", "-"].iter().any(|start| line.starts_with(start));
            text.lines().filter(is_diff).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(diff_lines(&commit), diff_lines(&show(&["--patch"])), "{commit}");
    }
    let last = server.client().text("git://repo/commit/main").await;
    for part in [
        "Ada Lovelace <ada@example.com>",
        "Grace Hopper <grace@example.com>",
        "日本語の件名",
        "And a body\n",
        "of two lines.",
    ] {
        assert!(last.contains(part), "{part}:\n{last}");
    }
    server.end().await;
}

#[tokio::test]
async fn refs_are_what_git_show_ref_says() {
    let repo = repo_with_history();
    repo.git(["tag", "light"]);
    repo.git(["tag", "--annotate", "--message", "a release", "v1"]);
    repo.git(["pack-refs", "--all"]);
    repo.git(["branch", "loose"]);
    repo.git(["tag", "--annotate", "--message", "another", "v2"]);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let refs = server.client().text("git://repo/refs").await;
    assert_eq!(refs.trim_end(), repo.git_line(["show-ref", "--head", "--dereference"]));
    server.end().await;
}

#[tokio::test]
async fn a_short_id_that_several_objects_begin_with_is_refused_with_all_of_them() {
    let files: Vec<_> = (0..1500).map(|n| (format!("{n}.txt"), n.to_string())).collect();
    let repo = GitRepo::with_files(files);
    let objects = repo.git_line(["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    let mut ids = lines(&objects);
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).expect("enough objects for two to begin alike");
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let error = server.client().read_error(&format!("git://repo/commit/{}", &pair[0][..4])).await;
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(pair.iter().all(|id| error.message.contains(*id)), "{}", error.message);
    server.end().await;
}
