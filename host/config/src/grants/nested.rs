//! Grants below a directory that a plugin may write to.
//!
//! Such a plugin can replace a part of the grant's path by a symbolic link. A host that followed the link would open
//! any directory or database of the machine. So a host opens the path in two steps: the outermost writable directory,
//! whose path no plugin can change, and the rest beneath it, without following links. [`Config::find_nested_grants`]
//! finds these two parts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{Grants, Mode, SqlUrl};
use crate::{Config, Plugin};

/// The maximum number of symbolic links on a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The paths of a plugin's grants that lie below a writable directory, by the path in the config.
pub type NestedPaths = BTreeMap<PathBuf, NestedPath>;

/// The path of a grant below a directory that a plugin may write to, in two parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestedPath {
    /// The outermost directory that a plugin may write to, by its path in the config.
    pub writable: PathBuf,
    /// The rest of the path, relative to that directory.
    pub rest: PathBuf,
}

impl Config {
    /// Sets [`Grants::nested`] of all plugins. [`load`](Self::load) and a host do this for their config.
    ///
    /// It is empty for an upstream, because another process opens its directories.
    pub fn find_nested_grants(&mut self) {
        let writable = WritableDirs::of(&self.plugins);
        for plugin in self.plugins.iter_mut() {
            plugin.grants.nested = match plugin.upstream {
                Some(_) => NestedPaths::new(),
                None => writable.nested_in(&plugin.grants),
            };
        }
    }
}

/// The outermost directories that plugins may write to: the path without links, and the path in the config.
pub(crate) struct WritableDirs(BTreeMap<PathBuf, PathBuf>);

impl WritableDirs {
    /// Finds the writable directories of these plugins that do not lie below another one.
    pub(crate) fn of(plugins: &[Plugin]) -> Self {
        let grants = plugins.iter().flat_map(|plugin| plugin.grants.dirs.values());
        let hosts = grants.filter(|grant| grant.mode != Mode::ReadOnly).map(|grant| grant.host.clone());
        let walks = hosts.map(|host| (Walk::of(&host), host));
        // A plugin can link a writable directory below another one to a directory above both. This must not make the
        // outermost one look like one below.
        let mut candidates: Vec<_> = walks.filter(|(walk, _)| !walk.leads_through_itself()).collect();
        let mut outermost = Self(BTreeMap::new());
        // A directory below an outermost directory is excluded, and so are the paths that lead through it: a plugin may
        // have replaced it by a link.
        while !candidates.is_empty() {
            let every = Self(candidates.iter().map(|(walk, host)| (walk.resolved.clone(), host.clone())).collect());
            let (found, rest): (Vec<_>, Vec<_>) =
                candidates.into_iter().partition(|(walk, _)| every.nested(walk).is_none());
            // Directories that are all below each other, by links. It is unknown which of the links a plugin has made,
            // so none is followed: these paths are opened from the root.
            if found.is_empty() {
                outermost.0.extend(rest.into_iter().map(|(walk, _)| (walk.resolved, PathBuf::from("/"))));
                break;
            }
            outermost.0.extend(found.into_iter().map(|(walk, host)| (walk.resolved, host)));
            candidates = rest.into_iter().filter(|(walk, _)| outermost.nested(walk).is_none()).collect();
        }
        outermost
    }

    fn nested_in(&self, grants: &Grants) -> NestedPaths {
        if self.0.is_empty() {
            return NestedPaths::new();
        }
        let dirs = grants.dirs.values().map(|grant| &grant.host);
        let files = grants.sql.values().filter_map(|grant| match &grant.url {
            SqlUrl::Sqlite(file) => Some(file),
            SqlUrl::Postgresql(_) => None,
        });
        dirs.chain(files).filter_map(|path| Some((path.clone(), self.nested(&Walk::of(path))?))).collect()
    }

    /// Divides a path where it enters a writable directory. `None` if it leads through none.
    pub(crate) fn nested(&self, walk: &Walk) -> Option<NestedPath> {
        walk.steps.iter().find_map(|step| {
            let writable = step.place.ancestors().skip(1).find_map(|dir| self.0.get(dir))?;
            // Below the root, the rest is the whole path.
            let step = if writable.parent().is_some() { step } else { walk.steps.first()? };
            Some(NestedPath { writable: writable.clone(), rest: step.rest.clone() })
        })
    }
}

/// Returns the directory entries that the kernel looks up to resolve a path, each a name in a directory without links.
/// Who may write to one of these directories can redirect the path.
#[doc(hidden)]
pub fn looked_up(path: &Path) -> Vec<PathBuf> {
    Walk::of(path).steps.into_iter().map(|step| step.place).collect()
}

/// The resolution of a path, as the kernel performs it.
pub(crate) struct Walk {
    /// The directory entries that were looked up, in order.
    pub(crate) steps: Vec<Step>,
    /// The path without links.
    pub(crate) resolved: PathBuf,
}

/// One look-up of a [`Walk`].
pub(crate) struct Step {
    /// The entry: a name in a directory without links.
    pub(crate) place: PathBuf,
    /// The part of the path that was not resolved before this step. It begins with the name of the entry.
    rest: PathBuf,
}

impl Walk {
    /// Resolves a path. An entry that does not exist counts as a directory.
    pub(crate) fn of(path: &Path) -> Self {
        let mut rest = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let (mut steps, mut resolved, mut links) = (Vec::new(), PathBuf::new(), 0_usize);
        loop {
            let mut components = rest.components();
            let Some(component) = components.next() else { break };
            let mut next = components.as_path().to_owned();
            match component {
                Component::Prefix(_) | Component::RootDir => resolved.push(component),
                Component::CurDir => {}
                Component::ParentDir => {
                    resolved.pop();
                }
                Component::Normal(name) => {
                    let place = resolved.join(name);
                    match fs::read_link(&place) {
                        Ok(target) if links < MAX_LINKS => {
                            links = links.saturating_add(1);
                            next = target.join(next);
                        }
                        _ => resolved.clone_from(&place),
                    }
                    steps.push(Step { place, rest: rest.clone() });
                }
            }
            rest = next;
        }
        Self { steps, resolved }
    }

    /// Returns whether the path leads through the directory that it names: who may write there can redirect it.
    fn leads_through_itself(&self) -> bool {
        self.steps.iter().any(|step| step.place != self.resolved && step.place.starts_with(&self.resolved))
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::grants::{DirGrant, DirQuota, SqlGrant};

    /// A config with one plugin for each of these directories and a database. The first `writable` are granted for
    /// writing.
    fn config(dirs: &[&Path], writable: usize, database: Option<&Path>) -> Config {
        let mut config = Config::new();
        for (index, host) in dirs.iter().enumerate() {
            let name = format!("p{index}");
            let mut plugin = Plugin::new(name.parse().unwrap(), "/p.wasm", format!("{name}:///").parse().unwrap());
            let mode = match index < writable {
                true => Mode::ReadWrite { quota: DirQuota::default() },
                false => Mode::ReadOnly,
            };
            plugin.grants.dirs.insert("/dir".parse().unwrap(), DirGrant { host: host.to_path_buf(), mode });
            if let Some(database) = database {
                plugin.grants.sql.insert("db".parse().unwrap(), SqlGrant::new(SqlUrl::Sqlite(database.to_owned())));
            }
            config.plugins.add(plugin).unwrap();
        }
        config.find_nested_grants();
        config
    }

    /// The nested path of the last plugin.
    fn nested(config: &Config, path: &Path) -> Option<NestedPath> {
        config.plugins.last().unwrap().grants.nested.get(path).cloned()
    }

    fn parts(writable: &Path, rest: &str) -> Option<NestedPath> {
        Some(NestedPath { writable: writable.to_owned(), rest: rest.into() })
    }

    #[test]
    fn a_path_below_a_writable_directory_is_divided_there() {
        let temp = tempfile::tempdir().unwrap();
        let dir = |name: &str| temp.path().join(name);
        fs::create_dir_all(dir("out/sub/deep")).unwrap();
        fs::create_dir(dir("out2")).unwrap();
        let (out, deep, database) = (dir("out"), dir("out/sub/deep"), dir("out/x.db"));
        let written = config(&[&out, &deep], 1, Some(&database));
        assert_eq!(nested(&written, &deep), parts(&out, "sub/deep"));
        assert_eq!(nested(&written, &database), parts(&out, "x.db"));
        assert!(!written.plugins[0].grants.nested.contains_key(&out), "the directory itself is not below it");
        let grants = &written.plugins[1].grants;
        let without = Grants { nested: NestedPaths::new(), ..grants.clone() };
        assert_eq!(format!("{grants:?}"), format!("{without:?}"), "it does not change the identity of a plugin");
        assert_eq!(nested(&config(&[&out, &deep], 0, None), &deep), None, "nobody may write");
        assert_eq!(nested(&config(&[&out, &dir("out2")], 1, None), &dir("out2")), None);
        // The outermost of several counts.
        let sub = dir("out/sub");
        for order in [[&out, &sub], [&sub, &out]] {
            let config = config(&[order[0], order[1], &deep], 2, None);
            assert_eq!(nested(&config, &deep), parts(&out, "sub/deep"));
        }
    }

    #[test]
    fn links_are_followed_up_to_the_writable_directory_and_what_a_plugin_links_there_changes_nothing() {
        let temp = tempfile::tempdir().unwrap();
        let dir = |name: &str| temp.path().join(name);
        for name in ["out/sub/deep", "outside/deep"] {
            fs::create_dir_all(dir(name)).unwrap();
        }
        symlink(dir("out"), dir("link")).unwrap();
        symlink("out/sub", dir("direct")).unwrap();
        let out = dir("out");
        for replaced in [false, true] {
            if replaced {
                fs::rename(dir("out/sub"), dir("out/moved")).unwrap();
                symlink("../outside", dir("out/sub")).unwrap();
            }
            for (path, rest) in
                [("out/sub/deep", "sub/deep"), ("link/sub/deep", "sub/deep"), ("direct/deep", "sub/deep")]
            {
                let config = config(&[&out, &dir(path)], 1, None);
                assert_eq!(nested(&config, &dir(path)), parts(&out, rest), "{path} {replaced}");
            }
            // What is below a linked directory is not below one that a plugin may write to.
            let other = config(&[&out, &dir("out/sub"), &dir("outside"), &dir("outside/deep")], 3, None);
            assert_eq!(nested(&other, &dir("outside/deep")), parts(&dir("outside"), "deep"), "{replaced}");
            // The writable directory itself may be named by a link.
            let config = config(&[&dir("link"), &dir("out/sub")], 1, None);
            assert_eq!(nested(&config, &dir("out/sub")), parts(&dir("link"), "sub"));
        }
    }

    #[test]
    fn a_link_from_a_writable_directory_to_one_above_does_not_hide_what_is_nested() {
        let temp = tempfile::tempdir().unwrap();
        let (out, sub) = (temp.path().join("out"), temp.path().join("out/sub"));
        fs::create_dir(&out).unwrap();
        for target in [".", "..", "/"] {
            symlink(target, &sub).unwrap();
            for order in [[&out, &sub], [&sub, &out]] {
                let config = config(&[order[0], order[1]], 2, None);
                let found =
                    |path: &Path| config.plugins.iter().find_map(|plugin| plugin.grants.nested.get(path).cloned());
                assert_eq!(found(&sub), parts(&out, "sub"), "{target}");
                assert_eq!(found(&out), None, "{target}");
            }
            fs::remove_file(&sub).unwrap();
        }
    }

    #[test]
    fn writable_directories_that_links_put_below_each_other_are_opened_without_following_any() {
        let temp = tempfile::tempdir().unwrap();
        let dir = |name: &str| temp.path().join(name);
        fs::create_dir_all(dir("data/one")).unwrap();
        fs::create_dir(dir("links")).unwrap();
        symlink("../data/one", dir("links/one")).unwrap();
        symlink("../../links", dir("data/one/sub")).unwrap();
        let paths = [dir("links/one"), dir("data/one/sub")];
        let config = config(&[&paths[0], &paths[1]], 2, None);
        for (plugin, path) in config.plugins.iter().zip(&paths) {
            let rest = path.strip_prefix("/").unwrap().to_str().unwrap();
            assert_eq!(plugin.grants.nested.get(path).cloned(), parts(Path::new("/"), rest));
        }
    }
}
