//! The catalog of published results.
//!
//! A result exists while its metadata file exists and is valid, the result has a content file, no file size differs
//! from `files`, and the result has not expired. It is *current* unless it is superseded.
//!
//! A result supersedes the results that its metadata name, if they are older: by `created` (or, without it, the time of
//! the metadata file), then by id. In a circle, the newest result is therefore current. An expired result still
//! supersedes others: the results that it replaced do not come back.
//!
//! To determine this for one result, the metadata of all results are read: at most [`MAX_RESULTS`] files of 64 KiB, one
//! after the other.

use crate::metadata::{self, Metadata};
use crate::route::is_reserved;
use crate::settings::Settings;
use folder::{Folder, Found, Item, WalkBudget};
use mcp_provider::{Failure, Result, log};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// The maximum number of results in a directory.
const MAX_RESULTS: usize = 20_000;

/// The age of metadata up to which the replacement of their result may be in progress.
const REPLACEMENT_TIME: Duration = Duration::from_secs(60);

/// The suffix of metadata files.
const METADATA: &str = ".meta.json";

/// The extensions of content files in the order of reading, with their MIME types.
pub(crate) const TYPES: [(&str, &str); 3] =
    [("md", "text/markdown"), ("json", "application/json"), ("csv", "text/csv")];

/// The results that have not expired.
#[derive(Debug)]
pub(crate) struct Catalog {
    /// By id.
    results: BTreeMap<String, Published>,
}

/// A result that has not expired.
#[derive(Debug)]
pub(crate) struct Published {
    /// The id: its names without the extension.
    pub(crate) id: String,
    /// The metadata.
    pub(crate) metadata: Metadata,
    /// The creation time in the metadata or, without it, the modification time of the metadata file.
    pub(crate) created: SystemTime,
    /// The content files, in the order of [`TYPES`].
    pub(crate) files: Vec<File>,
    /// The id of the result that supersedes it.
    pub(crate) superseded_by: Option<String>,
}

/// A content file.
#[derive(Debug)]
pub(crate) struct File {
    /// The file.
    pub(crate) item: Item,
    /// Its MIME type.
    pub(crate) mime_type: &'static str,
}

impl Published {
    /// Returns a key that sorts results by time, newest first.
    pub(crate) fn age_key(&self) -> String {
        let created = self.created.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis();
        format!("{:020}/{}", u64::MAX.saturating_sub(u64::try_from(created).unwrap_or(u64::MAX)), self.id)
    }

    /// Returns whether all files are within the size limit.
    fn is_readable(&self, settings: &Settings) -> bool {
        self.files.iter().all(|file| usize::try_from(file.item.size).is_ok_and(|size| size <= settings.max_file))
    }
}

impl Catalog {
    /// Reads the directory.
    ///
    /// # Errors
    ///
    /// The failures of the file system; [`Failure::Unavailable`] if there are too many results.
    pub(crate) fn read(folder: &Folder, now: SystemTime) -> Result<Self> {
        let files = content_files(folder)?;
        let mut results = BTreeMap::new();
        for (id, found) in &files.metadata {
            let Some(result) = published(folder, id, found, &files, now) else { continue };
            results.insert(id.clone(), result);
        }
        supersede(&mut results);
        results.retain(|_, result| result.metadata.expires.is_none_or(|expires| expires > now));
        Ok(Self { results })
    }

    /// Returns a result by its id, superseded or not.
    pub(crate) fn get(&self, id: &str) -> Option<&Published> {
        self.results.get(id)
    }

    /// Returns all results by id, superseded or not.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Published> {
        self.results.values()
    }

    /// Returns the current results, by id.
    pub(crate) fn current(&self) -> impl Iterator<Item = &Published> {
        self.all().filter(|result| result.superseded_by.is_none())
    }

    /// Returns the newest current result that fulfils a condition. Readable results are preferred.
    pub(crate) fn newest(&self, settings: &Settings, is_wanted: impl Fn(&Published) -> bool) -> Option<&Published> {
        let wanted = self.current().filter(|result| is_wanted(result));
        wanted.max_by_key(|result| (result.is_readable(settings), result.created, &result.id))
    }

    /// Returns the earliest time at which a result expires.
    pub(crate) fn next_expiry(&self) -> Option<SystemTime> {
        self.all().filter_map(|result| result.metadata.expires).min()
    }
}

/// The files of a directory, by id.
#[derive(Debug, Default)]
struct Files {
    metadata: BTreeMap<String, Found>,
    /// By id and number in [`TYPES`].
    contents: BTreeMap<(String, usize), Found>,
}

fn content_files(folder: &Folder) -> Result<Files> {
    let mut files = Files::default();
    let mut walk = folder.files("", "", WalkBudget::UNLIMITED)?;
    while let Some(found) = walk.next_found()? {
        if let Some(id) = found.names.strip_suffix(METADATA) {
            if !is_valid(id) {
                log::warn!("{:?} omitted: expected an id that does not begin with `latest` or `by/`", found.names);
                continue;
            }
            files.metadata.insert(id.to_owned(), found);
            if files.metadata.len() > MAX_RESULTS {
                return Err(Failure::unavailable(format!(
                    "there are more than {MAX_RESULTS} results; delete those that have expired, or serve parts of the \
                     directory by plugins of their own"
                )));
            }
        } else if let Some((id, number)) = TYPES.iter().enumerate().find_map(|(number, (extension, _))| {
            Some((found.names.strip_suffix(extension)?.strip_suffix('.')?, number))
        }) {
            files.contents.insert((id.to_owned(), number), found);
        }
    }
    Ok(files)
}

fn is_valid(id: &str) -> bool {
    !folder::last_name(id).is_empty() && !is_reserved(id)
}

/// Returns a result if it is published and complete. If not, the reason is logged as a warning; the host logs a warning
/// that repeats in each call only once.
fn published(folder: &Folder, id: &str, found: &Found, files: &Files, now: SystemTime) -> Option<Published> {
    let of_result = TYPES.iter().enumerate().filter_map(|(number, (extension, mime_type))| {
        let found = files.contents.get(&(id.to_owned(), number))?;
        Some((*extension, File { item: folder.item(found).ok()?, mime_type }))
    });
    let of_result: Vec<(&str, File)> = of_result.collect();
    let metadata = read_metadata(folder, id, found)?;
    let written = folder.item(found).ok()?.modified?;
    if let Err(reason) = check_files(&metadata, &of_result) {
        match now.duration_since(written) {
            Ok(age) if age >= REPLACEMENT_TIME => log::warn!("result {id:?} is not published: {reason}"),
            _ => log::debug!("result {id:?} is not published yet: {reason}"),
        }
        return None;
    }
    let created = metadata.created.unwrap_or(written);
    let files = of_result.into_iter().map(|(_, file)| file).collect();
    Some(Published { id: id.to_owned(), metadata, created, files, superseded_by: None })
}

/// Reads the metadata of a result; `None` if they are invalid, or were just deleted.
fn read_metadata(folder: &Folder, id: &str, found: &Found) -> Option<Metadata> {
    let bytes = folder.open_file(found).and_then(|file| file.read_at(0, metadata::MAX_BYTES.saturating_add(1)));
    let metadata = match bytes {
        Ok(bytes) => Metadata::parse(&bytes),
        Err(Failure::NotFound) => return None,
        Err(failure) => Err(failure.to_string()),
    };
    metadata.inspect_err(|reason| log::warn!("result {id:?} is not published: {reason}")).ok()
}

/// Fails unless the result has files, and they match the declaration in the metadata.
fn check_files(metadata: &Metadata, files: &[(&str, File)]) -> std::result::Result<(), &'static str> {
    if files.is_empty() {
        return Err("it has no `.md`, `.json` or `.csv` file");
    }
    let Some(sizes) = &metadata.files else { return Ok(()) };
    let is_as_declared = |(extension, file): &(&str, File)| sizes.get(*extension) == Some(&file.item.size);
    if sizes.len() == files.len() && files.iter().all(is_as_declared) {
        Ok(())
    } else {
        Err("its files are not those with the sizes in `files`")
    }
}

fn supersede(results: &mut BTreeMap<String, Published>) {
    let mut successors: BTreeMap<String, (SystemTime, String)> = BTreeMap::new();
    for result in results.values() {
        let this = (result.created, result.id.clone());
        for older in result.metadata.supersedes.iter().filter_map(|id| results.get(id)) {
            if (older.created, &older.id) < (this.0, &this.1)
                && successors.get(&older.id).is_none_or(|other| *other < this)
            {
                successors.insert(older.id.clone(), this.clone());
            }
        }
    }
    for (id, (_, successor)) in successors {
        if let Some(result) = results.get_mut(&id) {
            result.superseded_by = Some(successor);
        }
    }
}

/// Reads the content files of a result. Each must be complete, and have the size that the metadata declare.
///
/// # Errors
///
/// The failures of the file system; [`Failure::Unavailable`] if a file was just replaced by a file of another size.
pub(crate) fn read_files(
    folder: &Folder,
    settings: &Settings,
    result: &Published,
) -> Result<Vec<(Vec<u8>, &'static str)>> {
    let mut contents = Vec::new();
    for file in &result.files {
        let (bytes, item) = folder.read_whole(&file.item, settings.max_file)?;
        if result.metadata.files.is_some() && item.size != file.item.size {
            return Err(Failure::unavailable("the result is being replaced; try again"));
        }
        contents.push((bytes, file.mime_type));
    }
    Ok(contents)
}
