//! Histories, compared with `git log`.

use crate::repo::{Repo, open, read, text};
use mcp_provider::{Provider, path};

const FORMAT: &str = "--format=%H%x09%aI%x09%an%x09%s";

fn expected(repo: &Repo, rev: &str, args: &[&str]) -> String {
    String::from_utf8(repo.git([&["log", FORMAT, rev], args].concat())).unwrap()
}

/// Creates a history with merged branches, with and without conflicts in the same file.
fn branched() -> Repo {
    let repo = Repo::new();
    repo.write("a", "a\n");
    repo.write("dir/b", "b\n");
    repo.commit("Root");
    for round in 0..4 {
        repo.git(["checkout", "--quiet", "-b", &format!("side-{round}")]);
        for n in 0..3 {
            repo.write("dir/b", format!("side {round} {n}\n"));
            repo.commit(&format!("Side {round} {n}"));
        }
        repo.write("dir/c", format!("{round}\n"));
        repo.commit(&format!("Another file {round}"));
        repo.git(["checkout", "--quiet", "main"]);
        for n in 0..2 {
            repo.write("a", format!("main {round} {n}\n"));
            repo.commit(&format!("Main {round} {n}"));
        }
        let ours: &[&str] = if round == 2 { &["--strategy=ours"] } else { &[] };
        let side = format!("side-{round}");
        repo.git([&["merge", "--quiet", "--no-ff", "--no-edit"], ours, &[side.as_str()]].concat());
    }
    repo.git(["rm", "--quiet", "dir/c"]);
    repo.commit("Remove a file");
    repo.git(["merge", "--quiet", "--no-ff", "-m", "Nothing new", "side-1"].map(str::to_owned));
    repo
}

#[test]
fn a_history_is_that_of_git_log() {
    for repo in [Repo::varied(), Repo::sha256().filled(), branched()] {
        let git = repo.open();
        for rev in ["main", "HEAD"] {
            assert_eq!(text(&git, &format!("log/{rev}?limit=1000")), expected(&repo, rev, &[]));
            assert_eq!(text(&git, &format!("log/{rev}?limit=3")), expected(&repo, rev, &["-n3"]));
        }
    }
}

#[test]
fn a_history_of_a_path_is_that_of_git_log_with_it() {
    for repo in [Repo::varied(), branched()] {
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
    let origin = branched();
    let url = format!("file://{}", origin.dir.display());
    let clone = origin.root.path().join("clone");
    origin.git(["clone", "--quiet", "--depth=3", &url, clone.to_str().unwrap()]);
    let git = open(&clone, &[]);
    let show =
        |args: &[&str]| String::from_utf8(origin.git([&["-C", clone.to_str().unwrap()], args].concat())).unwrap();
    assert_eq!(text(&git, "log/main"), show(&["log", FORMAT]));
    assert_eq!(text(&git, "log/main?path=dir%2Fb"), show(&["log", FORMAT, "--", "dir/b"]));
    let head = origin.head();
    let entry = git.stat(&format!("log/{head}")).unwrap();
    assert!(entry.ttl.is_none(), "it may be deepened");
    let last = show(&["rev-list", "HEAD"]);
    let last = last.lines().last().unwrap();
    let commit = text(&git, &format!("commit/{last}"));
    assert!(commit.contains("clone is shallow") && commit.contains("A\ta\n"), "{commit}");
}
