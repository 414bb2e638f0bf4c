//! Sitemaps: lists of a site's pages (the protocol of sitemaps.org).
//!
//! A sitemap is fetched through the cache like any page, and no more often than its freshness requires. Sitemaps are
//! read when a walk through the listing starts ([`snapshot`](crate::snapshot)). An index refers to further sitemaps,
//! one level deep. Only pages on the sitemap's own host are listed, as the protocol requires.
//!
//! A sitemap that cannot be read is reported ([`MissingSitemap`]), and the others are still read. Reported are sitemaps
//! that are unavailable, malformed, compressed or not sitemaps, and everything beyond [`MAX_SITEMAPS`], [`MAX_XML`],
//! [`MAX_PAGES`] or [`MAX_PATHS_SIZE`].

use crate::address::{Address, PlainHosts};
use crate::cache::{Cache, Want};
use crate::settings::MAX_PATH_LEN;
use mcp_provider::{Failure, log};
use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

/// The maximum number of sitemaps read for one listing.
const MAX_SITEMAPS: usize = 16;
/// The maximum number of bytes of sitemaps read for one listing. The last one may exceed it.
const MAX_XML: usize = 12 * 1024 * 1024;
/// The maximum number of pages in all sitemaps. The protocol allows the same number in one.
const MAX_PAGES: usize = 50_000;
/// The maximum number of a sitemap's URLs that are fully parsed: URLs of other hosts or in unusual notation.
const MAX_UNUSUAL_URLS: usize = 10_000;
/// The maximum total size of the paths of the pages, in bytes.
const MAX_PATHS_SIZE: usize = 6 * 1024 * 1024;
/// The maximum number of sitemaps reported as missing. The last report covers all further ones.
const MAX_MISSING: usize = 20;
/// The maximum length of a reported reason in characters.
const MAX_REASON: usize = 300;

/// The pages found in sitemaps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SitemapPages {
    /// The paths of the pages, sorted, one per line.
    pub(crate) pages: String,
    /// The sitemaps that are missing, or incomplete.
    pub(crate) missing: Vec<MissingSitemap>,
    /// Whether all of the sitemaps may be stored.
    pub(crate) is_storable: bool,
}

/// A sitemap that is missing or incomplete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MissingSitemap {
    /// The sitemap's path.
    pub(crate) path: String,
    /// The missing part, and the reason.
    pub(crate) reason: String,
    /// The origin's `Retry-After` in seconds, if it sent one.
    pub(crate) after: Option<u64>,
}

/// Reads sitemaps.
pub(crate) fn collect(cache: &Cache, sitemaps: &[Address], plain: &PlainHosts, deadline: SystemTime) -> SitemapPages {
    let ahead = sitemaps.iter().rev().map(|sitemap| (sitemap.clone(), true)).collect();
    let mut collecting = Collector { queue: ahead, ..Collector::new(plain) };
    while let Some((sitemap, may_lead_on)) = collecting.queue.pop() {
        if collecting.sitemaps >= MAX_SITEMAPS || collecting.xml >= MAX_XML {
            collecting.report_missing(
                &sitemap,
                format!("the limit of {MAX_SITEMAPS} sitemaps or {MAX_XML} bytes is reached"),
                None,
            );
            continue;
        }
        collecting.sitemaps = collecting.sitemaps.saturating_add(1);
        match cache.fetch(&sitemap, Want::Body, deadline) {
            Ok(page) => {
                collecting.is_storable &= page.response.is_storable();
                collecting.xml = collecting.xml.saturating_add(page.body.len());
                collecting.read(&sitemap, may_lead_on, &String::from_utf8_lossy(&page.body));
            }
            Err(failure) => {
                let after = match &failure {
                    Failure::Unavailable(retry) => retry.after,
                    _ => None,
                };
                collecting.report_missing(&sitemap, format!("it cannot be fetched: {failure}"), after);
            }
        }
    }
    collecting.finish()
}

/// The state of reading sitemaps.
struct Collector<'a> {
    plain: &'a PlainHosts,
    /// The pending sitemaps, next last, and whether each may refer to further sitemaps.
    queue: Vec<(Address, bool)>,
    pages: BTreeSet<String>,
    missing: Vec<MissingSitemap>,
    is_storable: bool,
    sitemaps: usize,
    /// The number of bytes of sitemaps read.
    xml: usize,
    /// The total size of the paths in bytes.
    paths: usize,
}

impl<'a> Collector<'a> {
    fn new(plain: &'a PlainHosts) -> Self {
        let (ahead, pages, missing) = (Vec::new(), BTreeSet::new(), Vec::new());
        Self { plain, queue: ahead, pages, missing, is_storable: true, sitemaps: 0, xml: 0, paths: 0 }
    }

    /// Adds the pages of one sitemap.
    fn read(&mut self, sitemap: &Address, may_lead_on: bool, xml: &str) {
        let (mut further, mut packed, mut left_out) = (Vec::new(), 0_usize, 0_usize);
        let (mut odd, mut foreign) = (0_usize, 0_usize);
        let own = OwnHost::new(sitemap);
        let read = parse_sitemap(xml, |named, url| {
            let path = match own.path(url) {
                Some(path) => path,
                None if odd >= MAX_UNUSUAL_URLS => {
                    left_out = left_out.saturating_add(1);
                    return;
                }
                None => {
                    odd = odd.saturating_add(1);
                    let address = Address::from_url(url, self.plain);
                    match address.filter(|address| address.authority() == sitemap.authority()) {
                        Some(address) => address.path(),
                        None => {
                            foreign = foreign.saturating_add(1);
                            return;
                        }
                    }
                }
            };
            match named {
                UrlKind::Sitemap if url.ends_with(".gz") => packed = packed.saturating_add(1),
                UrlKind::Sitemap if further.len() < MAX_SITEMAPS => {
                    further.extend(Address::parse(&path, self.plain).ok())
                }
                UrlKind::Sitemap => left_out = left_out.saturating_add(1),
                UrlKind::Page => {
                    let length = path.len().saturating_add(1);
                    if path.len() > MAX_PATH_LEN || self.pages.len() >= MAX_PAGES || self.paths >= MAX_PATHS_SIZE {
                        left_out = left_out.saturating_add(usize::from(!self.pages.contains(&path)));
                    } else if self.pages.insert(path) {
                        self.paths = self.paths.saturating_add(length);
                    }
                }
            }
        });
        if foreign > 0 {
            log::debug!("{} contains {foreign} URLs of other hosts, or that are not HTTP", sitemap.url());
        }
        let mut reasons: Vec<String> = read.err().into_iter().collect();
        if packed > 0 {
            reasons.push(format!("{packed} of its sitemaps are compressed (`.gz`), which is not supported"));
        }
        if left_out > 0 {
            reasons.push(format!(
                "{left_out} of its URLs are omitted: at most {MAX_PAGES} pages and {MAX_SITEMAPS} sitemaps \
                 are listed, each of at most {MAX_PATH_LEN} bytes"
            ));
        }
        if may_lead_on {
            self.queue.extend(further.into_iter().rev().map(|sitemap| (sitemap, false)));
        } else if !further.is_empty() {
            reasons.push("it refers to further sitemaps, and an index of indexes is not followed".to_owned());
        }
        if !reasons.is_empty() {
            self.report_missing(sitemap, reasons.join("; "), None);
        }
    }

    fn report_missing(&mut self, sitemap: &Address, reason: String, after: Option<Duration>) {
        log::warn!("sitemap {} is listed incompletely: {reason}", sitemap.url());
        let mut reason: String = reason.chars().take(MAX_REASON).collect();
        match self.missing.len() {
            0..MAX_MISSING => {}
            MAX_MISSING => reason = "it is not read, nor are the sitemaps after it".to_owned(),
            _ => return,
        }
        let (path, after) = (sitemap.path(), after.map(|after| after.as_secs()));
        if path.len() <= MAX_PATH_LEN && !self.missing.iter().any(|missing| missing.path == path) {
            self.missing.push(MissingSitemap { path, reason, after });
        }
    }

    fn finish(self) -> SitemapPages {
        let mut pages = String::with_capacity(self.paths);
        for page in &self.pages {
            pages.push_str(page);
            pages.push('\n');
        }
        SitemapPages { pages, missing: self.missing, is_storable: self.is_storable }
    }
}

/// A fast path for URLs of the sitemap's own host in the usual notation, which avoids fully parsing 50,000 of them.
struct OwnHost {
    authority: String,
    prefixes: [String; 2],
}

impl OwnHost {
    fn new(sitemap: &Address) -> Self {
        let authority = sitemap.authority().to_owned();
        Self { prefixes: ["https", "http"].map(|scheme| format!("{scheme}://{authority}/")), authority }
    }

    /// Returns the path of such a URL; `None` for any other URL.
    fn path(&self, url: &str) -> Option<String> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?".contains(&byte);
        let rest = self.prefixes.iter().find_map(|beginning| url.strip_prefix(beginning.as_str()))?;
        let mut parts = rest.split('%');
        let begins_with_hex = |part: &str| part.len() >= 2 && part.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
        let is_valid = parts.next()?.bytes().all(is_plain)
            && parts.all(|part| begins_with_hex(part) && part.bytes().all(is_plain));
        is_valid.then(|| [&self.authority, "/", rest].concat())
    }
}

/// The target of a URL in a sitemap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UrlKind {
    Page,
    Sitemap,
}

/// Calls `show` for each URL in a sitemap, up to the first XML error, which is returned.
fn parse_sitemap(xml: &str, mut show: impl FnMut(UrlKind, &str)) -> Result<(), String> {
    let mut reader = Reader::from_str(xml);
    let mut inside: Option<UrlKind> = None;
    let mut url: Option<String> = None;
    let mut is_sitemap = false;
    loop {
        let event = match reader.read_event() {
            Ok(Event::Eof) if !is_sitemap => return Err("it is not a sitemap".to_owned()),
            Ok(Event::Eof) if inside.is_some() => return Err("it is truncated".to_owned()),
            Ok(Event::Eof) => return Ok(()),
            Ok(event) => event,
            Err(error) => return Err(format!("it is malformed at byte {}: {error}", reader.error_position())),
        };
        match event {
            Event::Start(tag) => match tag.local_name().as_ref() {
                b"urlset" | b"sitemapindex" => is_sitemap = true,
                b"url" => inside = Some(UrlKind::Page),
                b"sitemap" => inside = Some(UrlKind::Sitemap),
                b"loc" => url = Some(String::new()),
                _ => {}
            },
            Event::Empty(tag) => is_sitemap |= matches!(tag.local_name().as_ref(), b"urlset" | b"sitemapindex"),
            Event::End(tag) => match tag.local_name().as_ref() {
                b"url" | b"sitemap" => inside = None,
                b"loc" => {
                    let url = url.take().unwrap_or_default();
                    if let (Some(inside), url @ [_, ..]) = (inside, url.trim().as_bytes()) {
                        show(inside, std::str::from_utf8(url).unwrap_or_default());
                    }
                }
                _ => {}
            },
            Event::Text(text) => push_text(&mut url, text.decode().ok().as_deref()),
            Event::CData(text) => push_text(&mut url, text.decode().ok().as_deref()),
            Event::GeneralRef(reference) => push_text(&mut url, character(&reference).as_deref()),
            _ => {}
        }
    }
}

/// Appends text to a URL, up to just over its maximum length.
fn push_text(url: &mut Option<String>, text: Option<&str>) {
    if let (Some(url), Some(text)) = (url, text)
        && url.len() <= MAX_PATH_LEN
    {
        let room = MAX_PATH_LEN.saturating_add(16).saturating_sub(url.len());
        url.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
    }
}

/// Resolves a character reference such as `&amp;`.
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

    fn read(xml: &str) -> (Vec<(UrlKind, String)>, Result<(), String>) {
        let mut all = Vec::new();
        let read = parse_sitemap(xml, |named, url| all.push((named, url.to_owned())));
        (all, read)
    }

    fn pages(xml: &str) -> Vec<String> {
        read(xml).0.into_iter().filter(|(named, _)| *named == UrlKind::Page).map(|(_, url)| url).collect()
    }

    #[test]
    fn pages_and_further_sitemaps_are_told_apart() {
        let xml = "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
                   <url><loc> https://h/a?b=1&amp;c=&#50; </loc><lastmod>2025-01-01</lastmod></url>\
                   <url><loc><![CDATA[https://h/b]]></loc><x:image xmlns:x='y'><x:loc/></x:image></url><url/></urlset>";
        assert_eq!(pages(xml), ["https://h/a?b=1&c=2", "https://h/b"]);
        assert_eq!(read(xml).1, Ok(()));
        let index = "<sitemapindex><sitemap><loc>https://h/1.xml</loc></sitemap></sitemapindex>";
        assert_eq!(read(index), (vec![(UrlKind::Sitemap, "https://h/1.xml".to_owned())], Ok(())));
        assert_eq!(read("<urlset/>"), (Vec::new(), Ok(())));
    }

    #[test]
    fn a_broken_sitemap_is_read_as_far_as_it_goes_and_what_is_wrong_is_said() {
        for (xml, fault) in [
            ("<urlset><url><loc>https://h/a</loc></url><url><loc>https://h/", "it is truncated"),
            ("<urlset><url><loc>https://h/a</loc></url></wrong>", "malformed at byte"),
        ] {
            assert_eq!(pages(xml), ["https://h/a"]);
            assert!(read(xml).1.unwrap_err().contains(fault), "{xml}");
        }
        assert_eq!(read("<!doctype html><p>not here").1, Err("it is not a sitemap".to_owned()));
    }

    #[test]
    fn a_plain_url_has_the_path_that_it_has_when_it_is_taken_apart() {
        let plain = PlainHosts::default();
        let sitemap = Address::parse("h.example/sitemap.xml", &plain).unwrap();
        let own = OwnHost::new(&sitemap);
        for url in [
            "https://h.example/",
            "http://h.example/a?b=c&d=(e)",
            "https://h.example//x/../y:@",
            "https://h.example/%e6%97%A5",
        ] {
            assert_eq!(own.path(url), Address::from_url(url, &plain).map(|address| address.path()), "{url}");
        }
        for url in [
            "https://h.example/%6",
            "https://h.example/%zz",
            "https://h.example/a#b",
            "https://h.example.evil/",
            "https://H.example/",
            "/x",
        ] {
            assert_eq!(own.path(url), None, "{url}");
        }
    }

    #[test]
    fn a_url_without_end_is_kept_up_to_a_bound() {
        let xml = format!("<urlset><url><loc>https://h/{}</loc></url></urlset>", "x&amp;".repeat(1_000_000));
        assert!(pages(&xml)[0].len() < MAX_PATH_LEN + 20);
    }

    proptest! {
        #[test]
        fn no_sitemap_breaks_it(xml in "(<url>|</url>|<loc>|</loc>|&[a-z#x0-9]{0,5};?|<!|[a-z<>/'\"]{0,6}){0,30}") {
            let _ = read(&xml);
        }
    }
}
