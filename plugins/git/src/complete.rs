//! Completion of revisions and paths.

use crate::error::{Error, Result};
use crate::paths;
use crate::repo::Repository;
use crate::settings::Settings;
use bstr::{BStr, ByteSlice};
use mcp_provider::{Argument, Completion};

/// The maximum number of directory entries to search.
const MAX_ENTRIES: usize = 100_000;

/// Completes a variable of one of the provider's templates.
pub(crate) fn complete(
    repository: &Repository,
    settings: &Settings,
    template: &str,
    argument: &Argument,
    known: &[Argument],
) -> Result<Completion> {
    let typed = argument.value.as_str();
    match argument.name.as_str() {
        "rev" | "a" | "b" => Ok(Completion::matching(revisions(repository, settings)?, typed)),
        "path" => {
            let rev =
                known.iter().find(|known| matches!(known.name.as_str(), "rev" | "b")).map(|known| known.value.as_str());
            let rev = rev.map_or_else(|| settings.default_rev(), Into::into);
            match names(repository, rev.as_ref(), template, typed) {
                Ok(names) => Ok(Completion::matching(names, typed)),
                // A directory or revision that does not exist has no candidates.
                Err(Error::NotFound | Error::Ambiguous { .. }) => Ok(Completion::matching(Vec::<String>::new(), typed)),
                Err(error) => Err(error),
            }
        }
        _ => Ok(Completion::default()),
    }
}

/// Returns the names of all revisions: the default first, then branches, tags, and remote branches. Each name has its
/// shortest unambiguous form: a branch that is shadowed by a tag is prefixed with `heads/`.
fn revisions(repository: &Repository, settings: &Settings) -> Result<Vec<String>> {
    let names = repository.refs().names()?;
    let names: Vec<&str> = names.iter().filter_map(|name| name.to_str().ok()).collect();
    let below = |prefix: &'static str| names.iter().filter_map(move |name| name.strip_prefix(prefix));
    let default = settings.default_rev().to_string();
    let mut revisions = vec![default.clone()];
    revisions.extend((default != "HEAD").then(|| "HEAD".to_owned()));
    let is_tag = |name: &str| names.binary_search(&format!("refs/tags/{name}").as_str()).is_ok();
    let branch = |name: &str| if is_tag(name) { format!("heads/{name}") } else { name.to_owned() };
    revisions.extend(below("refs/heads/").map(branch).filter(|name| *name != default));
    revisions.extend(below("refs/tags/").map(str::to_owned).filter(|name| *name != default));
    revisions.extend(below("refs/remotes/").map(str::to_owned).filter(|name| *name != default));
    Ok(revisions)
}

/// Returns whether expanding `{+path}` with a name gives the right path: reserved characters are copied verbatim (RFC
/// 6570, section 3.2.3). Files with other names are found by listing.
fn is_expandable(name: &str) -> bool {
    !name.contains(['%', '?', '#', '[', ']'])
}

/// Returns the entries that start with the last component of `typed`, in the directory named by the other components.
/// Directories end with a slash.
fn names(repository: &Repository, rev: &BStr, template: &str, typed: &str) -> Result<Vec<String>> {
    let (directory, beginning) = match typed.rsplit_once('/') {
        // No path starts with a slash.
        Some(("", _)) => return Err(Error::NotFound),
        Some((directory, rest)) => (directory, rest),
        None => ("", typed),
    };
    let prefix = typed.strip_suffix(beginning).unwrap_or_default();
    let tree = repository.tree_of(repository.rev(rev)?.id)?;
    let found =
        repository.entry(tree, directory.into())?.filter(|found| found.mode.is_tree()).ok_or(Error::NotFound)?;
    let directories_only = template == paths::TREE;
    let mut names = Vec::new();
    for entry in repository.entries(&found.id)?.take(MAX_ENTRIES) {
        let entry = entry?;
        let is_tree = entry.mode.is_tree();
        match entry.name.to_str() {
            Ok(name) if name.starts_with(beginning) && is_expandable(name) && (is_tree || !directories_only) => {
                names.push(format!("{prefix}{name}{}", if is_tree { "/" } else { "" }));
            }
            _ => {}
        }
    }
    Ok(names)
}
