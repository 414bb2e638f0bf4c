//! A native provider of resources that change when a test says so.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use mcp_resource_host::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_resource_host::resource::{Argument, Completion};

/// The resources that a tree may have. A path is a directory if another path begins with it and a
/// slash.
pub(crate) const PATHS: [&str; 11] = [".env", "d", "d/.env", "d/e", "d/e/.env", "d/e/f", "d/f", "e", "e/f", "e/g", "f"];
/// Resources that every tree has.
pub(crate) const WITNESSES: [&str; 2] = ["witness/1", "witness/2"];
/// A resource that no tree has at first.
pub(crate) const NEW: &str = "new/f";
/// A word that the text of every resource has, after its path.
pub(crate) const EVERYWHERE: &str = "everywhere";
/// A word that the text of no resource has.
pub(crate) const NOWHERE: &str = "nowhere";
/// The templates of each tree.
pub(crate) const TEMPLATES: [&str; 3] = ["{+path}", "d/{name}", "{first}/{second}"];
/// The size of the provider's own pages.
const PAGE: usize = 4;

/// The resources and the times of their changes.
pub(crate) struct Tree(Mutex<State>);

struct State {
    paths: BTreeSet<&'static str>,
    /// The logical time: the number of changes so far.
    time: usize,
    /// The changed paths with their times. None stands for the listing.
    changes: Vec<(usize, Option<&'static str>)>,
}

impl Tree {
    pub(crate) fn new(paths: BTreeSet<&'static str>) -> Arc<Self> {
        let paths = paths.into_iter().chain(WITNESSES).collect();
        Arc::new(Self(Mutex::new(State { paths, time: 0, changes: Vec::new() })))
    }

    /// All paths, in the order of the listing.
    pub(crate) fn paths(&self) -> Vec<&'static str> {
        self.0.lock().unwrap().paths.iter().copied().collect()
    }

    pub(crate) fn directories(&self) -> Vec<String> {
        let is_directory = |path: &str| !self.children(path).is_empty();
        self.paths().into_iter().filter(|path| is_directory(path)).map(str::to_owned).collect()
    }

    /// The paths directly below a path.
    pub(crate) fn children(&self, parent: &str) -> Vec<&'static str> {
        let below = |path: &str| path.strip_prefix(parent)?.strip_prefix('/').map(|name| !name.contains('/'));
        self.paths().into_iter().filter(|path| below(path) == Some(true)).collect()
    }

    /// The values of a template's missing variable that begin with a prefix.
    pub(crate) fn values(&self, template: &str, prefix: &str) -> Vec<String> {
        let value = |path: &str| path.strip_prefix(prefix).map(str::to_owned);
        let values = self.paths().into_iter().filter_map(value);
        values.filter(|value| template == "{+path}" || !value.contains('/')).collect()
    }

    pub(crate) fn insert(&self, path: &'static str) {
        let mut state = self.0.lock().unwrap();
        state.paths.insert(path);
        state.record([None]);
    }

    pub(crate) fn touch(&self, path: &'static str) {
        self.0.lock().unwrap().record([Some(path)]);
    }

    pub(crate) fn touch_everything(&self) {
        let mut state = self.0.lock().unwrap();
        let all: Vec<_> = state.paths.iter().copied().map(Some).collect();
        state.record(all);
    }

    /// The number of changes of a path.
    fn version(&self, path: &str) -> usize {
        self.0.lock().unwrap().changes.iter().filter(|(_, changed)| *changed == Some(path)).count()
    }

    fn entry(&self, path: &str) -> Result<Entry> {
        if !self.paths().contains(&path) {
            return Err(Failure::NotFound);
        }
        let entry = Entry::new(path, path).subscribable();
        Ok(if self.children(path).is_empty() { entry } else { entry.listable() })
    }
}

impl State {
    fn record(&mut self, changed: impl IntoIterator<Item = Option<&'static str>>) {
        self.time += 1;
        self.changes.extend(changed.into_iter().map(|path| (self.time, path)));
    }
}

#[async_trait]
impl Provider for Tree {
    fn describe(&self) -> ProviderInfo {
        ProviderInfo::new("tree", "1.0.0").watches(true)
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let all = match parent {
            None => self.paths(),
            Some(parent) => {
                self.entry(parent)?;
                self.children(parent)
            }
        };
        let start: usize = cursor.map_or(Ok(0), str::parse).map_err(|_| Failure::invalid("a number"))?;
        let end = all.len().min(start + limit.min(PAGE));
        let entries = all[start.min(end)..end].iter().map(|path| self.entry(path)).collect::<Result<_>>()?;
        Ok(Page { entries, next_cursor: (end < all.len()).then(|| end.to_string()) })
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        Ok(vec![Contents::text(self.entry(path)?, format!("{path} {EVERYWHERE} {}", self.version(path)))])
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.entry(path)
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        Ok(TEMPLATES.into_iter().map(|template| Template::new(template, template)).collect())
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let prefix = match (template, context) {
            ("d/{name}", _) => "d/".to_owned(),
            ("{first}/{second}", [first]) => format!("{}/", first.value),
            _ => String::new(),
        };
        Ok(Completion::matching(self.values(template, &prefix), &argument.value))
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        let state = self.0.lock().unwrap();
        let mut changes = ChangeSet::none(state.time.to_string());
        let Some(since) = since.and_then(|since| since.parse::<usize>().ok()) else { return Ok(changes) };
        for (_, path) in state.changes.iter().filter(|(time, _)| *time > since) {
            match path {
                Some(path) if watched.iter().any(|one| one == path) => changes = changes.changed(*path),
                Some(_) => {}
                None => changes = changes.listing_changed(),
            }
        }
        Ok(changes)
    }
}
