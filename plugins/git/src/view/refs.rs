//! All refs, as `git show-ref --head --dereference` shows them: the id and the name of each, one a line, and for a tag
//! with a message another line, with `^{}` behind the name, for what it points to.

use crate::error::{Error, Result};
use crate::refs::{Reference, Refs, Resolved, Target};
use crate::repo::Repository;
use crate::view::text::{Text, line};
use mcp_provider::{Contents, Entry};

/// All refs.
pub(crate) fn read(repository: &Repository) -> Result<Contents> {
    let refs = repository.refs();
    let list = refs.list()?;
    let mut text = Text::new(super::MOST_TEXT);
    if let Some(head) = refs.resolve("HEAD".into())? {
        text.push(&format!("{} HEAD\n", head.id));
    }
    for reference in &list.refs {
        match resolved(&refs, reference).and_then(|found| found.map_or(Ok(None), |found| peeled(repository, found))) {
            Ok(Some((found, peeled))) => {
                let name = line(&reference.name);
                text.push(&format!("{} {name}\n", found.id));
                if let Some(peeled) = peeled {
                    text.push(&format!("{peeled} {name}^{{}}\n"));
                }
            }
            Ok(None) => {}
            Err(error) => log::warn!("the ref {} is left out: {error}", reference.name),
        }
    }
    let mut contents = super::cut(stat(), text);
    if list.more {
        contents.entry = contents.entry.meta(super::TRUNCATED, true);
    }
    Ok(contents)
}

/// The same without the content.
pub(crate) fn stat() -> Entry {
    Entry::new("refs", "refs").title("Branches, tags and other refs").mime_type("text/plain").subscribable()
}

fn resolved(refs: &Refs<'_>, reference: &Reference) -> Result<Option<Resolved>> {
    match reference.target {
        Target::Object(id) => Ok(Some(Resolved { name: reference.name.clone(), id, peeled: reference.peeled })),
        Target::Symbolic(_) => refs.resolve(reference.name.as_ref()),
    }
}

/// A ref with what its tag points to, where it is one.
fn peeled(repository: &Repository, found: Resolved) -> Result<Option<(Resolved, Option<gix_hash::ObjectId>)>> {
    if let Some(peeled) = found.peeled {
        return Ok(Some((found, Some(peeled))));
    }
    match repository.peel(found.id, |_| {}) {
        Ok((id, _)) => {
            let peeled = (id != found.id).then_some(id);
            Ok(Some((found, peeled)))
        }
        Err(Error::NotFound) => Err(Error::Missing(found.id)),
        Err(error) => Err(error),
    }
}
