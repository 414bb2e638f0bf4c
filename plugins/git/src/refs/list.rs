//! All refs of a repository, in the order of their names.

use crate::error::Result;
use crate::files;
use crate::refs::{MOST_BYTES, OF_THE_WORKTREE, Reference, Refs};
use bstr::BString;
use std::collections::BTreeMap;

/// How many refs are listed.
pub(crate) const MOST_REFS: usize = 100_000;

/// How deep refs stand in directories.
const DEEPEST: usize = 64;

/// All refs of a repository below `refs/`, in the order of their names.
pub(crate) struct List {
    /// The refs.
    pub(crate) refs: Vec<Reference>,
    /// Whether there are more than [`MOST_REFS`], which were left out.
    pub(crate) more: bool,
}

impl Refs<'_> {
    /// All refs below `refs/`. A ref that is damaged is left out with a warning.
    pub(crate) fn list(&self) -> Result<List> {
        let mut refs = BTreeMap::new();
        let mut more = false;
        // Of a ref in both places, its own file counts, which comes first.
        let mut add = |reference: Result<Reference>| match reference {
            Ok(reference) if refs.contains_key(&reference.name) => {}
            Ok(reference) if refs.len() < MOST_REFS => {
                refs.insert(reference.name.clone(), reference);
            }
            Ok(_) => more = true,
            Err(error) => log::warn!("a ref is left out: {error}"),
        };
        self.loose(|name, content| add(self.parse(name.as_ref(), &content)))?;
        if let Some(packed) = self.packed()? {
            packed.iter().for_each(&mut add);
        }
        Ok(List { refs: refs.into_values().collect(), more })
    }

    /// The name and content of every file of a ref, in no order.
    pub(crate) fn loose(&self, mut take: impl FnMut(BString, Vec<u8>)) -> Result<()> {
        let mut taken = 0usize;
        let mut directories = vec![("refs".to_owned(), 0usize)];
        while let Some((directory, depth)) = directories.pop() {
            // Links to directories are not followed, so there is no way round and round.
            for file in files::list(&self.directory(format!("{directory}/").as_str().into()).join(&directory))? {
                let name = format!("{directory}/{}", file.name);
                if file.is_directory {
                    if depth < DEEPEST {
                        directories.push((name, depth.saturating_add(1)));
                    }
                } else if super::is_valid(name.as_str().into())
                    && taken < MOST_REFS
                    && let Some(content) = self.content(&name)
                {
                    taken = taken.saturating_add(1);
                    take(name.into(), content);
                }
            }
            if directory == "refs" && self.layout.git_dir != self.layout.common_dir {
                directories.extend(OF_THE_WORKTREE.map(|name| (name.trim_end_matches('/').to_owned(), 1)));
            }
        }
        Ok(())
    }

    fn content(&self, name: &str) -> Option<Vec<u8>> {
        let path = self.path(name.into())?;
        files::read(&path, MOST_BYTES).unwrap_or_else(|error| {
            log::warn!("a ref is left out: {error}");
            None
        })
    }
}
