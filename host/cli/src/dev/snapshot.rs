//! Snapshots of the sources of a project, and the difference of two.
//!
//! The sources are all files of the directory, or the files that `watch` of `[dev]` names. Excluded are hidden files,
//! matches of `.gitignore` and `.ignore`, the build output of the usual tools ([`OUTPUT_DIRS`], `*.wasm`), backup files
//! of editors, the files that the config names, and granted directories. A path in `watch` is included in any case.
//!
//! A file has changed if its content has. Content is compared by hash, up to [`MAX_HASHED`] per file and
//! [`MAX_HASHED_TOTAL`] per snapshot; beyond these limits the metadata is compared. So a build that rewrites a file
//! with the same content changes nothing.
//!
//! A file with unchanged metadata is not read again if its last change was old enough at the last read. As in git, a
//! *racily clean* file is read again in each snapshot until it is older: a later change may have left its metadata
//! unchanged.
//!
//! Bounded: a snapshot has at most [`MAX_ENTRIES`] files and directories.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::hash::{DefaultHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ignore::{DirEntry, WalkBuilder};

use mcp_host_base::fs_watch::FileState;
use mcp_host_base::regular_file;
use mcp_host_config::WatchPattern;

/// The maximum number of watched files and directories.
pub(super) const MAX_ENTRIES: usize = 20_000;
/// The maximum size of a file whose content is compared.
const MAX_HASHED: u64 = 1 << 20;
/// The maximum number of bytes that one snapshot reads.
const MAX_HASHED_TOTAL: u64 = 64 << 20;
/// The output directories of tools.
const OUTPUT_DIRS: [&str; 6] = ["target", "node_modules", "dist", "build", "__pycache__", "venv"];

/// Selects the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceSet {
    /// The directory of the project.
    pub(super) dir: PathBuf,
    /// The sources; empty for the whole directory.
    pub(super) patterns: Vec<WatchPattern>,
    /// The excluded files and directories.
    pub(super) excluded: BTreeSet<PathBuf>,
    /// The config file, which is included in any case.
    pub(super) config_file: PathBuf,
}

/// The sources at one moment.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    files: BTreeMap<PathBuf, Stamp>,
    /// The directories in which a file may appear or change.
    pub(super) directories: BTreeMap<PathBuf, DirectoryId>,
    /// Whether the limit of entries was reached.
    pub(super) is_truncated: bool,
}

/// The identity of a directory. It includes the change time, so that a new directory with the same name differs even if
/// it reuses the inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DirectoryId([u64; 2], [i64; 2]);

impl DirectoryId {
    /// `None` if the directory does not exist.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let metadata = dir.metadata().ok().filter(Metadata::is_dir)?;
        Some(Self([metadata.dev(), metadata.ino()], [metadata.ctime(), metadata.ctime_nsec()]))
    }
}

/// One state of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    state: FileState,
    /// `None` for a file that is too large.
    hash: Option<u64>,
    /// Whether the state identifies the content: the file is not racily clean.
    is_settled: bool,
}

/// The difference of two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Difference {
    /// Files that changed or were removed.
    pub(super) changed: Vec<PathBuf>,
    /// Files that are new.
    pub(super) created: Vec<PathBuf>,
}

impl Difference {
    /// Returns whether the snapshots are equal.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.created.is_empty()
    }
}

impl SourceSet {
    /// Takes a snapshot. Blocks. Does not read files again whose metadata is as in `before`, unless they are racily
    /// clean.
    pub(super) fn snapshot(&self, before: &Snapshot) -> Snapshot {
        self.snapshot_at(SystemTime::now(), before)
    }

    /// `now` is the current time or an earlier one.
    fn snapshot_at(&self, now: SystemTime, before: &Snapshot) -> Snapshot {
        let mut taker = Taker { now, before, snapshot: Snapshot::default(), unhashed: MAX_HASHED_TOTAL };
        taker.add_file(&self.config_file);
        let is_everything = self.patterns.is_empty();
        if is_everything || self.patterns.iter().any(WatchPattern::is_glob) {
            self.walk(&self.dir, &mut taker, |path| {
                let relative = path.strip_prefix(&self.dir).unwrap_or(path);
                is_everything || self.patterns.iter().any(|pattern| pattern.matches(relative))
            });
        }
        for path in self.patterns.iter().filter(|pattern| !pattern.is_glob()) {
            self.walk(&self.dir.join(path.as_str()), &mut taker, |_| true);
        }
        taker.snapshot
    }

    /// Adds this file, or the files below this directory.
    fn walk(&self, root: &Path, taker: &mut Taker<'_>, is_source: impl Fn(&Path) -> bool) {
        let excluded = self.excluded.clone();
        let mut walk = WalkBuilder::new(root);
        // A project outside of a git repository can have a `.gitignore`, too.
        walk.require_git(false);
        walk.filter_entry(move |entry| entry.depth() == 0 || !is_output(entry) && !excluded.contains(entry.path()));
        for entry in walk.build().flatten() {
            if taker.is_full() {
                return;
            }
            match entry.file_type() {
                Some(kind) if kind.is_dir() => taker.add_directory(entry.path()),
                _ if is_source(entry.path()) => taker.add_file(entry.path()),
                _ => {}
            }
        }
        // For a path that is missing or a file: the directory in which it would appear.
        if !root.is_dir()
            && let Some(dir) = root.ancestors().skip(1).find(|dir| dir.is_dir())
        {
            taker.add_directory(dir);
        }
    }
}

/// Returns whether the entry is output of a tool or a temporary file of an editor.
fn is_output(entry: &DirEntry) -> bool {
    let (name, is_dir) = (entry.file_name(), entry.file_type().is_some_and(|kind| kind.is_dir()));
    if is_dir {
        return OUTPUT_DIRS.iter().any(|output| name == *output);
    }
    // Vim creates the file 4913 to test whether it may write.
    let name = name.to_string_lossy();
    entry.path().extension() == Some(OsStr::new("wasm"))
        || name.ends_with('~')
        || name == "4913"
        || (name.starts_with('#') && name.ends_with('#'))
}

/// A snapshot that is being taken.
struct Taker<'a> {
    now: SystemTime,
    before: &'a Snapshot,
    snapshot: Snapshot,
    /// The number of bytes that may still be read.
    unhashed: u64,
}

impl Taker<'_> {
    fn is_full(&mut self) -> bool {
        let entries = self.snapshot.files.len().saturating_add(self.snapshot.directories.len());
        self.snapshot.is_truncated |= entries >= MAX_ENTRIES;
        entries >= MAX_ENTRIES
    }

    fn add_directory(&mut self, dir: &Path) {
        if let Some(id) = DirectoryId::of(dir) {
            self.snapshot.directories.insert(dir.to_owned(), id);
        }
    }

    fn add_file(&mut self, path: &Path) {
        let Ok(metadata) = path.metadata() else { return };
        if !metadata.is_file() || self.snapshot.files.contains_key(path) {
            return;
        }
        if let Some(dir) = path.parent().filter(|dir| !self.snapshot.directories.contains_key(*dir)) {
            self.add_directory(dir);
        }
        let (size, state) = (metadata.len(), FileState::new(&metadata));
        let known = self.before.files.get(path).filter(|stamp| stamp.state == state);
        let stamp = match known.filter(|stamp| stamp.is_settled) {
            Some(stamp) => stamp.clone(),
            None => match (self.hash(path, size), known) {
                // The byte limit prevents a read; the known stamp has the same metadata.
                (None, Some(stamp)) => stamp.clone(),
                (hash, _) => Stamp { is_settled: !state.is_newer_than(self.now), hash, state },
            },
        };
        self.snapshot.files.insert(path.to_owned(), stamp);
    }

    fn hash(&mut self, path: &Path, size: u64) -> Option<u64> {
        if size > MAX_HASHED {
            return None;
        }
        self.unhashed = self.unhashed.checked_sub(size)?;
        let content = regular_file::read(path, usize::try_from(MAX_HASHED).ok()?).ok()?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&content);
        Some(hasher.finish())
    }
}

impl Stamp {
    fn has_same_content(&self, other: &Self) -> bool {
        match (self.hash, other.hash) {
            (Some(one), Some(other)) => one == other,
            _ => self.state == other.state,
        }
    }
}

impl Snapshot {
    /// Returns the difference to an earlier snapshot.
    pub(super) fn difference(&self, before: &Self) -> Difference {
        let mut difference = Difference::default();
        for (path, stamp) in &self.files {
            match before.files.get(path) {
                None => difference.created.push(path.clone()),
                Some(old) if !old.has_same_content(stamp) => difference.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        difference.changed.extend(before.files.keys().filter(|path| !self.files.contains_key(*path)).cloned());
        difference
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::*;

    /// A directory with these files, each with its name as its content.
    fn sources(files: &[&str], patterns: &[&str]) -> (tempfile::TempDir, SourceSet) {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().canonicalize().unwrap();
        for file in files {
            fs::create_dir_all(dir.join(file).parent().unwrap()).unwrap();
            fs::write(dir.join(file), file).unwrap();
        }
        let patterns = patterns.iter().map(|pattern| pattern.parse().unwrap()).collect();
        let excluded = [dir.join("data"), dir.join("out.bin")].into();
        let config_file = dir.join("mcp-host.toml");
        (folder, SourceSet { dir, patterns, excluded, config_file })
    }

    fn names(set: &SourceSet, paths: impl IntoIterator<Item = PathBuf>) -> Vec<String> {
        paths.into_iter().map(|path| path.strip_prefix(&set.dir).unwrap().display().to_string()).collect()
    }

    fn files(set: &SourceSet) -> Vec<String> {
        names(set, set.snapshot(&Snapshot::default()).files.into_keys())
    }

    const PROJECT: [&str; 12] = [
        "mcp-host.toml",
        "Cargo.toml",
        "src/lib.rs",
        "src/lib.rs~",
        "src/deep/a.rs",
        ".git/HEAD",
        "target/x",
        "node_modules/y/z.js",
        "data/people.csv",
        "out.bin",
        "core.wasm",
        "generated/a.rs",
    ];

    #[test]
    fn the_whole_directory_counts_but_for_what_tools_write() {
        let (_folder, set) = sources(&PROJECT, &[]);
        fs::write(set.dir.join(".gitignore"), "generated\n").unwrap();
        assert_eq!(files(&set), ["Cargo.toml", "mcp-host.toml", "src/deep/a.rs", "src/lib.rs"]);
    }

    #[test]
    fn paths_and_globs_name_the_sources_and_the_config_counts_in_any_case() {
        let (_folder, set) = sources(&PROJECT, &["src/deep", "*.toml", "core.wasm", "missing/file"]);
        assert_eq!(files(&set), ["Cargo.toml", "core.wasm", "mcp-host.toml", "src/deep/a.rs"]);
        let (_folder, set) = sources(&PROJECT, &["data"]);
        assert_eq!(files(&set), ["data/people.csv", "mcp-host.toml"]);
    }

    #[test]
    fn a_file_has_changed_if_its_content_has() {
        let (_folder, set) = sources(&["a", "b", "c"], &[]);
        let before = set.snapshot(&Snapshot::default());
        // The same content in a new file with this name.
        fs::write(set.dir.join(".a"), "a").unwrap();
        fs::rename(set.dir.join(".a"), set.dir.join("a")).unwrap();
        fs::write(set.dir.join("b"), "other").unwrap();
        fs::remove_file(set.dir.join("c")).unwrap();
        fs::write(set.dir.join("d"), "").unwrap();
        let difference = set.snapshot(&before).difference(&before);
        assert_eq!(names(&set, difference.changed), ["b", "c"]);
        assert_eq!(names(&set, difference.created), ["d"]);
    }

    #[test]
    fn a_file_that_was_changed_just_before_a_snapshot_is_read_again() {
        let (_folder, set) = sources(&["a", "b"], &[]);
        let now = SystemTime::now();
        let changes = |taken_at| {
            fs::write(set.dir.join("b"), "b").unwrap();
            let mut before = set.snapshot_at(taken_at, &Snapshot::default());
            fs::write(set.dir.join("b"), "c").unwrap();
            // As if the clock of the file system had not advanced since then.
            for (path, stamp) in &mut before.files {
                stamp.state = FileState::new(&path.metadata().unwrap());
            }
            names(&set, set.snapshot(&before).difference(&before).changed)
        };
        assert_eq!(changes(now), ["b"]);
        assert!(changes(now + Duration::from_secs(60)).is_empty(), "files that were changed long ago are not read");
    }

    #[test]
    fn of_a_source_that_is_not_there_the_directory_is_watched_in_which_it_would_appear() {
        let (_folder, set) = sources(&["mcp-host.toml", "wit/a.wit"], &["wit/deps/b.wit"]);
        let snapshot = set.snapshot(&Snapshot::default());
        assert!(snapshot.directories.contains_key(&set.dir.join("wit")), "{snapshot:?}");
    }
}
