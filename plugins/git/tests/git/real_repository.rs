//! A repository made by people, compared with `git`: this project's repository, if the tests run in a clone of it, or
//! the one that the environment variable `GIT_PROVIDER_TEST_REPOSITORY` names.
//!
//! An even sample of its files, directories and commits is compared.

use crate::repo::open;
use mcp_provider::{Contents, Provider, path};
use std::path::{Path, PathBuf};
use std::process::Command;

const FORMAT: &str = "--format=%H%x09%aI%x09%an%x09%s";

/// The number of commits of a log.
const LIMIT: usize = 20;

/// A repository, and the provider that serves it.
struct Real {
    dir: PathBuf,
    git: git_provider::Git,
}

impl Real {
    fn find() -> Option<Self> {
        let dir = match std::env::var_os("GIT_PROVIDER_TEST_REPOSITORY") {
            Some(dir) => PathBuf::from(dir),
            None => {
                let here = Path::new(env!("CARGO_MANIFEST_DIR"));
                let output = Command::new("git").current_dir(here).args(["rev-parse", "--show-toplevel"]).output();
                let output = output.ok().filter(|output| output.status.success())?;
                PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end())
            }
        };
        Some(Self { git: open(&dir, &[]), dir })
    }

    fn run(&self, args: &[&str]) -> String {
        let mut git = Command::new("git");
        git.current_dir(&self.dir).args(["-c", "core.quotePath=false"]).args(args);
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = git.output().unwrap();
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn lines(&self, args: &[&str]) -> Vec<String> {
        self.run(args).lines().map(str::to_owned).collect()
    }

    /// Returns some files of `HEAD`, and some directories.
    fn samples(&self) -> (Vec<String>, Vec<String>) {
        let files = self.lines(&["ls-tree", "-r", "--name-only", "HEAD"]);
        let directories = self.lines(&["ls-tree", "-r", "-d", "--name-only", "HEAD"]);
        (sample(&files, 12), sample(&directories, 4))
    }

    /// Returns some commits, the latest first.
    fn commits(&self) -> Vec<String> {
        sample(&self.lines(&["rev-list", "--max-count=2000", "HEAD"]), 8)
    }

    fn read(&self, address: &str) -> Contents {
        self.git.read(address).unwrap_or_else(|failure| panic!("{address}: {failure}")).remove(0)
    }

    /// Asserts that a log equals git's log, or its beginning if a limit ended it.
    fn assert_log(&self, address: &str, args: &[&str]) {
        let contents = self.read(address);
        let (shown, limit) = (contents.as_text().unwrap(), format!("-{LIMIT}"));
        let expected = self.run(&[&["log", FORMAT, &limit], args].concat());
        if shown.lines().count() < LIMIT && contents.entry.meta.contains_key("git/more") {
            let shown = shown.split("# This is not complete").next().unwrap();
            assert!(expected.starts_with(shown), "{address}\n{shown}\n{expected}");
        } else {
            assert_eq!(shown, expected, "{address}");
        }
    }
}

fn sample(all: &[String], count: usize) -> Vec<String> {
    all.iter().step_by((all.len() / count).max(1)).take(count).cloned().collect()
}

#[test]
fn histories_of_paths_are_those_of_git() {
    let Some(real) = Real::find() else { return };
    let (files, directories) = real.samples();
    for file in files.iter().chain(&directories) {
        let encoded = path::encode_segment(file);
        real.assert_log(&format!("log/HEAD?limit={LIMIT}&path={encoded}"), &["HEAD", "--", file]);
    }
    for file in files.iter().take(6) {
        let encoded = path::encode_segment(file);
        let address = format!("log/HEAD?limit={LIMIT}&follow=true&path={encoded}");
        real.assert_log(&address, &["--follow", "HEAD", "--", file]);
    }
}

#[test]
fn ranges_are_those_of_git() {
    let Some(real) = Real::find() else { return };
    let (files, _) = real.samples();
    let commits = real.commits();
    for pair in commits.windows(2) {
        for range in [format!("{}..{}", pair[1], pair[0]), format!("{}..{}", pair[0], pair[1])] {
            real.assert_log(&format!("log/{range}?limit={LIMIT}"), &[&range]);
            let file = path::encode_segment(&files[0]);
            real.assert_log(&format!("log/{range}?limit={LIMIT}&path={file}"), &[&range, "--", &files[0]]);
        }
    }
}

#[test]
fn revisions_with_operators_are_those_of_git() {
    let Some(real) = Real::find() else { return };
    for commit in real.commits() {
        for operators in ["~3", "^", "^2", "~10^2", "^^{}"] {
            let rev = format!("{commit}{operators}");
            let mut git = Command::new("git");
            git.current_dir(&real.dir).args(["rev-parse", "--verify", "--quiet", &format!("{rev}^{{commit}}")]);
            let output = git.output().unwrap();
            let expected = output.status.success().then(|| String::from_utf8(output.stdout).unwrap());
            let found = real.git.stat(&format!("commit/{}", path::encode_segment(&rev))).ok();
            let found = found.map(|found| format!("{}\n", found.meta["git/object"].as_str().unwrap()));
            assert_eq!(found, expected, "{rev}");
        }
    }
}

#[test]
fn differences_are_those_of_git() {
    let Some(real) = Real::find() else { return };
    for pair in real.commits().windows(2).take(3) {
        let range = format!("{}..{}", pair[1], pair[0]);
        let contents = real.read(&format!("diff/{range}"));
        let files = real.run(&["diff", "--no-renames", "--name-status", &range]);
        assert!(contents.as_text().unwrap().starts_with(&files), "{range}");
    }
}

#[test]
fn lines_come_from_the_commits_that_git_blames() {
    let Some(real) = Real::find() else { return };
    let (files, _) = real.samples();
    let (mut same, mut other) = (0, Vec::new());
    for file in &files {
        let Ok(mut contents) = real.git.read(&format!("blame/HEAD/{}?lines=1-200", path::encode(file))) else {
            continue;
        };
        let contents = contents.remove(0);
        let count = contents.as_text().unwrap().lines().filter(|line| !line.starts_with("# This is")).count();
        if count == 0 {
            continue;
        }
        let blamed = real.lines(&["blame", "-s", "-l", &format!("-L1,{count}"), "HEAD", "--", file]);
        for (shown, expected) in contents.as_text().unwrap().lines().zip(&blamed) {
            let id = shown.split('\t').next().unwrap();
            let expected = expected.split(' ').next().unwrap().trim_start_matches('^');
            if id.starts_with('^') || id.starts_with(expected) {
                same += 1;
            } else {
                other.push(format!("{file}: {shown}, expected {expected}"));
            }
        }
    }
    // If several diffs are equally short, git may choose another one.
    assert!(other.len() * 100 <= same, "{same} lines are the same, {} differ:\n{}", other.len(), other.join("\n"));
}
