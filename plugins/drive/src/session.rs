//! One call of the provider: the API, the cache, and functions that several routes share.

use crate::api::{Client, Corpora, Error, ExportFormats, File, FileQuery};
use crate::id::Id;
use crate::query;
use crate::settings::Settings;
use crate::store::Cache;
use crate::tree::Tree;
use mcp_provider::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::time::Duration;

/// The key of the export formats in the bucket.
const EXPORT_FORMATS: &str = "export-formats";

/// The time to live of the export formats.
const EXPORT_FORMATS_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// One call of the provider.
pub(crate) struct Session<'a> {
    pub(crate) client: Client<'a>,
    pub(crate) cache: Cache<'a>,
    pub(crate) settings: &'a Settings,
    pub(crate) tree: OnceCell<Tree>,
    pub(crate) formats: OnceCell<ExportFormats>,
}

/// A served file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Served {
    /// The file, or the shortcut to it: the id, the name and the parent folder.
    pub(crate) file: File,
    /// The file with the content.
    pub(crate) target: File,
}

/// The export formats as they are stored.
#[derive(Serialize, Deserialize)]
struct StoredFormats {
    at: u64,
    formats: ExportFormats,
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: Client<'a>, cache: Cache<'a>, settings: &'a Settings) -> Self {
        Self { client, cache, settings, tree: OnceCell::new(), formats: OnceCell::new() }
    }

    /// Returns the tree of folders.
    pub(crate) fn tree(&self) -> Result<&Tree> {
        if let Some(tree) = self.tree.get() {
            return Ok(tree);
        }
        let tree = Tree::load(&self.client, self.cache, self.settings)?;
        Ok(self.tree.get_or_init(|| tree))
    }

    /// Returns the export formats of Google's types.
    pub(crate) fn export_formats(&self) -> Result<&ExportFormats> {
        if let Some(formats) = self.formats.get() {
            return Ok(formats);
        }
        let stored: Option<StoredFormats> =
            self.cache.get(EXPORT_FORMATS).and_then(|value| serde_json::from_slice(&value).ok());
        let formats = match stored.filter(|stored| self.cache.is_fresh(stored.at, EXPORT_FORMATS_TTL)) {
            Some(stored) => stored.formats,
            None => {
                let stored = StoredFormats { at: self.cache.now_millis(), formats: self.client.export_formats()? };
                if let Ok(value) = serde_json::to_vec(&stored) {
                    self.cache.set(EXPORT_FORMATS, &value);
                }
                stored.formats
            }
        };
        Ok(self.formats.get_or_init(|| formats))
    }

    /// Returns a served file, with the file that has its content. A file out of scope is not found.
    pub(crate) fn served(&self, id: &Id) -> Result<Served> {
        let file = self.client.file(id)?;
        if file.id != *id || file.trashed || file.is_folder() || !self.is_in_scope(&file)? {
            return Err(Failure::NotFound);
        }
        let Some(shortcut) = &file.shortcut_details else {
            return Ok(Served { target: file.clone(), file });
        };
        if !self.settings.follow_shortcuts {
            return Err(Failure::NotFound);
        }
        let target = self.client.file(&shortcut.target_id)?;
        if target.trashed || target.is_folder() || target.is_shortcut() {
            return Err(Failure::NotFound);
        }
        Ok(Served { file, target })
    }

    /// Returns whether a file is in a folder of the tree, or matches one of the config's queries. Drive's query
    /// language has no condition for an id, so the file is searched by its name.
    fn is_in_scope(&self, file: &File) -> Result<bool> {
        if self.settings.unlisted || self.tree()?.parent_of(file).is_some() {
            return Ok(true);
        }
        if self.settings.queries.is_empty() {
            return Ok(false);
        }
        let mut is_found = false;
        let named = query::named(&file.name);
        self.client
            .list_all(&self.saved_queries(Some(&named)), |found| is_found |= found.id == file.id)
            .map_err(query_fault)?;
        Ok(is_found)
    }

    /// Returns the query for files that match one of the config's queries, and the condition, if any.
    pub(crate) fn saved_queries(&self, condition: Option<&str>) -> FileQuery {
        let (any, files) = (query::any_of(&self.settings.queries), query::files(self.settings.follow_shortcuts));
        FileQuery {
            q: query::not_trashed_and([Some(any.as_str()), Some(&files), condition].into_iter().flatten()),
            corpora: Corpora::All,
            order_by: None,
            page_size: 100,
        }
    }
}

/// Converts the error of a query with conditions of the config.
pub(crate) fn query_fault(error: Error) -> Failure {
    match error {
        Error::Invalid(said) => {
            Failure::internal(format!("config key `queries`: expected queries in Drive's language; {said}"))
        }
        error => error.into(),
    }
}
