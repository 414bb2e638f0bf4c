//! The content of a path: a repository, a folder, or a database.

use std::fs::{self, DirEntry, File};
use std::io::{self, Read as _};
use std::path::Path;

use super::repository::{Repository, has_work_tree, is_repository};

/// The maximum depth of the search for Markdown files.
pub(super) const MAX_DEPTH: usize = 3;
/// The maximum number of directory entries that the search visits.
pub(super) const MAX_ENTRIES: usize = 10_000;
/// The first bytes of a database of SQLite.
const SQLITE: &[u8; 16] = b"SQLite format 3\0";
/// The maximum length of a name from a path. The name of a plugin adds a prefix and a number, and has at most 64
/// characters.
const MAX_NAME: usize = 40;

/// The content of a path.
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

/// The source of ignore rules for a folder of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// The folder may contain some.
    Plain,
    /// The folder is the root of a work tree, which has all of them.
    WorkTree,
    /// The folder is a part of a work tree: directories above may have some.
    PartOfWorkTree,
}

impl Content {
    /// Examines a path. `None` if it cannot be served.
    pub(super) fn of(path: &Path) -> io::Result<Option<Self>> {
        let metadata = fs::metadata(path)?;
        if metadata.is_dir() {
            // A directory that cannot be listed is an error now, rather than an empty folder later.
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
        // The directory may contain work trees, and `.git` may refer to a repository that cannot be found.
        let is_notes = find_below(dir, is_markdown) == Search::Found && find_below(dir, is_git) == Search::NotFound;
        if is_notes { Self::Notes } else { Self::Folder(Folder::Plain) }
    }

    /// The directory that is granted in addition to the path.
    pub(super) fn granted_beside(&self) -> Option<&Path> {
        match self {
            Self::Repository { repository: Repository::Elsewhere(shared), .. } => Some(shared),
            _ => None,
        }
    }

    /// The name of the content at this path, as the host of a URI.
    pub(super) fn name(&self, path: &Path) -> String {
        let name = if *self == Self::Database { path.file_stem() } else { path.file_name() };
        host_name(&name.unwrap_or_default().to_string_lossy())
    }
}

/// The name of a directory as the host of a URI: lower-case letters, digits and `-`.
fn host_name(name: &str) -> String {
    let name = name.to_ascii_lowercase();
    let plain: String = name
        .chars()
        .take(MAX_NAME)
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' })
        .collect();
    let plain = plain.trim_matches('-');
    if plain.is_empty() { "project".to_owned() } else { plain.to_owned() }
}

/// Whether the file has the header of an SQLite database.
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

/// The relative paths of bare repositories below a directory, within the search limits of Markdown files. The configs
/// of repositories may have passwords in URLs. A repository without `.git` in its name can be recognized only by its
/// contents.
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

/// Searches a directory and its subdirectories for a matching entry. Skips hidden directories.
fn find_below(dir: &Path, is_wanted: fn(&DirEntry) -> bool) -> Search {
    let mut left = MAX_ENTRIES;
    find_within(dir, is_wanted, MAX_DEPTH, &mut left)
}

/// Searches within this depth and number of entries.
fn find_within(dir: &Path, is_wanted: fn(&DirEntry) -> bool, depth: usize, left: &mut usize) -> Search {
    // A directory that cannot be read may contain the entry.
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

/// Whether an entry is a Markdown file and not hidden.
fn is_markdown(entry: &DirEntry) -> bool {
    let extension = entry.path().extension().map(|extension| extension.to_ascii_lowercase());
    let is_named = extension.is_some_and(|extension| extension == "md" || extension == "markdown");
    is_named && !is_hidden(entry) && entry.file_type().is_ok_and(|kind| kind.is_file())
}

/// Whether an entry is a repository, or refers to one.
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

    #[test]
    fn a_name_is_valid_as_a_host_whatever_the_directory_is_called() {
        for (directory, name) in
            [("linux", "linux"), ("My \"Notes\"", "my--notes"), ("..x", "x"), ("ノート", "project"), ("", "project")]
        {
            assert_eq!(host_name(directory), name);
        }
        assert_eq!(host_name(&"a".repeat(200)).len(), MAX_NAME);
    }
}
