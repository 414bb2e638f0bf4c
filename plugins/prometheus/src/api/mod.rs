//! Prometheus's HTTP API: requests, and the validation of answers.
//!
//! An answer is parsed while it arrives, and never held as a whole. Bounds: its size, its time (all requests of a call
//! together), the series and points of a result, the items of a list. An answer that exceeds a bound is refused, with
//! advice; an answer that violates the API fails as unavailable, with the reason. [`Transport`] is HTTP; tests have
//! another implementation.

mod bounded;
mod envelope;
mod first_items;
pub(crate) mod samples;
mod wasi_http;

pub(crate) use bounded::{Labels, MAX_ITEMS, bounded_map};
pub(crate) use first_items::FirstItems;
pub use wasi_http::WasiHttp;

use crate::redact::without_quotes;
use crate::settings::Settings;
use bounded::BoundedRead;
use envelope::{Envelope, EnvelopeSeed};
use mcp_provider::{Failure, Result, Retry};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeSeed;
use std::cell::RefCell;
use std::io::{BufReader, Read};
use std::time::{Duration, Instant};

/// All characters except the unreserved ones of RFC 3986.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The advice for a query that is too heavy.
pub(crate) const ADVICE: &str = "a shorter `range`, a larger `step`, more label matchers, or an aggregation such as \
                                 `sum by (job) (…)` or `topk(10, …)` would do";

/// Sends GET requests.
pub trait Transport {
    /// Sends a request for a URL and returns the response, whose body is read until `deadline` at most.
    ///
    /// # Errors
    ///
    /// Any failure to receive a response. An error status is not a failure.
    fn get(&self, url: &str, deadline: Instant) -> Result<Response>;
}

/// A response of any status.
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: Box<dyn Read>,
}

/// A successful answer.
#[derive(Debug)]
pub(crate) struct Answer<T> {
    pub(crate) data: T,
    pub(crate) warnings: Vec<String>,
}

/// The reason for which an answer is refused during parsing. The first reason counts.
#[derive(Debug, Default)]
pub(crate) struct Refusal(RefCell<Option<Failure>>);

impl Refusal {
    /// Refuses the answer, and returns the error that ends its parser.
    pub(crate) fn refuse<E: serde::de::Error>(&self, failure: Failure) -> E {
        let error = E::custom(&failure);
        self.0.borrow_mut().get_or_insert(failure);
        error
    }
}

/// The API for the duration of one call.
pub(crate) struct Client<'a> {
    transport: &'a dyn Transport,
    pub(crate) settings: &'a Settings,
    deadline: Instant,
}

impl<'a> Client<'a> {
    /// Creates a client for a call that begins now.
    pub(crate) fn new(transport: &'a dyn Transport, settings: &'a Settings) -> Self {
        let now = Instant::now();
        Self { transport, settings, deadline: now.checked_add(settings.timeout).unwrap_or(now) }
    }

    /// Returns the remaining time.
    pub(crate) fn time_left(&self) -> Duration {
        self.deadline.saturating_duration_since(Instant::now())
    }

    /// Sends a request to an endpoint below `/api/v1/`, and parses the data of its answer with `seed`, which may refuse
    /// it.
    pub(crate) fn get<S>(
        &self,
        endpoint: &str,
        parameters: &[(&str, &str)],
        refusal: &Refusal,
        seed: S,
    ) -> Result<Answer<S::Value>>
    where
        S: DeserializeSeed<'static>,
    {
        if self.time_left().is_zero() {
            return Err(too_slow(self.settings.timeout));
        }
        let mut url = format!("{}/api/v1/{endpoint}", self.settings.url);
        for (n, (name, value)) in parameters.iter().enumerate() {
            let separator = if n == 0 { '?' } else { '&' };
            url.push_str(&format!("{separator}{}={}", encode(name), encode(value)));
        }
        let response = self.transport.get(&url, self.deadline)?;
        let body = BoundedRead::new(response.body, self.settings.max_body, refusal);
        let mut parser = serde_json::Deserializer::from_reader(BufReader::new(body));
        let envelope = EnvelopeSeed(seed).deserialize(&mut parser).and_then(|envelope| parser.end().map(|()| envelope));
        if let Some(failure) = refusal.0.take() {
            return Err(failure);
        }
        match (response.status, envelope) {
            (200, Ok(Envelope::Success(answer))) => Ok(answer),
            (_, Ok(Envelope::Error { kind, text })) => Err(self.api_error(&kind, &text)),
            (200, Err(error)) => Err(Failure::unavailable(format!(
                "the answer of the Prometheus server is not what its API says: {}",
                without_quotes(&error.to_string())
            ))),
            (status, _) => Err(status_error(status, response.retry_after)),
        }
    }

    /// Returns the failure for an error of the API.
    fn api_error(&self, kind: &str, text: &str) -> Failure {
        match kind {
            "bad_data" => Failure::invalid(format!("expected a query that Prometheus understands; it says: {text}")),
            "timeout" | "canceled" => too_slow(self.settings.timeout),
            "execution" if text.contains("too many samples") => {
                Failure::invalid(format!("the query is too heavy for Prometheus: {text}; {ADVICE}"))
            }
            "execution" => Failure::invalid(format!("Prometheus cannot execute the query: {text}")),
            _ => Failure::unavailable(format!("Prometheus says: {text}")),
        }
    }
}

/// Percent-encodes a part of the path of an endpoint.
pub(crate) fn encode(part: &str) -> String {
    utf8_percent_encode(part, ENCODED).to_string()
}

fn too_slow(timeout: Duration) -> Failure {
    let timeout = crate::duration::format(timeout);
    Failure::unavailable(format!("Prometheus did not answer within {timeout}, the `timeout` of this plugin; {ADVICE}"))
}

fn status_error(status: u16, retry_after: Option<Duration>) -> Failure {
    match status {
        401 | 403 => Failure::denied(format!("the Prometheus server denied access (status {status})")),
        429 | 502..=504 => {
            let retry = Retry::new(format!("the Prometheus server is not ready (status {status})"));
            retry.after(retry_after.unwrap_or(Duration::from_secs(5))).into()
        }
        _ => Failure::unavailable(format!(
            "expected an answer of the Prometheus API, found status {status}; is `url` the address of a Prometheus server?"
        )),
    }
}
