//! Responses of the mock origin, valid or not.

use std::time::Duration;

use super::{EventSource, RecordedRequest};

/// A response. By default it is a 200 with the length of its body, sent at once.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
    /// The time before it is sent.
    pub(super) delay: Duration,
}

/// The way in which a body is sent.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// As a whole.
    Full(Vec<u8>),
    /// A body that is cut after this number of bytes, with the connection.
    Truncated(Vec<u8>, usize),
    /// The same bytes repeated until the client disconnects.
    Endless,
    /// One byte per interval, until the client disconnects.
    Drip(Duration),
    /// No response at all, until the client disconnects.
    Silent,
    /// Endless headers.
    EndlessHeaders,
    /// The events of a source.
    Events(EventSource),
}

impl Reply {
    /// A page with that content type.
    pub fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Body::Full(body.into())).header("Content-Type", content_type)
    }

    /// A status with an empty body.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::new(Body::Full(Vec::new())) }
    }

    /// A redirect to that URL.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header("Location", location)
    }

    /// An endless body, as fast as it is read.
    pub fn endless() -> Self {
        Self::new(Body::Endless)
    }

    /// An endless body, one byte at a time.
    pub fn drip(interval: Duration) -> Self {
        Self::new(Body::Drip(interval))
    }

    /// No response; the connection stays open.
    pub fn silent() -> Self {
        Self::new(Body::Silent)
    }

    /// Endless headers.
    pub fn endless_headers() -> Self {
        Self::new(Body::EndlessHeaders)
    }

    /// An event stream with the events of a source, until the client disconnects.
    pub fn events(source: &EventSource) -> Self {
        Self::new(Body::Events(source.clone())).header("Content-Type", "text/event-stream")
    }

    fn new(body: Body) -> Self {
        Self { status: 200, headers: Vec::new(), body, delay: Duration::ZERO }
    }

    /// Sends it after that time.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Sets the status.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets `ETag`: a request with an equal `If-None-Match` gets a 304.
    pub fn etag(self, etag: &str) -> Self {
        self.header("ETag", etag)
    }

    /// Sets `Last-Modified`: a request with an equal `If-Modified-Since` and no `If-None-Match` gets a 304.
    pub fn last_modified(self, date: &str) -> Self {
        self.header("Last-Modified", date)
    }

    /// Sets `Cache-Control`.
    pub fn cache_control(self, directives: &str) -> Self {
        self.header("Cache-Control", directives)
    }

    /// Sets `Vary`.
    pub fn vary(self, headers: &str) -> Self {
        self.header("Vary", headers)
    }

    /// Announces the whole length, and cuts the connection after `bytes` bytes of the body.
    pub fn truncate_after(mut self, bytes: usize) -> Self {
        if let Body::Full(body) = self.body {
            self.body = Body::Truncated(body, bytes);
        }
        self
    }

    /// Returns the response, or a 304 without a body if the client has it already.
    pub(super) fn for_request(self, request: &RecordedRequest) -> Self {
        let own = |name: &str| {
            let header = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
            header.map(|(_, value)| value.as_str())
        };
        let is_had = match (request.header("if-none-match"), request.header("if-modified-since")) {
            (Some(etags), _) => own("etag").is_some_and(|etag| etags.split(',').any(|other| other.trim() == etag)),
            (None, Some(date)) => own("last-modified") == Some(date),
            (None, None) => false,
        };
        if is_had && self.status == 200 {
            let headers = self.headers.into_iter().filter(|(name, _)| !name.eq_ignore_ascii_case("content-type"));
            return Self { status: 304, headers: headers.collect(), body: Body::Full(Vec::new()), delay: self.delay };
        }
        self
    }
}
