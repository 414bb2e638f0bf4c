//! The files of the host, and the grants of other plugins and programs, that a program does not see, although they are
//! in a directory of its own files.
//!
//! A directory with such files is not shown as a whole. Each of its other entries is mounted separately, and has a
//! Landlock rule of its own. So a file that replaces a hidden one while the program runs is hidden, too. A file that is
//! created in such a directory later is not shown before the next start of the program.
//!
//! An entry is hidden if it has the path of a hidden file, a path that begins with the path of the audit log
//! (`audit.jsonl.1.gz`, `audit.jsonl-20261201`), or the same inode as a hidden file (a hard link, another mount).
//! Sockets, pipes and devices in such a directory are never shown. Inodes are compared in the directories of the
//! program's own files, in directories with hidden files, and in the directories directly in those. They are not
//! compared further below, because that would read all directories of the program at each start.
//!
//! Directories that the program may write to are hidden in the same way, because it may execute its own files. It sees
//! them at the paths of their grants.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::io;
use std::ops::Bound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// The maximum number of entries of the directories that are not shown as a whole.
const MAX_ENTRIES: usize = 10_000;

/// The files that a program sees, by the path at which it sees them.
pub(super) type ShownFiles = BTreeMap<PathBuf, Shown>;

/// What a program sees at a path.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// The file at this real path, or the directory with everything below.
    Whole(PathBuf),
    /// The symbolic link at this path.
    Link(PathBuf),
    /// A directory with only the entries that have paths of their own among the shown files.
    Listed,
}

/// The files and directories of the host that a program does not see.
#[derive(Debug, Default)]
pub(super) struct Hidden {
    /// Their paths without links. They need not exist.
    places: BTreeSet<PathBuf>,
    /// The devices and inodes of those that exist.
    identities: BTreeSet<(u64, u64)>,
    /// The paths of the audit log without links. Its rotated files have longer ones.
    logs: BTreeSet<PathBuf>,
}

impl Hidden {
    /// Finds the files and directories with these paths, and the audit log. A link is hidden, and so is its target.
    pub(super) fn find(paths: &BTreeSet<PathBuf>, log: Option<&PathBuf>) -> Self {
        let mut hidden = Self::default();
        for path in paths.iter().chain(log) {
            hidden.places.insert(place(path));
            hidden.places.extend(path.canonicalize());
            hidden.identities.extend(fs::metadata(path).map(|metadata| identity(&metadata)));
        }
        if let Some(log) = log {
            hidden.logs.insert(place(log));
            hidden.logs.extend(log.canonicalize());
        }
        hidden
    }

    /// Returns what a program sees of its own files: the paths that it sees, each with the real path.
    pub(super) fn show(&self, files: &BTreeMap<PathBuf, PathBuf>) -> Result<ShownFiles, String> {
        // A directory is no rotated file.
        let is_hidden = |path: &&Path| self.places.contains(*path) || self.has_same(path);
        if let Some(path) = files.values().find_map(|path| path.ancestors().find(is_hidden)) {
            return Err(format!(
                "{} belongs to the host, or the program may write to it, and the files of the program are there: install the \
                 program in another directory",
                path.display()
            ));
        }
        let (mut shown, mut entries) = (ShownFiles::new(), 0_usize);
        let mut pending: Vec<_> = files.iter().map(|(target, source)| (target.clone(), source.clone())).collect();
        while let Some((target, source)) = pending.pop() {
            if !self.has_below(&source) && !self.has_same_in(&source) {
                shown.insert(target, Shown::Whole(source));
                continue;
            }
            let failed = |error: io::Error| format!("{}: {error}", source.display());
            for entry in fs::read_dir(&source).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                entries = entries.saturating_add(1);
                if entries > MAX_ENTRIES {
                    return Err(format!(
                        "{} has files of the host and more than {MAX_ENTRIES} entries: install the program in another directory",
                        source.display()
                    ));
                }
                let (seen, real) = (target.join(entry.file_name()), entry.path());
                if files.contains_key(&seen) || self.has(&real) {
                    continue;
                }
                match entry.file_type() {
                    // Files of the program are shown at paths through the link, which is a directory then.
                    Ok(kind) if kind.is_symlink() && files.keys().any(|file| file.starts_with(&seen)) => {}
                    Ok(kind) if kind.is_symlink() => drop(shown.insert(seen, Shown::Link(real))),
                    Ok(kind) if kind.is_dir() || kind.is_file() => pending.push((seen, real)),
                    _ => {}
                }
            }
            shown.insert(target, Shown::Listed);
        }
        Ok(shown)
    }

    /// Returns whether a file is hidden. Its path has no links, but may name one.
    fn has(&self, path: &Path) -> bool {
        let bytes = path.as_os_str().as_encoded_bytes();
        let is_of_log = || self.logs.iter().any(|log| bytes.starts_with(log.as_os_str().as_encoded_bytes()));
        self.places.contains(path) || is_of_log() || self.has_same(path)
    }

    /// Returns whether a file is a hidden one, by whatever path.
    fn has_same(&self, path: &Path) -> bool {
        fs::symlink_metadata(path).is_ok_and(|found| self.identities.contains(&identity(&found)))
    }

    /// Returns whether a directory has another name of a hidden file, not at any depth. If it cannot be listed, it has
    /// none: the program's user cannot list it, either.
    fn has_same_in(&self, dir: &Path) -> bool {
        let entries = if self.identities.is_empty() { None } else { fs::read_dir(dir).ok() };
        entries.is_some_and(|entries| entries.flatten().any(|entry| self.has_same(&entry.path())))
    }

    /// Returns whether a directory has a hidden file, at any depth.
    fn has_below(&self, dir: &Path) -> bool {
        // The paths below a directory follow it in the order of paths.
        let mut after = self.places.range::<Path, _>((Bound::Excluded(dir), Bound::Unbounded));
        after.next().is_some_and(|place| place.starts_with(dir))
    }
}

/// Resolves the links in the directory part of a path, as far as these directories exist. The last component is kept.
fn place(path: &Path) -> PathBuf {
    let real = path.ancestors().skip(1).find_map(|dir| {
        let rest = path.strip_prefix(dir).ok()?;
        Some(dir.canonicalize().ok()?.join(rest))
    });
    real.unwrap_or_else(|| path.to_owned())
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    /// A directory with the files of a program and of the host.
    fn installed() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().canonicalize().unwrap();
        for name in ["lib", "sub", "state"] {
            fs::create_dir(real.join(name)).unwrap();
        }
        for name in ["main", "secret", "sub/token", "sub/module", "lib/module", "auditor", "audit", "audit.1.gz"] {
            fs::write(real.join(name), "").unwrap();
        }
        fs::hard_link(real.join("secret"), real.join("copy")).unwrap();
        symlink("sub/token", real.join("link")).unwrap();
        (dir, real)
    }

    fn hidden(dir: &Path, names: &[&str]) -> Hidden {
        Hidden::find(&names.iter().map(|name| dir.join(name)).collect(), None)
    }

    #[test]
    fn a_directory_with_hidden_files_is_shown_entry_by_entry() {
        let (_dir, real) = installed();
        let _socket = UnixListener::bind(real.join("socket")).unwrap();
        let files = BTreeMap::from([(PathBuf::from("/seen"), real.clone())]);
        let whole = |name: &str| (Path::new("/seen").join(name), Shown::Whole(real.join(name)));
        let listed = |path: &str| (PathBuf::from(path), Shown::Listed);
        let shown = hidden(&real, &["secret", "link", "state", "audit", "later"]).show(&files).unwrap();
        let expected = [
            listed("/seen"),
            listed("/seen/sub"),
            whole("audit.1.gz"),
            whole("auditor"),
            whole("lib"),
            whole("main"),
            whole("sub/module"),
        ];
        assert_eq!(shown, ShownFiles::from(expected));

        let shown = hidden(&real, &["state"]).show(&files).unwrap();
        assert_eq!(shown[Path::new("/seen/link")], Shown::Link(real.join("link")));
        assert_eq!(shown[Path::new("/seen/copy")], Shown::Whole(real.join("copy")));
        assert!(!shown.contains_key(Path::new("/seen/socket")), "{shown:?}");
    }

    #[test]
    fn a_directory_without_hidden_files_is_shown_as_a_whole() {
        let (_dir, real) = installed();
        let files = BTreeMap::from([(real.join("lib"), real.join("lib"))]);
        let shown = hidden(&real, &["secret", "li", "library/token"]).show(&files).unwrap();
        assert_eq!(shown, ShownFiles::from([(real.join("lib"), Shown::Whole(real.join("lib")))]));
    }

    #[test]
    fn the_audit_log_is_hidden_with_all_files_whose_names_begin_with_its_name() {
        let (_dir, real) = installed();
        fs::write(real.join("audit-20261201"), "").unwrap();
        symlink("audit", real.join("log")).unwrap();
        let files = BTreeMap::from([(real.clone(), real.clone())]);
        for log in ["audit", "log"] {
            let shown = Hidden::find(&BTreeSet::new(), Some(&real.join(log))).show(&files).unwrap();
            assert!(shown.contains_key(&real.join("main")), "{shown:?}");
            let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(!shown.keys().any(|path| name(path).starts_with("audit")), "{shown:?}");
        }
    }

    #[test]
    fn another_name_of_a_hidden_file_is_hidden_in_a_directory_of_the_program() {
        let (_dir, real) = installed();
        fs::hard_link(real.join("secret"), real.join("sub/copy")).unwrap();
        let files = BTreeMap::from([(real.join("sub"), real.join("sub")), (real.join("lib"), real.join("lib"))]);
        let whole = |name: &str| (real.join(name), Shown::Whole(real.join(name)));
        let shown = hidden(&real, &["secret"]).show(&files).unwrap();
        let expected = [whole("lib"), (real.join("sub"), Shown::Listed), whole("sub/module"), whole("sub/token")];
        assert_eq!(shown, ShownFiles::from(expected));
    }

    #[test]
    fn a_hidden_path_is_found_behind_links_and_before_it_exists() {
        let (_dir, real) = installed();
        symlink("sub", real.join("alias")).unwrap();
        let files = BTreeMap::from([(real.clone(), real.clone())]);
        let shown = hidden(&real, &["alias/later", "gone/later"]).show(&files).unwrap();
        assert_eq!(shown[&real.join("sub")], Shown::Listed);
        fs::write(real.join("sub/later"), "").unwrap();
        let shown = hidden(&real, &["alias/later"]).show(&files).unwrap();
        assert!(
            shown.contains_key(&real.join("sub/token")) && !shown.contains_key(&real.join("sub/later")),
            "{shown:?}"
        );
    }

    #[test]
    fn files_of_a_program_are_shown_where_a_path_through_a_link_leads_to_them() {
        let (_dir, real) = installed();
        // The link comes before its target, which does not exist yet when the link is made.
        symlink("lib", real.join("current")).unwrap();
        let files =
            BTreeMap::from([(real.clone(), real.clone()), (real.join("current/module"), real.join("lib/module"))]);
        let shown = hidden(&real, &["secret"]).show(&files).unwrap();
        assert_eq!(shown[&real.join("current/module")], Shown::Whole(real.join("lib/module")));
        assert!(!shown.contains_key(&real.join("current")), "it is made as a directory: {shown:?}");
        assert_eq!(shown[&real.join("link")], Shown::Link(real.join("link")));
    }

    #[test]
    fn a_program_in_a_hidden_directory_is_an_error() {
        let (_dir, real) = installed();
        fs::create_dir(real.join("state/servers")).unwrap();
        for dir in ["state", "state/servers"] {
            let files = BTreeMap::from([(real.join(dir), real.join(dir))]);
            let error = hidden(&real, &["state"]).show(&files).unwrap_err();
            assert!(error.contains("state belongs to the host"), "{error}");
        }
    }
}
