//! Histories read from commit-graphs: the same as without one, and the same as git's.

use crate::repo::{Repo, open, read, text};
use mcp_provider::{Provider, path};
use std::fs;

const FORMAT: &str = "--format=%H%x09%aI%x09%an%x09%s";

fn assert_same_histories(repo: &Repo) {
    let git = repo.open();
    for rev in ["main", "side-2", "side-0..main", "main~3..side-3"] {
        for file in ["", "a", "dir", "dir/b", "dir/c", "none"] {
            let paths: &[&str] = if file.is_empty() { &[] } else { &["--", file] };
            let log = String::from_utf8(repo.git([&["log", FORMAT, rev], paths].concat())).unwrap();
            let shown = text(&git, &format!("log/{rev}?limit=1000&path={}", path::encode_segment(file)));
            assert_eq!(shown, log, "{rev} {file}");
        }
    }
}

#[test]
fn a_history_is_the_same_with_a_commit_graph_of_any_kind() {
    let repo = Repo::branched();
    let write = |args: &[&str]| drop(repo.git([&["commit-graph", "write", "--reachable"], args].concat()));
    write(&[]);
    assert_same_histories(&repo);
    write(&["--changed-paths"]);
    assert_same_histories(&repo);
    for (version, generations) in [("1", "1"), ("2", "2")] {
        fs::remove_file(repo.dir.join(".git/objects/info/commit-graph")).unwrap();
        let settings = [
            format!("commitGraph.changedPathsVersion={version}"),
            format!("commitGraph.generationVersion={generations}"),
        ];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["-c", setting]).collect();
        repo.git([&settings, ["commit-graph", "write", "--reachable", "--changed-paths"].as_slice()].concat());
        assert_same_histories(&repo);
    }
}

#[test]
fn a_chain_of_commit_graphs_is_read_with_commits_that_it_does_not_have() {
    let repo = Repo::branched();
    repo.git(["commit-graph", "write", "--reachable", "--changed-paths", "--split"]);
    for n in 0..3 {
        repo.write("dir/b", format!("later {n}\n"));
        repo.commit(&format!("Later {n}"));
        repo.git(["commit-graph", "write", "--reachable", "--changed-paths", "--split=no-merge"]);
        assert_same_histories(&repo);
    }
    repo.write("a", "not in the graph\n");
    repo.commit("Not in the graph");
    assert_same_histories(&repo);
    let chain = fs::read_to_string(repo.dir.join(".git/objects/info/commit-graphs/commit-graph-chain")).unwrap();
    assert_eq!(chain.lines().count(), 4);
}

#[test]
fn a_merge_of_many_has_all_its_parents() {
    let repo = Repo::new();
    repo.write("a", "a\n");
    repo.commit("Root");
    for n in 0..5 {
        repo.git(["checkout", "--quiet", "-b", &format!("b{n}"), "main"]);
        repo.write(&format!("f{n}"), "x\n");
        repo.commit(&format!("{n}"));
    }
    repo.git(["checkout", "--quiet", "main"]);
    repo.git(["merge", "--quiet", "--no-edit", "b0", "b1", "b2", "b3", "b4"]);
    repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
    let git = repo.open();
    let log = String::from_utf8(repo.git(["log", FORMAT])).unwrap();
    assert_eq!(text(&git, "log/main"), log);
    let parent = git.stat("commit/main%5E5").unwrap();
    assert_eq!(parent.meta["git/object"], repo.line(["rev-parse", "main^5"]));
}

#[test]
fn a_damaged_commit_graph_is_ignored_or_fails_and_never_panics() {
    let repo = Repo::branched();
    repo.git(["commit-graph", "write", "--reachable", "--changed-paths"]);
    let path = repo.dir.join(".git/objects/info/commit-graph");
    let whole = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        for value in [0, 0xff] {
            let mut damaged = whole.clone();
            damaged[at] = value;
            fs::write(&path, &damaged).unwrap();
            let git = repo.open();
            let _ = (git.read("log/main?path=dir%2Fb"), git.read("log/side-0..main"), git.stat("commit/main~5"));
        }
    }
    fs::write(&path, b"CGPH").unwrap();
    let log = String::from_utf8(repo.git(["-c", "core.commitGraph=false", "log", FORMAT])).unwrap();
    assert_eq!(text(&repo.open(), "log/main?limit=1000"), log);
}

#[test]
fn a_commit_graph_in_which_commits_are_their_own_parents_hangs_nothing() {
    let repo = Repo::branched();
    repo.git(["commit-graph", "write", "--reachable"]);
    let path = repo.dir.join(".git/objects/info/commit-graph");
    let mut graph = fs::read(&path).unwrap();
    let chunk = |name: &[u8]| graph[8..].chunks(12).find(|entry| &entry[..4] == name).unwrap();
    let start = usize::try_from(u64::from_be_bytes(chunk(b"CDAT")[4..].try_into().unwrap())).unwrap();
    let count = repo.line(["rev-list", "--all", "--count"]).parse::<usize>().unwrap();
    for commit in 0..count {
        let parent = start + commit * (20 + 16) + 20;
        graph[parent..parent + 4].copy_from_slice(&u32::try_from(commit).unwrap().to_be_bytes());
    }
    fs::remove_file(&path).unwrap();
    fs::write(&path, &graph).unwrap();
    let git = repo.open_with(&[("refs", r#"{ "hide": ["refs/heads/side-0"] }"#)]);
    for address in [
        "log/main",
        "log/main?path=dir",
        "log/main?path=a&follow=true",
        "log/side-1..main",
        "blame/main/a",
        "commit/main~9",
    ] {
        let _ = (git.read(address), git.stat(address));
    }
    let _ = git.stat(&format!("commit/{}", repo.line(["rev-parse", "side-0"])));
}

#[test]
fn a_shallow_clone_does_not_use_its_commit_graph() {
    let repo = Repo::branched();
    repo.git(["commit-graph", "write", "--reachable"]);
    let cut = repo.line(["rev-parse", "main~2"]);
    fs::write(repo.dir.join(".git/shallow"), format!("{cut}\n")).unwrap();
    let log = String::from_utf8(repo.git(["log", FORMAT])).unwrap();
    let git = open(&repo.dir, &[]);
    let history = read(&git, "log/main?limit=1000");
    assert!(history.as_text().unwrap().starts_with(&(log + "# This is not complete, as the clone is shallow")));
    assert!(!history.entry.meta.contains_key("git/more"));
}
