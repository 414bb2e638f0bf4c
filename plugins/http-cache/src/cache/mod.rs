//! The cache: pages from the store or from their origins.
//!
//! [`Cache::fetch`] is the entry point. It responds from the store if the rules of HTTP caching ([`policy`]) allow it;
//! if not, it sends a conditional request to the origin, with the validators of the stored page. It follows redirects;
//! each of them is stored and validated like a page. When an origin fails, the stale page is served for as long as that
//! is allowed, and requests to the origin are suspended for a back-off.
//!
//! A bucket keeps the pages of an origin after a reload has revoked its grant. Such pages count as not stored, in reads
//! and in the listing: a read sends the request, which the host denies.

pub(crate) mod entries;
pub(crate) mod head;
pub(crate) mod policy;

use crate::address::{Address, PlainHosts};
use crate::clock::{Clock, after, millis};
use crate::origin::{self, FetchError, Origin};
use crate::page;
use crate::settings::Settings;
use entries::CachedPage;
use head::{Content, Head};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use mcp_provider::keyvalue::Store;
use mcp_provider::{Failure, Result, Retry};
use policy::{Freshness, Response, Revalidation};
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// The maximum number of redirects followed for one page.
const MAX_REDIRECTS: usize = 5;
/// The back-off after a failure of an origin while a stale page is served, unless the origin specifies one.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(10);
/// The maximum back-off, and the maximum delay passed on to clients, whatever the origin specifies.
const MAX_BACKOFF: Duration = Duration::from_secs(60 * 60);

/// The cache: pages from the store or from their origins.
pub(crate) struct Cache {
    origin: Box<dyn Origin>,
    store: Box<dyn Store>,
    clock: Box<dyn Clock>,
    plain: PlainHosts,
    max_body: usize,
    max_stale: Duration,
    timeout: Duration,
    requests: Cell<usize>,
}

/// The requested part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The head and the body.
    Body,
    /// The head; if the page is not stored, a HEAD request suffices.
    Entry,
}

/// The current state of a page.
#[derive(Debug)]
pub(crate) struct FetchedPage {
    /// The final address, after redirects.
    pub(crate) address: Address,
    /// The state for the caching rules.
    pub(crate) response: Response,
    /// The content's metadata.
    pub(crate) content: Content,
    /// The body, if it was requested.
    pub(crate) body: Vec<u8>,
    /// Whether the page is stale because its origin failed to revalidate it.
    pub(crate) is_stale: bool,
    /// The remaining time to live.
    pub(crate) ttl: Duration,
}

/// One page or redirect in a chain.
struct Step {
    head: Head,
    body: Option<Vec<u8>>,
    is_stale: bool,
}

impl Cache {
    pub(crate) fn new(
        origin: Box<dyn Origin>,
        store: Box<dyn Store>,
        clock: Box<dyn Clock>,
        settings: &Settings,
    ) -> Self {
        Self {
            origin,
            store,
            clock,
            plain: settings.plain.clone(),
            max_body: settings.max_body,
            max_stale: settings.max_stale,
            timeout: settings.timeout,
            requests: Cell::new(0),
        }
    }

    /// Returns the deadline for requests to origins of a call that starts now.
    pub(crate) fn deadline(&self) -> SystemTime {
        after(self.now(), self.timeout)
    }

    /// Returns the current time.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// Returns the number of requests sent.
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }

    /// Returns the store.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Returns whether requests to the origin of an address are granted now.
    pub(crate) fn is_granted(&self, address: &Address) -> bool {
        self.origin.is_granted(&address.origin())
    }

    /// Returns the stored page for an address, if its origin is granted.
    fn stored(&self, at: &Address, with_body: bool) -> Option<CachedPage> {
        if self.is_granted(at) { entries::get(self.store(), &at.path(), with_body) } else { None }
    }

    /// Returns the stored head of the page at an address without sending requests. Stored redirects are followed.
    pub(crate) fn cached_head(&self, address: &Address) -> Option<Head> {
        let mut at = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let head = self.stored(&at, false)?.head;
            match head.location() {
                None => return Some(head),
                Some(location) => at = at.resolve(location, &self.plain)?,
            }
        }
        None
    }

    /// Returns the page at an address.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if the origin does not have the page, [`Failure::Denied`] if the origin or the host denies
    /// it, and [`Failure::Unavailable`] if the origin fails and no stale page may be served.
    pub(crate) fn fetch(&self, address: &Address, want: Want, deadline: SystemTime) -> Result<FetchedPage> {
        let mut way = vec![address.clone()];
        let (mut at, mut ttl, mut is_stale) = (address.clone(), Duration::MAX, false);
        loop {
            let step = self.step(&at, want, deadline).map_err(|failure| with_redirect_source(failure, address, &at))?;
            is_stale |= step.is_stale;
            ttl = if step.is_stale { Duration::ZERO } else { ttl.min(step.head.response.ttl(self.now())) };
            let next = match step.head.content {
                Some(content) => {
                    let body = step.body.unwrap_or_default();
                    return Ok(FetchedPage { address: at, response: step.head.response, content, body, is_stale, ttl });
                }
                None => step.head.location().and_then(|location| at.resolve(location, &self.plain)),
            };
            at = next.ok_or_else(|| {
                Failure::unavailable(format!("{} redirects to a URL that is not HTTP", at.url_without_query()))
            })?;
            if way.contains(&at) {
                return Err(Failure::unavailable(format!(
                    "{} is in a redirect loop, via {}",
                    address.url(),
                    at.url_without_query()
                )));
            }
            if way.len() > MAX_REDIRECTS {
                return Err(Failure::unavailable(format!("{} has more than {MAX_REDIRECTS} redirects", address.url())));
            }
            way.push(at.clone());
        }
    }

    /// Returns the page or redirect at one address.
    fn step(&self, at: &Address, want: Want, deadline: SystemTime) -> Result<Step> {
        let now = self.now();
        let stored = self.stored(at, want == Want::Body);
        let is_stored = stored.is_some();
        let (mut headers, mut usable) = (policy::request_headers(), None);
        if let Some(stored) = stored {
            match stored.head.response.freshness(now) {
                Freshness::Fresh(_) => return Ok(Step::from_cached(stored, false)),
                Freshness::Stale { request, matches } => {
                    headers = request;
                    usable = matches.then_some(stored);
                }
            }
        }
        match usable {
            Some(stored) if stored.head.backoff_until > millis(now) && self.may_serve_stale(&stored) => {
                Ok(Step::from_cached(stored, true))
            }
            usable => {
                let is_head = want == Want::Entry && !is_stored;
                self.request(ConditionalRequest { at, headers, is_head, is_cached: is_stored, deadline }, usable)
            }
        }
    }

    /// Sends a request to the origin. `usable` is the stored page that a 304 confirms, or that is served stale on
    /// failure.
    fn request(&self, question: ConditionalRequest<'_>, usable: Option<CachedPage>) -> Result<Step> {
        let at = question.at;
        let sent = self.now();
        let answer = match self.send(&question) {
            Ok(answer) => answer,
            Err(FetchError::Unreachable(reason)) => {
                return self.serve_stale(at, usable, Retry::new(format!("{}: {reason}", at.url())));
            }
            Err(FetchError::Denied(reason)) => {
                let help = match at.is_tls_at_own_port() {
                    true => format!("; for HTTP without TLS, name {:?} in the config key `plain-http`", at.authority()),
                    false => String::new(),
                };
                return Err(Failure::denied(format!("{}: {reason}{help}", at.url())));
            }
            Err(trouble @ FetchError::TooLarge(_)) => return Err(Failure::denied(trouble.to_string())),
            Err(FetchError::Host(fault)) => return Err(Failure::internal(format!("{}: {fault}", at.url()))),
        };
        let answered = |what: &str| format!("{} responds {}: {what}", at.url(), answer.status);
        match (answer.status, usable) {
            (304, Some(mut stored)) => {
                match stored.head.response.validate(&question.headers, &answer.headers, sent, self.now()) {
                    Revalidation::NotModified(response) => {
                        (stored.head.response, stored.head.backoff_until) = (response, 0);
                        entries::put(self.store(), &at.path(), &stored.head, None);
                        Ok(Step::from_cached(stored, false))
                    }
                    // The 304 does not match the stored page: the page is requested unconditionally.
                    Revalidation::Replaced => {
                        self.request(ConditionalRequest { headers: policy::request_headers(), ..question }, None)
                    }
                }
            }
            (304, None) => Err(Failure::unavailable(answered("304 to an unconditional request"))),
            (200..=205 | 207..=299, _) => self.store_response(&question, answer, sent),
            (301 | 302 | 303 | 307 | 308, _) => {
                let head = Head::new(Response::new(answer.status, &answer.headers, sent, self.now()), None);
                if head.location().is_none() {
                    return Err(Failure::unavailable(answered("a redirect without a target")));
                }
                self.update_store(&question, &head, None);
                Ok(Step { head, body: None, is_stale: false })
            }
            (404 | 410, _) => {
                self.remove(&question);
                Err(Failure::NotFound)
            }
            (405 | 501, usable) if question.is_head => {
                self.request(ConditionalRequest { is_head: false, ..question }, usable)
            }
            (408 | 425 | 429 | 500..=599, usable) => {
                let retry = Retry::new(answered("temporarily unavailable"));
                let wait = retry_after(&answer.headers, self.now());
                self.serve_stale(at, usable, wait.map_or(retry.clone(), |wait| retry.after(wait)))
            }
            (400..=499, _) => {
                self.remove(&question);
                Err(Failure::denied(answered("the origin denies the page")))
            }
            _ => Err(Failure::unavailable(answered("unexpected status"))),
        }
    }

    fn send(&self, question: &ConditionalRequest<'_>) -> std::result::Result<origin::Response, FetchError> {
        let timeout = question.deadline.duration_since(self.now()).unwrap_or_default();
        if timeout.is_zero() {
            return Err(FetchError::Unreachable("the deadline of the call is exceeded".to_owned()));
        }
        self.requests.set(self.requests.get().saturating_add(1));
        self.origin.send(&origin::Request {
            url: question.at.url(),
            is_head: question.is_head,
            headers: question.headers.clone(),
            timeout,
            max_body: self.max_body,
        })
    }

    /// Stores a received page.
    fn store_response(
        &self,
        question: &ConditionalRequest<'_>,
        answer: origin::Response,
        sent: SystemTime,
    ) -> Result<Step> {
        let at = question.at;
        let coding = answer.headers.get(CONTENT_ENCODING).map(|coding| coding.to_str().unwrap_or_default().trim());
        if coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")) {
            return Err(Failure::unavailable(format!("{} has a content encoding that was not requested", at.url())));
        }
        let response = Response::new(answer.status, &answer.headers, sent, self.now());
        if question.is_head {
            let head = Head::new(response, Some(page::declared_content(&answer.headers, &at.name())));
            return Ok(Step { head, body: None, is_stale: false });
        }
        let (content, body) = page::ingest(&answer.headers, answer.body, &at.name());
        let head = Head::new(response, Some(content));
        self.update_store(question, &head, Some(&body));
        Ok(Step { head, body: Some(body), is_stale: false })
    }

    /// Stores the response, if it is storable, and replaces the previous one.
    fn update_store(&self, question: &ConditionalRequest<'_>, head: &Head, body: Option<&[u8]>) {
        if !head.response.is_storable() {
            return self.remove(question);
        }
        if question.is_head {
            return;
        }
        entries::put(self.store(), &question.at.path(), head, body);
        if question.is_cached {
            entries::remove_other_kind(self.store(), &question.at.path(), head);
        }
    }

    fn remove(&self, question: &ConditionalRequest<'_>) {
        if question.is_cached {
            entries::remove(self.store(), &question.at.path());
        }
    }

    /// Serves the stored page for a failing origin, and starts the origin's back-off.
    fn serve_stale(&self, at: &Address, usable: Option<CachedPage>, retry: Retry) -> Result<Step> {
        match usable.filter(|stored| self.may_serve_stale(stored)) {
            None => Err(retry.into()),
            Some(mut stored) => {
                let hold = retry.after.unwrap_or(DEFAULT_BACKOFF).min(MAX_BACKOFF);
                stored.head.backoff_until = millis(after(self.now(), hold));
                entries::put(self.store(), &at.path(), &stored.head, None);
                Ok(Step::from_cached(stored, true))
            }
        }
    }

    fn may_serve_stale(&self, stored: &CachedPage) -> bool {
        stored.head.response.stale_until(self.max_stale).is_some_and(|until| self.now() < until)
    }
}

/// A request to an origin.
struct ConditionalRequest<'a> {
    at: &'a Address,
    headers: HeaderMap,
    is_head: bool,
    /// Whether the store has an entry for the address, usable or not.
    is_cached: bool,
    deadline: SystemTime,
}

impl Step {
    fn from_cached(stored: CachedPage, is_stale: bool) -> Self {
        Self { head: stored.head, body: stored.body, is_stale }
    }
}

/// Adds the source of a redirect to a failure at its target, and removes the query of the target from the message.
fn with_redirect_source(failure: Failure, from: &Address, at: &Address) -> Failure {
    if from == at {
        return failure;
    }
    let shown = |text: &str| text.replace(&at.url(), &at.url_without_query());
    match failure {
        Failure::Denied(reason) => Failure::Denied(format!("{} redirects: {}", from.url(), shown(&reason))),
        Failure::Unavailable(mut retry) => {
            retry.reason = shown(&retry.reason);
            Failure::Unavailable(retry)
        }
        failure => failure,
    }
}

/// Parses `Retry-After`: in seconds or as a date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match policy::seconds(text) {
        Some(seconds) => Duration::from_secs(seconds),
        None => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_BACKOFF))
}
