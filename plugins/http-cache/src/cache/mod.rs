//! Pages, from the store or from their origins.
//!
//! [`Cache::fetch`] is all there is to it: it answers from the store where the rules of HTTP caching ([`policy`]) allow that, and
//! otherwise asks the origin, with what is kept as validator. It follows redirects, each of which is kept and checked like
//! a page of its own. When an origin fails, what is kept stands in for as long as that is allowed, and the origin is left
//! alone for a moment.

pub(crate) mod entries;
pub(crate) mod head;
pub(crate) mod policy;

use crate::address::Address;
use crate::clock::{Clock, after, millis};
use crate::origin::{self, FetchError, Origin};
use crate::page;
use crate::settings::{PlainHosts, Settings};
use crate::store::Store;
use entries::CachedPage;
use head::{Content, Head};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, RETRY_AFTER};
use mcp_provider::{Failure, Result, Retry};
use policy::{Freshness, Response, Revalidation};
use std::cell::Cell;
use std::time::{Duration, SystemTime};

/// How many redirects are followed for one page.
const MAX_REDIRECTS: usize = 5;
/// For how long an origin that failed is left alone where something stands in for it, unless it says.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(10);
/// The longest that it is left alone, and that clients are told to wait, whatever it says.
const MAX_BACKOFF: Duration = Duration::from_secs(60 * 60);

/// Pages, from the store or from their origins.
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

/// What is wanted of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// All of it.
    Body,
    /// What is known about it; where nothing is kept, its headers are enough.
    Entry,
}

/// A page as it is now.
#[derive(Debug)]
pub(crate) struct FetchedPage {
    /// Where it was in the end.
    pub(crate) address: Address,
    /// What the rules know.
    pub(crate) response: Response,
    /// What it holds.
    pub(crate) content: Content,
    /// Its body, if that was wanted.
    pub(crate) body: Vec<u8>,
    /// Whether its origin could not be asked although it should have been.
    pub(crate) is_stale: bool,
    /// For how long it may be taken for unchanged.
    pub(crate) ttl: Duration,
}

/// One page or redirect on the way.
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

    /// Until when one call may go on asking origins, if it begins now.
    pub(crate) fn deadline(&self) -> SystemTime {
        after(self.now(), self.timeout)
    }

    /// Now.
    pub(crate) fn now(&self) -> SystemTime {
        self.clock.now()
    }

    /// How many requests were sent.
    pub(crate) fn requests(&self) -> usize {
        self.requests.get()
    }

    /// Where pages are kept.
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// What is kept of the page at an address, without asking anybody: behind its redirects, as far as they are kept.
    pub(crate) fn cached_head(&self, address: &Address) -> Option<Head> {
        let mut at = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let head = entries::get(self.store(), &at.path(), false)?.head;
            match head.location() {
                None => return Some(head),
                Some(location) => at = at.resolve(location, &self.plain)?,
            }
        }
        None
    }

    /// The page at an address.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] when its origin says so, [`Failure::Denied`] when its origin or the host refuses, and
    /// [`Failure::Unavailable`] when it cannot be had now and nothing may stand in for it.
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
            at = next.ok_or_else(|| Failure::unavailable(format!("{} leads to no page of the web", at.url())))?;
            if way.contains(&at) {
                return Err(Failure::unavailable(format!(
                    "{} is redirected in a circle, by {}",
                    address.url(),
                    at.url()
                )));
            }
            if way.len() > MAX_REDIRECTS {
                return Err(Failure::unavailable(format!(
                    "{} is redirected more than {MAX_REDIRECTS} times",
                    address.url()
                )));
            }
            way.push(at.clone());
        }
    }

    /// What is at one address, which may be a redirect.
    fn step(&self, at: &Address, want: Want, deadline: SystemTime) -> Result<Step> {
        let now = self.now();
        let kept = entries::get(self.store(), &at.path(), want == Want::Body);
        let is_kept = kept.is_some();
        let (mut headers, mut usable) = (policy::request_headers(), None);
        if let Some(kept) = kept {
            match kept.head.response.freshness(now) {
                Freshness::Fresh(_) => return Ok(Step::from_cached(kept, false)),
                Freshness::Stale { request, matches } => {
                    headers = request;
                    usable = matches.then_some(kept);
                }
            }
        }
        match usable {
            Some(kept) if kept.head.backoff_until > millis(now) && self.may_serve_stale(&kept) => {
                Ok(Step::from_cached(kept, true))
            }
            usable => {
                let is_head = want == Want::Entry && !is_kept;
                self.request(ConditionalRequest { at, headers, is_head, is_cached: is_kept, deadline }, usable)
            }
        }
    }

    /// Asks the origin. `usable` is what its answer may confirm, or what may stand in for it.
    fn request(&self, question: ConditionalRequest<'_>, usable: Option<CachedPage>) -> Result<Step> {
        let at = question.at;
        let sent = self.now();
        let answer = match self.send(&question) {
            Ok(answer) => answer,
            Err(FetchError::Unreachable(reason)) => {
                return self.serve_stale(at, usable, Retry::new(format!("{}: {reason}", at.url())));
            }
            Err(FetchError::Denied(reason)) => return Err(Failure::denied(format!("{}: {reason}", at.url()))),
            Err(trouble @ FetchError::TooLarge(_)) => return Err(Failure::denied(trouble.to_string())),
            Err(FetchError::Host(fault)) => return Err(Failure::internal(format!("{}: {fault}", at.url()))),
        };
        let answered = |what: &str| format!("{} answers {}: {what}", at.url(), answer.status);
        match (answer.status, usable) {
            (304, Some(mut kept)) => {
                match kept.head.response.validate(&question.headers, &answer.headers, sent, self.now()) {
                    Revalidation::NotModified(response) => {
                        (kept.head.response, kept.head.backoff_until) = (response, 0);
                        entries::put(self.store(), &at.path(), &kept.head, None);
                        Ok(Step::from_cached(kept, false))
                    }
                    // It speaks of a page that is not kept: ask for the page itself.
                    Revalidation::Replaced => {
                        self.request(ConditionalRequest { headers: policy::request_headers(), ..question }, None)
                    }
                }
            }
            (304, None) => Err(Failure::unavailable(answered("it confirms what it was not asked about"))),
            (200..=205 | 207..=299, _) => self.store_response(&question, answer, sent),
            (301 | 302 | 303 | 307 | 308, _) => {
                let head = Head::new(Response::new(answer.status, &answer.headers, sent, self.now()), None);
                if head.location().is_none() {
                    return Err(Failure::unavailable(answered("a redirect that leads nowhere")));
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
                let retry = Retry::new(answered("it cannot give the page now"));
                let wait = retry_after(&answer.headers, self.now());
                self.serve_stale(at, usable, wait.map_or(retry.clone(), |wait| retry.after(wait)))
            }
            (400..=499, _) => {
                self.remove(&question);
                Err(Failure::denied(answered("it does not give the page")))
            }
            _ => Err(Failure::unavailable(answered("that is no answer to such a question"))),
        }
    }

    fn send(&self, question: &ConditionalRequest<'_>) -> std::result::Result<origin::Response, FetchError> {
        let timeout = question.deadline.duration_since(self.now()).unwrap_or_default();
        if timeout.is_zero() {
            return Err(FetchError::Unreachable("there is no time left to ask it".to_owned()));
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

    /// Takes in a page that came.
    fn store_response(
        &self,
        question: &ConditionalRequest<'_>,
        answer: origin::Response,
        sent: SystemTime,
    ) -> Result<Step> {
        let at = question.at;
        let coding = answer.headers.get(CONTENT_ENCODING).map(|coding| coding.to_str().unwrap_or_default().trim());
        if coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case("identity")) {
            return Err(Failure::unavailable(format!("{} is sent packed, which it was not asked to be", at.url())));
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

    /// Keeps what came, if it may be kept, in place of what was.
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

    /// What is kept, for an origin that fails; and it is left alone for a moment.
    fn serve_stale(&self, at: &Address, usable: Option<CachedPage>, retry: Retry) -> Result<Step> {
        match usable.filter(|kept| self.may_serve_stale(kept)) {
            None => Err(retry.into()),
            Some(mut kept) => {
                let hold = retry.after.unwrap_or(DEFAULT_BACKOFF).min(MAX_BACKOFF);
                kept.head.backoff_until = millis(after(self.now(), hold));
                entries::put(self.store(), &at.path(), &kept.head, None);
                Ok(Step::from_cached(kept, true))
            }
        }
    }

    fn may_serve_stale(&self, kept: &CachedPage) -> bool {
        kept.head.response.stale_until(self.max_stale).is_some_and(|until| self.now() < until)
    }
}

/// What an origin is asked.
struct ConditionalRequest<'a> {
    at: &'a Address,
    headers: HeaderMap,
    is_head: bool,
    /// Whether anything is kept of it, usable or not.
    is_cached: bool,
    deadline: SystemTime,
}

impl Step {
    fn from_cached(kept: CachedPage, is_stale: bool) -> Self {
        Self { head: kept.head, body: kept.body, is_stale }
    }
}

/// Says where a redirect led, when the failure is one of there.
fn with_redirect_source(failure: Failure, from: &Address, at: &Address) -> Failure {
    if from == at {
        return failure;
    }
    match failure {
        Failure::Denied(reason) => Failure::Denied(format!("{} leads elsewhere: {reason}", from.url())),
        failure => failure,
    }
}

/// How long an origin wants to be left alone: in seconds or until a date (RFC 9110, section 10.2.3).
fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match policy::seconds(text) {
        Some(seconds) => Duration::from_secs(seconds),
        None => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(wait.min(MAX_BACKOFF))
}
