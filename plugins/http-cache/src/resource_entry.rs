//! Pages as entries and contents.

use crate::address::Address;
use crate::cache::head::{Content, Kind};
use crate::cache::policy::Response;
use crate::cache::{Cache, FetchedPage};
use crate::page::html;
use crate::settings::{Format, Settings};
use http::header::{DATE, LAST_MODIFIED};
use mcp_provider::{Contents, Entry};
use std::time::Duration;

const MARKDOWN: &str = "text/markdown";

/// In the metadata of a page: it is served although its origin should have been asked, which was not to be had.
const STALE: &str = "http-cache/stale";
/// How many seconds ago the origin made or confirmed it.
const AGE: &str = "http-cache/age";
/// Its URL, behind redirects.
const URL: &str = "http-cache/url";
/// Only a part of it is here as Markdown.
const CUT: &str = "http-cache/cut";

/// Of a sitemap: what of it is not listed, and why.
const MISSING: &str = "http-cache/missing";

/// A sitemap of which not all pages are listed.
pub(crate) fn with_missing_reason(entry: Entry, reason: &str) -> Entry {
    let entry = if entry.title.is_none() { entry.title("A sitemap of which not all pages are listed") } else { entry };
    entry.meta(MISSING, reason)
}

/// A page of which nothing is known but where it is.
pub(crate) fn uncached_entry(address: &Address) -> Entry {
    Entry::new(address.path(), address.name()).subscribable()
}

/// A page as an entry, under the path that it was asked for with.
pub(crate) fn entry(path: &str, address: &Address, page: &FetchedPage, cache: &Cache, settings: &Settings) -> Entry {
    let entry = cached_entry(path, address, &page.content, &page.response, page.ttl, settings);
    let entry = entry.meta(URL, page.address.url());
    if page.is_stale { entry.meta(STALE, true).meta(AGE, page.response.age(cache.now()).as_secs()) } else { entry }
}

/// What is known of a page, as an entry.
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
    // The page is as its origin has it, unless that form is not to be had here.
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

/// The contents of a page: of HTML one for each form, the preferred first.
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
                    let entry = if markdown.is_cut { entry.meta(CUT, true) } else { entry };
                    Contents::text(entry, markdown.text)
                }
            };
            settings.formats.iter().map(form).collect()
        }
    }
}
