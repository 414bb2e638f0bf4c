//! The tree of folders below the config's folders.
//!
//! The tree defines the scope: a file is in scope if one of its parents is in the tree. The tree is built level by
//! level, with one query for [`BATCH`] folders at a time, and is stored in the bucket for `refresh`. A folder occurs
//! once, so loops of folders and shortcuts end. The tree has at most `max-folders` folders; files in further folders
//! are not served.

use crate::api::{Client, Corpora, Error, FOLDER, File, FileQuery};
use crate::id::Id;
use crate::query;
use crate::settings::Settings;
use crate::store::{Cache, digest};
use mcp_provider::{Failure, Result, log};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Bound;

/// The number of folders that one query names.
pub(crate) const BATCH: usize = 50;

/// The maximum number of names in a path.
const MAX_PATH: usize = 20;

/// The key of the tree in the bucket.
const KEY: &str = "tree";

/// The tree of folders.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// The config's folders that exist.
    pub(crate) roots: Vec<Id>,
    folders: BTreeMap<Id, Folder>,
    /// Whether there are more folders than `max-folders`.
    is_cut: bool,
}

/// A folder in the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folder {
    pub(crate) name: String,
    /// The parent in the tree; `None` for a root.
    parent: Option<Id>,
    place: Place,
}

/// The location of a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum Place {
    /// In My Drive, or shared with the account.
    User,
    /// In a shared drive.
    Drive(Id),
    /// The unknown location of a shortcut's target.
    Unknown,
}

impl Place {
    fn of(file: &File) -> Self {
        file.drive_id.clone().map_or(Self::User, Self::Drive)
    }
}

/// The stored form of the tree.
#[derive(Serialize, Deserialize)]
struct Stored {
    /// When it was built, in milliseconds since 1970.
    at: u64,
    /// The digest of the config for which the tree was built.
    config: u64,
    tree: Tree,
}

impl Tree {
    /// Returns the stored tree while it is fresh, else builds a new one.
    pub(crate) fn load(client: &Client<'_>, cache: Cache<'_>, settings: &Settings) -> Result<Self> {
        if settings.folders.is_empty() {
            return Ok(Self::default());
        }
        let config = digest(&(&settings.url, &settings.folders, settings.follow_shortcuts, settings.max_folders));
        let stored: Option<Stored> = cache
            .get(KEY)
            .and_then(|value| serde_json::from_slice(&value).ok())
            .filter(|stored: &Stored| stored.config == config && cache.is_fresh(stored.at, settings.refresh));
        if let Some(stored) = stored {
            return Ok(stored.tree);
        }
        let stored = Stored { at: cache.now_millis(), config, tree: Self::build(client, settings)? };
        if let Ok(value) = serde_json::to_vec(&stored) {
            cache.set(KEY, &value);
        }
        Ok(stored.tree)
    }

    /// Deletes the stored tree, because a folder changed.
    pub(crate) fn forget(cache: Cache<'_>) {
        cache.delete(&[KEY]);
    }

    fn build(client: &Client<'_>, settings: &Settings) -> Result<Self> {
        let mut tree = Self::default();
        let mut level = Vec::new();
        for root in &settings.folders {
            match root_folder(client, root) {
                Ok((id, folder)) => {
                    tree.roots.push(id.clone());
                    if tree.insert(id.clone(), folder, settings.max_folders) {
                        level.push(id);
                    }
                }
                Err(Error::NotFound) => log::warn!(
                    "the folder `{root}` of the config is not found, or in the trash; share it with the account of the credential"
                ),
                Err(error) => return Err(error.into()),
            }
        }
        if level.is_empty() {
            return Err(Failure::internal(
                "none of the `folders` of the config is found: share them with the account of the credential",
            ));
        }
        while !level.is_empty() {
            level = tree.add_level(client, settings, &level)?;
        }
        if tree.is_cut {
            let max = settings.max_folders;
            log::warn!(
                "there are more than {max} folders, the `max-folders` of this plugin: those below are not served"
            );
        }
        Ok(tree)
    }

    /// Adds the subfolders of a level, and returns them: the next level.
    fn add_level(&mut self, client: &Client<'_>, settings: &Settings, level: &[Id]) -> Result<Vec<Id>> {
        let follow = settings.follow_shortcuts;
        let mut next = Vec::new();
        for batch in level.chunks(BATCH) {
            let conditions = [query::folders(follow), query::in_folders(batch)];
            let query = FileQuery {
                q: query::not_trashed_and(conditions.iter().map(String::as_str)),
                corpora: self.corpora(batch),
                order_by: None,
                page_size: 1000,
            };
            client.list_all(&query, |file| {
                let Some((id, folder)) = subfolder(file, batch, follow) else { return };
                if self.insert(id.clone(), folder, settings.max_folders) {
                    next.push(id);
                }
            })?;
            if self.is_cut {
                return Ok(Vec::new());
            }
        }
        Ok(next)
    }

    /// Inserts a folder, unless the tree contains it or is full. Returns whether it was inserted.
    fn insert(&mut self, id: Id, folder: Folder, max: usize) -> bool {
        if self.folders.contains_key(&id) {
            return false;
        }
        if self.folders.len() >= max {
            self.is_cut = true;
            return false;
        }
        self.folders.insert(id, folder);
        true
    }

    /// Returns the folders with their names.
    pub(crate) fn folders(&self) -> impl Iterator<Item = (&Id, &str)> {
        self.folders.iter().map(|(id, folder)| (id, folder.name.as_str()))
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Folder> {
        self.folders.get(id)
    }

    /// Returns the folder of the tree that contains a file. If there are several, the first by id.
    pub(crate) fn parent_of(&self, file: &File) -> Option<&Id> {
        let parent = file.parents.iter().filter(|parent| self.folders.contains_key(parent)).min()?;
        self.folders.get_key_value(parent).map(|(id, _)| id)
    }

    /// Returns the first [`BATCH`] folders after one, by id.
    pub(crate) fn batch_after(&self, after: Option<&Id>) -> Vec<Id> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.folders.range((start, Bound::Unbounded)).take(BATCH).map(|(id, _)| id.clone()).collect()
    }

    /// Returns the names of the folders from the root to a folder: `Team/Specs`.
    pub(crate) fn path(&self, folder: &Id) -> String {
        let mut names = Vec::new();
        let mut next = Some(folder);
        while let Some(folder) = next.and_then(|id| self.folders.get(id)).filter(|_| names.len() < MAX_PATH) {
            names.push(folder.name.as_str());
            next = folder.parent.as_ref();
        }
        names.reverse();
        names.join("/")
    }

    /// Returns the search scope for files in these folders.
    pub(crate) fn corpora(&self, folders: &[Id]) -> Corpora {
        let mut places = folders.iter().filter_map(|id| Some(&self.folders.get(id)?.place));
        let first = places.next();
        match first.filter(|first| places.all(|other| other == *first)) {
            Some(Place::User) => Corpora::User,
            Some(Place::Drive(drive)) => Corpora::Drive(drive.clone()),
            Some(Place::Unknown) | None => Corpora::All,
        }
    }
}

/// Returns a folder of the config. Its id differs from the config if the latter is an alias, such as `root`.
fn root_folder(client: &Client<'_>, id: &Id) -> std::result::Result<(Id, Folder), Error> {
    let file = client.file(id)?;
    if file.trashed {
        return Err(Error::NotFound);
    }
    if !file.is_folder() {
        let fault = format!("config key `folders`: expected folders, found `{id}` of type `{}`", file.mime_type);
        return Err(Failure::internal(fault).into());
    }
    let place = Place::of(&file);
    // The root of a shared drive has the drive's id, and the name `Drive`.
    let name = match &place {
        Place::Drive(drive) if *drive == file.id => client.drive_name(drive).unwrap_or(file.name),
        _ => file.name,
    };
    Ok((file.id, Folder { name, parent: None, place }))
}

/// Returns a folder in one of the parents, or the folder that a shortcut in one refers to.
fn subfolder(file: File, parents: &[Id], follow_shortcuts: bool) -> Option<(Id, Folder)> {
    let parent = file.parents.iter().find(|parent| parents.contains(parent))?.clone();
    let (id, place) = match &file.shortcut_details {
        Some(shortcut) if follow_shortcuts && shortcut.target_mime_type == FOLDER => {
            (shortcut.target_id.clone(), Place::Unknown)
        }
        None if file.is_folder() => (file.id.clone(), Place::of(&file)),
        _ => return None,
    };
    Some((id, Folder { name: file.name, parent: Some(parent), place }))
}
