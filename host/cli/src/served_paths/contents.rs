//! What is at a path: a repository, a folder, or a database.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::names;
use super::repository::{Repository, has_work_tree, is_repository};

/// How deep Markdown files are searched for.
pub(super) const MAX_DEPTH: usize = 3;
/// The number of directory entries that the search visits at most.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// The first bytes of a database of SQLite.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// The root of a git repository, and whether it has a work tree.
    Repository { repository: Repository, has_work_tree: bool },
    /// A folder of notes: Markdown files with their attachments.
    Notes,
    /// Any other folder.
    Folder(Folder),
    /// A database of SQLite.
    Database,
}

/// The ignore rules of a folder of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// There may be some in it.
    Plain,
    /// It is the root of a work tree, which has them all.
    WorkTree,
    /// It is a part of a work tree: there may be some above.
    PartOfWorkTree,
}

impl Content {
    /// Looks what is at a path. None if it is something that cannot be served.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            // One that cannot be listed is an error now, and not an empty folder later.
            fs::read_dir(path)?;
            return Ok(Some(Self::of_directory(path)));
        }
        Ok((metadata.is_file() && is_sqlite(path)?).then_some(Self::Database))
    }

    fn of_directory(dir: &Path) -> Self {
        if let Some(repository) = Repository::find(dir) {
            return Self::Repository { repository, has_work_tree: has_work_tree(dir) };
        }
        if Repository::is_above(dir) {
            return Self::Folder(Folder::PartOfWorkTree);
        }
        // Work trees may be below, and `.git` may lead to a repository that cannot be found.
        let is_notes = find_below(dir, is_markdown) == Search::Found && find_below(dir, is_git) == Search::NotFound;
        if is_notes { Self::Notes } else { Self::Folder(Folder::Plain) }
    }

    /// The directory that is granted beside the path.
    pub(super) fn granted_beside(&self) -> Option<&Path> {
        match self {
            Self::Repository { repository: Repository::Elsewhere(shared), .. } => Some(shared),
            _ => None,
        }
    }

    /// The name of what is at that path, as the host of a URI.
    pub(super) fn name(&self, path: &Path) -> String {
        let name = if *self == Self::Database { path.file_stem() } else { path.file_name() };
        names::host_name(&name.unwrap_or_default().to_string_lossy())
    }
}

/// Whether it begins as a database of SQLite does.
fn is_sqlite(file: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    File::open(file)?.take(16).read_to_end(&mut begin)?;
    Ok(begin == SQLITE)
}

/// The result of a search with a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    Found,
    NotFound,
    LimitReached,
}

/// The bare repositories below a directory, by their paths from there: found within the same bounds as Markdown files. Their configs may
/// have passwords in URLs, and unlike those in directories called `*.git` nothing but their contents shows what they are.
pub(super) fn bare_repositories(dir: &Path) -> Vec<String> {
    let (mut found, mut left) = (Vec::new(), MAX_ENTRIES);
    let mut level = vec![dir.to_owned()];
    for _ in 0..MAX_DEPTH {
        let mut next = Vec::new();
        for entry in level.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten() {
            if left == 0 {
                return found;
            }
            left = left.saturating_sub(1);
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) || is_git(&entry) {
                continue;
            }
            let path = entry.path();
            if !is_repository(&path) {
                next.push(path);
            } else if let Some(below) = path.strip_prefix(dir).ok().and_then(Path::to_str) {
                found.push(below.to_owned());
            }
        }
        level = next;
    }
    found
}

/// Searches a directory and those below it for such an entry. Hidden directories are skipped.
fn find_below(dir: &Path, is_wanted: fn(&DirEntry) -> bool) -> Search {
    let mut left = MAX_ENTRIES;
    find_within(dir, is_wanted, MAX_DEPTH, &mut left)
}

/// The same in so many levels, and among so many entries.
fn find_within(dir: &Path, is_wanted: fn(&DirEntry) -> bool, depth: usize, left: &mut usize) -> Search {
    // What cannot be looked at may have it.
    let Ok(entries) = fs::read_dir(dir) else { return Search::LimitReached };
    let mut directories = Vec::new();
    for entry in entries.flatten() {
        if *left == 0 {
            return Search::LimitReached;
        }
        *left = left.saturating_sub(1);
        if is_wanted(&entry) {
            return Search::Found;
        }
        if !is_hidden(&entry) && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            directories.push(entry.path());
        }
    }
    let Some(depth) = depth.checked_sub(1) else {
        return if directories.is_empty() { Search::NotFound } else { Search::LimitReached };
    };
    let mut result = Search::NotFound;
    for below in &directories {
        match find_within(below, is_wanted, depth, left) {
            Search::Found => return Search::Found,
            Search::LimitReached => result = Search::LimitReached,
            Search::NotFound => {}
        }
    }
    result
}

fn is_hidden(entry: &DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with('.')
}

/// Whether it is a Markdown file that is not hidden.
fn is_markdown(entry: &DirEntry) -> bool {
    let extension = entry.path().extension().map(|extension| extension.to_ascii_lowercase());
    let is_named = extension.is_some_and(|extension| extension == "md" || extension == "markdown");
    is_named && !is_hidden(entry) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// Whether it is a repository, or leads to one.
fn is_git(entry: &DirEntry) -> bool {
    entry.file_name() == ".git"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(path: &Path) -> Content {
        Content::of(path).unwrap().unwrap()
    }

    #[test]
    fn markdown_is_found_below_and_not_in_hidden_directories() {
        let dir = tempfile::tempdir().unwrap();
        let found = || find_below(dir.path(), is_markdown) == Search::Found;
        fs::create_dir_all(dir.path().join(".git")).unwrap();
        fs::write(dir.path().join(".git/a.md"), "").unwrap();
        assert!(!found());
        fs::create_dir_all(dir.path().join("docs/guide")).unwrap();
        fs::write(dir.path().join("docs/guide/A.MD"), "").unwrap();
        assert!(found());
        assert_eq!(find_within(dir.path(), is_markdown, MAX_DEPTH, &mut 2), Search::LimitReached);
        assert_eq!(find_within(dir.path(), is_markdown, 1, &mut 1000), Search::LimitReached);
        assert_eq!(find_within(dir.path(), is_git, MAX_DEPTH, &mut 1000), Search::Found);
        assert_eq!(find_within(&dir.path().join("docs"), is_git, MAX_DEPTH, &mut 1000), Search::NotFound);
    }

    #[test]
    fn a_folder_is_one_of_notes_unless_it_has_no_markdown_or_has_work_trees() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(content(dir.path()), Content::Folder(Folder::Plain));
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/n.md"), "").unwrap();
        assert_eq!(content(dir.path()), Content::Notes);
        fs::create_dir_all(dir.path().join("1/2/3/4/.git")).unwrap();
        assert_eq!(content(dir.path()), Content::Folder(Folder::Plain), "one deeper than the search");
        fs::remove_dir_all(dir.path().join("1")).unwrap();
        assert_eq!(content(dir.path()), Content::Notes);
        fs::write(dir.path().join("a/b/.git"), "gitdir: /nowhere\n").unwrap();
        assert_eq!(content(dir.path()), Content::Folder(Folder::Plain));
    }

    #[test]
    fn a_repository_and_the_parts_of_its_work_tree_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        for directory in [".git/objects", ".git/refs", "docs"] {
            fs::create_dir_all(dir.path().join(directory)).unwrap();
        }
        fs::write(dir.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        fs::write(dir.path().join("docs/a.md"), "").unwrap();
        let repository = Content::Repository { repository: Repository::Own, has_work_tree: true };
        assert_eq!(content(dir.path()), repository);
        assert_eq!(content(&dir.path().join("docs")), Content::Folder(Folder::PartOfWorkTree));
        let bare = Content::Repository { repository: Repository::Own, has_work_tree: false };
        assert_eq!(content(&dir.path().join(".git")), bare);
    }

    #[test]
    fn bare_repositories_below_are_found_by_their_contents() {
        let dir = tempfile::tempdir().unwrap();
        for directory in
            ["backups/site/objects", "backups/site/refs", "backups/almost/refs", "own/.git/refs", "own/.git/objects"]
        {
            fs::create_dir_all(dir.path().join(directory)).unwrap();
        }
        for head in ["backups/site/HEAD", "backups/almost/HEAD", "own/.git/HEAD"] {
            fs::write(dir.path().join(head), "ref: refs/heads/main\n").unwrap();
        }
        assert_eq!(bare_repositories(dir.path()), ["backups/site"]);
        assert_eq!(bare_repositories(&dir.path().join("absent")), Vec::<String>::new());
    }

    #[test]
    fn a_database_is_known_by_its_first_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("shop.db");
        for (bytes, expected) in
            [(b"SQLite format 3\0...".as_slice(), Some(Content::Database)), (b"SQLite format 3", None), (b"", None)]
        {
            fs::write(&file, bytes).unwrap();
            assert_eq!(Content::of(&file).unwrap(), expected);
        }
        assert_eq!(Content::Database.name(&file), "shop");
    }
}
