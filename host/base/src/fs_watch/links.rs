//! Symbolic links on the way to a path.
//!
//! The operating system reports events by inode. Retargeting a link is an event of its parent directory, not
//! of its target. So this module finds each link on the way, starting at the root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The maximum number of links on a path.
const MAX_LINKS: usize = 40;

/// A path with its links resolved.
pub(super) struct Resolved {
    /// Each link on the way, at its own path, with its target as stored.
    pub(super) links: BTreeMap<PathBuf, PathBuf>,
    /// The path with the links replaced by their targets.
    pub(super) path: PathBuf,
}

impl Resolved {
    /// Follows the links of a path. Components that do not exist are not links.
    pub(super) fn new(path: &Path) -> Self {
        let mut found = Self { links: BTreeMap::new(), path: path.to_owned() };
        for _ in 0..MAX_LINKS {
            // The first link on the way, starting at the root.
            let mut prefixes: Vec<_> = found.path.ancestors().collect();
            prefixes.reverse();
            let link = prefixes.into_iter().find_map(|prefix| Some((prefix, prefix.read_link().ok()?)));
            let Some((link, target)) = link else { break };
            let rest = found.path.strip_prefix(link).unwrap_or(Path::new(""));
            let leads_to = directory_of(link).join(&target);
            // Joining an empty path would add a trailing slash.
            let path = if rest.as_os_str().is_empty() { leads_to } else { leads_to.join(rest) };
            found.links.insert(link.to_owned(), target);
            found.path = path;
        }
        found
    }
}

/// Returns the directory that contains a link.
pub(super) fn directory_of(link: &Path) -> &Path {
    link.parent().unwrap_or(Path::new("/"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn each_link_on_the_way_is_found_with_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("v1/data")).unwrap();
        symlink("v1", root.join("current")).unwrap();
        symlink(root.join("current/data"), root.join("data")).unwrap();
        let found = Resolved::new(&root.join("data/a"));
        let links = [(root.join("current"), "v1".into()), (root.join("data"), root.join("current/data"))];
        assert_eq!((found.links, found.path), (links.into(), root.join("v1/data/a")));
    }

    #[test]
    fn links_that_lead_in_a_circle_have_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        let links = Resolved::new(&root.join("a")).links;
        assert_eq!(links.into_keys().collect::<Vec<_>>(), [root.join("a"), root.join("b")]);
    }
}
