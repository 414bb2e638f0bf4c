//! Completion of template variables: ids by file name, search texts by file name, numbers of chunks and sheets.

use crate::content::Document;
use crate::id::Id;
use crate::query;
use crate::route::{CHUNK, FOLDER, SEARCH, SHEET};
use crate::search::{self, Found};
use crate::session::Session;
use mcp_provider::{Argument, Completion, Failure, Result};
use std::collections::BTreeSet;

/// Completes a variable. The typed text is the beginning of an id, or of a word of the name.
pub(crate) fn complete(
    session: &Session<'_>,
    template: &str,
    argument: &Argument,
    known: &[Argument],
) -> Result<Completion> {
    let typed = argument.value.as_str();
    match (template, argument.name.as_str()) {
        (FOLDER, _) => folder(session, typed),
        (SEARCH, _) => title(session, typed),
        (_, "id") => file(session, typed),
        (CHUNK, "n") => numbers(session, known, typed, |document| document.chunk_count()),
        (SHEET, "n") => numbers(session, known, typed, |document| document.sheet_count()),
        _ => Ok(Completion::default()),
    }
}

fn folder(session: &Session<'_>, typed: &str) -> Result<Completion> {
    let typed_name = typed.to_lowercase();
    let folders = session
        .tree()?
        .folders()
        .filter(|(id, name)| id.as_str().starts_with(typed) || name.to_lowercase().contains(&typed_name));
    Ok(Completion::matching(folders.map(|(id, _)| id.as_str().to_owned()), ""))
}

fn file(session: &Session<'_>, typed: &str) -> Result<Completion> {
    let by_id = Id::parse(typed).and_then(|id| session.served(&id).ok()).map(|served| served.file.id.to_string());
    let found = named(session, typed)?;
    let by_name = found.entries.iter().filter_map(|entry| entry.path.strip_prefix("file/").map(str::to_owned));
    let mut values: Vec<String> = by_id.into_iter().chain(by_name).collect();
    let has_more = found.is_incomplete || values.len() > Completion::MAX_VALUES;
    values.truncate(Completion::MAX_VALUES);
    Ok(Completion { values, total: None, has_more })
}

/// Completes the text of a search. A search also matches names.
fn title(session: &Session<'_>, typed: &str) -> Result<Completion> {
    let found = named(session, typed)?;
    let titles: BTreeSet<String> = found.entries.into_iter().filter_map(|entry| entry.title).collect();
    Ok(Completion { values: titles.into_iter().collect(), total: None, has_more: found.is_incomplete })
}

/// Returns the files with a word in their name that begins with the text.
fn named(session: &Session<'_>, typed: &str) -> Result<Found> {
    let condition = Some(typed.trim()).filter(|typed| !typed.is_empty()).map(query::name_begins_with);
    search::find(session, condition.as_deref(), Completion::MAX_VALUES)
}

/// Completes the number of a chunk or a sheet of the known file.
fn numbers(
    session: &Session<'_>,
    known: &[Argument],
    typed: &str,
    count: impl Fn(Document<'_>) -> Result<usize>,
) -> Result<Completion> {
    let Some(id) = known.iter().find(|known| known.name == "id").and_then(|known| Id::parse(&known.value)) else {
        return Ok(Completion::default());
    };
    let count = match Document::open(session, &id).and_then(&count) {
        Ok(count) => count,
        Err(Failure::NotFound | Failure::InvalidRequest(_) | Failure::Denied(_)) => 0,
        Err(failure) => return Err(failure),
    };
    Ok(Completion::matching((1..=count).map(|number| number.to_string()), typed))
}
