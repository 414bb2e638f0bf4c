//! The provider: dispatches each call to the module that implements it.

use crate::effective::{Effective, read_values};
use crate::entries::{self, FAULT};
use crate::environment::Variables;
use crate::pointer;
use crate::redact::Secrets;
use crate::route::{self, Route};
use crate::settings::Settings;
use crate::visibility::Visibility;
use folder::changes::{self, Watched, state_hash};
use folder::listing::{self, PageCost};
use folder::{Folder, Found, Item, ItemKind, Walk, WalkBudget};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, keyset,
    log,
};
use serde_json::Value;
use std::rc::Rc;

/// The prefix of cursors in the part of the default listing before the files.
const HEAD: &str = "head:";

/// A provider of an application's configuration and environment.
#[derive(Debug)]
pub struct Configuration {
    folder: Folder,
    settings: Settings,
    variables: Variables,
    /// The secrets among the variables, because files may contain copies of them.
    secrets: Secrets,
}

impl Provider for Configuration {
    fn describe() -> Info {
        Info::new("config", env!("CARGO_PKG_VERSION"))
            .title("Configuration of an application")
            .description(
                "`effective` has the values that apply, each with the layer that it comes from; `file/PATH` the values of \
                 one file as JSON, whatever its format; `env` the environment variables. `?pointer=/server/port` is a part \
                 of `effective` or of a file. Values that look secret are shown as `<redacted: …>`, with a class of length.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        let visibility = Visibility::new(settings.formats.clone());
        let folder = Folder::open(&settings.dir, Rc::new(visibility))?;
        let variables: Variables = std::env::vars().collect();
        let mut secrets = Secrets::default();
        settings.redactor.collect(&document(&variables), &mut secrets);
        Ok(Self { folder, settings, variables, secrets })
    }

    /// Without a parent: the effective configuration, the variables, and every file at any depth, sorted by path.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent.map(Route::parse).transpose()? {
            None => match cursor {
                Some(cursor) if !cursor.starts_with(HEAD) => {
                    let behind = listing::parse_cursor(Some(cursor))?;
                    self.list_files(self.folder.files("", behind, WalkBudget::for_page(limit))?, limit)
                }
                cursor => self.list_head(cursor.and_then(|cursor| cursor.strip_prefix(HEAD)), limit),
            },
            Some(Route::Variables) => {
                let page = keyset::page(self.variables.keys(), cursor, limit, |name| name.as_str())?;
                Ok(page.map(|name| self.variable_entry(name)))
            }
            Some(Route::File(names, None)) if self.folder.find(&names)?.kind == ItemKind::Folder => {
                let walk = self.folder.children(&names, listing::parse_cursor(cursor)?, WalkBudget::for_page(limit))?;
                self.list_files(walk, limit)
            }
            Some(_) => {
                Err(Failure::invalid("expected `{mount}env`, `{mount}file` or a directory below it as the parent"))
            }
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let route = Route::parse(path)?;
        if let Route::File(names, pointer) = &route {
            let item = self.folder.find(names)?;
            if item.kind == ItemKind::Folder {
                check_whole(pointer.as_deref())?;
                return Ok(vec![Contents::directory(entries::directory(&item))]);
            }
            return Ok(vec![self.file(&item, pointer.as_deref())?]);
        }
        if route == Route::Variables {
            // Each variable has its own path, so the host can omit the ones that the client may not read.
            let values = self.variables.keys().map(|name| self.variable(name));
            return std::iter::once(Ok(Contents::directory(entries::variables()))).chain(values).collect();
        }
        Ok(vec![self.part(&route)?])
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let route = Route::parse(path)?;
        let Route::File(names, pointer) = &route else { return Ok(self.part(&route)?.entry) };
        let item = self.folder.find_exact(names)?;
        match (item.kind, pointer.as_deref()) {
            (ItemKind::Folder, pointer) => check_whole(pointer).map(|()| entries::directory(&item)),
            (ItemKind::File, None) => self.file_entry(&item),
            (ItemKind::File, pointer) => Ok(self.file(&item, pointer)?.entry),
        }
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(route::FILE, "file")
                .title("The values of a file")
                .description("`path` is the path of a TOML, YAML, JSON, INI or dotenv file below the directory.")
                .mime_type(entries::JSON),
            Template::new(route::POINTER, "value")
                .title("One value of a file")
                .description("`pointer` is a JSON pointer (RFC 6901) such as `/server/port`.")
                .mime_type(entries::JSON),
            Template::new(route::EFFECTIVE, "effective")
                .title("A part of the effective configuration")
                .description("`pointer` is a JSON pointer (RFC 6901) such as `/server`.")
                .mime_type(entries::JSON),
            Template::new(route::VARIABLE, "variable")
                .title("An environment variable")
                .description("`name` is its name.")
                .mime_type("text/plain"),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        match (template, argument.name.as_str()) {
            (route::VARIABLE, _) => Ok(Completion::matching(self.variables.keys().cloned(), &argument.value)),
            (_, "path") => folder::complete(&self.folder, &argument.value, folder::template_value),
            (route::EFFECTIVE, _) => {
                let effective = self.effective()?;
                let values = effective.show(&self.settings, "")?;
                Ok(complete_pointer(values.get("values").unwrap_or(&Value::Null), &argument.value))
            }
            _ => {
                let Some(path) = known.iter().find(|known| known.name == "path") else {
                    return Ok(Completion::default());
                };
                let item = self.folder.find(&path.value)?;
                let values = read_values(&self.folder, &self.settings, &item)?.0.unwrap_or_default();
                Ok(complete_pointer(&values, &argument.value))
            }
        }
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        changes::changes(&self.folder, watched, since, |path| match Route::parse(path) {
            Ok(Route::File(names, None)) => Watched::Item(names),
            // A resource that depends on several files, or on a part of one, is compared by its content.
            Ok(_) => Watched::State(self.content_hash(path)),
            Err(_) => Watched::Nothing,
        })
    }
}

impl Configuration {
    /// Returns a hash of the content of a resource; a resource that cannot be read has the hash of empty content.
    fn content_hash(&self, path: &str) -> u64 {
        let contents = self.read(path).unwrap_or_default();
        state_hash(&contents.iter().map(|one| (one.entry.path.as_str(), one.as_bytes())).collect::<Vec<_>>())
    }

    /// Lists the resources that are not files; the next page starts with the files.
    fn list_head(&self, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let mut paths = vec![Route::Effective(None).path(), Route::Variables.path()];
        paths.extend(self.variables.keys().map(|name| Route::Variable(name.clone()).path()));
        paths.sort_unstable();
        let page = keyset::page(paths, cursor, limit, |path| path.as_str())?;
        let next_cursor = page.next_cursor.as_ref().map_or_else(|| ":".to_owned(), |next| format!("{HEAD}{next}"));
        let page = page.try_map(|path| match self.stat(&path) {
            Ok(entry) => Ok(Some(entry)),
            // Of these resources, only the layers can fail.
            Err(failure) => {
                log::warn!("{path:?} listed without its size: {failure}");
                Ok(Some(entries::effective(&Route::Effective(None)).meta(FAULT, failure.to_string())))
            }
        })?;
        Ok(Page { next_cursor: Some(next_cursor), ..page })
    }

    fn list_files(&self, walk: Walk<'_>, limit: usize) -> Result<Page> {
        listing::page(walk, limit, |found, cost| self.entry_for_listing(found, cost))
    }

    /// Returns the entry of a file for a listing. An unreadable file is omitted, so the listing does not fail.
    fn entry_for_listing(&self, found: &Found, cost: &mut PageCost) -> Option<Entry> {
        let item = self.folder.item_for_listing(found)?;
        if item.kind == ItemKind::Folder {
            return Some(entries::directory(&item));
        }
        cost.add_parsed(usize::try_from(item.size).unwrap_or(usize::MAX).min(self.settings.max_file));
        let omitted = |failure: &Failure| log::warn!("{:?} omitted: {failure}", found.names);
        self.file_entry(&item).inspect_err(omitted).ok()
    }

    /// Returns the entry of a file, with the size of its values or the reason why it has none.
    fn file_entry(&self, item: &Item) -> Result<Entry> {
        match self.file(item, None) {
            Ok(contents) => Ok(contents.entry),
            Err(Failure::Denied(fault) | Failure::InvalidRequest(fault)) => {
                Ok(entries::file(item, None).meta(FAULT, fault))
            }
            Err(failure) => Err(failure),
        }
    }

    fn variable_entry(&self, name: &str) -> Entry {
        self.variable(name).map_or_else(|_| entries::variable(name), |contents| contents.entry)
    }

    fn variable(&self, name: &str) -> Result<Contents> {
        let value = self.variables.get(name).ok_or(Failure::NotFound)?;
        Ok(Contents::text(entries::variable(name), self.settings.redactor.text(name, value, &self.secrets)))
    }

    fn effective(&self) -> Result<Effective> {
        Effective::read(&self.folder, &self.settings, &self.variables, &self.secrets)
    }

    /// Reads a resource that is not a file.
    fn part(&self, route: &Route) -> Result<Contents> {
        match route {
            Route::Effective(pointer) => {
                let effective = self.effective()?;
                let values = effective.show(&self.settings, pointer.as_deref().unwrap_or_default())?;
                let mut entry = entries::effective(route);
                if let Some(modified) = effective.modified {
                    entry = entry.last_modified(modified);
                }
                Ok(json_contents(entry, &values))
            }
            Route::Variables => Ok(Contents::directory(entries::variables())),
            Route::Variable(name) => self.variable(name),
            Route::File(..) => Err(Failure::NotFound),
        }
    }

    /// Reads the values of a file, or the value at a pointer.
    fn file(&self, item: &Item, pointer: Option<&str>) -> Result<Contents> {
        let (values, item) = read_values(&self.folder, &self.settings, item)?;
        let mut values = values.map_err(Failure::Denied)?;
        self.settings.redactor.document(&mut values, &self.secrets);
        let value = values.pointer(pointer.unwrap_or_default()).ok_or(Failure::NotFound)?;
        Ok(json_contents(entries::file(&item, pointer), value))
    }
}

/// Returns variables as a document.
fn document(variables: &Variables) -> Value {
    variables.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))).collect()
}

fn json_contents(entry: Entry, value: &Value) -> Contents {
    // Serialization of this type never fails.
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    Contents::text(entry, text)
}

/// Completes a pointer like a path in a shell: with the keys of the parent value.
fn complete_pointer(values: &Value, typed: &str) -> Completion {
    let parent = typed.rsplit_once('/').map_or("", |(parent, _)| parent);
    let child = |key: &str| pointer::join(parent, key);
    match values.pointer(parent) {
        Some(Value::Object(members)) => Completion::matching(members.keys().map(|key| child(key)), typed),
        Some(Value::Array(items)) => Completion::matching((0..items.len()).map(|n| child(&n.to_string())), typed),
        _ => Completion::default(),
    }
}

/// Rejects a pointer for a directory.
fn check_whole(pointer: Option<&str>) -> Result<()> {
    match pointer {
        None => Ok(()),
        Some(_) => Err(Failure::invalid("expected a file for `pointer`, found a directory")),
    }
}
