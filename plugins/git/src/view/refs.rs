//! All refs, as `git show-ref --head --dereference` shows them: the id and the name of each, one a line, and for a tag
//! with a message another line, with `^{}` behind the name, for what it points to.
//!
//! One answer has at most [`MAX_TEXT`](super::MAX_TEXT) of them, and reads at most [`MAX_READ`] files and objects for it. What
//! comes behind its last ref is another resource, whose path is told.

use crate::error::{Error, Result};
use crate::paths;
use crate::refs::{Reference, Refs, Resolved, Target};
use crate::repo::Repository;
use crate::view::text::{BoundedText, single_line};
use bstr::{BStr, BString, ByteSlice};
use gix_hash::ObjectId;
use mcp_provider::{Contents, Entry};
use std::collections::HashMap;

/// How many files of refs are read, and how many objects are looked at to tell tags from the rest.
const MAX_READ: usize = 2000;

/// The path at which the refs go on.
const NEXT: &str = "git/next";

/// All refs, or those behind one, as far as they fit.
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
        contents.entry = contents.entry.meta(super::TRUNCATED, true).meta(super::MORE, true).meta(NEXT, next);
    }
    Ok(contents)
}

/// The same without the content.
pub(crate) fn stat() -> Entry {
    Entry::new("refs", "refs").title("Branches, tags and other refs").mime_type("text/plain").subscribable()
}

/// The lines of a ref; none of what leads to no object. A tag that is damaged is shown without what it points to.
fn format_ref(refs: &Refs<'_>, reference: &Reference, tags: &mut Tags<'_>) -> Option<String> {
    let found = match &reference.target {
        Target::Object(id) => Resolved { name: reference.name.clone(), id: *id, peeled: reference.peeled },
        Target::Symbolic(_) => refs.resolve(reference.name.as_ref()).unwrap_or_else(|error| {
            log::warn!("the ref {} is left out: {error}", reference.name);
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

/// What the objects point to that were looked at, where they are tags: most refs are of a few objects.
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
                log::warn!("what the ref {name} points to cannot be told: {error}");
                None
            }
        })
    }
}
