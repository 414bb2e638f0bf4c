//! Serving files and directories of this machine with `init` and `serve PATH…`: the plugins for each path, and their
//! config.
//!
//! | found at a path | plugins |
//! |---|---|
//! | the root of a git repository with a work tree, which may be a linked worktree or a submodule | `git` and `files` |
//! | a bare git repository | `git` |
//! | a directory with a Markdown file, at most [`MAX_DEPTH`](contents::MAX_DEPTH) directories deep, among the first [`MAX_ENTRIES`](contents::MAX_ENTRIES) entries | `notes` |
//! | any other directory; one with Markdown files that is a part of a work tree, or has one below | `files` |
//! | a database of SQLite | `database` |
//!
//! A work tree contains files that must not be published: build output, dependencies, secrets. Git ignores these, and
//! so does the provider `files`; the provider `notes` would serve them.
//!
//! Each plugin has read access to its path only. For a linked worktree or a submodule, `git` also has read access to
//! the repository, if that [leads back](repository) to the path. All plugins are searched, except `git` beside `files`,
//! which has the same text. A rule denies [files with secrets](denied).

mod components;
mod contents;
mod denied;
mod plugin;
mod render;
mod repository;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{CommandError, EXIT_USAGE};

pub(super) use self::components::Components;
use self::contents::{Content, Folder};
use self::plugin::ServedPlugin;
pub(super) use self::render::ConfigPlace;

/// Why a path cannot be served.
#[derive(Debug, thiserror::Error)]
pub(super) enum ServedPathError {
    /// The path cannot be opened.
    #[error("`{}` cannot be served: {source}", path.display())]
    Open {
        /// The path, as it was written.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is another kind of file.
    #[error("`{}` is neither a directory nor a database of SQLite", path.display())]
    OtherFile {
        /// The path, as it was written.
        path: PathBuf,
    },
    /// The path contains all files of the user, or of the machine.
    #[error("`{}` {}", path.display(), if *.is_home { "is the home directory: it has keys, passwords and sessions of programs" } else { "has the home directories of this machine" })]
    Broad {
        /// The path, as it was written.
        path: PathBuf,
        /// Whether the path is the home directory of the user.
        is_home: bool,
    },
}

impl CommandError for ServedPathError {
    fn exit_code(&self) -> u8 {
        EXIT_USAGE
    }

    fn help(&self) -> Option<String> {
        match self {
            Self::Open { source, path } if source.kind() == io::ErrorKind::NotFound => {
                let relative = if path.is_relative() { "; a relative path starts from the current directory" } else { "" };
                Some(format!("name a directory or a database that exists, such as `.` for the current directory{relative}"))
            }
            Self::Open { .. } => None,
            Self::OtherFile { path } if path.extension().is_some_and(|extension| extension == "toml") => {
                Some(format!("if it is a config: `mcp-host serve --config {}`", path.display()))
            }
            Self::OtherFile { .. } => Some(
                "of files, databases of SQLite are served by themselves; put any other into a directory with nothing but what clients \
                 may read, and name that"
                    .to_owned(),
            ),
            Self::Broad { .. } => Some("name a directory below it; or add `--yes` to serve all of it".to_owned()),
        }
    }
}

/// Paths, and the plugins that serve them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedPaths {
    /// The name of the server.
    name: String,
    plugins: Vec<ServedPlugin>,
}

impl ServedPaths {
    /// Examines these paths. A path that is given twice counts once.
    ///
    /// # Errors
    ///
    /// A path cannot be served, or is broad and `accepts_broad` is not set.
    pub(super) fn find(paths: &[PathBuf], accepts_broad: bool) -> Result<Self, ServedPathError> {
        let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
        let (mut known, mut contents) = (BTreeSet::new(), Vec::new());
        for path in paths {
            let canonical =
                path.canonicalize().map_err(|source| ServedPathError::Open { path: path.clone(), source })?;
            if !accepts_broad && is_broad(&canonical, home.as_deref()) {
                let is_home = home.as_ref() == Some(&canonical);
                return Err(ServedPathError::Broad { path: path.clone(), is_home });
            }
            let content =
                Content::of(&canonical).map_err(|source| ServedPathError::Open { path: path.clone(), source })?;
            let content = content.ok_or_else(|| ServedPathError::OtherFile { path: path.clone() })?;
            if let Some(elsewhere) = content.granted_beside().and_then(|dir| dir.canonicalize().ok())
                && !accepts_broad
                && is_broad(&elsewhere, home.as_deref())
            {
                let is_home = home.as_ref() == Some(&elsewhere);
                return Err(ServedPathError::Broad { path: elsewhere, is_home });
            }
            if known.insert(canonical.clone()) {
                contents.push((canonical, content));
            }
        }
        Ok(Self::of(contents))
    }

    /// The plugins for these contents.
    fn of(contents: Vec<(PathBuf, Content)>) -> Self {
        let names = unique_names(contents.iter().map(|(path, content)| content.name(path)));
        let name = match names.as_slice() {
            [name] => name.clone(),
            _ => "mcp-host".to_owned(),
        };
        let named = names.into_iter().zip(contents);
        let mut plugins: Vec<_> =
            named.flat_map(|(name, (path, content))| plugin::plugins_of(&name, &path, content)).collect();
        plugin::distinguish(&mut plugins);
        Self { name, plugins }
    }

    /// The name of the server.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The distinct names of the providers.
    pub(super) fn providers(&self) -> BTreeSet<&'static str> {
        self.plugins.iter().map(ServedPlugin::provider).collect()
    }

    /// The name of each plugin, its mount, and its path.
    pub(super) fn rows(&self) -> impl Iterator<Item = (&str, &str, &Path)> {
        self.plugins.iter().map(|plugin| (plugin.name.as_str(), plugin.mount.as_str(), plugin.path.as_path()))
    }

    /// The name and the repository of each plugin whose repository is outside its path.
    pub(super) fn repositories_elsewhere(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.plugins.iter().filter_map(|plugin| Some((plugin.name.as_str(), plugin.repository_elsewhere()?)))
    }

    /// The warnings for the user before clients see the files.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let parts = self.plugins.iter().filter(|plugin| plugin.folder() == Some(Folder::PartOfWorkTree));
        parts.map(|plugin| {
            format!(
                "{} is part of a git repository, and the rules of `.gitignore` files above it do not apply: to exclude \
                 files, add a file `.ignore` to it",
                plugin.path.display()
            )
        })
    }
}

/// Whether a directory is the home directory, or contains it.
fn is_broad(path: &Path, home: Option<&Path>) -> bool {
    path.parent().is_none() || home.is_some_and(|home| home.starts_with(path))
}

/// Makes the names unique by appending numbers.
fn unique_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut taken = Vec::new();
    for name in names {
        let numbered = (2_usize..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        taken.push(free.unwrap_or(name));
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_and_what_has_the_home_directory_is_broad() {
        let home = Some(Path::new("/home/ada"));
        for path in ["/", "/home", "/home/ada"] {
            assert!(is_broad(Path::new(path), home), "{path}");
        }
        assert!(is_broad(Path::new("/"), None));
        for path in ["/home/ada/notes", "/home/adam", "/srv"] {
            assert!(!is_broad(Path::new(path), home), "{path}");
        }
    }

    #[test]
    fn a_path_that_is_named_twice_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        let paths = [dir.path().to_owned(), dir.path().join(".")];
        assert_eq!(ServedPaths::find(&paths, false).unwrap().plugins.len(), 1);
    }

    #[test]
    fn what_is_no_directory_and_no_database_is_refused_with_what_to_name() {
        let dir = tempfile::tempdir().unwrap();
        for (name, help) in
            [("a.md", "databases of SQLite are served by themselves"), ("team.toml", "mcp-host serve --config ")]
        {
            let file = dir.path().join(name);
            std::fs::write(&file, "x").unwrap();
            let error = ServedPaths::find(&[file], false).unwrap_err();
            assert!(matches!(error, ServedPathError::OtherFile { .. }), "{error}");
            assert!(error.help().unwrap().contains(help), "{error}");
        }
        let absent = ServedPaths::find(&[dir.path().join("absent")], false).unwrap_err();
        assert!(absent.help().unwrap().contains("such as `.`"), "{absent}");
        assert!(absent.to_string().contains("absent` cannot be served: No such file"), "{absent}");
    }

    #[test]
    fn names_that_are_the_same_are_numbered() {
        let names = ["a", "b", "a", "a-2", "a"].map(str::to_owned);
        assert_eq!(unique_names(names.into_iter()), ["a", "b", "a-2", "a-2-2", "a-3"]);
    }
}
