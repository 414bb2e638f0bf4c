//! The git repository of a directory: the place of its objects and references (`gitrepository-layout`).

use std::path::{Component, Path, PathBuf};

use mcp_host_base::regular_file;

/// The maximum size of a file that refers to a directory, in bytes.
const MAX_LINK_BYTES: usize = 8 * 1024;
/// The maximum size of a repository's config, in bytes.
const MAX_CONFIG_BYTES: usize = 256 * 1024;

/// The layout of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Repository {
    /// The directory itself: it has a directory `.git`, or is a bare repository.
    Own,
    /// Another directory, to which the file `.git` of a submodule or of a linked worktree refers.
    Elsewhere(PathBuf),
}

impl Repository {
    /// Returns the layout of the repository in `dir`; `None` if there is no repository.
    ///
    /// A downloaded folder may have a file `.git` that refers to any repository of the user. So the file counts only if
    /// its target [leads back](leads_back) to the directory, as git writes it for worktrees and submodules.
    pub(super) fn find(dir: &Path) -> Option<Self> {
        let dot_git = dir.join(".git");
        if is_repository(&dot_git) || is_repository(dir) {
            return Some(Self::Own);
        }
        let git_dir = lexically_normal(&dir.join(read_link_file(&dot_git, "gitdir: ")?));
        // A linked worktree has only its `HEAD` and its index here; the rest is in the common directory.
        let shared = match read_link_file(&git_dir.join("commondir"), "") {
            Some(common) => lexically_normal(&git_dir.join(common)),
            None => git_dir.clone(),
        };
        (is_repository(&shared) && leads_back(dir, &git_dir, &shared)).then_some(Self::Elsewhere(shared))
    }

    /// Whether `dir` lies in the work tree of a repository with its root in a directory above.
    pub(super) fn is_above(dir: &Path) -> bool {
        dir.ancestors().skip(1).any(|above| has_work_tree(above) && Self::find(above).is_some())
    }
}

/// Whether a repository in `dir` has its work tree there: a bare repository has none.
pub(super) fn has_work_tree(dir: &Path) -> bool {
    dir.join(".git").symlink_metadata().is_ok()
}

/// Whether the directory has the objects and references of a repository.
pub(super) fn is_repository(dir: &Path) -> bool {
    dir.join("HEAD").symlink_metadata().is_ok() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
}

/// Whether the target of a file `.git` in `dir` belongs to a worktree or a submodule in `dir`:
///
/// - for a linked worktree, the target is in `worktrees` of the repository, and its file `gitdir` has `DIR/.git`;
/// - for a submodule, the target's config has `core.worktree`, which is `dir`.
fn leads_back(dir: &Path, git_dir: &Path, shared: &Path) -> bool {
    let same = |a: &Path, b: &Path| matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if git_dir == shared {
        return work_tree_of(&git_dir.join("config")).is_some_and(|tree| same(&git_dir.join(tree), dir));
    }
    let Some(dot_git) = read_link_file(&git_dir.join("gitdir"), "").map(|path| git_dir.join(path)) else {
        return false;
    };
    let is_of_dir = dot_git.ends_with(".git") && dot_git.parent().is_some_and(|tree| same(tree, dir));
    // The file `commondir` of a forged worktree could refer to another repository, but that repository does not have
    // this worktree.
    let worktrees = git_dir.canonicalize().ok().and_then(|real| real.parent().map(Path::to_owned));
    is_of_dir && worktrees.is_some_and(|worktrees| same(&worktrees, &shared.join("worktrees")))
}

/// `core.worktree` of a config in git's own notation: one section, one key per line.
fn work_tree_of(config: &Path) -> Option<PathBuf> {
    let bytes = regular_file::read(config, MAX_CONFIG_BYTES).ok().filter(|bytes| bytes.len() <= MAX_CONFIG_BYTES)?;
    let text = String::from_utf8(bytes).ok()?;
    let (mut is_core, mut tree) = (false, None);
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_core = line.eq_ignore_ascii_case("[core]");
        } else if let Some((key, value)) = line.split_once('=').filter(|_| is_core)
            && key.trim().eq_ignore_ascii_case("worktree")
        {
            // Git quotes a path with a character that begins a comment.
            let value = value.trim();
            tree = Some(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value).into());
        }
    }
    tree
}

/// Reads a file that has a path after a prefix.
fn read_link_file(file: &Path, prefix: &str) -> Option<PathBuf> {
    let bytes = regular_file::read(file, MAX_LINK_BYTES).ok().filter(|bytes| bytes.len() <= MAX_LINK_BYTES)?;
    let text = String::from_utf8(bytes).ok()?;
    let path = text.strip_prefix(prefix)?.trim_end_matches(['\n', '\r']);
    (!path.is_empty()).then(|| path.into())
}

/// Normalizes an absolute path lexically, without resolving links, as the provider `git` does.
fn lexically_normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, component| {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            component => plain.push(component),
        }
        plain
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn repository(dir: &Path) {
        fs::create_dir_all(dir.join("objects")).unwrap();
        fs::create_dir_all(dir.join("refs")).unwrap();
        fs::write(dir.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    }

    #[test]
    fn a_work_tree_with_its_repository_and_a_bare_one_are_found() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(Repository::find(parent.path()), None);
        let (plain, bare) = (parent.path().join("plain"), parent.path().join("bare.git"));
        repository(&plain.join(".git"));
        repository(&bare);
        assert_eq!(Repository::find(&plain), Some(Repository::Own));
        assert_eq!(Repository::find(&bare), Some(Repository::Own));
    }

    #[test]
    fn a_directory_of_a_work_tree_has_its_repository_above() {
        let parent = tempfile::tempdir().unwrap();
        let (plain, bare) = (parent.path().join("plain"), parent.path().join("bare.git"));
        repository(&plain.join(".git"));
        repository(&bare);
        assert!(Repository::is_above(&plain.join("docs/guide")) && !Repository::is_above(&plain));
        assert!(!Repository::is_above(&bare.join("hooks")));
    }

    #[test]
    fn a_linked_worktree_and_a_submodule_have_it_elsewhere() {
        let parent = tempfile::tempdir().unwrap();
        let (main, linked) = (parent.path().join("main/.git"), parent.path().join("linked"));
        repository(&main);
        let own = main.join("worktrees/linked");
        fs::create_dir_all(&own).unwrap();
        fs::write(own.join("commondir"), "../..\n").unwrap();
        fs::create_dir(&linked).unwrap();
        assert_eq!(Repository::find(&linked), None, "no file yet");
        fs::write(own.join("gitdir"), format!("{}\n", linked.join(".git").display())).unwrap();
        for written in [own.to_str().unwrap(), "../main/.git/worktrees/linked"] {
            fs::write(linked.join(".git"), format!("gitdir: {written}\n")).unwrap();
            assert_eq!(Repository::find(&linked), Some(Repository::Elsewhere(main.clone())));
        }
        let module = main.join("modules/part");
        repository(&module);
        fs::write(module.join("config"), "[core]\n\tbare = false\n\tworktree = ../../../../linked\n").unwrap();
        fs::write(linked.join(".git"), "gitdir: ../main/.git/modules/part\n").unwrap();
        assert_eq!(Repository::find(&linked), Some(Repository::Elsewhere(module)));
    }

    #[test]
    fn a_file_that_names_a_repository_of_another_directory_is_none() {
        let parent = tempfile::tempdir().unwrap();
        let (private, folder) = (parent.path().join("private/.git"), parent.path().join("downloaded"));
        repository(&private);
        let made_up = folder.join("fake");
        fs::create_dir_all(&made_up).unwrap();
        fs::create_dir_all(private.join("worktrees/other")).unwrap();
        fs::write(private.join("worktrees/other/gitdir"), "/elsewhere/.git\n").unwrap();
        fs::write(private.join("worktrees/other/commondir"), "../..\n").unwrap();
        fs::write(private.join("config"), "[core]\n\tworktree = ../../private\n[x]\n\tworktree = ../../downloaded\n")
            .unwrap();
        fs::write(made_up.join("gitdir"), format!("{}\n", folder.join(".git").display())).unwrap();
        fs::write(made_up.join("commondir"), "../../private/.git\n").unwrap();
        for written in ["../private/.git", "../private/.git/worktrees/other", "fake"] {
            fs::write(folder.join(".git"), format!("gitdir: {written}\n")).unwrap();
            assert_eq!(Repository::find(&folder), None, "{written}");
        }
    }

    #[test]
    fn a_file_that_leads_to_no_repository_is_none() {
        let dir = tempfile::tempdir().unwrap();
        for content in ["", "gitdir: \n", "gitdir: /nowhere/at/all\n", "elsewhere\n"] {
            fs::write(dir.path().join(".git"), content).unwrap();
            assert_eq!(Repository::find(dir.path()), None, "{content:?}");
        }
    }
}
