//! Repositories made with the real `git`, and its output about them.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Folder;

/// The time of the first commit, in seconds since 1970; each further commit is a minute later.
const FIRST_COMMIT: u32 = 1_738_398_600;

/// A repository with a work tree, made reproducibly: the same files give the same object ids.
#[derive(Debug)]
pub struct GitRepo {
    folder: Folder,
    commits: Cell<u32>,
    /// The path of `.git`, or of the bare repository.
    dir: PathBuf,
}

impl GitRepo {
    /// Creates an empty repository whose branch is `main`.
    pub fn empty() -> Self {
        Self::init(&["--initial-branch=main"])
    }

    /// Creates an empty repository by `git init` with those arguments.
    pub fn init(arguments: &[&str]) -> Self {
        let folder = Folder::with_files::<&str, &str>([]);
        let repo = Self { dir: folder.path().to_owned(), commits: Cell::new(0), folder };
        repo.git([&["init", "--quiet"], arguments].concat());
        repo
    }

    /// Creates a repository with those files in one commit.
    pub fn with_files<N: AsRef<Path>, B: AsRef<[u8]>>(files: impl IntoIterator<Item = (N, B)>) -> Self {
        let repo = Self::empty();
        for (name, bytes) in files {
            repo.folder.write(name, bytes);
        }
        repo.commit("first");
        repo
    }

    /// Clones this one as a bare repository, by `git clone --bare` with those arguments.
    pub fn bare_clone(&self, arguments: &[&str]) -> Self {
        let folder = Folder::with_files::<&str, &str>([]);
        let dir = folder.path().join("bare.git");
        let from = format!("file://{}", self.dir.display());
        let clone = Self { folder, dir, commits: Cell::new(0) };
        let mut command = clone.command_in(clone.folder.path());
        command.args(["clone", "--quiet", "--bare"]).args(arguments).arg(from).arg(&clone.dir);
        run(command);
        clone
    }

    /// The directory to grant to a plugin: the work tree, or the bare repository.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The files of the work tree.
    pub fn worktree(&self) -> &Folder {
        &self.folder
    }

    /// Commits everything in the work tree, a minute after the previous commit, and returns the commit id.
    pub fn commit(&self, message: &str) -> String {
        self.commits.update(|commits| commits + 1);
        self.git(["add", "--all"]);
        self.git(["commit", "--quiet", "--allow-empty", "--message", message]);
        self.git_line(["rev-parse", "HEAD"])
    }

    /// Runs `git` and returns its standard output.
    pub fn git<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Vec<u8> {
        let mut command = self.command_in(&self.dir);
        command.args(arguments);
        run(command)
    }

    /// Makes commits without files on a branch of their own: more than `commit` could in the time.
    pub fn import_empty_commits(&self, branch: &str, count: usize) {
        let commit = |n| format!("commit refs/heads/{branch}\ncommitter A <a@example.com> {n} +0000\ndata 0\n\n");
        let mut stream = tempfile::tempfile().expect("a file can be made");
        stream.write_all((0..count).map(commit).collect::<String>().as_bytes()).expect("it can be written");
        stream.rewind().expect("it is a file");
        let mut command = self.command_in(&self.dir);
        command.args(["fast-import", "--quiet"]).stdin(stream);
        run(command);
    }

    /// Runs `git` and returns its standard output as one line of text.
    pub fn git_line<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> String {
        String::from_utf8(self.git(arguments)).expect("git says UTF-8").trim_end().to_owned()
    }

    /// Runs `git` and returns its standard output split at the NULs that `-z` writes.
    pub fn git_records<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Vec<Vec<u8>> {
        let output = self.git(arguments);
        output.split(|byte| *byte == 0).filter(|record| !record.is_empty()).map(<[u8]>::to_vec).collect()
    }

    fn command_in(&self, dir: &Path) -> Command {
        let mut command = Command::new("git");
        command.current_dir(dir).env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
            ("GIT_CONFIG_NOSYSTEM", "1"),
            ("GIT_AUTHOR_NAME", "Ada Lovelace"),
            ("GIT_AUTHOR_EMAIL", "ada@example.com"),
            ("GIT_AUTHOR_DATE", "2025-01-12T15:00:58+09:00"),
            ("GIT_COMMITTER_NAME", "Grace Hopper"),
            ("GIT_COMMITTER_EMAIL", "grace@example.com"),
        ]);
        command.env("GIT_COMMITTER_DATE", format!("{} +0000", FIRST_COMMIT + 60 * self.commits.get()));
        command
    }
}

fn run(mut command: Command) -> Vec<u8> {
    let output = command.output().expect("`git` is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}
