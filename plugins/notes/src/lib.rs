//! A provider of a folder of notes: Markdown, AsciiDoc, reStructuredText.
//!
//! The front matter of a note becomes title, description and annotations; other files in the folder are attachments.
//! The `README.md` of this crate is for users; for the code, see `route` for the meaning of paths, `front_matter` for
//! the metadata of notes, `note` for encodings, and `reading` for the order of Japanese listings. The crate `folder`
//! has the visible items, pages and change tokens.

mod collection;
mod front_matter;
mod markup;
mod note;
mod reading;
mod route;
mod settings;

use collection::Field;
use folder::changes::{self, Watched};
use folder::listing::{self, PageCost};
use folder::{DotNames, Folder, Found, Item, ItemKind, Walk, WalkBudget};
use front_matter::FrontMatter;
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
    keyset, log, path,
};
use note::Head;
use route::Route;
use settings::{Order, Settings};
use std::rc::Rc;

mcp_provider::needs! {
    "dirs": [{ "guest": "/notes", "mode": "ro", "why": "the folder of notes" }],
    "config": {
        "dir": { "type": "string", "default": "/notes", "why": "the folder, at its guest path" },
        "max-file-bytes": { "type": "integer", "default": 16777216, "why": "the largest file that is read" },
        "encoding": { "type": "string", "why": "the encoding of text that is not UTF-8; detected unless set" },
        "priority": { "type": "table", "default": {}, "why": "the priority of files that say none, by folder" },
        "audience": { "type": "table", "default": {}, "why": "the audience of files that say none, by folder" },
        "order": { "type": "string", "default": "path", "why": "the order of listings: path or reading" }
    }
}

const FILE_TEMPLATE: &str = "{+path}";
const TAG_TEMPLATE: &str = "tag/{tag}";
const LANG_TEMPLATE: &str = "lang/{lang}";

/// The maximum number of buffered names per folder while the notes of a collection are searched.
const COLLECTION_READ_AHEAD: usize = 20_000;

/// A folder of notes.
#[derive(Debug)]
pub struct Notes {
    folder: Folder,
    settings: Settings,
}

impl Provider for Notes {
    fn describe() -> Info {
        Info::new("notes", env!("CARGO_PKG_VERSION"))
            .title("A folder of notes")
            .description(
                "Notes and their attachments, each at its path in the folder. `tag/{tag}` and `lang/{lang}` \
                 list the notes with a tag and in a language, `tag` and `lang` all tags and languages. Items in a \
                 real folder named `tag`, `lang` or `file` are at `file/…`.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        Ok(Self { folder: Folder::open(&settings.dir, Rc::new(DotNames))?, settings })
    }

    /// Without a parent: every file at any depth, sorted by path.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent.map(Route::parse).transpose()? {
            None => self.list_names(|behind, budget| self.folder.files("", behind, budget), cursor, limit),
            Some(place) => self.list_route(&place, cursor, limit),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let mut place = Route::parse(path)?;
        if let Route::Item(names) = &place {
            let item = self.folder.find(names)?;
            if item.kind == ItemKind::File {
                return Ok(vec![note::read(self, &item)?]);
            }
            place = Route::Item(item.found.names);
        }
        match collection_of(&place) {
            Some((field, value)) if !collection::is_in_use(self, field, value)? => Err(Failure::NotFound),
            _ => Ok(vec![Contents::directory(self.route_entry(&place)?)]),
        }
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let place = Route::parse(path)?;
        match collection_of(&place) {
            Some((field, value)) if !collection::is_in_use(self, field, value)? => Err(Failure::NotFound),
            _ => self.route_entry(&place),
        }
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(FILE_TEMPLATE, "file")
                .title("A note or attachment")
                .description("`path` is the path of a file in the folder, or of a subfolder."),
            Template::new(TAG_TEMPLATE, "tag")
                .title("Notes by tag")
                .description("`tag` is a tag in their front matter."),
            Template::new(LANG_TEMPLATE, "lang")
                .title("Notes by language")
                .description("`lang` is the language in their front matter, such as `ja` or `en-GB`."),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, _: &[Argument]) -> Result<Completion> {
        let field = match template {
            TAG_TEMPLATE => Field::Tags,
            LANG_TEMPLATE => Field::Language,
            _ => {
                return Ok(Completion::matching(self.files_under(&argument.value)?, &argument.value));
            }
        };
        let mut values: Vec<(String, usize)> = collection::values(self, field)?.into_iter().collect();
        values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Ok(Completion::matching(values.into_iter().map(|(value, _)| value), &argument.value))
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        changes::changes(&self.folder, watched, since, |path| match Route::parse(path) {
            Ok(Route::Item(names)) => Watched::Item(names),
            Ok(Route::Tags | Route::Tag(_) | Route::Languages | Route::Language(_)) => Watched::AllFiles,
            Err(_) => Watched::Nothing,
        })
    }
}

impl Notes {
    fn list_route(&self, place: &Route, cursor: Option<&str>, limit: usize) -> Result<Page> {
        if let Some((field, value)) = collection_of(place) {
            return self.list_collection(field, value, cursor, limit);
        }
        match place {
            Route::Tags => self.list_values(Field::Tags, cursor, limit),
            Route::Languages => self.list_values(Field::Language, cursor, limit),
            Route::Item(names) if self.folder.find(names)?.kind == ItemKind::Folder => {
                self.list_names(|behind, budget| self.folder.children(names, behind, budget), cursor, limit)
            }
            _ => Err(Failure::invalid("expected a folder or a collection as the parent, found a file")),
        }
    }

    /// Lists the items of a walk, in the configured order. `walk` starts a walk after a position.
    fn list_names<'n>(
        &'n self,
        walk: impl Fn(&str, WalkBudget) -> Result<Walk<'n>>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page> {
        let entry = |found: &Found, cost: &mut PageCost| self.entry_for_listing(found, cost);
        if self.settings.order == Order::Reading {
            let reading = |found: &Found| Some(self.reading(found));
            let entry = |found: &Found| entry(found, &mut PageCost::default());
            let sorted = reading::page(walk("", WalkBudget::UNLIMITED)?, cursor, limit, reading, entry)?;
            if let Some(page) = sorted {
                return Ok(page);
            }
        }
        listing::page(walk(listing::parse_cursor(cursor)?, WalkBudget::for_page(limit))?, limit, entry)
    }

    /// Returns the reading of an item: its `reading`, its title, or its name.
    fn reading(&self, found: &Found) -> String {
        let head = collection::head(self, found).map(|head| head.front_matter);
        let written = head.and_then(|front_matter| front_matter.reading.or(front_matter.title));
        written.unwrap_or_else(|| found.name().to_owned())
    }

    fn list_collection(&self, field: Field, value: &str, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let matching = |found: &Found, cost: &mut PageCost| {
            let head = collection::head(self, found)?;
            cost.add_parsed(head.front_matter.cost);
            field.matches(&head.front_matter, value).then_some(head)
        };
        let entry =
            |found: &Found, head: &Head| Some(note::entry_with_head(self, &self.folder.item_for_listing(found)?, head));
        let sorted = if self.settings.order == Order::Reading {
            let reading = |found: &Found| {
                let FrontMatter { reading, title, .. } = matching(found, &mut PageCost::default())?.front_matter;
                Some(reading.or(title).unwrap_or_else(|| found.name().to_owned()))
            };
            let entry = |found: &Found| entry(found, &collection::head(self, found)?);
            reading::page(self.folder.files("", "", WalkBudget::UNLIMITED)?, cursor, limit, reading, entry)?
        } else {
            None
        };
        let page = match sorted {
            Some(page) => page,
            None => {
                let behind = listing::parse_cursor(cursor)?;
                let walk = self.folder.files("", behind, WalkBudget::for_page(COLLECTION_READ_AHEAD))?;
                listing::page(walk, limit, |found, cost| entry(found, &matching(found, cost)?))?
            }
        };
        // Only a collection with notes exists.
        let is_nothing = cursor.is_none() && page.next_cursor.is_none() && page.entries.is_empty();
        if is_nothing { Err(Failure::NotFound) } else { Ok(page) }
    }

    fn list_values(&self, field: Field, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let values = collection::values(self, field)?;
        let page = keyset::page(values.into_keys(), cursor, limit, String::as_str)?;
        Ok(page.map(|value| collection::entry(field, &value)))
    }

    fn route_entry(&self, place: &Route) -> Result<Entry> {
        Ok(match place {
            Route::Item(names) => self.item_entry(&self.folder.find_exact(names)?)?,
            Route::Tags => collection::all_entry(Field::Tags),
            Route::Languages => collection::all_entry(Field::Language),
            Route::Tag(tag) => collection::entry(Field::Tags, tag),
            Route::Language(language) => collection::entry(Field::Language, language),
        })
    }

    /// Returns the entry of a file for a listing. An unreadable file is omitted, so the listing does not fail.
    fn entry_for_listing(&self, found: &Found, cost: &mut PageCost) -> Option<Entry> {
        let item = self.folder.item_for_listing(found)?;
        let names = found.names.as_str();
        if item.kind == ItemKind::Folder || !markup::is_text(names) {
            return self.item_entry(&item).ok();
        }
        match note::head(self, found) {
            Ok(head) => {
                cost.add_parsed(head.front_matter.cost);
                Some(note::entry_with_head(self, &item, &head))
            }
            Err(failure @ (Failure::Denied(_) | Failure::NotFound)) => {
                log::warn!("{names:?} omitted: {failure}");
                None
            }
            Err(failure) => {
                log::warn!("{names:?} listed without its front matter: {failure}");
                Some(note::entry_with_fault(self, &item, &failure))
            }
        }
    }

    /// Returns the files at any depth in the typed folder, as values of `{+path}`.
    fn files_under(&self, typed: &str) -> Result<Vec<String>> {
        let folder = typed.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_there = matches!(Route::parse(&path::encode(folder)), Ok(Route::Item(names)) if names == folder);
        // After `file/`, the value is a path in another folder, so the whole tree is searched.
        let folder = if is_there { folder } else { "" };
        let mut walk = match self.folder.files(folder, "", WalkBudget::UNLIMITED) {
            Ok(walk) => walk,
            Err(_) => return Ok(Vec::new()),
        };
        let mut values = Vec::new();
        while let Some(found) = walk.next_found()? {
            values.extend(Route::Item(found.names).template_value());
        }
        Ok(values)
    }

    fn item_entry(&self, item: &Item) -> Result<Entry> {
        match item.kind {
            ItemKind::File => note::entry(self, item),
            ItemKind::Folder => Ok(folder_entry(item)),
        }
    }
}

fn folder_entry(folder: &Item) -> Entry {
    let name = if folder.names().is_empty() { "notes" } else { folder.name() };
    let entry = Entry::directory(Route::Item(folder.names().to_owned()).path(), name).subscribable();
    match folder.modified {
        Some(modified) => entry.last_modified(modified),
        None => entry,
    }
}

/// Returns the field and the value of a collection of notes.
fn collection_of(place: &Route) -> Option<(Field, &str)> {
    match place {
        Route::Tag(tag) => Some((Field::Tags, tag)),
        Route::Language(language) => Some((Field::Language, language)),
        _ => None,
    }
}

export!(Notes);
