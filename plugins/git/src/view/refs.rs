//! All refs, as in `git show-ref --head --dereference`: one id and name per line. An annotated tag has a second line,
//! with `^{}` after the name, for the object that it points to.
//!
//! One response has at most [`MAX_TEXT`](super::MAX_TEXT) bytes, and takes at most [`MAX_READ`] reads of files and
//! objects. The metadata contains the path of the resource with the remaining refs.

use crate::error::{Error, Result};
use crate::paths;
use crate::refs::{Reference, Refs, Resolved, Target};
use crate::repo::Repository;
use crate::view::text::{BoundedText, single_line};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use mcp_provider::{Contents, Entry, Notice};
use std::collections::HashMap;

/// The maximum number of ref files read, and of objects inspected to detect tags.
const MAX_READ: usize = 2000;

/// Reads all refs, or the refs after `after`, up to the limits.
pub(crate) fn read(repository: &Repository, after: Option<&BString>) -> Result<Contents> {
    let refs = repository.refs();
    let mut text = BoundedText::new(super::MAX_TEXT);
    if after.is_none()
        && let Some(head) = refs.resolve("HEAD".into())?
    {
        text.push(&format!("{} HEAD\n", head.id));
    }
    let mut tags = Tags { repository, peeled_ids: HashMap::new() };
    let behind = after.map(|after| after.as_bstr()).unwrap_or_default();
    let next = refs.with_refs_after(behind, |all| {
        let mut last = BString::from(behind);
        while let Some(reference) = all.next() {
            if all.loose_reads() > MAX_READ || tags.peeled_ids.len() >= MAX_READ {
                return Ok(Some(last));
            }
            if let Some(shown) = format_ref(&refs, &reference, &mut tags) {
                text.push(&shown);
                if text.omitted() > 0 {
                    return Ok(Some(last));
                }
            }
            last = reference.name;
        }
        Ok(None)
    })?;
    let mut contents = Contents::text(stat(), text.into_string());
    if let Some(next) = next {
        let next = paths::refs_after(next.as_ref());
        let notice = Notice::cut("a limit ended the list of refs").next(next.as_str());
        let entry = contents.entry.meta(super::TRUNCATED, true).meta(super::MORE, true).meta(super::NEXT, next);
        contents.entry = entry.notice(notice);
    }
    Ok(contents)
}

/// Returns the metadata of the refs.
pub(crate) fn stat() -> Entry {
    Entry::new("refs", "refs").title("Branches, tags and other refs").mime_type("text/plain").subscribable()
}

/// Formats the lines of a ref; `None` if it resolves to no object. A damaged tag is shown without its target.
fn format_ref(refs: &Refs<'_>, reference: &Reference, tags: &mut Tags<'_>) -> Option<String> {
    let found = match &reference.target {
        Target::Object(id) => Resolved { name: reference.name.clone(), id: *id, peeled: reference.peeled },
        Target::Symbolic(_) => refs.resolve(reference.name.as_ref()).unwrap_or_else(|error| {
            log::warn!("ref {} skipped: {error}", reference.name);
            None
        })?,
    };
    let name = single_line(&reference.name);
    let mut lines = format!("{} {name}\n", found.id);
    let peeled = match found.peeled {
        Some(peeled) => Some(peeled),
        None if reference.is_non_tag => None,
        None => tags.peel(found.id, reference.name.as_ref()),
    };
    if let Some(peeled) = peeled {
        lines.push_str(&format!("{peeled} {name}^{{}}\n"));
    }
    Some(lines)
}

/// A cache of peeled objects, because most refs share a few objects. `None` for objects that are not tags.
struct Tags<'r> {
    repository: &'r Repository,
    peeled_ids: HashMap<ObjectId, Option<ObjectId>>,
}

impl Tags<'_> {
    fn peel(&mut self, id: ObjectId, name: &BStr) -> Option<ObjectId> {
        let repository = self.repository;
        *self.peeled_ids.entry(id).or_insert_with(|| match repository.peel(id, |_| {}) {
            Ok((peeled, _)) => Some(peeled).filter(|peeled| *peeled != id),
            Err(error) => {
                let error = if matches!(error, Error::NotFound) { Error::Missing(id) } else { error };
                log::warn!("cannot peel the ref {name}: {error}");
                None
            }
        })
    }
}
