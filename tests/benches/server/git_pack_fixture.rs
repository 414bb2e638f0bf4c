//! Repositories of a given size, in one pack each, made once by `git fast-import` and cached in `target/bench`.
//!
//! A pack has incompressible files of 64 KiB, in directories of 64, one directory per commit; `history.txt`, one line
//! of which changes with every commit, stored as a chain of deltas; and `small.txt`, which only the last commit has.
//! Both text files are the same for every size, byte for byte.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::setup;

/// The size of an incompressible file, in bytes.
const FILE_SIZE: usize = 64 << 10;
/// The number of these files per commit.
const FILES_PER_COMMIT: usize = 64;
/// The number of lines of `history.txt`.
const HISTORY_LINES: usize = 100;

/// The content of `small.txt`.
pub(crate) const SMALL_TEXT: &str = "A small file, at the end of a pack of any size.\n";

/// A repository with all objects in one pack.
pub(crate) struct GitPack {
    path: PathBuf,
}

impl GitPack {
    /// Returns the repository with this number of MiB of files, and creates it if needed.
    pub(crate) fn open_or_create(mebibytes: usize) -> Self {
        let path = setup::cache_dir().join(format!("pack-{mebibytes}.git"));
        if !path.is_dir() {
            eprintln!("making a repository with a pack of {mebibytes} MiB in {}", path.display());
            let aside = path.with_extension("unfinished");
            let _ = fs::remove_dir_all(&aside);
            create(&aside, mebibytes);
            // Renamed into place when complete.
            fs::rename(&aside, &path).expect("it can be renamed");
        }
        Self { path }
    }

    /// The path of the repository.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the size of its pack in bytes, and the number of objects in it.
    pub(crate) fn size(&self) -> (u64, u64) {
        let counted = git(&self.path).args(["count-objects", "-v"]).output().expect("git runs").stdout;
        let counted = String::from_utf8_lossy(&counted).into_owned();
        let number = |key: &str| counted.lines().find_map(|line| line.strip_prefix(key)?.trim().parse::<u64>().ok());
        (number("size-pack:").expect("a size") << 10, number("in-pack:").expect("a number"))
    }
}

/// Returns the command `git` in that directory, without any configuration of user or system.
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

/// Writes a repository in the format of `git-fast-import(1)`.
fn write_import_stream(out: &mut impl Write, mebibytes: usize) -> io::Result<()> {
    let files = mebibytes * (1 << 20) / FILE_SIZE;
    let commits = files.div_ceil(FILES_PER_COMMIT);
    // In sequence, so that each version is stored as a delta to the previous one. The last version is the same for
    // every number of versions.
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

/// Returns the text as of `before` commits before the last one.
fn history_text(before: usize) -> String {
    let line = |line| {
        let changed = if line == before % HISTORY_LINES { before } else { 0 };
        format!("Line {line:03} of a file with a history, changed {changed:05} commits before the last.\n")
    };
    (0..HISTORY_LINES).map(line).collect()
}

/// Incompressible bytes: xorshift64, George Marsaglia, "Xorshift RNGs" (2003).
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
