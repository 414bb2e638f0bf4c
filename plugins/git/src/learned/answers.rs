//! The questions of walks: the entry at a path, the lines that differ, the file that another one was renamed from.

use super::Question;
use crate::error::Result;
use crate::repo::Repository;
use crate::tree::Side;
use bstr::{BStr, BString, ByteSlice};
use gix_hash::{Kind, ObjectId, oid};
use gix_object::tree::EntryMode;
use imara_diff::{Algorithm, Diff, Hunk, InternedInput};

/// The encoded size of a hunk, in bytes.
const HUNK: usize = 4 * size_of::<u32>();

impl Repository {
    /// Returns the entry at a path of a tree.
    pub(crate) fn side_at(&self, tree: ObjectId, path: &BStr) -> Result<Option<Side>> {
        self.learned().answer(Question::Entry(&tree, path), side_from_bytes, side_to_bytes, || {
            let found = self.entry(tree, path)?;
            Ok((found.map(|found| Side { mode: found.mode, id: found.id }), true))
        })
    }

    /// Returns the line differences of two files.
    pub(crate) fn hunks(&self, before: &oid, after: &oid) -> Result<Vec<Hunk>> {
        self.learned().answer(
            Question::Hunks(before, after),
            hunks_from_bytes,
            |hunks| hunks_to_bytes(hunks),
            || {
                let before = self.odb.get(before, gix_object::Kind::Blob)?;
                let after = self.odb.get(after, gix_object::Kind::Blob)?;
                let input = InternedInput::new(before.as_slice(), after.as_slice());
                let mut diff = Diff::compute(Algorithm::Myers, &input);
                diff.postprocess_lines(&input);
                Ok((diff.hunks().collect(), true))
            },
        )
    }

    /// Returns the former path of a file. `search` returns it with whether the answer is final; an answer is not final
    /// if the search ended at a limit.
    pub(crate) fn former_path(
        &self,
        question: Question<'_>,
        search: impl FnOnce() -> Result<(Option<BString>, bool)>,
    ) -> Result<Option<BString>> {
        let from_bytes = |bytes: &[u8], _| Some((!bytes.is_empty()).then(|| BString::from(bytes)));
        let to_bytes = |path: &Option<BString>| path.as_ref().map(|path| path.to_vec()).unwrap_or_default();
        self.learned().answer(question, from_bytes, to_bytes, search)
    }
}

fn side_to_bytes(side: &Option<Side>) -> Vec<u8> {
    let Some(Side { mode, id }) = side else { return Vec::new() };
    let mut octal = [0; 6];
    [id.as_slice(), mode.as_bytes(&mut octal).as_bytes()].concat()
}

fn side_from_bytes(bytes: &[u8], hash: Kind) -> Option<Option<Side>> {
    if bytes.is_empty() {
        return Some(None);
    }
    let (id, mode) = bytes.split_at_checked(hash.len_in_bytes())?;
    Some(Some(Side { mode: EntryMode::from_bytes(mode)?, id: ObjectId::try_from(id).ok()? }))
}

fn hunks_to_bytes(hunks: &[Hunk]) -> Vec<u8> {
    let numbers = hunks.iter().flat_map(|hunk| [hunk.before.start, hunk.before.end, hunk.after.start, hunk.after.end]);
    numbers.flat_map(u32::to_le_bytes).collect()
}

fn hunks_from_bytes(bytes: &[u8], _: Kind) -> Option<Vec<Hunk>> {
    let (hunks, rest) = bytes.as_chunks::<HUNK>();
    let number = |hunk: &[u8; HUNK], place: usize| {
        let at = place.checked_mul(size_of::<u32>())?;
        Some(u32::from_le_bytes(*hunk.get(at..)?.first_chunk()?))
    };
    let hunk = |hunk: &[u8; HUNK]| {
        let (before, after) = (number(hunk, 0)?..number(hunk, 1)?, number(hunk, 2)?..number(hunk, 3)?);
        Some(Hunk { before, after })
    };
    rest.is_empty().then(|| hunks.iter().map(hunk).collect()).flatten()
}
