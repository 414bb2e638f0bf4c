//! Pages as entries and contents.

use crate::address::Address;
use crate::cache::head::{Content, Kind};
use crate::cache::policy::Response;
use crate::cache::{Cache, FetchedPage};
use crate::page::html;
use crate::settings::{Format, Settings};
use http::header::{DATE, LAST_MODIFIED};
use mcp_provider::{Contents, Entry, Notice};
use std::time::Duration;

const MARKDOWN: &str = "text/markdown";

/// The metadata key of a stale page: its origin failed to revalidate it.
const STALE: &str = "http-cache/stale";
/// The metadata key of the time in seconds since the origin generated or confirmed the page.
const AGE: &str = "http-cache/age";
/// The metadata key of the page's URL, after redirects.
const URL: &str = "http-cache/url";
/// The metadata key of truncated Markdown.
const CUT: &str = "http-cache/cut";

/// The metadata key of an incomplete sitemap: the unlisted part, and the reason.
const MISSING: &str = "http-cache/missing";

/// Adds the missing part to an incompletely listed sitemap.
pub(crate) fn with_missing_reason(entry: Entry, reason: &str) -> Entry {
    let entry = if entry.title.is_none() { entry.title("An incompletely listed sitemap") } else { entry };
    entry.meta(MISSING, reason)
}

/// Returns the entry of a page that is not stored.
pub(crate) fn uncached_entry(address: &Address) -> Entry {
    Entry::new(address.path(), address.name()).subscribable()
}

/// Returns the entry of a page, under the requested path.
pub(crate) fn entry(path: &str, address: &Address, page: &FetchedPage, cache: &Cache, settings: &Settings) -> Entry {
    let entry = cached_entry(path, address, &page.content, &page.response, page.ttl, settings);
    let entry = entry.meta(URL, page.address.url());
    if !page.is_stale {
        return entry;
    }
    let age = page.response.age(cache.now()).as_secs();
    let notice = Notice::stale(format!("the page could not be fetched again; this copy is {age} s old"));
    entry.meta(STALE, true).meta(AGE, age).notice(notice)
}

/// Returns the entry of a stored page.
pub(crate) fn cached_entry(
    path: &str,
    address: &Address,
    content: &Content,
    response: &Response,
    ttl: Duration,
    settings: &Settings,
) -> Entry {
    let mut entry = Entry::new(path, address.name()).subscribable().ttl(ttl);
    entry.title.clone_from(&content.title);
    entry.description.clone_from(&content.description);
    // The MIME type is HTML, unless that format is disabled.
    if content.kind == Kind::Html && !settings.formats.contains(&Format::Html) {
        entry = entry.mime_type(MARKDOWN);
    } else {
        entry.size = content.size;
        entry = entry.mime_type(content.mime.as_str());
    }
    let modified = [LAST_MODIFIED, DATE].iter().find_map(|name| httpdate::parse_http_date(response.header(name)?).ok());
    match modified {
        Some(modified) => entry.last_modified(modified),
        None => entry,
    }
}

/// Returns the contents of a page; for HTML one per format, the preferred first.
pub(crate) fn contents(entry: &Entry, page: FetchedPage, settings: &Settings) -> Vec<Contents> {
    let FetchedPage { address, content, body, .. } = page;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap_or_default();
    match content.kind {
        Kind::Blob => vec![Contents::blob(entry.clone(), body)],
        Kind::Text => vec![Contents::text(entry.clone(), text(body))],
        Kind::Html => {
            let html = text(body);
            let form = |format: &Format| match format {
                Format::Html => Contents::text(entry.clone().mime_type(content.mime.as_str()), html.clone()),
                Format::Markdown => {
                    let markdown = html::markdown(&html, &address.url());
                    let entry = entry.clone().mime_type(MARKDOWN);
                    let notice = || Notice::cut("the page is too large to be shown as Markdown as a whole");
                    let entry = if markdown.is_cut { entry.meta(CUT, true).notice(notice()) } else { entry };
                    Contents::text(entry, markdown.text)
                }
            };
            settings.formats.iter().map(form).collect()
        }
    }
}
