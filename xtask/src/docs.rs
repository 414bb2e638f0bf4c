//! `cargo xtask docs`: builds the documentation as a site with search, in `target/docs/site`.
//!
//! mdbook renders the pages that [`SUMMARY`] names. The site has the layout of the repository, so that links between
//! pages, and from pages to sources and pictures, are valid without changes. [`site`] adds the linked files, and
//! reports broken links.

mod links;
mod site;

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cargo;
use crate::install::{self, copy_into};
use crate::progress::Progress;
use crate::workspace::Workspace;

const MDBOOK: &str = "0.5.4";

/// The table of contents. Its links are relative to its directory.
const SUMMARY: &str = "docs/SUMMARY.md";

/// The settings of mdbook.
const SETTINGS: &str = "docs/book.toml";

#[derive(Debug, Args)]
pub(crate) struct Docs {}

impl Docs {
    /// Builds the site and checks its links.
    pub(crate) fn run(&self, workspace: &Workspace, progress: &Progress) -> Result<()> {
        let options = ["--no-default-features", "--features", "search"];
        let mdbook = install::cargo_install("mdbook", MDBOOK, &options, workspace, progress)?;
        let mut step = progress.step("building the site of the documentation");
        let book = workspace.target().join("docs");
        let pages = stage(workspace, &book)?;
        step.at("mdbook");
        cargo::capture(Command::new(mdbook).arg("build").arg(&book))?;
        step.at("checking the links");
        let site = book.join("site");
        let links = site::complete(workspace, &site)?;
        let index = workspace.display(&site).to_string();
        step.done(&format!("built {index}/index.html: {pages} pages, {links} internal links checked"));
        Ok(())
    }
}

/// Copies the pages into the sources of the book, and returns their number.
fn stage(workspace: &Workspace, book: &Path) -> Result<usize> {
    if book.exists() {
        fs::remove_dir_all(book).with_context(|| format!("cannot empty {}", book.display()))?;
    }
    copy_into(&workspace.root().join(SETTINGS), book)?;
    let summary = workspace.root().join(SUMMARY);
    let summary = fs::read_to_string(&summary).with_context(|| format!("cannot read {}", summary.display()))?;
    let (summary, pages) = from_root(&summary)?;
    let sources = book.join("src");
    for page in &pages {
        let below = page.parent().unwrap_or(Path::new(""));
        copy_into(&workspace.root().join(page), &sources.join(below)).with_context(|| format!("{SUMMARY} names it"))?;
    }
    fs::write(sources.join("SUMMARY.md"), summary).context("cannot write the table of contents")?;
    Ok(pages.len())
}

/// Makes the links of a table of contents relative to the root of the repository, and returns the pages.
fn from_root(summary: &str) -> Result<(String, Vec<PathBuf>)> {
    let directory = Path::new(SUMMARY).parent().context("the table of contents is in a directory")?;
    let (mut text, mut pages) = (String::new(), Vec::new());
    for line in summary.lines() {
        match line.split_once("](").and_then(|(before, link)| Some((before, link.strip_suffix(')')?))) {
            Some((before, link)) => {
                let page = normal(&directory.join(link))
                    .with_context(|| format!("{SUMMARY} leads out of the repository: {link}"))?;
                ensure!(!pages.contains(&page), "{SUMMARY} names {link} twice");
                text.push_str(&format!("{before}]({})", page.display()));
                pages.push(page);
            }
            None => {
                // An entry without a page is an mdbook draft, which mdbook shows as a heading.
                let heading = line.trim_start().strip_prefix("- ");
                let indent = line.len().saturating_sub(line.trim_start().len());
                match heading {
                    Some(heading) => text.push_str(&format!("{:indent$}- [{heading}]()", "")),
                    None => text.push_str(line),
                }
            }
        }
        text.push('\n');
    }
    Ok((text, pages))
}

/// Resolves `.` and `..` in a relative path. Returns `None` for a path that leads out of its root.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::Prefix(_) | Component::RootDir => return None,
        }
    }
    Some(normal)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_contents_lead_from_the_root() {
        let (text, pages) = from_root("# Contents\n\n- [A](a.md)\n- More\n    - [Read](../README.md)\n").unwrap();
        assert_eq!(text, "# Contents\n\n- [A](docs/a.md)\n- [More]()\n    - [Read](README.md)\n");
        assert_eq!(pages, [Path::new("docs/a.md"), Path::new("README.md")]);
    }

    #[test]
    fn a_page_has_one_place_and_is_in_the_repository() {
        assert!(from_root("- [A](a.md)\n- [B](../docs/a.md)\n").unwrap_err().to_string().contains("twice"));
        assert!(from_root("- [A](../../a.md)\n").unwrap_err().to_string().contains("out of the repository"));
    }
}
