//! The changed files of a commit or between two revisions: their names, then their diff.

use crate::error::Result;
use crate::repo::Repository;
use crate::tree::{Change, Side};
use crate::view::patch::{self, patch};
use crate::view::text::{BoundedText, quote};
use bstr::BString;
use gix_hash::ObjectId;
use std::fmt::Write;

/// The maximum number of changed files listed.
const MAX_FILES: usize = 10_000;

/// The maximum size of the part before the diff, in bytes.
pub(super) const MAX_HEAD: usize = 1024 * 1024;

/// The maximum number of bytes compared for one diff. The last file may exceed it.
const MAX_COMPARED: u64 = 32 * 1024 * 1024;

/// Changed files, in the order of their paths.
#[derive(Default)]
pub(super) struct Changes {
    files: Vec<Change>,
    has_more: bool,
}

/// The text of changes.
pub(super) struct ChangesText {
    /// The text.
    pub(super) text: String,
    /// Whether files or parts of the diff are omitted.
    pub(super) is_truncated: bool,
}

impl Changes {
    /// Compares two trees. A missing tree counts as empty.
    pub(super) fn between(repository: &Repository, before: Option<ObjectId>, after: Option<ObjectId>) -> Result<Self> {
        let mut changes = Self::default();
        repository.diff(before, after, |change| changes.add(change))?;
        Ok(changes)
    }

    /// Compares two directories at a path.
    pub(super) fn below(
        repository: &Repository,
        path: &BString,
        before: Option<ObjectId>,
        after: Option<ObjectId>,
    ) -> Result<Self> {
        let mut changes = Self::default();
        repository.diff(before, after, |change| {
            let path = [path.as_slice(), b"/", change.path.as_slice()].concat().into();
            changes.add(Change { path, ..change })
        })?;
        Ok(changes)
    }

    /// Compares two files at a path.
    pub(super) fn of_file(path: BString, before: Option<Side>, after: Option<Side>) -> Self {
        let mut changes = Self::default();
        if before != after {
            changes.add(Change { path, before, after });
        }
        changes
    }

    fn add(&mut self, change: Change) -> bool {
        self.has_more = self.files.len() >= MAX_FILES;
        if !self.has_more {
            self.files.push(change);
        }
        !self.has_more
    }

    /// Writes the changes after a head. At most `max_diff` bytes of the diff are shown; `help` returns where omitted
    /// files can be read.
    pub(super) fn write(
        &self,
        repository: &Repository,
        head: &str,
        max_diff: usize,
        help: impl FnOnce() -> String,
    ) -> Result<ChangesText> {
        let mut text = BoundedText::new(MAX_HEAD);
        text.push(head);
        for change in &self.files {
            text.push(&format!("{}\t{}\n", status(change), quote("", change.path.as_ref())));
        }
        let unnamed = text.omitted();
        let mut whole = text.into_string();
        if unnamed > 0 || self.has_more {
            whole += "... and more files\n";
        }
        let mut diff = BoundedText::new(max_diff);
        let (mut compared, mut left_out) = (0_u64, 0_usize);
        for change in &self.files {
            // Omitted patches are not computed.
            if left_out == 0 && compared < MAX_COMPARED {
                compared = compared.saturating_add(patch::cost(repository, change)?);
                diff.push(&patch(repository, change)?);
                left_out = diff.omitted();
            } else {
                left_out = left_out.saturating_add(1);
            }
        }
        if !self.files.is_empty() {
            whole.push('\n');
            whole += &diff.into_string();
        }
        if left_out > 0 {
            let _ = writeln!(
                whole,
                "\nThe diff is truncated to at most {max_diff} bytes: {left_out} of the files listed above are omitted. \
                 {}",
                help()
            );
        }
        Ok(ChangesText { text: whole, is_truncated: unnamed > 0 || self.has_more || left_out > 0 })
    }
}

/// Returns the status letter of `git diff --name-status`.
fn status(change: &Change) -> char {
    let file_type = |side: Side| side.mode.value() & 0o170_000;
    match (change.before, change.after) {
        (None, _) => 'A',
        (_, None) => 'D',
        (Some(before), Some(after)) if file_type(before) != file_type(after) => 'T',
        _ => 'M',
    }
}
