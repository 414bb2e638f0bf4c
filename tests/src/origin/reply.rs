//! What a server answers, in order or not.

use std::time::Duration;

use super::RecordedRequest;

/// An answer. Its methods change what it is by default: 200, with the length of its body, all at once.
#[derive(Clone, Debug)]
#[must_use]
pub struct Reply {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Body,
}

/// How a body is sent.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Whole.
    Full(Vec<u8>),
    /// So many bytes of it; then the connection is cut.
    Truncated(Vec<u8>, usize),
    /// The same again and again, for as long as somebody reads.
    Endless,
    /// A byte at a time, at that interval, for as long as somebody reads.
    Drip(Duration),
    /// Nothing at all is answered, for as long as somebody waits.
    Silent,
    /// Headers without an end.
    EndlessHeaders,
}

impl Reply {
    /// A page of that type.
    pub fn ok(content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::new(Body::Full(body.into())).header("Content-Type", content_type)
    }

    /// A status with an empty body.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::new(Body::Full(Vec::new())) }
    }

    /// A redirect to there.
    pub fn redirect(status: u16, location: &str) -> Self {
        Self::status(status).header("Location", location)
    }

    /// A body without an end, as fast as it is read.
    pub fn endless() -> Self {
        Self::new(Body::Endless)
    }

    /// A body without an end, of one byte at a time.
    pub fn drip(interval: Duration) -> Self {
        Self::new(Body::Drip(interval))
    }

    /// No answer; the connection stays open.
    pub fn silent() -> Self {
        Self::new(Body::Silent)
    }

    /// Headers without an end.
    pub fn endless_headers() -> Self {
        Self::new(Body::EndlessHeaders)
    }

    fn new(body: Body) -> Self {
        Self { status: 200, headers: Vec::new(), body }
    }

    /// With that status.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// With one more header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With `ETag`: asked with an equal `If-None-Match`, it is a 304.
    pub fn etag(self, etag: &str) -> Self {
        self.header("ETag", etag)
    }

    /// With `Last-Modified`: asked with an equal `If-Modified-Since` and no `If-None-Match`, it is a 304.
    pub fn last_modified(self, date: &str) -> Self {
        self.header("Last-Modified", date)
    }

    /// With `Cache-Control`.
    pub fn cache_control(self, directives: &str) -> Self {
        self.header("Cache-Control", directives)
    }

    /// With `Vary`.
    pub fn vary(self, headers: &str) -> Self {
        self.header("Vary", headers)
    }

    /// Announced whole, and cut after so many bytes of its body.
    pub fn truncate_after(mut self, bytes: usize) -> Self {
        if let Body::Full(body) = self.body {
            self.body = Body::Truncated(body, bytes);
        }
        self
    }

    /// It, or a 304 without a body if the client has it already.
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
            return Self { status: 304, headers: headers.collect(), body: Body::Full(Vec::new()) };
        }
        self
    }
}
