//! The file that an added file was renamed or copied from, as git detects it.
//!
//! First the files of the same content are considered, then those at least half of whose content is the same
//! ([`similarity`](crate::similarity)), and of several the most similar one, preferably of the same name. Removed files
//! come before those that still exist, which are considered only for copies.

use crate::budget::Budget;
use crate::error::Result;
use crate::repo::Repository;
use crate::similarity::{MIN_SCORE, Pieces, may_be_similar};
use crate::tree::{FileWalk, Side};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use gix_object::Kind;

/// The maximum number of bytes that are compared for one response.
const MAX_COMPARED: u64 = 32 * 1024 * 1024;

/// The maximum size of a file that is compared, in bytes. Larger ones match only if they are equal.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// The maximum number of files that are considered for one response.
const MAX_SOURCES: usize = 100_000;

/// Detects renames, within a bound for all of them.
pub(crate) struct Renames<'r> {
    repository: &'r Repository,
    compared: u64,
    budget: Budget,
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

/// A file that the added one may have been renamed from.
struct Source {
    path: BString,
    file: Side,
}

impl<'r> Renames<'r> {
    /// Creates a detection.
    pub(crate) fn new(repository: &'r Repository) -> Self {
        Self { repository, compared: 0, budget: repository.budget(MAX_SOURCES) }
    }

    /// Returns the removed file that an added file was renamed from.
    pub(crate) fn renamed_from(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        let mut removed = Vec::new();
        self.repository.diff(Some(added.before), Some(added.after), |change| {
            if let (Some(file), None) = (change.before, change.after) {
                removed.push(Source { path: change.path, file });
            }
            removed.len() < MAX_SOURCES
        })?;
        self.best(added, removed.into_iter().map(Ok))
    }

    /// Returns the file that an added file was renamed or copied from.
    pub(crate) fn copied_from(&mut self, added: &Added<'_>) -> Result<Option<BString>> {
        if let Some(path) = self.renamed_from(added)? {
            return Ok(Some(path));
        }
        let all = FileWalk::new(self.repository, &added.before, None)?;
        let all = all.map(|found| found.map(|found| (found.path, found.entry)));
        let sources =
            all.map(|found| found.map(|(path, entry)| Source { path, file: Side { mode: entry.mode, id: entry.id } }));
        self.best(added, sources)
    }

    /// Returns the most similar of some files, if one is similar enough.
    fn best(&mut self, added: &Added<'_>, sources: impl Iterator<Item = Result<Source>>) -> Result<Option<BString>> {
        let name = |path: &BStr| path.rsplit_once_str("/").map_or(path.as_bytes(), |(_, name)| name).to_owned();
        let own_name = name(added.path);
        let (mut exact, mut others): (Option<(bool, BString)>, Vec<Source>) = (None, Vec::new());
        for source in sources.take(MAX_SOURCES) {
            let source = source?;
            let is_file = source.file.mode.is_blob() && added.file.mode.is_blob();
            if source.file.id == added.file.id && (is_file || source.file.mode == added.file.mode) {
                let same_name = name(source.path.as_ref()) == own_name;
                if exact.as_ref().is_none_or(|(best, _)| same_name && !best) {
                    exact = Some((same_name, source.path));
                }
            } else if is_file && exact.is_none() {
                others.push(source);
            }
        }
        if let Some((_, path)) = exact {
            return Ok(Some(path));
        }
        let size_of = |id: &ObjectId| self.repository.odb.size(id).map(Option::unwrap_or_default);
        let size = size_of(&added.file.id)?;
        if !added.file.mode.is_blob() || size > MAX_FILE {
            return Ok(None);
        }
        let mut best: Option<((u64, bool), BString)> = None;
        let mut pieces = None;
        for source in others {
            let source_size = self.repository.odb.size(&source.file.id)?.unwrap_or_default();
            if !self.budget.take() {
                break;
            }
            if !may_be_similar(size, source_size) || source_size > MAX_FILE || self.compared > MAX_COMPARED {
                continue;
            }
            self.compared = self.compared.saturating_add(source_size);
            let read =
                |id: &ObjectId| Ok::<_, crate::error::Error>(Pieces::new(&self.repository.odb.get(id, Kind::Blob)?));
            if pieces.is_none() {
                pieces = Some(read(&added.file.id)?);
            }
            let score = match &pieces {
                Some(pieces) => pieces.similarity(&read(&source.file.id)?),
                None => 0,
            };
            let rank = (score, name(source.path.as_ref()) == own_name);
            if score >= MIN_SCORE && best.as_ref().is_none_or(|(best, _)| rank > *best) {
                best = Some((rank, source.path));
            }
        }
        Ok(best.map(|(_, path)| path))
    }
}
