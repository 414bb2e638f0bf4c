//! Resources as entries: the same in a listing, in `stat`, and with the content.

use crate::route::Route;
use folder::Item;
use mcp_provider::Entry;

/// The MIME type of values.
pub(crate) const JSON: &str = "application/json";
/// The metadata key of the reason why a file has no values.
pub(crate) const FAULT: &str = "config/fault";

/// Returns the entry of the merged layers.
pub(crate) fn effective(route: &Route) -> Entry {
    Entry::new(route.path(), "effective")
        .title("Effective configuration")
        .description("The values that apply, merged from all layers, each with the layer that it comes from.")
        .mime_type(JSON)
        .subscribable()
}

/// Returns the entry of the directory of all variables.
pub(crate) fn variables() -> Entry {
    Entry::directory(Route::Variables.path(), "env")
        .title("Environment variables")
        .description("The variables of the environment, by name.")
        .subscribable()
}

/// Returns the entry of one variable.
pub(crate) fn variable(name: &str) -> Entry {
    Entry::new(Route::Variable(name.to_owned()).path(), name).mime_type("text/plain").subscribable()
}

/// Returns the entry of a directory.
pub(crate) fn directory(item: &Item) -> Entry {
    let name = if item.names().is_empty() { "file" } else { item.name() };
    let route = Route::File(item.names().to_owned(), None);
    with_time(Entry::directory(route.path(), name).subscribable(), item)
}

/// Returns the entry of a file, or of the value at a pointer in it.
pub(crate) fn file(item: &Item, pointer: Option<&str>) -> Entry {
    let route = Route::File(item.names().to_owned(), pointer.map(str::to_owned));
    with_time(Entry::new(route.path(), item.name()).mime_type(JSON).subscribable(), item)
}

fn with_time(entry: Entry, item: &Item) -> Entry {
    match item.modified {
        Some(modified) => entry.last_modified(modified),
        None => entry,
    }
}
