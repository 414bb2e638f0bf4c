//! Repositories of a chosen size, all in one pack, made once by `git fast-import` and kept in `target/bench`.
//!
//! A pack has files of 64 KiB that nothing compresses, in directories of 64, one directory a commit; `history.txt`, a
//! line of which changes with every commit, stored as a chain of deltas; and `small.txt`, which only the last commit
//! has. Whatever the size, both text files are the same, byte for byte.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::setup;

/// Bytes of one file that does not compress.
const FILE_SIZE: usize = 64 << 10;
/// How many of them a commit adds.
const FILES_PER_COMMIT: usize = 64;
/// Lines of `history.txt`.
const HISTORY_LINES: usize = 100;

/// What `small.txt` says.
pub(crate) const SMALL_TEXT: &str = "A small file, at the end of a pack of any size.\n";

/// A repository whose objects are all in one pack.
pub(crate) struct GitPack {
    path: PathBuf,
}

impl GitPack {
    /// The repository with so many MiB of files. The first time, it is made.
    pub(crate) fn open_or_create(mebibytes: usize) -> Self {
        let path = setup::cache_dir().join(format!("pack-{mebibytes}.git"));
        if !path.is_dir() {
            eprintln!("making a repository with a pack of {mebibytes} MiB in {}", path.display());
            let aside = path.with_extension("unfinished");
            let _ = fs::remove_dir_all(&aside);
            create(&aside, mebibytes);
            // Only what is complete has its name.
            fs::rename(&aside, &path).expect("it can be renamed");
        }
        Self { path }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The bytes of its pack, and the objects in it.
    pub(crate) fn size(&self) -> (u64, u64) {
        let counted = git(&self.path).args(["count-objects", "-v"]).output().expect("git runs").stdout;
        let counted = String::from_utf8_lossy(&counted).into_owned();
        let number = |key: &str| counted.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        (number("size-pack:").expect("a size") << 10, number("in-pack:").expect("a number"))
    }
}

/// `git` in that directory, with no configuration but its own.
pub(crate) fn git(dir: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    command
}

fn create(dir: &Path, mebibytes: usize) {
    fs::create_dir_all(dir).expect("a directory");
    let ended = git(dir).args(["init", "--quiet", "--bare", "--initial-branch=main"]).status().expect("git runs");
    assert!(ended.success(), "git init failed");
    let settings = ["core.compression=0", "core.bigFileThreshold=32k", "fastimport.unpackLimit=0"];
    let mut import = git(dir);
    import.args(settings.iter().flat_map(|setting| ["-c", setting])).args(["fast-import", "--quiet", "--done"]);
    let mut child = import.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("git runs");
    let mut stream = BufWriter::new(child.stdin.take().expect("it is a pipe"));
    write_import_stream(&mut stream, mebibytes).and_then(|()| stream.flush()).expect("git reads");
    drop(stream);
    assert!(child.wait().expect("git ends").success(), "git fast-import failed");
}

/// Writes a repository as `git-fast-import(1)` reads it.
fn write_import_stream(out: &mut impl Write, mebibytes: usize) -> io::Result<()> {
    let files = mebibytes * (1 << 20) / FILE_SIZE;
    let commits = files.div_ceil(FILES_PER_COMMIT);
    // One after the other, so that each is stored as a delta to the one before. The last is the same whatever their
    // number.
    for commit in 0..commits {
        writeln!(out, "blob\nmark :{}", commit + 1)?;
        write_data(out, history_text(commits - 1 - commit).as_bytes())?;
    }
    let mut noise = IncompressibleBytes(1);
    for commit in 0..commits {
        writeln!(out, "commit refs/heads/main")?;
        writeln!(out, "committer Ada Lovelace <ada@example.com> {} +0000", 1_738_398_600 + 60 * commit)?;
        write_data(out, format!("Commit {commit}\n").as_bytes())?;
        for file in 0..FILES_PER_COMMIT.min(files - commit * FILES_PER_COMMIT) {
            writeln!(out, "M 100644 inline data/{commit:03}/{file:02}.bin")?;
            write_data(out, &noise.bytes())?;
        }
        writeln!(out, "M 100644 :{} history.txt", commit + 1)?;
        if commit + 1 == commits {
            writeln!(out, "M 100644 inline small.txt")?;
            write_data(out, SMALL_TEXT.as_bytes())?;
        }
    }
    writeln!(out, "done")
}

fn write_data(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    writeln!(out, "data {}", bytes.len())?;
    out.write_all(bytes)?;
    writeln!(out)
}

/// The text that so many commits before the last one had.
fn history_text(before: usize) -> String {
    let line = |line| {
        let changed = if line == before % HISTORY_LINES { before } else { 0 };
        format!("Line {line:03} of a file with a history, changed {changed:05} commits before the last.\n")
    };
    (0..HISTORY_LINES).map(line).collect()
}

/// Bytes that nothing compresses: xorshift64, George Marsaglia, "Xorshift RNGs" (2003).
struct IncompressibleBytes(u64);

impl IncompressibleBytes {
    fn bytes(&mut self) -> Vec<u8> {
        let words = (0..FILE_SIZE / 8).flat_map(|_| {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0.to_le_bytes()
        });
        words.collect()
    }
}
