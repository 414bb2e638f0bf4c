//! Histories, compared with `git log`.

use crate::repo::{Repo, is_invalid, open, read, text};
use mcp_provider::{Provider, path};
use std::fs;

const FORMAT: &str = "--format=%H%x09%aI%x09%an%x09%s";

fn expected(repo: &Repo, rev: &str, args: &[&str]) -> String {
    String::from_utf8(repo.git([&["log", FORMAT, rev], args].concat())).unwrap()
}

#[test]
fn a_history_is_that_of_git_log() {
    for repo in [Repo::varied(), Repo::sha256().filled(), Repo::branched()] {
        let git = repo.open();
        for rev in ["main", "HEAD"] {
            assert_eq!(text(&git, &format!("log/{rev}?limit=1000")), expected(&repo, rev, &[]));
            assert_eq!(text(&git, &format!("log/{rev}?limit=3")), expected(&repo, rev, &["-n3"]));
        }
    }
}

#[test]
fn a_history_in_parts_is_the_whole_history_even_while_the_branch_moves_on() {
    let repo = Repo::branched();
    for query in ["main?", "main?path=dir&", "side-0..main?", "HEAD?path=dir%2Fb&follow=true&"] {
        let whole = text(&repo.open(), &format!("log/{query}limit=1000"));
        let (mut parts, mut next) = (Vec::new(), Some(format!("log/{query}limit=2")));
        while let Some(path) = next {
            let git = repo.open();
            let part = read(&git, &path);
            parts.push(part.as_text().unwrap().to_owned());
            next = part.entry.meta.get("git/next").map(|next| next.as_str().unwrap().to_owned());
            repo.write("later.txt", format!("{}\n", parts.len()));
            repo.git(["add", "--all"]);
            repo.commit("later");
        }
        assert_eq!(parts.concat(), whole, "{query}");
        assert!(parts.len() > 1, "{query}");
    }
}

#[test]
fn a_history_of_a_path_is_that_of_git_log_with_it() {
    for repo in [Repo::varied(), Repo::branched()] {
        let git = repo.open();
        for file in
            ["a", "dir", "dir/b", "dir/c", "grows.txt", "many", "many/file-007.txt", "README.md", "vendor/sub", "none"]
        {
            let log = format!("log/main?limit=1000&path={}", path::encode_segment(file));
            assert_eq!(text(&git, &log), expected(&repo, "main", &["--", file]), "{file}");
        }
    }
}

#[test]
fn commits_of_the_same_second_and_of_odd_clocks_come_as_git_has_them() {
    let repo = Repo::new();
    for (n, clock) in [100, 100, 50, 100, 400, 10].into_iter().enumerate() {
        repo.git(["checkout", "--quiet", "-B", &format!("b{}", n % 2)]);
        for m in 0..3 {
            repo.write(&format!("f{}", n % 2), format!("{n} {m}\n"));
            repo.git(["add", "--all"]);
            repo.clock.set(1_700_000_000 + clock);
            repo.commit(&format!("{n} {m}"));
        }
        if n > 1 {
            repo.git(["merge", "--quiet", "--no-edit", &format!("b{}", (n + 1) % 2)]);
        }
    }
    let git = repo.open();
    for rev in ["b0", "b1"] {
        assert_eq!(text(&git, &format!("log/{rev}?limit=1000")), expected(&repo, rev, &[]), "{rev}");
        for file in ["f0", "f1"] {
            let log = format!("log/{rev}?path={file}");
            assert_eq!(text(&git, &log), expected(&repo, rev, &["--", file]), "{rev} {file}");
        }
    }
}

#[test]
fn a_range_has_what_git_log_has_of_it() {
    let repo = Repo::branched();
    let git = repo.open();
    let revs = ["main", "side-0", "side-1", "side-3", "main~3", "main~1", "side-2~2"];
    for (a, b) in revs.iter().flat_map(|a| revs.iter().map(move |b| (a, b))) {
        let range = format!("{a}..{b}");
        assert_eq!(text(&git, &format!("log/{range}?limit=1000")), expected(&repo, &range, &[]), "{range}");
        for file in ["dir/b", "a", "dir"] {
            let log = format!("log/{range}?path={}", path::encode_segment(file));
            assert_eq!(text(&git, &log), expected(&repo, &range, &["--", file]), "{range} {file}");
        }
    }
    assert_eq!(text(&git, "log/side-3.."), expected(&repo, "side-3..", &[]));
    assert_eq!(text(&git, "log/..side-3"), expected(&repo, "..side-3", &[]));
    let (one, other) = (repo.line(["rev-parse", "main~3"]), repo.head());
    let stat = |path: &str| git.stat(path).unwrap();
    assert!(stat(&format!("log/{one}..{other}")).ttl.is_some() && stat(&format!("log/{one}..main")).ttl.is_none());
    assert!(is_invalid(git.read("log/main...side-3")));
}

#[test]
fn a_range_of_odd_clocks_is_that_of_git() {
    let repo = Repo::new();
    for (n, clock) in [500, 100, 900, 50, 400, 10, 800].into_iter().enumerate() {
        repo.clock.set(1_700_000_000 + clock);
        repo.git(["commit", "--quiet", "--allow-empty", "-m", &n.to_string()]);
        repo.git(["branch", &format!("b{n}")]);
        if n % 2 == 1 {
            repo.git(["checkout", "--quiet", "--detach", "HEAD~1"]);
        }
    }
    let git = repo.open();
    for (a, b) in (0..7).flat_map(|a| (0..7).map(move |b| (a, b))) {
        let range = format!("b{a}..b{b}");
        assert_eq!(text(&git, &format!("log/{range}")), expected(&repo, &range, &[]), "{range}");
    }
}

/// Creates a repository in which files are renamed, copied, and changed in between.
fn renamed() -> Repo {
    let repo = Repo::new();
    let lines = |n: usize| (0..40).map(|line| format!("line {line} {}\n", line % n)).collect::<String>();
    repo.write("one.txt", lines(7));
    repo.write("other.txt", "something else\n");
    repo.commit("Add");
    repo.write("one.txt", lines(7) + "more\n");
    repo.commit("Change");
    repo.git(["mv", "one.txt", "two.txt"]);
    repo.commit("Rename");
    repo.git(["checkout", "--quiet", "-b", "side"]);
    repo.write("two.txt", "first\n".to_owned() + &lines(7) + "more\n");
    repo.commit("Change on a branch");
    repo.git(["checkout", "--quiet", "main"]);
    repo.write("other.txt", "something new\n");
    repo.commit("Unrelated");
    repo.git(["merge", "--quiet", "--no-ff", "--no-edit", "side"]);
    fs::create_dir(repo.dir.join("dir")).unwrap();
    repo.git(["mv", "two.txt", "dir/three.txt"]);
    repo.write("dir/three.txt", "first\n".to_owned() + &lines(7) + "more and more\n");
    repo.write("copy.txt", "first\n".to_owned() + &lines(7) + "copied\n");
    repo.commit("Rename with changes, and copy");
    repo.write("dir/three.txt", lines(7));
    repo.commit("Last change");
    // The equal file is the source, although a removed file is similar.
    repo.git(["rm", "--quiet", "copy.txt"]);
    repo.write("equal.txt", lines(7));
    repo.commit("Copy one file and remove a similar one");
    repo
}

#[test]
fn a_file_is_followed_across_renames_as_git_follows_it() {
    let repo = renamed();
    let git = repo.open();
    for file in ["dir/three.txt", "two.txt", "one.txt", "copy.txt", "equal.txt", "other.txt", "none"] {
        for rev in ["main", "main~1", "main~3", "main~4..main"] {
            let log = format!("log/{rev}?follow=true&path={}", path::encode_segment(file));
            assert_eq!(text(&git, &log), expected(&repo, rev, &["--follow", "--", file]), "{rev} {file}");
        }
    }
    assert_eq!(text(&git, "log/main?path=dir%2Fthree.txt").lines().count(), 2);
    assert!(is_invalid(git.read("log/main?follow=true&path=dir")));
}

#[test]
fn a_history_that_goes_on_says_so() {
    let repo = Repo::varied();
    let git = repo.open();
    assert_eq!(read(&git, "log/main?limit=30").entry.meta["git/more"], true);
    assert!(!read(&git, "log/main?limit=31").entry.meta.contains_key("git/more"));
    assert_eq!(text(&git, "log/main").lines().count(), 31);
}

#[test]
fn odd_subjects_and_names_stay_on_their_line() {
    let repo = Repo::new();
    repo.git(["commit", "--quiet", "--allow-empty", "-m", "One\nsubject on\nthree lines\n\nBody"]);
    repo.git(["-c", "i18n.commitEncoding=ISO-8859-1", "commit", "--quiet", "--allow-empty", "-m", "Latin"]);
    let git = repo.open();
    assert_eq!(text(&git, "log/main"), expected(&repo, "main", &[]));
    let tree = repo.line(["rev-parse", "HEAD^{tree}"]);
    let commit = format!(
        "tree {tree}\nauthor A\x07\tB <a> 1 +0000\ncommitter C <c> 99999999999999999999 +0000\n\nsub\tject\x1b[0m\n"
    );
    let id = repo.git_with(["hash-object", "-t", "commit", "-w", "--stdin", "--literally"], commit.as_bytes());
    let log = text(&git, &format!("log/{}", String::from_utf8(id).unwrap().trim()));
    assert_eq!(log.lines().count(), 1);
    assert_eq!(log.trim_end().split('\t').count(), 4, "{log:?}");
}

#[test]
fn a_shallow_clone_ends_where_it_was_cut_off() {
    let origin = Repo::branched();
    let url = format!("file://{}", origin.dir.display());
    let clone = origin.root.path().join("clone");
    origin.git(["clone", "--quiet", "--depth=3", &url, clone.to_str().unwrap()]);
    let git = open(&clone, &[]);
    let show =
        |args: &[&str]| String::from_utf8(origin.git([&["-C", clone.to_str().unwrap()], args].concat())).unwrap();
    let end = "# This is not complete, as the clone is shallow: older commits are missing; git fetch --unshallow completes it\n";
    assert_eq!(text(&git, "log/main"), show(&["log", FORMAT]) + end);
    assert_eq!(text(&git, "log/main?path=dir%2Fb"), show(&["log", FORMAT, "--", "dir/b"]) + end);
    assert_eq!(text(&git, "log/main?limit=1"), show(&["log", FORMAT, "-1"]), "there are more");
    let head = origin.head();
    let entry = git.stat(&format!("log/{head}")).unwrap();
    assert!(entry.ttl.is_none(), "it may be deepened");
    let last = show(&["rev-list", "HEAD"]);
    let last = last.lines().last().unwrap();
    let commit = text(&git, &format!("commit/{last}"));
    assert!(commit.contains("clone is shallow") && commit.contains("A\ta\n"), "{commit}");
}
