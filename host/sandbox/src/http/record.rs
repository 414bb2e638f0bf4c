//! What is counted of an exchange.

use std::sync::Arc;

use hyper::StatusCode;
use parking_lot::Mutex;

use super::OutboundHttp;
use super::error::ExchangeError;
use crate::grant_usage::HttpOutcome;

/// The record of an exchange, which is counted when the last clone of this is dropped: as cancelled, unless it has ended otherwise.
#[derive(Clone)]
pub(super) struct ExchangeRecord(Arc<OpenRecord>);

struct OpenRecord {
    http: Arc<OutboundHttp>,
    outcome: Mutex<HttpOutcome>,
}

impl ExchangeRecord {
    /// Begins the record of an exchange.
    pub(super) fn begin(http: Arc<OutboundHttp>) -> Self {
        Self(Arc::new(OpenRecord { http, outcome: Mutex::new(HttpOutcome::Cancelled) }))
    }

    /// The head of the response has arrived.
    pub(super) fn answered(&self, status: StatusCode) {
        *self.0.outcome.lock() = HttpOutcome::of_status(status);
    }

    /// The exchange failed, before its response or in the middle of the body.
    pub(super) fn failed(&self, failure: &ExchangeError) {
        *self.0.outcome.lock() = failure.outcome();
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        self.http.outcomes.record(*self.outcome.get_mut());
    }
}
