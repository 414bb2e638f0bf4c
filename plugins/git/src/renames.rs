//! Rename and copy detection: the file that an added file was renamed or copied from, as in git.
//!
//! Files with the same content are considered first, then files of which at least half of the content is the same
//! ([`similarity`](crate::similarity)). If several match, the most similar one is chosen, preferably one with the same
//! name. In both steps, removed files come before files that still exist, which are considered only for copies.

use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::learned::Question;
use crate::repo::Repository;
use crate::similarity::{MIN_SCORE, Pieces, may_be_similar};
use crate::tree::{FileWalk, Side};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use gix_object::Kind;

/// The maximum number of bytes that are compared for one response.
const MAX_COMPARED: u64 = 32 * 1024 * 1024;

/// The maximum size of a file whose content is compared, in bytes. Larger files match only if they are equal.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The maximum number of files that are considered for one added file.
const MAX_SOURCES: usize = 100_000;

/// The maximum number of files whose size or content is compared for one response.
const MAX_STEPS: usize = 1_000_000;

/// Detects renames, within one budget for all of them.
pub(crate) struct Renames<'r> {
    repository: &'r Repository,
    compared: u64,
    budget: Budget,
    is_truncated: bool,
}

/// An added file.
pub(crate) struct Added<'p> {
    /// The tree without the file.
    pub(crate) before: ObjectId,
    /// The tree with the file.
    pub(crate) after: ObjectId,
    /// The file's path.
    pub(crate) path: &'p BStr,
    /// The file.
    pub(crate) file: Side,
}

/// A possible source of the added file.
struct Source {
    path: BString,
    file: Side,
}

impl<'r> Renames<'r> {
    /// Creates a detector.
    pub(crate) fn new(repository: &'r Repository) -> Self {
        Self { repository, compared: 0, budget: repository.budget(MAX_STEPS), is_truncated: false }
    }

    /// Returns whether a limit excluded some files.
    pub(crate) fn is_truncated(&self) -> bool {
        self.is_truncated
    }

    /// Returns the removed file that an added file was renamed from.
    pub(crate) fn renamed_from(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        let question = Question::Renamed(&added.before, &added.after, added.path);
        self.repository.former_path(question, || Ok((self.search_removed(added)?, !self.is_truncated)))
    }

    /// Returns the file that an added file was renamed or copied from.
    pub(crate) fn copied_from(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        let question = Question::Copied(&added.before, &added.after, added.path);
        self.repository.former_path(question, || Ok((self.search_all(added)?, !self.is_truncated)))
    }

    fn search_removed(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        let removed = self.removed(added)?;
        match equal(added, &removed) {
            Some(path) => Ok(Some(path)),
            None => self.most_similar(added, removed),
        }
    }

    fn search_all(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        let removed = self.removed(added)?;
        if let Some(path) = equal(added, &removed) {
            return Ok(Some(path));
        }
        let mut all = Vec::new();
        for found in FileWalk::new(self.repository, &added.before, None)?.take(MAX_SOURCES) {
            let found = found?;
            all.push(Source { path: found.path, file: Side { mode: found.entry.mode, id: found.entry.id } });
        }
        if let Some(path) = equal(added, &all) {
            return Ok(Some(path));
        }
        match self.most_similar(added, removed)? {
            Some(path) => Ok(Some(path)),
            None => self.most_similar(added, all),
        }
    }

    fn removed(&self, added: &Added<'_>) -> Result<Vec<Source>> {
        let mut removed = Vec::new();
        self.repository.diff(Some(added.before), Some(added.after), |change| {
            if let (Some(file), None) = (change.before, change.after) {
                removed.push(Source { path: change.path, file });
            }
            removed.len() < MAX_SOURCES
        })?;
        Ok(removed)
    }

    /// Returns the most similar source, if one is similar enough.
    fn most_similar(&mut self, added: &Added<'_>, sources: Vec<Source>) -> Result<Option<BString>> {
        let odb = &self.repository.odb;
        let size = odb.size(&added.file.id)?.unwrap_or_default();
        if !added.file.mode.is_blob() || size > MAX_FILE {
            return Ok(None);
        }
        let mut candidates = Vec::new();
        for source in sources.into_iter().filter(|source| source.file.mode.is_blob()) {
            if self.compared > MAX_COMPARED || !self.budget.take() {
                self.is_truncated = true;
                break;
            }
            let source_size = odb.size(&source.file.id)?.unwrap_or_default();
            if may_be_similar(size, source_size) && source_size <= MAX_FILE {
                self.compared = self.compared.saturating_add(source_size);
                candidates.push(source);
            }
        }
        if candidates.is_empty() {
            return Ok(None);
        }
        let pieces = |id: &ObjectId| Ok::<_, Error>(Pieces::new(&odb.get(id, Kind::Blob)?));
        let own = pieces(&added.file.id)?;
        let mut best: Option<((u64, bool), BString)> = None;
        for Source { path, file } in candidates {
            if !self.budget.take() {
                self.is_truncated = true;
                break;
            }
            let rank = (own.similarity(&pieces(&file.id)?), name(path.as_ref()) == name(added.path));
            if rank.0 >= MIN_SCORE && best.as_ref().is_none_or(|(best, _)| rank > *best) {
                best = Some((rank, path));
            }
        }
        Ok(best.map(|(_, path)| path))
    }
}

/// Returns a source with the same content, preferably with the same name.
fn equal(added: &Added<'_>, sources: &[Source]) -> Option<BString> {
    let is_equal = |source: &&Source| {
        let both_files = source.file.mode.is_blob() && added.file.mode.is_blob();
        source.file.id == added.file.id && (both_files || source.file.mode == added.file.mode)
    };
    let has_same_name = |source: &&Source| name(source.path.as_ref()) == name(added.path);
    let mut equal = sources.iter().filter(is_equal);
    let found = equal.clone().find(has_same_name).or_else(|| equal.next());
    found.map(|source| source.path.clone())
}

/// Returns the last component of a path.
fn name(path: &BStr) -> &[u8] {
    path.rsplit_once_str("/").map_or(path.as_bytes(), |(_, name)| name)
}
