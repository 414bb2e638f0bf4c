//! The walk of a plugin's listing that finds directories which may be skills.

use std::collections::BTreeMap;
use std::time::Duration;

use mcp_host_config::UriGlob;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, Plugin};
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::{Mount, Uri};
use tokio::time::Instant;

use super::{MANIFEST, MAX_FILES, MAX_FOUND, MAX_TIME};

/// The maximum number of directories that a walk returns.
pub(crate) const PAGE: usize = 32;
/// The maximum number of pages of a plugin's listing that are searched for skills.
const MAX_PAGES: usize = 1024;
/// The requested number of entries per page.
const PAGE_SIZE: u32 = 1000;
/// The maximum number of directories above a file that may be skills, from the root.
const MAX_DEPTH: usize = 32;
/// The maximum number of nested skills that a file belongs to, from the outermost.
const MAX_NESTED: usize = 8;

/// A directory that may be a skill: its files.
#[derive(Debug, Default)]
pub(crate) struct Candidate {
    /// The first files in the order of their URIs, at most [`MAX_FILES`] + 1.
    pub(super) files: BTreeMap<Uri, ListedFile>,
    /// The number of files.
    pub(super) count: usize,
    /// The size of the URIs of `files`.
    bytes: usize,
    /// Whether the URIs alone exceed what a walk keeps.
    pub(super) is_too_large: bool,
}

/// The data of a file in a listing.
#[derive(Clone, Debug)]
pub(super) struct ListedFile {
    pub(super) modified: Option<Box<str>>,
    pub(super) size: Option<u64>,
    pub(super) ttl: Duration,
}

/// Why the skills of a plugin cannot be found.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FindError {
    /// Its listing fails.
    #[error("its listing fails: {0}")]
    Listing(#[from] Fault),
    /// The walk of its listing exceeds a bound.
    #[error("its listing is too long to find skills: more than {MAX_PAGES} pages or {} s", MAX_TIME.as_secs())]
    Bounds,
}

impl Candidate {
    /// Returns the URI of the manifest in a directory.
    pub(crate) fn manifest(&self, directory: &str) -> Option<&Uri> {
        let is_manifest = |uri: &&Uri| uri.as_str().strip_prefix(directory) == Some("/SKILL.md");
        self.files.keys().find(is_manifest)
    }
}

/// Returns the directory of a manifest: the URI without `/SKILL.md`.
pub(crate) fn directory_of(manifest: &str) -> Option<&str> {
    manifest.strip_suffix(MANIFEST)?.strip_suffix('/')
}

/// Returns whether the globs name a directory.
pub(crate) fn is_named(globs: &[UriGlob], directory: &str) -> bool {
    globs.iter().any(|glob| glob.matches(directory))
}

/// Returns the directories above a URI that the globs name, from the mount itself downwards: the lengths of
/// their URIs.
fn directories_above(globs: &[UriGlob], mount: &Mount, uri: &str) -> Vec<usize> {
    let begin = mount.as_str().len().saturating_sub(1);
    let slashes = uri.match_indices('/').map(|(index, _)| index).filter(|index| *index >= begin);
    let is_named = |length: &usize| uri.get(..*length).is_some_and(|directory| is_named(globs, directory));
    slashes.take(MAX_DEPTH).filter(is_named).take(MAX_NESTED).collect()
}

/// The directories that a walk looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted<'a> {
    /// All directories, or all after this one.
    After(Option<&'a str>),
    /// One directory.
    Only(&'a str),
}

impl Wanted<'_> {
    fn includes(self, directory: &str) -> bool {
        match self {
            Self::After(after) => after.is_none_or(|after| directory > after),
            Self::Only(only) => directory == only,
        }
    }
}

/// The directories that a walk found. Each may be a skill.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The directories by their URIs, in this order.
    pub(crate) candidates: BTreeMap<String, Candidate>,
    /// Whether there are more directories after them.
    pub(crate) has_more: bool,
    bytes: usize,
}

impl Found {
    /// Returns the last kept directory, if there is no room for later ones.
    fn end(&self) -> Option<&str> {
        self.candidates.last_key_value().filter(|_| self.candidates.len() >= PAGE).map(|(last, _)| last.as_str())
    }

    fn add(&mut self, directory: &str, uri: &Uri, file: &ListedFile) {
        if self.end().is_some_and(|end| directory > end) {
            self.has_more = true;
            return;
        }
        if !self.candidates.contains_key(directory) {
            self.candidates.insert(directory.to_owned(), Candidate::default());
            self.bytes = self.bytes.saturating_add(directory.len());
        }
        if let Some(candidate) = self.candidates.get_mut(directory) {
            candidate.count = candidate.count.saturating_add(1);
            if candidate.files.len() <= MAX_FILES && !candidate.is_too_large {
                let bytes = uri.as_str().len();
                candidate.bytes = candidate.bytes.saturating_add(bytes);
                self.bytes = self.bytes.saturating_add(bytes);
                candidate.files.insert(uri.clone(), file.clone());
            }
        }
        // A removed directory is not added again, because the end only moves forward.
        while self.candidates.len() > PAGE || (self.bytes > MAX_FOUND && self.candidates.len() > 1) {
            let Some((directory, candidate)) = self.candidates.pop_last() else { break };
            self.bytes = self.bytes.saturating_sub(directory.len()).saturating_sub(candidate.bytes);
            self.has_more = true;
        }
        if self.bytes > MAX_FOUND
            && let Some((directory, candidate)) = self.candidates.iter_mut().next()
        {
            candidate.files.retain(|uri, _| uri.as_str().strip_prefix(directory.as_str()) == Some("/SKILL.md"));
            candidate.is_too_large = true;
            self.bytes = self.bytes.saturating_sub(candidate.bytes);
            candidate.bytes = 0;
        }
    }
}

/// Finds the directories in the listing of a plugin that its globs name. `is_visible` decides which files are
/// visible.
pub(crate) async fn find(
    plugin: &Plugin,
    wanted: Wanted<'_>,
    is_visible: impl Fn(&Uri) -> bool + Clone + Send + 'static,
) -> Result<Found, FindError> {
    let begun = Instant::now();
    let mut found = Found::default();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let (globs, mount, is_visible) = (plugin.skills().clone(), plugin.mount().clone(), is_visible.clone());
        let keep = move |entry: Resource| {
            let uri = entry.uri.as_str();
            if entry.is_directory() || uri.contains('?') {
                return None;
            }
            let directories = directories_above(&globs, &mount, uri);
            (!directories.is_empty() && is_visible(&entry.uri)).then(|| {
                let modified = entry.annotations.last_modified.as_ref().map(|time| time.as_str().into());
                let file = ListedFile { modified, size: entry.size, ttl: entry.ttl.unwrap_or_default() };
                (directories, entry.uri, file)
            })
        };
        let page = plugin.list(CallOrigin::Client, None, cursor.as_deref(), PAGE_SIZE, keep).await?;
        for (directories, uri, file) in page.items {
            let directories = directories.into_iter().filter_map(|length| uri.as_str().get(..length));
            for directory in directories.filter(|directory| wanted.includes(directory)) {
                found.add(directory, &uri, &file);
            }
            // Yields to other tasks, because a page may have any number of entries.
            tokio::task::consume_budget().await;
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(found);
        }
        if begun.elapsed() > MAX_TIME {
            break;
        }
    }
    Err(FindError::Bounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_those_above_a_file_up_to_the_mount() {
        let globs: Vec<UriGlob> = vec!["**/skills/*".parse().unwrap()];
        let mount: Mount = "files:///".parse().unwrap();
        fn of<'a>(globs: &[UriGlob], mount: &Mount, uri: &'a str) -> Vec<&'a str> {
            directories_above(globs, mount, uri).into_iter().filter_map(|length| uri.get(..length)).collect()
        }
        assert_eq!(of(&globs, &mount, "files:///team/skills/pdf/SKILL.md"), ["files:///team/skills/pdf"]);
        assert_eq!(
            of(&globs, &mount, "files:///skills/pdf/a/skills/b/x"),
            ["files:///skills/pdf", "files:///skills/pdf/a/skills/b"]
        );
        assert_eq!(of(&globs, &mount, "files:///skills/SKILL.md"), [""; 0]);
        let whole: Vec<UriGlob> = vec!["skill://pdf".parse().unwrap()];
        let mount: Mount = "skill://pdf/".parse().unwrap();
        assert_eq!(of(&whole, &mount, "skill://pdf/SKILL.md"), ["skill://pdf"]);
        let everything: Vec<UriGlob> = vec!["**".parse().unwrap()];
        let deep = format!("files:///{}SKILL.md", "d/".repeat(1000));
        let mount: Mount = "files:///".parse().unwrap();
        assert_eq!(directories_above(&everything, &mount, &deep).len(), MAX_NESTED);
        assert_eq!(directory_of("skill://pdf/SKILL.md"), Some("skill://pdf"));
        assert_eq!(directory_of("skill://pdf/OTHER.md"), None);
    }

    fn add(found: &mut Found, directory: &str, name: &str) {
        let uri = "x:///".parse::<Mount>().unwrap().compose(&format!("{directory}/{name}")).unwrap().uri;
        found.add(&format!("x:///{directory}"), &uri, &ListedFile { modified: None, size: None, ttl: Duration::ZERO });
    }

    #[test]
    fn a_walk_keeps_the_first_directories_whole_in_whatever_order_they_are_listed() {
        let mut found = Found::default();
        let names: Vec<_> = (0..100).map(|n| format!("d{n:02}")).collect();
        for name in names.iter().rev().chain(&names) {
            let kept = found.candidates.len();
            add(&mut found, name, &format!("{kept}.md"));
            add(&mut found, name, "SKILL.md");
        }
        let kept: Vec<_> = found.candidates.keys().map(String::as_str).collect();
        assert_eq!(kept, names[..PAGE].iter().map(|name| format!("x:///{name}")).collect::<Vec<_>>());
        assert!(found.has_more && found.candidates.values().all(|candidate| candidate.count == 4));
    }

    #[test]
    fn a_walk_keeps_bounded_bytes_whatever_is_listed() {
        let mut found = Found::default();
        let long = "n".repeat(7000);
        for n in 0..10_000 {
            add(&mut found, &format!("d{:02}", n % 20), &format!("{n}{long}"));
        }
        assert!(found.bytes <= MAX_FOUND, "{}", found.bytes);
        assert!(found.has_more && !found.candidates.is_empty());
        let bytes: usize = found.candidates.iter().map(|(directory, one)| directory.len() + one.bytes).sum();
        assert_eq!(bytes, found.bytes);
        let mut found = Found::default();
        for n in 0..2000 {
            add(&mut found, "one", &format!("{n}{long}"));
        }
        let one = &found.candidates["x:///one"];
        assert!(one.files.len() <= MAX_FILES + 1 && one.count == 2000 && found.bytes <= MAX_FOUND);
    }
}
