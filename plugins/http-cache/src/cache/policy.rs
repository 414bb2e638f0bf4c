//! The rules of HTTP caching (RFC 9111), for one response.
//!
//! `http-cache-semantics` implements the rules. Its input is normalized to the form that it parses correctly:
//! directives in lower case, dates in the current format, an age that includes the response delay, each header once.
//! This module adds the stored headers, their replacement by the headers of a 304 (section 3.2), and how long a stale
//! response may be served on failure (section 4.2.4, and RFC 5861).
//!
//! The cache is a *shared* one, because a host serves several principals: `private` responses are not stored.
//! `stale-while-revalidate` is not supported: such a page is revalidated first, because there is no background work
//! between calls.

use crate::clock::{after, millis, time};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AGE, CACHE_CONTROL, CONTENT_TYPE, DATE, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, PRAGMA,
    SET_COOKIE, USER_AGENT, VARY,
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use http_cache_semantics::{AfterResponse, BeforeRequest, CacheOptions, CachePolicy};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime};

/// The stored headers of a response. All other headers are dropped.
const STORED_HEADERS: [HeaderName; 11] =
    [AGE, CACHE_CONTROL, CONTENT_TYPE, DATE, ETAG, EXPIRES, LAST_MODIFIED, LOCATION, PRAGMA, SET_COOKIE, VARY];

/// The maximum length of the value of a stored header.
const MAX_HEADER_VALUE: usize = 4096;

/// The largest delta-seconds value that a cache must support (RFC 9111, section 1.2.2).
const MAX_DELTA_SECONDS: u64 = 1 << 31;

/// Returns the headers of every request. They are constant, so pages that vary by them (`Vary`) have a single variant.
pub(crate) fn request_headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("text/html, text/markdown;q=0.9, text/*;q=0.8, */*;q=0.5"));
    // Content encodings are not supported.
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("mcp-host-http-cache/", env!("CARGO_PKG_VERSION"))));
    headers
}

/// A response as seen by the caching rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Response {
    status: u16,
    /// The time of reception, in milliseconds since 1970.
    received: u64,
    /// The headers of the request.
    request: Vec<(String, String)>,
    /// The normalized headers.
    headers: Vec<(String, String)>,
}

/// The freshness of a stored response.
#[derive(Debug)]
pub(crate) enum Freshness {
    /// Fresh: served without a request for this duration.
    Fresh(Duration),
    /// Stale: the response must be revalidated with the origin.
    Stale {
        /// The headers of the conditional request, with the validators, if any.
        request: HeaderMap,
        /// Whether the stored response belongs to the same request (`Vary`).
        matches: bool,
    },
}

/// The effect of a 304 on a stored response.
#[derive(Debug)]
pub(crate) enum Revalidation {
    /// The response is confirmed and updated.
    NotModified(Response),
    /// The 304 belongs to another response.
    Replaced,
}

impl Response {
    /// Creates the state of a response received now, to a request sent at `sent`.
    pub(crate) fn new(status: u16, headers: &HeaderMap, sent: SystemTime, received: SystemTime) -> Self {
        Self {
            status,
            received: millis(received),
            request: pairs(&request_headers()),
            headers: pairs(&normalize_headers(headers, sent, received)),
        }
    }

    /// Returns the time of reception.
    pub(crate) fn received(&self) -> SystemTime {
        time(self.received)
    }

    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.iter().find(|(header, _)| header == name.as_str()).map(|(_, value)| value.as_str())
    }

    /// Returns whether the response may be stored and can be reused.
    pub(crate) fn is_storable(&self) -> bool {
        let varies_by_anything = self.header(&VARY).is_some_and(|vary| vary.split(',').any(|name| name.trim() == "*"));
        !varies_by_anything && self.policy().is_storable()
    }

    /// Returns the remaining time to live.
    pub(crate) fn ttl(&self, now: SystemTime) -> Duration {
        match self.freshness(now) {
            Freshness::Fresh(ttl) => ttl,
            Freshness::Stale { .. } => Duration::ZERO,
        }
    }

    /// Returns the time since the origin generated or confirmed the response.
    pub(crate) fn age(&self, now: SystemTime) -> Duration {
        self.policy().age(now)
    }

    /// Returns the freshness.
    pub(crate) fn freshness(&self, now: SystemTime) -> Freshness {
        let policy = self.policy();
        match policy.before_request(&request(request_headers()), now) {
            BeforeRequest::Fresh(_) => Freshness::Fresh(policy.time_to_live(now)),
            BeforeRequest::Stale { request, matches } => Freshness::Stale { request: request.headers, matches },
        }
    }

    /// Returns the time until which the response may be served stale while its origin fails; `None` if never.
    /// `max_stale` is the duration if the origin specifies none.
    pub(crate) fn stale_until(&self, max_stale: Duration) -> Option<SystemTime> {
        let control = self.header(&CACHE_CONTROL).unwrap_or_default();
        let has = |name: &str| directives(control).any(|(directive, _)| directive == name);
        // `s-maxage` implies `proxy-revalidate` (RFC 9111, section 5.2.2.10).
        if ["must-revalidate", "proxy-revalidate", "s-maxage", "no-cache"].into_iter().any(has) {
            return None;
        }
        let said = directives(control).find(|(directive, _)| *directive == "stale-if-error");
        let most = match said {
            Some((_, seconds)) => Duration::from_secs(self::seconds(seconds?)?),
            None => max_stale,
        };
        let received = self.received();
        Some(after(after(received, self.policy().time_to_live(received)), most))
    }

    /// Updates the response with the headers of a 304 to a request with the headers `asked`.
    pub(crate) fn validate(
        &self,
        asked: &HeaderMap,
        headers: &HeaderMap,
        sent: SystemTime,
        now: SystemTime,
    ) -> Revalidation {
        let confirming = response(StatusCode::NOT_MODIFIED, headers.clone());
        match self.policy().after_response(&request(asked.clone()), &confirming, now) {
            AfterResponse::Modified(..) => Revalidation::Replaced,
            AfterResponse::NotModified(..) => {
                let mut merged = map(&self.headers);
                merged.remove(AGE);
                for (name, value) in &normalize_headers(headers, sent, now) {
                    // The type describes the body, which is unchanged.
                    if name != CONTENT_TYPE {
                        merged.insert(name.clone(), value.clone());
                    }
                }
                Revalidation::NotModified(Self { received: millis(now), headers: pairs(&merged), ..self.clone() })
            }
        }
    }

    fn policy(&self) -> CachePolicy {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let options = CacheOptions { shared: true, ..CacheOptions::default() };
        let (request, response) = (request(map(&self.request)), response(status, map(&self.headers)));
        CachePolicy::new_options(&request, &response, self.received(), options)
    }
}

/// Returns a request with a constant URL, because the keys of the store distinguish pages.
fn request(headers: HeaderMap) -> http::Request<()> {
    let mut request = http::Request::new(());
    *request.uri_mut() = Uri::from_static("https://page.invalid/");
    *request.headers_mut() = headers;
    request
}

fn response(status: StatusCode, headers: HeaderMap) -> http::Response<()> {
    let mut response = http::Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Returns the relevant headers, each once, in normalized form.
fn normalize_headers(headers: &HeaderMap, sent: SystemTime, received: SystemTime) -> HeaderMap {
    let mut normalized = HeaderMap::new();
    for name in &STORED_HEADERS {
        let values: Vec<&str> = headers.get_all(name).iter().filter_map(|value| value.to_str().ok()).collect();
        let value = match *name {
            CACHE_CONTROL => Some(clamp_seconds(&values.join(", ").to_ascii_lowercase())),
            PRAGMA => Some(values.join(", ").to_ascii_lowercase()),
            VARY => Some(values.join(", ")),
            // Only the presence of the header matters.
            SET_COOKIE => headers.contains_key(SET_COOKIE).then(String::new),
            EXPIRES => values.first().map(|value| http_date(value).unwrap_or_else(|| "0".to_owned())),
            AGE | DATE => None,
            _ => values.first().map(|value| (*value).to_owned()),
        };
        let value = value.filter(|value| value.len() <= MAX_HEADER_VALUE && (!value.is_empty() || *name == SET_COOKIE));
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            normalized.insert(name.clone(), value);
        }
    }
    // A list that is too long to store may have contained any directive.
    if headers.contains_key(CACHE_CONTROL) && !normalized.contains_key(CACHE_CONTROL) {
        normalized.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
    if headers.contains_key(VARY) && !normalized.contains_key(VARY) {
        normalized.insert(VARY, HeaderValue::from_static("*"));
    }
    let made = header_value(headers, &DATE).and_then(|date| httpdate::parse_http_date(date).ok());
    if let Ok(date) = HeaderValue::try_from(httpdate::fmt_http_date(made.unwrap_or(received))) {
        normalized.insert(DATE, date);
    }
    normalized.insert(AGE, HeaderValue::from(initial_age(headers, made, sent, received)));
    normalized
}

/// Returns the age of a response on reception, in seconds (RFC 9111, section 4.2.3).
fn initial_age(headers: &HeaderMap, made: Option<SystemTime>, sent: SystemTime, received: SystemTime) -> u64 {
    let said = header_value(headers, &AGE).and_then(|age| seconds(age.trim())).unwrap_or_default();
    let underway = received.duration_since(sent).unwrap_or_default().as_secs();
    let apparent = made.and_then(|made| received.duration_since(made).ok()).unwrap_or_default().as_secs();
    said.saturating_add(underway).max(apparent).min(MAX_DELTA_SECONDS)
}

/// Parses delta-seconds. Values beyond the maximum are clamped, whatever their number of digits.
pub(super) fn seconds(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse::<u64>().unwrap_or(MAX_DELTA_SECONDS).min(MAX_DELTA_SECONDS))
}

/// Clamps the delta-seconds in directives to the supported maximum.
fn clamp_seconds(control: &str) -> String {
    let directive = |directive: &str| match directive.split_once('=') {
        Some((name, argument)) => match seconds(argument.trim().trim_matches('"')) {
            Some(MAX_DELTA_SECONDS) => format!("{name}={MAX_DELTA_SECONDS}"),
            _ => directive.to_owned(),
        },
        None => directive.to_owned(),
    };
    control.split(',').map(directive).collect::<Vec<_>>().join(",")
}

/// Converts a date to the current format, from any of the three (RFC 9110, section 5.6.7).
fn http_date(text: &str) -> Option<String> {
    httpdate::parse_http_date(text).ok().map(httpdate::fmt_http_date)
}

/// Returns the directives of `Cache-Control` with their arguments.
fn directives(control: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    control.split(',').map(|directive| match directive.split_once('=') {
        Some((name, argument)) => (name.trim(), Some(argument.trim().trim_matches('"'))),
        None => (directive.trim(), None),
    })
}

fn header_value<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

fn pairs(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |(name, value): (&HeaderName, &HeaderValue)| Some((name.to_string(), value.to_str().ok()?.to_owned()));
    headers.iter().filter_map(text).collect()
}

fn map(pairs: &[(String, String)]) -> HeaderMap {
    let valid = |(name, value): &(String, String)| {
        Some((HeaderName::try_from(name.as_str()).ok()?, HeaderValue::try_from(value.as_str()).ok()?))
    };
    pairs.iter().filter_map(valid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> SystemTime {
        after(time(1_700_000_000_000), Duration::from_secs(seconds))
    }

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn page(pairs: &[(&str, &str)]) -> Response {
        Response::new(200, &headers(pairs), at(0), at(0))
    }

    fn seconds(response: &Response, now: u64) -> u64 {
        response.ttl(at(now)).as_secs()
    }

    #[test]
    fn freshness_is_what_the_origin_says_less_the_age() {
        assert_eq!(seconds(&page(&[("cache-control", "max-age=60")]), 20), 40);
        assert_eq!(seconds(&page(&[("cache-control", "max-age=60"), ("age", "50")]), 5), 5);
        assert_eq!(seconds(&page(&[("cache-control", "max-age=60, s-maxage=10")]), 5), 5);
        let expires = httpdate::fmt_http_date(at(30));
        assert_eq!(seconds(&page(&[("expires", &expires)]), 10), 20);
        assert_eq!(seconds(&page(&[]), 0), 0);
    }

    #[test]
    fn a_number_that_no_computer_holds_is_a_very_long_time_and_not_none() {
        for number in ["2147483649", "18446744073709551616", "\"99999999999999999999999999\""] {
            assert_eq!(
                seconds(&page(&[("cache-control", &format!("max-age={number}"))]), 9),
                (1 << 31) - 9,
                "{number}"
            );
            assert_eq!(
                seconds(&page(&[("cache-control", &format!("max-age=1, s-maxage={number}"))]), 9),
                (1 << 31) - 9
            );
            let until =
                page(&[("cache-control", &format!("max-age=1, stale-if-error={number}"))]).stale_until(Duration::ZERO);
            assert_eq!(until, Some(at(1 + (1 << 31))));
        }
        assert_eq!(seconds(&page(&[("cache-control", "max-age=60"), ("age", "99999999999999999999")]), 0), 0);
        assert_eq!(seconds(&page(&[("cache-control", "max-age=-1")]), 0), 0);
    }

    #[test]
    fn a_response_that_was_long_under_way_is_older() {
        let slow = Response::new(200, &headers(&[("cache-control", "max-age=60"), ("age", "10")]), at(0), at(20));
        assert_eq!(seconds(&slow, 20), 30);
        let date = httpdate::fmt_http_date(at(0));
        let old = Response::new(200, &headers(&[("cache-control", "max-age=60"), ("date", &date)]), at(45), at(45));
        assert_eq!(seconds(&old, 45), 15);
    }

    #[test]
    fn without_a_word_of_the_origin_a_tenth_of_its_age_is_taken_for_freshness() {
        let modified = httpdate::fmt_http_date(at(0) - Duration::from_secs(1000));
        assert_eq!(seconds(&page(&[("last-modified", &modified)]), 40), 60);
    }

    #[test]
    fn dates_are_understood_in_all_their_formats_and_one_that_is_none_is_long_past() {
        for expires in ["Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "0", "soon"] {
            assert_eq!(seconds(&page(&[("expires", expires)]), 0), 0, "{expires}");
        }
        let modern = page(&[("date", "Sun Nov  6 08:49:37 1994")]);
        assert_eq!(modern.header(&DATE), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
    }

    #[test]
    fn what_must_not_be_kept_is_not_however_it_is_written() {
        for control in ["no-store", "No-Store", "PRIVATE", "max-age=60, private=\"x\"", "no-store, no-store"] {
            assert!(!page(&[("cache-control", control)]).is_storable(), "{control}");
        }
        assert!(!page(&[("cache-control", "max-age=60"), ("cache-control", "no-store")]).is_storable());
        assert!(!page(&[("cache-control", &"x,".repeat(4000))]).is_storable());
        assert!(page(&[]).is_storable());
    }

    #[test]
    fn what_varies_by_anything_is_never_fresh() {
        for vary in ["*", "accept, *"] {
            let page = page(&[("cache-control", "max-age=60"), ("vary", vary), ("etag", "\"a\"")]);
            let Freshness::Stale { matches, .. } = page.freshness(at(1)) else { panic!("{vary}") };
            assert!(!matches && !page.is_storable());
        }
        assert_eq!(seconds(&page(&[("cache-control", "max-age=60"), ("vary", "Accept, Cookie")]), 0), 60);
    }

    #[test]
    fn a_page_that_was_asked_for_otherwise_is_another() {
        let mut page = page(&[("cache-control", "max-age=60"), ("vary", "user-agent")]);
        page.request = vec![("user-agent".to_owned(), "an earlier version".to_owned())];
        assert_eq!(seconds(&page, 1), 0);
    }

    #[test]
    fn a_stale_page_is_asked_for_with_both_validators() {
        let modified = httpdate::fmt_http_date(at(0));
        let page = page(&[("etag", "W/\"a\""), ("last-modified", &modified)]);
        let Freshness::Stale { request, matches } = page.freshness(at(1)) else { panic!() };
        assert!(matches);
        assert_eq!(request.get("if-none-match").unwrap(), "W/\"a\"");
        assert_eq!(request.get("if-modified-since").unwrap(), modified.as_str());
        assert!(request.contains_key("accept"));
    }

    #[test]
    fn a_304_brings_its_headers_and_leaves_the_others() {
        let page =
            page(&[("etag", "\"a\""), ("cache-control", "max-age=1"), ("age", "1"), ("content-type", "text/html")]);
        let asked = request_headers();
        let confirming = headers(&[("etag", "\"a\""), ("cache-control", "max-age=60"), ("content-type", "text/plain")]);
        let Revalidation::NotModified(page) = page.validate(&asked, &confirming, at(100), at(100)) else { panic!() };
        assert_eq!(seconds(&page, 110), 50);
        assert_eq!(page.header(&CONTENT_TYPE), Some("text/html"));
        assert_eq!(page.header(&ETAG), Some("\"a\""));
    }

    #[test]
    fn a_304_may_bring_a_header_that_was_not_there() {
        let page = page(&[("etag", "\"a\"")]);
        let confirming = headers(&[("etag", "\"a\""), ("cache-control", "max-age=60")]);
        let Revalidation::NotModified(page) = page.validate(&request_headers(), &confirming, at(9), at(9)) else {
            panic!()
        };
        assert_eq!(seconds(&page, 9), 60);
    }

    #[test]
    fn a_304_about_another_response_confirms_nothing() {
        let page = page(&[("etag", "\"a\"")]);
        let other = headers(&[("etag", "\"b\"")]);
        assert!(matches!(page.validate(&request_headers(), &other, at(9), at(9)), Revalidation::Replaced));
    }

    #[test]
    fn a_stale_page_may_stand_in_for_as_long_as_the_origin_or_the_config_says() {
        let day = Duration::from_secs(86_400);
        let until = |control: &str| page(&[("cache-control", control)]).stale_until(day);
        assert_eq!(until("max-age=10"), Some(at(10) + day));
        assert_eq!(until("max-age=10, stale-if-error=20"), Some(at(30)));
        assert_eq!(until("max-age=10, stale-if-error=\"0\""), Some(at(10)));
        for control in ["must-revalidate", "max-age=1, Proxy-Revalidate", "s-maxage=5", "no-cache", "stale-if-error=x"]
        {
            assert_eq!(until(control), None, "{control}");
        }
    }

    proptest! {
        #[test]
        fn no_header_breaks_the_rules(
            control in ".{0,30}", age in "[0-9]{0,25}", date in "[A-Za-z0-9:, ]{0,32}", etag in "[ -~]{0,12}", vary in "[a-zA-Z*, ]{0,12}",
        ) {
            let value = |text: &str| HeaderValue::from_bytes(text.as_bytes()).ok();
            let all = [(CACHE_CONTROL, &control), (AGE, &age), (DATE, &date), (EXPIRES, &date), (LAST_MODIFIED, &date), (ETAG, &etag), (VARY, &vary)];
            let headers: HeaderMap = all.into_iter().filter_map(|(name, text)| Some((name, value(text)?))).collect();
            let page = Response::new(200, &headers, at(0), at(1));
            for now in [at(0), at(1_000_000), time(u64::MAX)] {
                let _ = (page.freshness(now), page.stale_until(Duration::MAX), page.is_storable(), page.age(now));
                let _ = page.validate(&request_headers(), &headers, at(2), now);
            }
        }
    }
}
