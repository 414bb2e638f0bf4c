//! Pages of listings, most of which break the contract.

use mcp_provider::{Entry, Failure, Icon, Page, Result, Timestamp, keyset};

/// Returns the page with a name; `None` if there is no such page.
pub(crate) fn page(name: &str, count: usize, cursor: Option<&str>, limit: usize) -> Option<Result<Page>> {
    match name {
        "many" => Some(many(count, cursor, limit)),
        "paths" => Some(Ok(Page::last(PATHS.map(|path| Entry::new(path, "path"))))),
        "hints" => Some(Ok(Page::last([hints()]))),
        "huge" => Some(Ok(Page::last((0..4096).map(|n| Entry::new(n.to_string(), "x".repeat(1024)))))),
        "same-cursor" => Some(Ok(single_entry("again", Some("again".to_owned())))),
        "long-cursor" => Some(Ok(single_entry("once", Some("x".repeat(5000))))),
        "endless" => {
            Some(next_page_number(cursor).map(|turn| single_entry(&format!("turn-{turn}"), Some(turn.to_string()))))
        }
        "endless-empty" => {
            Some(next_page_number(cursor).map(|turn| Page { entries: Vec::new(), next_cursor: Some(turn.to_string()) }))
        }
        "no-such-cursor" => Some(match cursor {
            None => Ok(single_entry("first", Some("forgotten".to_owned()))),
            Some(_) => Err(Failure::invalid("unknown cursor")),
        }),
        _ => None,
    }
}

/// Paths that leave the mount, are invalid, or only appear to be.
const PATHS: [&str; 14] = [
    "good",
    "../escape",
    "%2e%2E/escape",
    "a/../../escape",
    "/absolute",
    "//host/absolute",
    "a/..//b",
    "frag#ment",
    "nul%00",
    "half%2",
    "back\\slash",
    "with space",
    "ünencoded",
    "git://demo/README.md",
];

/// Lists `item-0000`, `item-0001` and so on, in pages of `limit` entries.
fn many(count: usize, cursor: Option<&str>, limit: usize) -> Result<Page> {
    let names: Vec<String> = (0..count).map(|n| format!("item-{n:04}")).collect();
    Ok(keyset::page(&names, cursor, limit, |name| name)?.map(|name| Entry::new(name.as_str(), name.as_str())))
}

/// Returns an entry whose hints are all invalid.
fn hints() -> Entry {
    let icon = |src: &str| Icon::new(src);
    let mut entry = Entry::new("good", "good")
        .mime_type("no type at all")
        .last_modified(Timestamp::from("the day before yesterday"))
        .icon(icon("javascript:alert(1)"))
        .icon(icon("http://example.com/plain.png"))
        .icon(icon("https://example.com/good.png"))
        .meta("mcp-host/missing", "a lie")
        .meta("example.com/kept", 1);
    // The builder would clamp the value.
    entry.priority = Some(7.0);
    entry
}

fn single_entry(name: &str, next_cursor: Option<String>) -> Page {
    Page { entries: vec![Entry::new(name, name)], next_cursor }
}

/// Returns the number of pages requested so far, plus one.
fn next_page_number(cursor: Option<&str>) -> Result<u64> {
    let turn: u64 = cursor.unwrap_or("0").parse().map_err(|_| Failure::invalid("expected a number"))?;
    Ok(turn.saturating_add(1))
}
