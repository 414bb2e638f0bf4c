//! The test harness: scripted origins, a store in memory, and a settable clock.
//!
//! Every call gets a fresh provider, as in a host; persistent state is in the harness.

use http::{HeaderMap, HeaderName, HeaderValue};
use http_cache_provider::{Clock, FetchError, HttpCache, Origin, Request, Response};
use mcp_provider::keyvalue::{Keys, Store};
use mcp_provider::{Argument, Changes, Completion, Config, Contents, Entry, Failure, Page, Provider, Result};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

/// The start time of a test: Sat, 01 Mar 2025 00:00:00 GMT.
const BEGIN: u64 = 1_740_787_200;

type Answer = Box<dyn Fn(&Request) -> std::result::Result<Response, FetchError>>;

/// The environment of the provider.
#[derive(Clone, Default)]
pub(crate) struct Harness(Rc<Inner>);

#[derive(Default)]
struct Inner {
    config: RefCell<Vec<(String, String)>>,
    answers: RefCell<HashMap<String, Answer>>,
    requests: RefCell<Vec<Request>>,
    values: RefCell<BTreeMap<String, Vec<u8>>>,
    /// The maximum size of the store in bytes; 0 is unlimited.
    capacity: Cell<usize>,
    /// The origins whose grant was revoked.
    ungranted: RefCell<BTreeSet<String>>,
    is_store_broken: Cell<bool>,
    seconds: Cell<u64>,
    /// The duration of each request.
    delay: Cell<u64>,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates a harness with one page, `h.example/page`.
    pub(crate) fn with_page(headers: &[(&str, &str)], body: &str) -> Self {
        let harness = Self::new();
        harness.serve("https://h.example/page", ok(headers, body));
        harness
    }

    /// Sets a config key.
    pub(crate) fn config(self, key: &str, value: &str) -> Self {
        self.0.config.borrow_mut().push((key.to_owned(), value.to_owned()));
        self
    }

    /// Revokes the grant of an origin, such as `https://h.example`.
    pub(crate) fn take_grant(&self, origin: &str) {
        self.0.ungranted.borrow_mut().insert(origin.to_owned());
    }

    /// Restores all grants.
    pub(crate) fn give_grants(&self) {
        self.0.ungranted.borrow_mut().clear();
    }

    /// Sets the response for a URL; 304 if the request has the response's validator.
    pub(crate) fn serve(&self, url: &str, response: Response) {
        self.respond_with(url, move |request| {
            let has = |asked: &str, own: &str| {
                let asked = request.headers.get(asked);
                asked.is_some() && asked == response.headers.get(own)
            };
            let mut response = response.clone();
            if response.status == 200 && (has("if-none-match", "etag") || has("if-modified-since", "last-modified")) {
                (response.status, response.body) = (304, Vec::new());
            }
            Ok(response)
        });
    }

    /// Sets a function that responds to requests for a URL.
    pub(crate) fn respond_with(
        &self,
        url: &str,
        answer: impl Fn(&Request) -> std::result::Result<Response, FetchError> + 'static,
    ) {
        self.0.answers.borrow_mut().insert(url.to_owned(), Box::new(answer));
    }

    /// Makes the origin of a URL unreachable.
    pub(crate) fn down(&self, url: &str) {
        self.respond_with(url, |_| Err(FetchError::Unreachable("it refuses connections".to_owned())));
    }

    /// Advances the clock.
    pub(crate) fn advance(&self, seconds: u64) {
        self.0.seconds.set(self.0.seconds.get() + seconds);
    }

    /// Sets the duration of each request, in seconds.
    pub(crate) fn delay(&self, seconds: u64) {
        self.0.delay.set(seconds);
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.0.requests.borrow().clone()
    }

    /// Returns the number of requests so far.
    pub(crate) fn request_count(&self) -> usize {
        self.0.requests.borrow().len()
    }

    /// Sets the capacity of the store.
    pub(crate) fn set_capacity(&self, bytes: usize) {
        self.0.capacity.set(bytes);
    }

    /// Makes the store fail.
    pub(crate) fn break_store(&self) {
        self.0.is_store_broken.set(true);
    }

    /// Returns the keys of the store.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.0.values.borrow().keys().cloned().collect()
    }

    /// Overwrites a value of the store, bypassing the provider.
    pub(crate) fn damage(&self, key: &str, value: &[u8]) {
        assert!(self.0.values.borrow_mut().insert(key.to_owned(), value.to_vec()).is_some(), "{key} is there");
    }

    /// Creates a provider in this harness.
    pub(crate) fn provider(&self) -> HttpCache {
        let config = Config::from_pairs(self.0.config.borrow().iter().cloned());
        HttpCache::with(&config, Box::new(self.clone()), Box::new(self.clone()), Box::new(self.clone())).unwrap()
    }

    pub(crate) fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.provider().read(path)
    }

    /// Reads the only content of a page.
    pub(crate) fn read_one(&self, path: &str) -> Contents {
        let mut contents = self.read(path).unwrap();
        assert_eq!(contents.len(), 1);
        contents.remove(0)
    }

    /// Reads the text of a page, in its first format.
    pub(crate) fn text(&self, path: &str) -> String {
        self.read(path).unwrap()[0].as_text().unwrap().to_owned()
    }

    pub(crate) fn stat(&self, path: &str) -> Result<Entry> {
        self.provider().stat(path)
    }

    /// Returns all entries of the listing, read in pages of `limit` entries.
    pub(crate) fn list(&self, limit: usize) -> Vec<Entry> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let Page { entries, next_cursor } = self.provider().list(None, cursor.as_deref(), limit).unwrap();
            assert!(entries.len() <= limit);
            all.extend(entries);
            match next_cursor {
                Some(next) => cursor = Some(next),
                None => return all,
            }
        }
    }

    /// Returns the paths of the listing.
    pub(crate) fn paths(&self) -> Vec<String> {
        self.list(2).into_iter().map(|entry| entry.path).collect()
    }

    pub(crate) fn changes(&self, watched: &[&str], since: Option<&str>) -> Changes {
        let watched: Vec<String> = watched.iter().map(|path| (*path).to_owned()).collect();
        self.provider().changes(&watched, since).unwrap()
    }

    pub(crate) fn complete(&self, argument: Argument, known: &[Argument]) -> Completion {
        self.provider().complete("{+host}/{+path}", &argument, known).unwrap()
    }
}

/// Creates a response with status 200.
pub(crate) fn ok(headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Response {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    Response { status: 200, headers: headers.iter().map(pair).collect(), body: body.into() }
}

/// Creates a response with another status, without a body.
pub(crate) fn status(status: u16, headers: &[(&str, &str)]) -> Response {
    Response { status, ..ok(headers, "") }
}

/// Returns a header of a request.
pub(crate) fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

impl Clock for Harness {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(BEGIN + self.0.seconds.get())
    }
}

impl Origin for Harness {
    fn is_granted(&self, origin: &str) -> bool {
        !self.0.ungranted.borrow().contains(origin)
    }

    fn send(&self, request: &Request) -> std::result::Result<Response, FetchError> {
        if self.0.ungranted.borrow().iter().any(|origin| request.url.starts_with(&format!("{origin}/"))) {
            return Err(FetchError::Denied("the origin is not granted".to_owned()));
        }
        self.0.requests.borrow_mut().push(request.clone());
        self.advance(self.0.delay.get());
        let answers = self.0.answers.borrow();
        let mut response = match answers.get(&request.url) {
            Some(answer) => answer(request)?,
            None => status(404, &[]),
        };
        if request.is_head {
            response.body.clear();
        }
        if response.body.len() > request.max_body { Err(FetchError::TooLarge(request.max_body)) } else { Ok(response) }
    }
}

impl Store for Harness {
    fn get_many(&self, keys: &[&str]) -> Result<Vec<Option<Vec<u8>>>> {
        self.check_store()?;
        assert!(keys.len() <= 500);
        Ok(keys.iter().map(|key| self.0.values.borrow().get(*key).cloned()).collect())
    }

    fn set_many(&self, values: &[(&str, &[u8])]) -> Result<()> {
        self.check_store()?;
        let mut after = self.0.values.borrow().clone();
        after.extend(values.iter().map(|(key, value)| ((*key).to_owned(), value.to_vec())));
        let size: usize = after.iter().map(|(key, value)| key.len() + value.len()).sum();
        if self.0.capacity.get() > 0 && size > self.0.capacity.get() {
            return Err(Failure::unavailable("the bucket is full"));
        }
        *self.0.values.borrow_mut() = after;
        Ok(())
    }

    fn delete_many(&self, keys: &[&str]) -> Result<()> {
        self.check_store()?;
        assert!(keys.len() <= 500);
        self.0.values.borrow_mut().retain(|key, _| !keys.contains(&key.as_str()));
        Ok(())
    }

    fn keys(&self, _: Option<&str>) -> Result<Keys> {
        self.check_store()?;
        let mut all = Keys::default();
        all.keys = self.0.values.borrow().keys().cloned().collect();
        Ok(all)
    }
}

impl Harness {
    fn check_store(&self) -> Result<()> {
        if self.0.is_store_broken.get() { Err(Failure::internal("no such bucket")) } else { Ok(()) }
    }
}

impl Harness {
    /// Returns all stored values as text.
    pub(crate) fn stored_text(&self) -> String {
        self.0.values.borrow().values().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    }
}
