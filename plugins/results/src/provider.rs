//! The provider: dispatches each call to the module that implements it.

use crate::catalog::{Catalog, Published, read_files};
use crate::entries;
use crate::route::{self, Route};
use crate::settings::Settings;
use folder::changes::{changes_of_states, state_hash};
use folder::{DotNames, Folder, template_value};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Notice, Page, Provider, Result, Template,
    keyset,
};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// The delay after an expiry before changes are requested again.
const MARGIN: Duration = Duration::from_millis(10);

/// A provider of the results of analyses.
#[derive(Debug)]
pub struct Results {
    folder: Folder,
    settings: Settings,
}

impl Provider for Results {
    fn describe() -> Info {
        Info::new("results", env!("CARGO_PKG_VERSION"))
            .title("Results of analyses")
            .description(
                "Results that analyses left behind, each at its id; their priority is the confidence. `latest` is the newest \
                 one, `by/KEY` the newest about something, or made of inputs with that digest. What has expired is gone; \
                 what is superseded is not listed, and says so.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        Ok(Self { folder: Folder::open(&settings.dir, Rc::new(DotNames))?, settings })
    }

    /// Without a parent: `latest`, and the current results by id.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let now = SystemTime::now();
        let catalog = Catalog::read(&self.folder, now)?;
        match parent.map(Route::parse).transpose()? {
            None => {
                let mut routes = vec![Route::Latest];
                routes.extend(catalog.current().map(|result| Route::Result(result.id.clone())));
                let mut paths: Vec<String> = routes.iter().map(Route::path).collect();
                paths.sort_unstable();
                let page = keyset::page(paths, cursor, limit, String::as_str)?;
                page.try_map(|path| Ok(entry(&catalog, &self.settings, &Route::parse(&path)?, now)))
            }
            Some(Route::Keys) => {
                let keys = keyset::page(keys(&catalog), cursor, limit, |key| *key)?;
                keys.try_map(|key| Ok(entry(&catalog, &self.settings, &Route::Key(key.to_owned()), now)))
            }
            Some(Route::Latest) => newest_first(catalog.current(), now, cursor, limit),
            Some(Route::Key(key)) => {
                let of_key = catalog.all().filter(|result| result.metadata.has_key(&key));
                let page = newest_first(of_key, now, cursor, limit)?;
                if page.entries.is_empty() && cursor.is_none() { Err(Failure::NotFound) } else { Ok(page) }
            }
            Some(Route::Result(_)) => {
                Err(Failure::invalid("expected `{mount}latest`, `{mount}by` or `{mount}by/KEY` as the parent"))
            }
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let now = SystemTime::now();
        let catalog = Catalog::read(&self.folder, now)?;
        let route = Route::parse(path)?;
        if route == Route::Keys {
            return Ok(vec![Contents::directory(entries::keys())]);
        }
        // The content has the path of its result, so a rule for that path applies however the result was found.
        let result = find(&catalog, &self.settings, &route).ok_or(Failure::NotFound)?;
        let mut entry = entries::result(result, now);
        if is_passed_over(&catalog, &route, result) {
            entry = entry.notice(Notice::stale(
                "a newer result is larger than `max-file` of the plugin, so this is an older one",
            ));
        }
        let files = read_files(&self.folder, &self.settings, result)?;
        Ok(files
            .into_iter()
            .map(|(bytes, mime_type)| Contents::bytes(entry.clone().mime_type(mime_type), bytes))
            .collect())
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let now = SystemTime::now();
        entry(&Catalog::read(&self.folder, now)?, &self.settings, &Route::parse(path)?, now).ok_or(Failure::NotFound)
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(route::RESULT, "result").title("A result").description("`id` is the id of a result."),
            Template::new(route::KEY, "key")
                .title("The newest result about something")
                .description("`key` is the key in the metadata of results, or the digest of their inputs."),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, _: &[Argument]) -> Result<Completion> {
        let catalog = Catalog::read(&self.folder, SystemTime::now())?;
        if template == route::KEY {
            return Ok(Completion::matching(keys(&catalog), &argument.value));
        }
        let ids = catalog.current().filter_map(|result| template_value(&result.id));
        Ok(Completion::matching(ids, &argument.value))
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        let now = SystemTime::now();
        let catalog = Catalog::read(&self.folder, now)?;
        let listing = state_hash(&catalog.current().map(state).collect::<Vec<_>>());
        let state_of = |path: &str| match Route::parse(path) {
            Ok(Route::Keys) => state_hash(&keys(&catalog)),
            Ok(Route::Latest) => listing,
            Ok(Route::Key(key)) => {
                state_hash(&catalog.all().filter(|result| result.metadata.has_key(&key)).map(state).collect::<Vec<_>>())
            }
            Ok(route) => find(&catalog, &self.settings, &route).map(state).unwrap_or_default(),
            Err(_) => 0,
        };
        let changes = changes_of_states(listing, watched, since, state_of);
        Ok(match catalog.next_expiry() {
            // A result expires without a change of any file.
            Some(expires) => changes.poll_after(expires.duration_since(now).unwrap_or_default().saturating_add(MARGIN)),
            None => changes,
        })
    }
}

/// Returns the target of a route.
fn find<'c>(catalog: &'c Catalog, settings: &Settings, route: &Route) -> Option<&'c Published> {
    match route {
        Route::Latest => catalog.newest(settings, |_| true),
        Route::Key(key) => catalog.newest(settings, |result| result.metadata.has_key(key)),
        Route::Result(id) => catalog.get(id),
        Route::Keys => None,
    }
}

/// Returns whether a newer result exists than the found one, which was preferred because the newer one is too large to
/// be read.
fn is_passed_over(catalog: &Catalog, route: &Route, found: &Published) -> bool {
    let is_newer = |result: &&Published| (result.created, &result.id) > (found.created, &found.id);
    match route {
        Route::Latest => catalog.current().any(|result| is_newer(&result)),
        Route::Key(key) => catalog.current().filter(is_newer).any(|result| result.metadata.has_key(key)),
        Route::Result(_) | Route::Keys => false,
    }
}

fn entry(catalog: &Catalog, settings: &Settings, route: &Route, now: SystemTime) -> Option<Entry> {
    match route {
        Route::Keys => Some(entries::keys()),
        Route::Result(id) => Some(entries::result(catalog.get(id)?, now)),
        Route::Latest => find(catalog, settings, route).map(|_| entries::collection(route, "Latest result".to_owned())),
        Route::Key(key) => find(catalog, settings, route).map(|_| entries::collection(route, key.clone())),
    }
}

/// Returns all keys of current results, sorted.
fn keys(catalog: &Catalog) -> BTreeSet<&str> {
    catalog.current().flat_map(|result| result.metadata.keys()).collect()
}

/// Returns a page of results, newest first.
fn newest_first<'c>(
    results: impl Iterator<Item = &'c Published>,
    now: SystemTime,
    cursor: Option<&str>,
    limit: usize,
) -> Result<Page> {
    let mut results: Vec<(String, &Published)> = results.map(|result| (result.age_key(), result)).collect();
    results.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let page = keyset::page(results, cursor, limit, |(key, _)| key.as_str())?;
    Ok(page.map(|(_, result)| entries::result(result, now)))
}

/// Returns the state of a result, which changes with its files, its metadata and its successor.
fn state(result: &Published) -> u64 {
    let files: Vec<_> = result.files.iter().map(|file| &file.item).collect();
    state_hash(&(&result.id, files, format!("{:?}", result.metadata), result.created, &result.superseded_by))
}
