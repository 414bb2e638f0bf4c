//! The provider: dispatches each call to the module that implements it.

use crate::route::{self, Route, View};
use crate::settings::Settings;
use crate::visibility::Visibility;
use crate::{content, entries};
use folder::changes::{self, Watched};
use folder::{Folder, ItemKind, WalkBudget, listing};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template,
};
use std::rc::Rc;

/// A provider of a directory of files.
#[derive(Debug)]
pub struct Files {
    folder: Folder,
    settings: Settings,
}

impl Provider for Files {
    fn describe() -> Info {
        Info::new("files", env!("CARGO_PKG_VERSION"))
            .title("A directory of files")
            .description(
                "Files of a directory, each at its path, text as UTF-8. `PATH?lines=1-100` and `PATH?bytes=0-999` are \
                 parts of a file, `?lines=-100` its last lines; `PATH?as=text` is a notebook, docx or PDF file as text. \
                 Of a large file, PATH is the beginning; `files/next-range` in its metadata is the query of the rest.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        let folder = Folder::open(&settings.dir, Rc::new(Visibility::new(settings.shown)))?;
        Ok(Self { folder, settings })
    }

    /// Without a parent: every file at any depth, sorted by path.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let budget = WalkBudget::for_page(limit);
        let behind = listing::parse_cursor(cursor)?;
        let walk = match parent.map(Route::parse).transpose()? {
            None => self.folder.files("", behind, budget)?,
            Some(route) => {
                if route.view != View::default() || self.folder.find(&route.names)?.kind != ItemKind::Folder {
                    return Err(Failure::invalid("expected a directory as the parent, found a file"));
                }
                self.folder.children(&route.names, behind, budget)?
            }
        };
        listing::page(walk, limit, |found, cost| entries::entry_for_listing(&self.folder, &self.settings, found, cost))
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let route = Route::parse(path)?;
        let item = self.folder.find(&route.names)?;
        if item.kind == ItemKind::File {
            return content::read(&self.folder, &self.settings, &item, &route);
        }
        check_whole(&route)?;
        Ok(vec![Contents::directory(entries::directory(&item))])
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let route = Route::parse(path)?;
        let item = self.folder.find_exact(&route.names)?;
        if item.kind == ItemKind::File && route.view != View::default() {
            return content::stat(&self.folder, &self.settings, &item, &route);
        }
        check_whole(&route)?;
        entries::entry(&self.folder, &self.settings, &item)
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(route::FILE, "file")
                .title("A file or directory")
                .description("`path` is the path of a file below the directory, or of a directory."),
            Template::new(route::PART, "part")
                .title("A part of a file, or a document as text")
                .description(
                    "`lines` is a range of lines from 1, such as `1-100`, `101-` or, for the last ones, `-100`; `bytes` \
                     one of bytes from 0; `as` is `text` for a notebook, a docx or a PDF file, and may be combined with \
                     `lines`.",
                ),
        ]
    }

    fn complete(&self, _: &str, argument: &Argument, _: &[Argument]) -> Result<Completion> {
        match argument.name.as_str() {
            "path" => folder::complete(&self.folder, &argument.value, folder::template_value),
            "lines" => Ok(Completion::matching(["1-100", "-100"], &argument.value)),
            "bytes" => Ok(Completion::matching(["0-4095", "-4096"], &argument.value)),
            _ => Ok(Completion::matching(["text"], &argument.value)),
        }
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        changes::changes(&self.folder, watched, since, |path| match Route::parse(path) {
            Ok(route) => Watched::Item(route.names),
            Err(_) => Watched::Nothing,
        })
    }
}

/// Rejects a part or form of a directory.
fn check_whole(route: &Route) -> Result<()> {
    if route.view == View::default() {
        Ok(())
    } else {
        Err(Failure::invalid("expected a file for `lines`, `bytes` and `as`, found a directory"))
    }
}
