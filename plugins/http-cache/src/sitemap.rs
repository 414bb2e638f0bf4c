//! Sitemaps: the pages that a site names itself (the protocol of sitemaps.org).
//!
//! A sitemap is a page like any other: fetched through the cache, and no oftener than its freshness asks for, but by calls that
//! come at the same time. An index leads to
//! further ones, in one step. Only pages of the sitemap's own host count, as the protocol has it; packed sitemaps are passed
//! over. One that cannot be had is passed over, too: the listing has the rest.

use crate::address::Address;
use crate::cache::{Cache, Want};
use crate::settings::PlainHosts;
use mcp_provider::log;
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use std::collections::BTreeSet;
use std::time::SystemTime;

/// How many sitemaps are read for one listing.
const MOST_SITEMAPS: usize = 16;
/// How many pages they name together; the protocol allows as many in one.
const MOST_PAGES: usize = 50_000;
/// The longest URL in a sitemap.
const LONGEST: usize = 2048;

/// The paths of the pages that sitemaps name.
pub(crate) fn pages(cache: &Cache, sitemaps: &[Address], plain: &PlainHosts, deadline: SystemTime) -> BTreeSet<String> {
    let mut pages = BTreeSet::new();
    let mut ahead: Vec<(Address, bool)> = sitemaps.iter().rev().map(|sitemap| (sitemap.clone(), true)).collect();
    let mut read = 0_usize;
    while let Some((sitemap, may_lead_on)) = ahead.pop() {
        if read >= MOST_SITEMAPS {
            log::warn!("{} and {} more sitemaps are left out", sitemap.url(), ahead.len());
            break;
        }
        read = read.saturating_add(1);
        let page = match cache.fetch(&sitemap, Want::Body, deadline) {
            Ok(page) => page,
            Err(failure) => {
                log::warn!("the sitemap {} is left out: {failure}", sitemap.url());
                continue;
            }
        };
        let named = named(&String::from_utf8_lossy(&page.body));
        let own = |url: &String| Address::from_url(url, plain).filter(|page| page.authority() == sitemap.authority());
        for page in named.pages.iter().filter_map(own) {
            if pages.len() >= MOST_PAGES {
                log::warn!("the sitemap {} names more than {MOST_PAGES} pages", sitemap.url());
                break;
            }
            pages.insert(page.path());
        }
        if may_lead_on {
            let further = named.sitemaps.iter().filter(|url| !url.ends_with(".gz")).filter_map(own);
            let further: Vec<_> = further.take(MOST_SITEMAPS).map(|sitemap| (sitemap, false)).collect();
            ahead.extend(further.into_iter().rev());
        }
    }
    pages
}

/// The URLs that a sitemap names.
#[derive(Debug, Default, PartialEq, Eq)]
struct Named {
    pages: Vec<String>,
    sitemaps: Vec<String>,
}

/// Reads a sitemap as far as it is XML.
fn named(xml: &str) -> Named {
    let mut named = Named::default();
    let mut reader = Reader::from_str(xml);
    let mut inside: Option<Inside> = None;
    let mut url: Option<String> = None;
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) => return named,
            Ok(event) => event,
            Err(error) => {
                log::debug!("a sitemap is broken: {error}");
                return named;
            }
        };
        match event {
            Event::Start(tag) => match tag.local_name().as_ref() {
                b"url" => inside = Some(Inside::Page),
                b"sitemap" => inside = Some(Inside::Sitemap),
                b"loc" => url = Some(String::new()),
                _ => {}
            },
            Event::End(tag) => match tag.local_name().as_ref() {
                b"url" | b"sitemap" => inside = None,
                b"loc" => {
                    let url = url
                        .take()
                        .map(|url| url.trim().to_owned())
                        .filter(|url| !url.is_empty() && url.len() <= LONGEST);
                    match (url, &inside) {
                        (Some(url), Some(Inside::Page)) if named.pages.len() < MOST_PAGES => named.pages.push(url),
                        (Some(url), Some(Inside::Sitemap)) if named.sitemaps.len() < MOST_PAGES => {
                            named.sitemaps.push(url)
                        }
                        _ => {}
                    }
                }
                _ => {}
            },
            Event::Text(text) => push(&mut url, text.decode().ok().as_deref()),
            Event::CData(text) => push(&mut url, text.decode().ok().as_deref()),
            Event::GeneralRef(reference) => push(&mut url, character(&reference).as_deref()),
            _ => {}
        }
    }
}

/// What a URL stands in.
#[derive(Debug)]
enum Inside {
    Page,
    Sitemap,
}

fn push(url: &mut Option<String>, text: Option<&str>) {
    if let (Some(url), Some(text)) = (url, text)
        && url.len() <= LONGEST
    {
        url.push_str(text);
    }
}

/// What a reference such as `&amp;` stands for.
fn character(reference: &BytesRef<'_>) -> Option<String> {
    if let Ok(Some(character)) = reference.resolve_char_ref() {
        return Some(character.to_string());
    }
    quick_xml::escape::resolve_predefined_entity(&reference.decode().ok()?).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_and_further_sitemaps_are_told_apart() {
        let xml = "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
                   <url><loc> https://h/a?b=1&amp;c=&#50; </loc><lastmod>2025-01-01</lastmod></url>\
                   <url><loc><![CDATA[https://h/b]]></loc><x:image xmlns:x='y'><x:loc/></x:image></url><url/></urlset>";
        assert_eq!(named(xml).pages, ["https://h/a?b=1&c=2", "https://h/b"]);
        let index = "<sitemapindex><sitemap><loc>https://h/1.xml</loc></sitemap></sitemapindex>";
        assert_eq!(named(index), Named { pages: Vec::new(), sitemaps: vec!["https://h/1.xml".to_owned()] });
    }

    #[test]
    fn a_broken_sitemap_is_read_as_far_as_it_goes() {
        assert_eq!(named("<urlset><url><loc>https://h/a</loc></url><url><loc>https://h/").pages, ["https://h/a"]);
        assert_eq!(named("<urlset><url><loc>https://h/a</loc></url></wrong>").pages, ["https://h/a"]);
        assert_eq!(named("<!doctype html><p>not here"), Named::default());
    }

    proptest! {
        #[test]
        fn no_sitemap_breaks_it(xml in "(<url>|</url>|<loc>|</loc>|&[a-z#x0-9]{0,5};?|<!|[a-z<>/'\"]{0,6}){0,30}") {
            let _ = named(&xml);
        }
    }
}
