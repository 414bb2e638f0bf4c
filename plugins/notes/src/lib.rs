//! A provider of a folder of Markdown notes.
//!
//! Notes are `.md` files. Their front matter becomes title, description and annotations; other files in the folder are
//! served unchanged. The `README.md` of this crate is for users; for the code, see `route` for the meaning of paths,
//! and `front_matter` for the metadata of notes. The crate `folder` has the visible items, pages and change tokens.

mod collection;
mod front_matter;
mod note;
mod route;
mod settings;

use collection::Field;
use folder::changes::{self, Watched};
use folder::listing::{self, PageCost};
use folder::{DotNames, Folder, Found, Item, ItemKind, Walk, WalkBudget, index};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
    keyset, log, path,
};
use route::Route;
use settings::Settings;
use std::rc::Rc;

mcp_provider::needs! {
    "dirs": [{ "guest": "/notes", "mode": "ro", "why": "the folder of notes" }],
    "config": {
        "dir": { "type": "string", "default": "/notes", "why": "the folder, at its guest path" },
        "max-file-bytes": { "type": "integer", "default": 16777216, "why": "the largest file that is read" }
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
    max_file_bytes: u64,
}

impl Provider for Notes {
    fn describe() -> Info {
        Info::new("notes", env!("CARGO_PKG_VERSION"))
            .title("A folder of notes")
            .description(
                "Markdown notes and their attachments, each at its path in the folder. `tag/{tag}` and `lang/{lang}` \
                 list the notes with a tag and in a language, `tag` and `lang` all tags and languages. Items in a \
                 real folder named `tag`, `lang` or `file` are at `file/…`.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        Ok(Self { folder: Folder::open(&settings.dir, Rc::new(DotNames))?, max_file_bytes: settings.max_file_bytes })
    }

    /// Without a parent: every file at any depth, sorted by path.
    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent.map(Route::parse).transpose()? {
            None => {
                let behind = listing::parse_cursor(cursor)?;
                self.list_names(self.folder.files("", behind, WalkBudget::for_page(limit))?, limit)
            }
            Some(place) => self.list_route(&place, cursor, limit),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let mut place = Route::parse(path)?;
        if let Route::Item(names) = &place {
            let item = self.folder.find(names)?;
            if item.kind == ItemKind::File {
                return Ok(vec![note::read(&self.folder, &item, self.max_file_bytes)?]);
            }
            place = Route::Item(item.found.names);
        }
        let page = self.list_route(&place, None, index::MAX_LINES)?;
        Ok(vec![index::index(self.route_entry(&place)?, &page.entries, page.next_cursor.is_some())])
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let place = Route::parse(path)?;
        match collection_of(&place) {
            Some((field, value)) if !collection::is_in_use(&self.folder, field, value)? => Err(Failure::NotFound),
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
        let mut values: Vec<(String, usize)> = collection::values(&self.folder, field)?.into_iter().collect();
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
                let behind = listing::parse_cursor(cursor)?;
                self.list_names(self.folder.children(names, behind, WalkBudget::for_page(limit))?, limit)
            }
            _ => Err(Failure::invalid("expected a folder or a collection as the parent, found a file")),
        }
    }

    fn list_names(&self, walk: Walk<'_>, limit: usize) -> Result<Page> {
        listing::page(walk, limit, |found, cost| self.entry_for_listing(found, cost))
    }

    fn list_collection(&self, field: Field, value: &str, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let walk =
            self.folder.files("", listing::parse_cursor(cursor)?, WalkBudget::for_page(COLLECTION_READ_AHEAD))?;
        let page = listing::page(walk, limit, |found, cost| {
            let front_matter = collection::front_matter(&self.folder, found)?;
            cost.add_parsed(front_matter.cost);
            let file = Some(found).filter(|_| field.matches(&front_matter, value));
            Some(note::entry_with_front_matter(&self.folder.item_for_listing(file?)?, &front_matter))
        })?;
        // A collection exists as long as it is not empty.
        let is_nothing = cursor.is_none() && page.next_cursor.is_none() && page.entries.is_empty();
        if is_nothing { Err(Failure::NotFound) } else { Ok(page) }
    }

    fn list_values(&self, field: Field, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let values = collection::values(&self.folder, field)?;
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

    /// Returns the entry of a file for a listing; an unreadable one is omitted, so that the rest is listed.
    fn entry_for_listing(&self, found: &Found, cost: &mut PageCost) -> Option<Entry> {
        let item = self.folder.item_for_listing(found)?;
        let names = found.names.as_str();
        if item.kind == ItemKind::Folder || !note::is_note(names) {
            return self.item_entry(&item).ok();
        }
        match note::front_matter(&self.folder, found) {
            Ok(front_matter) => {
                cost.add_parsed(front_matter.cost);
                Some(note::entry_with_front_matter(&item, &front_matter))
            }
            Err(failure @ (Failure::Denied(_) | Failure::NotFound)) => {
                log::warn!("{names:?} omitted: {failure}");
                None
            }
            Err(failure) => {
                log::warn!("{names:?} listed without its front matter: {failure}");
                Some(note::entry_with_fault(&item, &failure))
            }
        }
    }

    /// Returns the files at any depth in the folder typed so far, as values of `{+path}`.
    fn files_under(&self, typed: &str) -> Result<Vec<String>> {
        let folder = typed.rsplit_once('/').map_or("", |(folder, _)| folder);
        let is_there = matches!(Route::parse(&path::encode(folder)), Ok(Route::Item(names)) if names == folder);
        // After `file/` follows a path in another folder: the whole tree is searched for it.
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
            ItemKind::File => note::entry(&self.folder, item),
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
