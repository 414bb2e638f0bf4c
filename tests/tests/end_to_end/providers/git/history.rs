//! Revisions, logs, commits and refs.

use mcp_host_tests::{ConfigFile, GitRepo, Plugin, RawStdio, Revision, Rule, StdioServer, run};
use rmcp::model::ErrorCode;
use serde_json::json;

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
async fn a_range_and_the_commits_behind_operators_are_what_git_says() {
    let repo = repo_with_history();
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    for (uri, range) in
        [("feature%2Fx..main", "feature/x..main"), ("main~2..", "main~2.."), ("main~..main", "main~..main")]
    {
        assert_eq!(client.text(&format!("git://repo/log/{uri}")).await, git_log(&repo, &[range]), "{range}");
    }
    for (uri, rev) in [("main~1%5E2", "main~1^2"), ("HEAD%5E", "HEAD^"), ("main%5E0", "main^0")] {
        let commit = client.text(&format!("git://repo/commit/{uri}")).await;
        assert!(commit.starts_with(&format!("commit {}\n", repo.git_line(["rev-parse", rev]))), "{rev}: {commit}");
    }
    let error = client.read_error("git://repo/commit/main@%7Byesterday%7D").await;
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(error.message.contains("reflog"), "{}", error.message);
    server.end().await;
}

#[tokio::test]
async fn a_diff_and_a_blame_are_what_git_says() {
    let repo = repo_with_history();
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    for path in ["", "?path=d", "?path=feature.txt"] {
        let diff = client.text(&format!("git://repo/diff/main~2..main{path}")).await;
        let file = path.strip_prefix("?path=").unwrap_or(".");
        let expected = |format: &str| {
            repo.git_line(["diff", "--no-renames", "--full-index", format, "main~2", "main", "--", file])
        };
        assert_eq!(diff.trim_end(), format!("{}\n\n{}", expected("--name-status"), expected("--patch")), "{path}");
    }
    let blame = client.text("git://repo/blame/main/d/e.txt?lines=1-2").await;
    let expected = repo.git_line(["blame", "-s", "-l", "--root", "main", "--", "d/e.txt"]);
    for (line, expected) in blame.lines().zip(lines(&expected)) {
        let fields: Vec<_> = line.split('\t').collect();
        let [id, _, author, number, text] = fields.as_slice() else { panic!("five fields: {line}") };
        assert_eq!(format!("{id} {number}) {text}"), expected);
        assert!(!author.is_empty());
    }
    assert_eq!(blame.lines().count(), 2);
    server.end().await;
}

#[tokio::test]
async fn what_only_a_hidden_branch_reaches_does_not_exist() {
    let repo = repo_with_history();
    repo.git(["switch", "--quiet", "--create", "secret"]);
    repo.worktree().write("secret.txt", "a secret\n");
    repo.commit("a secret");
    repo.git(["switch", "--quiet", "main"]);
    let secret = repo.git_line(["rev-parse", "secret"]);
    let hide = toml::Table::from_iter([("hide".to_owned(), toml::Value::from(vec!["refs/heads/secret"]))]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path()).config("refs", hide)).write();
    let server = StdioServer::start(&config).await;
    let client = server.client();
    for rev in ["secret", "refs%2Fheads%2Fsecret", &secret, &secret[..8]] {
        for uri in [format!("git://repo/commit/{rev}"), format!("git://repo/blob/{rev}/secret.txt")] {
            assert_eq!(client.read_error(&uri).await.code, ErrorCode(-32002), "{uri}");
        }
    }
    assert!(!client.text("git://repo/refs").await.contains("secret"));
    let shown = repo.git_line(["rev-parse", "feature/x"]);
    assert!(client.text(&format!("git://repo/commit/{shown}")).await.contains("a feature"));
    server.end().await;
}

#[tokio::test]
async fn refs_in_reftables_are_what_git_show_ref_says() {
    let repo = GitRepo::init(&["--initial-branch=main", "--ref-format=reftable"]);
    repo.worktree().write("a.txt", "a\n");
    repo.commit("first");
    repo.git(["tag", "--annotate", "--message", "a release", "v1"]);
    repo.git(["branch", "feature/x"]);
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let refs = server.client().text("git://repo/refs").await;
    assert_eq!(refs.trim_end(), repo.git_line(["show-ref", "--head", "--dereference"]));
    assert_eq!(server.client().text("git://repo/blob/feature%2Fx/a.txt").await, "a\n");
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
async fn a_short_id_that_several_commits_begin_with_is_refused_with_all_of_them() {
    let repo = GitRepo::empty();
    repo.import_empty_commits("many", 1500);
    let commits = repo.git_line(["rev-list", "many"]);
    let mut ids = lines(&commits);
    ids.sort_unstable();
    let pair = ids.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).expect("enough commits for two to begin alike");
    let config = repo_config(&repo).write();
    let server = StdioServer::start(&config).await;
    let error = server.client().read_error(&format!("git://repo/commit/{}", &pair[0][..4])).await;
    assert_eq!(error.code, ErrorCode::INVALID_PARAMS);
    assert!(pair.iter().all(|id| error.message.contains(*id)), "{}", error.message);
    server.end().await;
}

#[tokio::test]
async fn a_slash_in_a_branch_is_told_to_be_encoded_whether_the_branch_is_there_denied_or_absent() {
    let repo = repo_with_history();
    let encoded = "a slash within `{rev}` of `git://repo/blob/{rev}/{+path}` is written `%2F`";
    let text = async |rule: Rule, uri: &str| {
        let config = repo_config(&repo).server("tools", vec!["list", "read"]).rule(rule).write();
        let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
        let params = json!({ "name": "read_resource", "arguments": { "uri": uri } });
        let answer = wire.request("tools/call", params).await;
        let read = wire.request("resources/read", json!({ "uri": uri })).await;
        wire.end().await;
        let message = read.error()["message"].as_str().unwrap().to_owned();
        (answer.result()["content"][0]["text"].as_str().unwrap().to_owned(), message)
    };
    let all = || Rule::for_principal("local").allow(["**"]);
    for uri in ["git://repo/blob/feature/x/feature.txt", "git://repo/blob/absent/x/feature.txt"] {
        let tools = "`list_resources` lists those that exist";
        let not_found = format!("there is no resource {uri}");
        let expected = (format!("{not_found}; {encoded}; {tools}"), format!("{not_found}; {encoded}"));
        assert_eq!(text(all(), uri).await, expected);
        assert_eq!(text(all().deny(["git://repo/blob/feature/**", "git://repo/blob/absent/**"]), uri).await, expected);
        let hidden = text(all().operations(["read", "list"]), uri).await;
        assert_eq!(hidden, (format!("{not_found}; {tools}"), not_found), "templates are denied");
    }
    let (tool, read) = text(all(), "git://repo/commit/absent").await;
    assert!(!(tool + &read).contains("%2F"), "no slash is too many");

    let config = repo_config(&repo).write();
    let path = config.path();
    let read = run(["read", "git://repo/blob/feature/x/feature.txt", "--config", path.to_str().unwrap()]).await;
    assert!(read.stderr.contains(encoded), "{}", read.stderr);
}
