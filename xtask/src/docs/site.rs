//! Adds the files of the repository that the pages of a site link to, and checks all internal links.
//!
//! | a link leads to | the site gets |
//! |---|---|
//! | a page or an anchor of the site | |
//! | a tracked file | the file |
//! | a tracked directory with a page README | the page as the directory's index |
//! | another tracked directory | an index of its files, and the files |
//! | anything else | the build fails, and names all such links |

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::links::Page;
use super::normal;
use crate::cargo;
use crate::install::copy_into;
use crate::workspace::Workspace;

/// The page that servers send for any unknown path. Its links are not relative to a page.
const NOT_FOUND: &str = "404.html";

/// Adds the linked files, and returns the number of internal links.
pub(super) fn complete(workspace: &Workspace, site: &Path) -> Result<usize> {
    let pages = pages(site)?;
    let tracked = tracked(workspace)?;
    let (mut count, mut astray) = (0_usize, Vec::new());
    for (path, page) in &pages {
        for link in page.links.iter().filter(|link| is_internal(link)) {
            count = count.saturating_add(1);
            let leads = match target(path, link) {
                Some((file, anchor)) => leads(workspace, site, &pages, &tracked, &file, anchor)?,
                None => false,
            };
            if !leads {
                astray.push(format!("{}: {link}", path.display()));
            }
        }
    }
    ensure!(astray.is_empty(), "links of the documentation lead nowhere:\n{}", astray.join("\n"));
    Ok(count)
}

fn is_internal(link: &str) -> bool {
    !link.contains("://") && !link.starts_with("mailto:") && !link.starts_with("data:")
}

/// Returns the file, from the root of the site, and the anchor of a link.
fn target<'l>(page: &Path, link: &'l str) -> Option<(PathBuf, &'l str)> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    if file.is_empty() {
        return Some((page.to_owned(), anchor));
    }
    Some((normal(&page.parent()?.join(file))?, anchor))
}

/// Returns whether a link is valid, after adding its target to the site.
fn leads(
    workspace: &Workspace,
    site: &Path,
    pages: &BTreeMap<PathBuf, Page>,
    tracked: &BTreeSet<PathBuf>,
    file: &Path,
    anchor: &str,
) -> Result<bool> {
    if let Some(page) = pages.get(file) {
        return Ok(anchor.is_empty() || page.anchors.contains(anchor));
    }
    if tracked.contains(file) {
        add(workspace, site, file)?;
    } else if !site.join(file).is_file() {
        let inside: Vec<_> = tracked.iter().filter(|tracked| tracked.starts_with(file)).collect();
        if inside.is_empty() {
            return Ok(false);
        }
        index(workspace, site, file, &inside)?;
    }
    Ok(anchor.is_empty())
}

fn add(workspace: &Workspace, site: &Path, file: &Path) -> Result<()> {
    let below = file.parent().unwrap_or(Path::new(""));
    copy_into(&workspace.root().join(file), &site.join(below))
}

/// Writes the index of a directory if it has none.
fn index(workspace: &Workspace, site: &Path, directory: &Path, files: &[&PathBuf]) -> Result<()> {
    let folder = site.join(directory);
    let index = folder.join("index.html");
    if index.is_file() {
        return Ok(());
    }
    let readme = folder.join("README.html");
    if readme.is_file() {
        fs::copy(&readme, &index).with_context(|| format!("cannot copy {}", readme.display()))?;
        return Ok(());
    }
    let name = escaped(&directory.display().to_string());
    let mut html = format!("<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{name}</title>\n");
    html.push_str(&format!("<h1>{name}</h1>\n<ul>\n"));
    for file in files {
        add(workspace, site, file)?;
        let name = escaped(&file.strip_prefix(directory).unwrap_or(file).display().to_string());
        html.push_str(&format!("<li><a href=\"{name}\">{name}</a></li>\n"));
    }
    html.push_str("</ul>\n</html>\n");
    fs::write(&index, html).with_context(|| format!("cannot write {}", index.display()))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace('%', "%25")
}

/// Returns the pages of a site by their paths from its root.
fn pages(site: &Path) -> Result<BTreeMap<PathBuf, Page>> {
    let (mut pages, mut directories) = (BTreeMap::new(), vec![site.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).with_context(|| format!("cannot read {}", directory.display()))? {
            let file = entry?.path();
            if file.is_dir() {
                directories.push(file);
            } else if file.extension().is_some_and(|kind| kind == "html") && !file.ends_with(NOT_FOUND) {
                let html = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
                pages.insert(file.strip_prefix(site)?.to_owned(), Page::parse(&html));
            }
        }
    }
    Ok(pages)
}

/// Returns the files that git tracks, and the untracked files that it does not ignore. A link to a directory is not a
/// file.
fn tracked(workspace: &Workspace) -> Result<BTreeSet<PathBuf>> {
    let arguments = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let listed = cargo::capture(Command::new("git").args(arguments).current_dir(workspace.root()))?;
    Ok(listed.split('\0').filter(|file| workspace.root().join(file).is_file()).map(PathBuf::from).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let file = folder.join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    /// Completes a site with one page that has the given links, for a repository with two files.
    fn completed(links: &[&str]) -> (tempfile::TempDir, Result<usize>) {
        let folder = tempfile::tempdir().unwrap();
        let (root, site) = (folder.path().join("repository"), folder.path().join("site"));
        write(&root, "host/a.rs", "fn a() {}");
        write(&root, "host/b/c.rs", "fn c() {}");
        let made = Command::new("git").args(["init", "--quiet"]).current_dir(&root).status().unwrap();
        assert!(made.success());
        let links: String = links.iter().map(|link| format!("<a href=\"{link}\">x</a>")).collect();
        write(&site, "docs/page.html", &format!("<h1 id=\"top\">x</h1>{links}"));
        let result = complete(&Workspace::at(&root), &site);
        (folder, result)
    }

    #[test]
    fn what_is_linked_is_added() {
        let links =
            ["#top", "page.html#top", "../host/a.rs", "../host/b", "https://example.org", "mailto:a@example.org"];
        let (folder, result) = completed(&links);
        assert_eq!(result.unwrap(), 4);
        let site = folder.path().join("site/host");
        assert!(site.join("a.rs").is_file());
        assert!(site.join("b/c.rs").is_file());
        assert!(fs::read_to_string(site.join("b/index.html")).unwrap().contains("href=\"c.rs\""));
    }

    #[test]
    fn all_links_that_lead_nowhere_are_named() {
        let astray = ["#bottom", "other.html", "../host/a.rs#top", "../host/none", "../../host/a.rs"];
        let error = completed(&astray).1.unwrap_err().to_string();
        for link in astray {
            assert!(error.contains(&format!("docs/page.html: {link}")), "{link}: {error}");
        }
        assert!(completed(&["../host/a.rs"]).1.is_ok());
    }
}
