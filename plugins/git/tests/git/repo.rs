//! The harness: repositories created by the `git` command, and the provider opened on them.

use git_provider::Git;
use mcp_provider::{Config, Contents, Entry, Failure, Page, Provider};
use std::cell::Cell;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use tempfile::TempDir;

/// A temporary repository.
pub(crate) struct Repo {
    /// The temporary directory, which may contain more than the repository.
    pub(crate) root: TempDir,
    /// The repository in it.
    pub(crate) dir: PathBuf,
    /// The time of the next commit, in seconds since the epoch.
    pub(crate) clock: Cell<u64>,
}

impl Repo {
    /// Creates an empty repository with a work tree.
    pub(crate) fn new() -> Self {
        Self::init(&["--initial-branch=main"])
    }

    /// Creates an empty repository with SHA-256 ids.
    pub(crate) fn sha256() -> Self {
        Self::init(&["--initial-branch=main", "--object-format=sha256"])
    }

    /// Creates an empty repository whose refs are in reftables.
    pub(crate) fn reftable(object_format: &str) -> Self {
        Self::init(&["--initial-branch=main", "--ref-format=reftable", &format!("--object-format={object_format}")])
    }

    /// Creates a history with merged branches, with and without conflicts in the same file.
    pub(crate) fn branched() -> Self {
        let repo = Self::new();
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

    fn init(args: &[&str]) -> Self {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("repo");
        let repo = Self { root, dir: dir.clone(), clock: Cell::new(1_700_000_000) };
        fs::create_dir(&dir).unwrap();
        repo.git([&["init", "--quiet"], args].concat());
        repo
    }

    /// Creates a repository with everything that a tree can contain, and some history.
    pub(crate) fn varied() -> Self {
        Self::new().filled()
    }

    /// Fills a repository with everything that a tree can contain, and some history.
    pub(crate) fn filled(self) -> Self {
        self.write("README.md", "# Title\n\nText\n");
        self.write("empty", "");
        self.write("binary.bin", b"\x00\xff\xfe\x00");
        self.write("src/main.rs", "fn main() {}\n");
        self.write("src/lib/deep/er.rs", "pub fn f() {}\n");
        self.write("src.txt", "sorts between the directory's name and its files\n");
        self.write("src-more/x", "x\n");
        self.write("日本/メモ.md", "こんにちは\n");
        self.write("odd/new\nline \"quoted\" 100%?#.txt", "odd\n");
        self.write("odd/back\\slash", "odd\n");
        self.write("odd/ space ", "odd\n");
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let name = std::ffi::OsStr::from_bytes(b"odd/\xff\xfe");
            fs::write(self.dir.join(name), "no text in the name\n").unwrap();
            std::os::unix::fs::symlink("../README.md", self.dir.join("src/link")).unwrap();
            std::os::unix::fs::symlink("/etc/passwd", self.dir.join("outside")).unwrap();
            self.git(["update-index", "--add", "--chmod=+x", "--", "src/main.rs"]);
        }
        self.write("pointer.png", LFS);
        let submodule = if self.hex() == 40 { "1".repeat(40) } else { "1".repeat(64) };
        self.git(["update-index", "--add", "--cacheinfo", &format!("160000,{submodule},vendor/sub")]);
        self.commit("First\n\nWith a body.");
        self.thirty_commits();
        self.git(["tag", "light"]);
        self.git(["tag", "-a", "v1.0", "-m", "One\n\nA release."]);
        self.git(["branch", "feature/x", "HEAD~3"]);
        self
    }

    /// Adds commits to `main` that each modify one file and add another.
    fn thirty_commits(&self) {
        let mut import = String::new();
        let mut content = String::new();
        for n in 0..30 {
            content += &format!("line {n} of many that are much the same\n");
            let (message, other) = (format!("Line {n}"), format!("number {n}\n"));
            let time = self.clock.get() + n * 60;
            import += &format!("commit refs/heads/main\nauthor Ada Lovelace <ada@example.com> {time} +0130\n");
            import += &format!("committer Bob <bob@example.com> {time} +0130\ndata {}\n{message}\n", message.len());
            import += if n == 0 { "from refs/heads/main^0\n" } else { "" };
            import += &format!("M 644 inline grows.txt\ndata {}\n{content}\n", content.len());
            import += &format!("M 644 inline many/file-{n:03}.txt\ndata {}\n{other}\n", other.len());
        }
        self.clock.set(self.clock.get() + 30 * 60);
        self.git_with(["-c", "fastimport.unpackLimit=100000", "fast-import", "--quiet"], import.as_bytes());
        self.git(["reset", "--quiet", "--hard"]);
    }

    /// Writes a file into the work tree.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    /// Commits the whole work tree, one minute after the last commit, and returns the id.
    pub(crate) fn commit(&self, message: &str) -> String {
        self.git(["add", "--all", "--ignore-errors", ":!vendor"]);
        self.git(["commit", "--quiet", "--allow-empty", "--message", message]);
        self.head()
    }

    /// Returns the id of `HEAD`.
    pub(crate) fn head(&self) -> String {
        self.line(["rev-parse", "HEAD"])
    }

    /// Returns the number of hex digits of an id.
    pub(crate) fn hex(&self) -> usize {
        if self.line(["rev-parse", "--show-object-format"]) == "sha1" { 40 } else { 64 }
    }

    /// Runs git in the repository and returns its output.
    pub(crate) fn git<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Vec<u8> {
        self.git_with(args, b"")
    }

    /// Runs git in the repository with standard input.
    pub(crate) fn git_with<S: AsRef<std::ffi::OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        input: &[u8],
    ) -> Vec<u8> {
        let mut git = self.command(args);
        let mut child = git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // Input is written while output is read, because git blocks while its output is not read.
        let output = thread::scope(|scope| {
            scope.spawn(move || stdin.write_all(input).unwrap());
            child.wait_with_output().unwrap()
        });
        assert!(output.status.success(), "{git:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// Runs git in the repository and returns its output of one line.
    pub(crate) fn line<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        String::from_utf8(self.git(args)).unwrap().trim_end().to_owned()
    }

    /// Returns whether git succeeds.
    pub(crate) fn succeeds<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> bool {
        self.command(args).output().unwrap().status.success()
    }

    fn command<S: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let now = self.clock.get();
        self.clock.set(now + 60);
        let date = format!("{now} +0130");
        let mut git = Command::new("git");
        git.arg("-C")
            .arg(&self.dir)
            .args(["-c", "core.quotePath=false", "-c", "protocol.file.allow=always", "-c", "core.fsync=none"])
            .args(args);
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            git.env_remove(variable);
        }
        git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
        git.env("GIT_AUTHOR_NAME", "Ada Lovelace")
            .env("GIT_AUTHOR_EMAIL", "ada@example.com")
            .env("GIT_AUTHOR_DATE", &date);
        git.env("GIT_COMMITTER_NAME", "Bob")
            .env("GIT_COMMITTER_EMAIL", "bob@example.com")
            .env("GIT_COMMITTER_DATE", &date);
        git
    }

    /// Opens the provider on the repository.
    pub(crate) fn open(&self) -> Git {
        open(&self.dir, &[])
    }

    /// Opens the provider with additional config.
    pub(crate) fn open_with(&self, config: &[(&str, &str)]) -> Git {
        open(&self.dir, config)
    }
}

/// A Git LFS pointer.
pub(crate) const LFS: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n";

/// Opens the provider on a directory.
pub(crate) fn open(dir: &Path, config: &[(&str, &str)]) -> Git {
    try_open(dir, config).unwrap()
}

/// Opens the provider on a directory, which may fail.
pub(crate) fn try_open(dir: &Path, config: &[(&str, &str)]) -> Result<Git, Failure> {
    let dir = ("dir", dir.to_str().unwrap());
    Git::open(&Config::from_pairs([&[dir], config].concat()))
}

/// Reads the only content of a resource.
pub(crate) fn read(git: &Git, path: &str) -> Contents {
    let mut contents = git.read(path).unwrap_or_else(|failure| panic!("{path}: {failure}"));
    assert_eq!(contents.len(), 1);
    contents.remove(0)
}

/// Reads the only content of a resource as text.
pub(crate) fn text(git: &Git, path: &str) -> String {
    read(git, path).as_text().unwrap_or_else(|| panic!("{path} is not text")).to_owned()
}

/// Returns all entries of a listing, read in pages of `limit` entries.
pub(crate) fn list_all(git: &Git, parent: Option<&str>, limit: usize) -> Vec<Entry> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let Page { entries, next_cursor, .. } = git.list(parent, cursor.as_deref(), limit).unwrap();
        assert!(entries.len() <= limit);
        all.extend(entries);
        assert!(next_cursor.is_none() || next_cursor != cursor);
        cursor = next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

/// Returns whether a result is an invalid-request failure.
pub(crate) fn is_invalid<T: std::fmt::Debug>(result: Result<T, Failure>) -> bool {
    matches!(result, Err(Failure::InvalidRequest(_)))
}
