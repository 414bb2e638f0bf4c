//! A provider of the documents of a Google Drive.
//!
//! Only the scope of the config is served. The `README.md` of this crate is for users; for the code, see `route` for
//! paths, `api` for requests and their bounds, `tree` and `session` for the scope, `listing` and `search` for finding
//! files, `format`, `content`, `text` and `sheets` for reading, `chunk` and `sections` for chunks, `changes` for
//! subscriptions. HTTP is behind the trait [`Transport`], the bucket behind [`Store`], time behind a function.

mod api;
mod changes;
mod chunk;
mod complete;
mod content;
mod entries;
mod format;
mod id;
mod listing;
mod query;
mod route;
mod search;
mod sections;
mod session;
mod settings;
mod sheets;
mod store;
mod text;
mod tree;

pub use api::{Response, Transport, WasiHttp};

use api::Client;
use content::Document;
use mcp_provider::keyvalue::{LazyBucket, Store};
use mcp_provider::{
    Argument, Changes, Completion, Config, Contents, Entry, Failure, Info, Page, Provider, Result, Template, export,
};
use route::{CHUNK, FILE, FOLDER, Route, SEARCH, SHEET};
use session::Session;
use settings::Settings;
use std::time::SystemTime;
use store::Cache;

mcp_provider::needs! {
    "http": [{ "origin": "https://www.googleapis.com", "why": "the Drive API, with a credential for the scope drive.readonly" }],
    "keyvalue": [{ "bucket": "drive", "why": "the tree of folders, and texts with their chunks; without it every read exports" }],
    "config": {
        "folders": { "type": "array", "default": [], "why": "ids of folders or shared drives that are served, with everything below them" },
        "queries": { "type": "array", "default": [], "why": "queries in Drive's language whose results are served" },
        "unlisted": { "type": "boolean", "default": false, "why": "serve every file that the account can read, too" },
        "follow-shortcuts": { "type": "boolean", "default": false, "why": "serve the targets of shortcuts, wherever they are" },
        "url": { "type": "string", "default": "https://www.googleapis.com", "why": "the address of the API" },
        "bucket": { "type": "string", "default": "drive", "why": "the bucket" },
        "refresh": { "type": "string", "default": "60s", "why": "how long the tree of folders and metadata are fresh" },
        "timeout": { "type": "string", "default": "4s", "why": "how long one call waits for Drive; below the plugin's deadline" },
        "max-folders": { "type": "integer", "default": 500, "why": "the largest number of folders that are served" },
        "max-files": { "type": "integer", "default": 10000, "why": "the largest number of files that are listed" },
        "max-read": { "type": "string", "default": "8MiB", "why": "the most that one read returns" },
        "chunk-size": { "type": "string", "default": "4000B", "why": "the largest chunk, in bytes" },
        "chunk-overlap": { "type": "string", "default": "200B", "why": "the most that a chunk repeats of the one before" }
    }
}

/// A provider of documents.
pub struct Drive {
    settings: Settings,
    transport: Box<dyn Transport>,
    store: Box<dyn Store>,
    now: fn() -> SystemTime,
}

impl Drive {
    /// Creates a provider with another transport, store and clock.
    ///
    /// # Errors
    ///
    /// [`Failure::Internal`] if the config is invalid.
    pub fn with(
        config: &Config,
        transport: Box<dyn Transport>,
        store: Box<dyn Store>,
        now: fn() -> SystemTime,
    ) -> Result<Self> {
        Ok(Self { settings: Settings::parse(config)?, transport, store, now })
    }

    /// Begins a call.
    fn session(&self) -> Session<'_> {
        let client = Client::new(self.transport.as_ref(), &self.settings);
        Session::new(client, Cache::new(self.store.as_ref(), (self.now)()), &self.settings)
    }
}

impl Provider for Drive {
    fn describe() -> Info {
        Info::new("drive", env!("CARGO_PKG_VERSION"))
            .title("Documents of a Google Drive")
            .description(
                "The files below the folders of the config, and those that match its queries. `search?q=` finds files by \
                 their text. `file/{id}` is a file: documents as Markdown, spreadsheets as CSV for each sheet, \
                 presentations as text, others as they are. `file/{id}/chunk/{n}` is a chunk of a text, by headings; \
                 listing the file lists its chunks with their headings. `folder/{id}` lists a folder.",
            )
            .watches(true)
    }

    fn open(config: &Config) -> Result<Self> {
        let settings = Settings::parse(config)?;
        let store = LazyBucket::new(settings.bucket.as_str());
        Ok(Self { settings, transport: Box::new(WasiHttp), store: Box::new(store), now: SystemTime::now })
    }

    fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let session = self.session();
        match parent.map(Route::parse).transpose()? {
            None => listing::list(&session, cursor, limit),
            Some(Route::Folder(id)) => listing::children(&session, &id, cursor, limit),
            Some(Route::Search(_)) if cursor.is_some() => Err(listing::foreign_cursor()),
            Some(Route::Search(text)) => search::list(&session, &text),
            Some(Route::File(id, None)) => Document::open(&session, &id)?.list(cursor, limit),
            Some(_) => Err(Failure::invalid("expected a folder, a file or a search as the parent")),
        }
    }

    fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let session = self.session();
        match Route::parse(path)? {
            Route::Folder(id) => listing::read_folder(&session, &id).map(|index| vec![index]),
            Route::File(id, bytes) => Document::open(&session, &id)?.read(path, bytes),
            Route::Chunk(id, number) => Document::open(&session, &id)?.read_chunk(number).map(|chunk| vec![chunk]),
            Route::Sheet(id, number) => Document::open(&session, &id)?.read_sheet(number).map(|sheet| vec![sheet]),
            Route::Search(text) => Ok(vec![Contents::directory(search::entry(&session, path, &text))]),
        }
    }

    fn stat(&self, path: &str) -> Result<Entry> {
        let session = self.session();
        match Route::parse(path)? {
            Route::Folder(id) => {
                let folder = session.tree()?.get(&id).ok_or(Failure::NotFound)?;
                Ok(entries::folder(&session, &id, folder))
            }
            Route::File(id, None) => Document::open(&session, &id)?.entry(),
            Route::Search(text) => Ok(search::entry(&session, path, &text)),
            _ => self.read(path)?.into_iter().next().map(|contents| contents.entry).ok_or(Failure::NotFound),
        }
    }

    fn templates(&self) -> Vec<Template> {
        vec![
            Template::new(SEARCH, "search")
                .title("Files that contain a text")
                .description("`q` is the text; the result is a list of at most 50 files, the most relevant first."),
            Template::new(FILE, "file").title("A file").description(
                "`id` is the id of the file, which is completed from its name; `bytes` a range such as `0-4095` of a large one.",
            ),
            Template::new(CHUNK, "chunk")
                .title("A chunk of a document")
                .description("A part of the text, by its headings. `id` is the id of the file; `n` the number of the chunk, from 1."),
            Template::new(SHEET, "sheet")
                .title("A sheet of a spreadsheet")
                .description("The values as CSV. `id` is the id of the file; `n` the number of the sheet, from 1.")
                .mime_type(format::CSV),
            Template::new(FOLDER, "folder").title("A folder").description("`id` is the id of the folder."),
        ]
    }

    fn complete(&self, template: &str, argument: &Argument, known: &[Argument]) -> Result<Completion> {
        complete::complete(&self.session(), template, argument, known)
    }

    fn changes(&self, watched: &[String], since: Option<&str>) -> Result<Changes> {
        changes::changes(&self.session(), watched, since)
    }
}

export!(Drive);
