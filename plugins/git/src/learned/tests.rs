//! Searches that end early and continue at the next request, compared with `git`. The time of a call is the number of
//! objects that it reads.

use crate::paths::Address;
use crate::repo::Repository;
use crate::settings::Settings;
use crate::view;
use mcp_provider::keyvalue::{Keys, MemoryStore, Store};
use mcp_provider::{Config, Contents, Failure, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::rc::Rc;

const FORMAT: &str = "--format=%H%x09%aI%x09%an%x09%s";

/// The number of commits of `main`, without merges.
const COMMITS: usize = 240;

fn git(dir: &Path, args: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(dir).args(args);
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
    git
}

fn run(dir: &Path, args: &[&str]) -> String {
    let output = git(dir, args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the lines of the blamed file after a number of commits.
fn hot(commit: usize) -> String {
    let line = |line: usize| {
        let last = (0..=commit).rev().find(|commit| commit % 40 == line).unwrap_or_default();
        format!("line {line} of commit {last}\n")
    };
    (0..40).map(line).collect()
}

/// Creates a repository with branches that are merged, directories, a renamed file, and no commit-graph.
fn create(dir: &Path) {
    run(dir, &["init", "--quiet", "--bare", "--initial-branch=main"]);
    let mut stream = String::new();
    let (mut mark, mut last) = (0, 0);
    let mut commit = |branch: &str, parents: &[usize], files: &[(String, String)], renames: &str| {
        mark += 1;
        let time = 1_700_000_000 + mark * 60;
        writeln!(stream, "commit refs/heads/{branch}\nmark :{mark}\ncommitter A <a@example.com> {time} +0000").unwrap();
        let message = format!("Commit {mark}");
        writeln!(stream, "data {}\n{message}", message.len()).unwrap();
        for (number, parent) in parents.iter().enumerate() {
            writeln!(stream, "{} :{parent}", if number == 0 { "from" } else { "merge" }).unwrap();
        }
        stream.push_str(renames);
        for (path, content) in files {
            writeln!(stream, "M 644 inline {path}\ndata {}\n{content}", content.len()).unwrap();
        }
        mark
    };
    for n in 0..COMMITS {
        let hot_name = if n < COMMITS / 2 { "old.txt" } else { "hot.txt" };
        let file = |n: usize| format!("src/mod{}/deep/file{}.txt", n % 7, n % 5);
        let files = [(file(n), format!("{n}\n")), (hot_name.to_owned(), hot(n))];
        let renames = if n == COMMITS / 2 { "R old.txt hot.txt\n" } else { "" };
        let parents: &[usize] = if n == 0 { &[] } else { &[last] };
        let before = last;
        last = commit("main", parents, &files, renames);
        if n % 12 == 11 {
            let side_file = (file(n + 3), format!("side {n}\n"));
            let side = commit("side", &[before], &[side_file.clone(), ("side.txt".to_owned(), format!("{n}\n"))], "");
            let merged = [side_file, ("side.txt".to_owned(), format!("{n}\n"))];
            last = commit("main", &[last, side], &merged, "");
        }
    }
    let mut import = git(dir, &["fast-import", "--quiet", "--force"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
}

/// One request.
struct Request<'d> {
    dir: &'d Path,
    store: Option<Rc<dyn Store>>,
    max_reads: Option<usize>,
    max_steps: Option<usize>,
}

impl Request<'_> {
    /// Reads an address in a new instance, and returns the content and the number of objects read.
    fn read(self, address: &str) -> (Contents, usize) {
        let settings = Settings::parse(&Config::default()).unwrap();
        let mut repository = Repository::open(self.dir, 1 << 20, settings.refs.clone()).unwrap();
        repository.set_max_reads(self.max_reads.unwrap_or(usize::MAX));
        repository.set_max_steps(self.max_steps.unwrap_or(usize::MAX));
        if let Some(store) = self.store {
            repository.keep_learned_in(store);
        }
        repository.begin_call();
        let contents = view::read(&repository, &settings, &Address::parse(address).unwrap()).unwrap();
        repository.end_call();
        (contents, repository.odb.reads.get())
    }
}

fn is_complete(contents: &Contents) -> bool {
    !contents.as_text().unwrap().contains("# This is not complete")
}

/// Asserts that a history or a blame equals git's output, apart from the note on a shallow clone.
fn assert_is_that_of_git(dir: &Path, address: &str, contents: &Contents) {
    let text = contents.as_text().unwrap();
    let (shown, end) = text.split_once("# This is not complete, as the clone is shallow").unwrap_or((text, ""));
    assert!(end.is_empty() || dir.join("shallow").exists(), "{address}");
    match address.split_once("path=") {
        Some((_, path)) => {
            let (path, follows) = match path.split_once('&') {
                Some((path, _)) => (path, vec!["--follow"]),
                None => (path, Vec::new()),
            };
            let path = path.replace("%2F", "/");
            let args = [&["log", FORMAT, "main"], follows.as_slice(), &["--", path.as_str()]].concat();
            assert_eq!(shown, run(dir, &args), "{address}");
        }
        None => {
            let path = address.strip_prefix("blame/main/").unwrap();
            let blamed = run(dir, &["blame", "-l", "-s", "--root", "main", "--", path]);
            let ids = |text: &str| -> Vec<String> {
                let id = |line: &str| line.split([' ', '\t']).next().unwrap().trim_start_matches('^').to_owned();
                text.lines().map(id).collect()
            };
            assert_eq!(ids(shown), ids(&blamed), "{address}");
        }
    }
}

const ADDRESSES: [&str; 5] = [
    "log/main?limit=1000&path=src%2Fmod3%2Fdeep%2Ffile2.txt",
    "log/main?limit=1000&path=src%2Fmod5",
    "log/main?limit=1000&path=side.txt",
    "log/main?limit=1000&path=hot.txt&follow=true",
    "blame/main/hot.txt",
];

#[test]
fn a_search_that_ended_early_goes_on_at_the_next_request_until_it_is_that_of_git() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let dir = dir.path();
    for address in ADDRESSES {
        let (whole, cold) = Request { dir, store: None, max_reads: None, max_steps: None }.read(address);
        assert_is_that_of_git(dir, address, &whole);
        // The commits of the text are read each time.
        let max_reads = whole.as_text().unwrap().lines().count() + cold / 4;
        let store: Rc<dyn Store> = Rc::new(MemoryStore::default());
        let read = || {
            Request { dir, store: Some(Rc::clone(&store)), max_reads: Some(max_reads), max_steps: None }.read(address)
        };
        let (first, _) = read();
        let last = first.as_text().unwrap().lines().last().unwrap();
        assert!(last.starts_with("# This is not complete") && last.contains("goes on from there"), "{address}: {last}");
        let requests = (2..=15).find(|_| is_complete(&read().0));
        assert!(requests.is_some(), "{address}: it never ends");
        let (again, reads) = read();
        assert_eq!(again.as_text(), whole.as_text(), "{address}");
        assert!(!again.entry.meta.contains_key("git/more"), "{address}");
        assert!(reads <= max_reads, "{address}: {reads} of {cold}");
    }
}

#[test]
fn commits_that_leave_a_path_unchanged_are_visited_once_however_small_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), &["init", "--quiet", "--bare", "--initial-branch=main"]);
    let mut stream = String::new();
    for n in 0..1000 {
        let path = if n % 450 == 3 { "rare.txt" } else { "often.txt" };
        writeln!(stream, "commit refs/heads/main\nmark :{}\ncommitter A <a@example.com> 1700000000 +0000", n + 1)
            .unwrap();
        writeln!(stream, "data 1\nx\nM 644 inline {path}\ndata {}\n{n}", n.to_string().len()).unwrap();
    }
    let mut import = git(dir.path(), &["fast-import", "--quiet"]).stdin(Stdio::piped()).spawn().unwrap();
    import.stdin.take().unwrap().write_all(stream.as_bytes()).unwrap();
    assert!(import.wait().unwrap().success());
    let store: Rc<dyn Store> = Rc::new(MemoryStore::default());
    let address = "log/main?limit=1000&path=rare.txt";
    let read = || {
        let store = Some(Rc::clone(&store));
        Request { dir: dir.path(), store, max_reads: None, max_steps: Some(100) }.read(address).0
    };
    let requests = (1..=20).find(|_| is_complete(&read()));
    assert!(requests.is_some(), "it never ends");
    assert_is_that_of_git(dir.path(), address, &read());
    // The next request visits only the new commits one by one.
    let tip = run(dir.path(), &["rev-parse", "main"]);
    let tree = run(dir.path(), &["rev-parse", "main^{tree}"]);
    let new = run(
        dir.path(),
        &[
            "-c",
            "user.name=A",
            "-c",
            "user.email=a@example.com",
            "commit-tree",
            "-p",
            tip.trim(),
            "-m",
            "new",
            tree.trim(),
        ],
    );
    run(dir.path(), &["update-ref", "refs/heads/main", new.trim()]);
    let contents = read();
    assert!(is_complete(&contents));
    assert_is_that_of_git(dir.path(), address, &contents);
}

#[test]
fn what_one_path_taught_serves_others() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let dir = dir.path();
    let store: Rc<dyn Store> = Rc::new(MemoryStore::default());
    let address = ADDRESSES[0];
    Request { dir, store: Some(Rc::clone(&store)), max_reads: None, max_steps: None }
        .read("log/main?limit=1000&path=src%2Fmod1");
    let (_, cold) = Request { dir, store: None, max_reads: None, max_steps: None }.read(address);
    let (warm, reads) = Request { dir, store: Some(store), max_reads: None, max_steps: None }.read(address);
    assert_is_that_of_git(dir, address, &warm);
    assert!(reads < cold / 2, "{reads} of {cold}");
}

#[test]
fn what_was_learned_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let dir = dir.path();
    let store: Rc<dyn Store> = Rc::new(MemoryStore::default());
    let head = run(dir, &["rev-parse", "main~100"]);
    let graphs: [&[&str]; 4] = [
        &[],
        &["commit-graph", "write", "--stdin-commits"],
        &["commit-graph", "write", "--reachable"],
        &["commit-graph", "write", "--reachable", "--changed-paths"],
    ];
    let more = ["log/main?limit=1000&path=none", "log/side..main?limit=1000&path=src", "log/side?path=old.txt"];
    for graph in graphs {
        if !graph.is_empty() {
            let mut write = git(dir, graph).stdin(Stdio::piped()).spawn().unwrap();
            write.stdin.take().unwrap().write_all(head.as_bytes()).unwrap();
            assert!(write.wait().unwrap().success());
            assert!(dir.join("objects/info/commit-graph").exists());
        }
        for address in ADDRESSES.into_iter().chain(more) {
            let (expected, _) = Request { dir, store: None, max_reads: None, max_steps: None }.read(address);
            for _ in 0..2 {
                let (found, _) =
                    Request { dir, store: Some(Rc::clone(&store)), max_reads: None, max_steps: None }.read(address);
                assert_eq!(found.as_text(), expected.as_text(), "{address} {graph:?}");
            }
        }
    }
    // The clone is shallow now: it lacks the parents that were learned.
    std::fs::write(dir.join("shallow"), &head).unwrap();
    for address in ADDRESSES {
        let (found, _) =
            Request { dir, store: Some(Rc::clone(&store)), max_reads: None, max_steps: None }.read(address);
        assert_is_that_of_git(dir, address, &found);
    }
}

/// A store that is full, or fails.
struct Failing {
    reads_fail: bool,
}

impl Store for Failing {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        if self.reads_fail { Err(Failure::unavailable("the store is busy")) } else { Ok(vec![None; keys.len()]) }
    }

    fn set_many(&self, _: &[(&str, &[u8])]) -> Result<()> {
        Err(Failure::unavailable("the bucket is full"))
    }

    fn delete_many(&self, _: &[&str]) -> Result<()> {
        Err(Failure::unavailable("the store is busy"))
    }

    fn keys(&self, _: Option<&str>) -> Result<Keys> {
        Err(Failure::unavailable("the store is busy"))
    }
}

#[test]
fn a_bucket_that_is_full_fails_or_is_damaged_changes_no_answer() {
    let dir = tempfile::tempdir().unwrap();
    create(dir.path());
    let dir = dir.path();
    let damaged = MemoryStore::default();
    for (key, value) in [("commits/0", &b"junk"[..]), ("commits/1", b""), ("answers/0", &[0xff; 4000])] {
        damaged.set(key, value).unwrap();
    }
    let stores: [Rc<dyn Store>; 3] =
        [Rc::new(Failing { reads_fail: false }), Rc::new(Failing { reads_fail: true }), Rc::new(damaged)];
    for (store, address) in stores.into_iter().flat_map(|store| ADDRESSES.map(|address| (Rc::clone(&store), address))) {
        let (whole, reads) =
            Request { dir, store: Some(Rc::clone(&store)), max_reads: None, max_steps: None }.read(address);
        assert_is_that_of_git(dir, address, &whole);
        assert!(reads > 0);
    }
}
