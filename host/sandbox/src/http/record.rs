//! The record of an exchange, for metrics.

use std::sync::Arc;

use hyper::StatusCode;
use parking_lot::Mutex;

use super::OutboundHttp;
use super::error::ExchangeError;
use crate::grant_usage::HttpOutcome;

/// The record of an exchange. It is counted when the last clone is dropped: as cancelled, unless it has another
/// outcome.
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

    /// Records the arrival of the response's head.
    pub(super) fn answered(&self, status: StatusCode) {
        *self.0.outcome.lock() = HttpOutcome::of_status(status);
    }

    /// Records a failure, before the response or in the middle of the body.
    pub(super) fn failed(&self, failure: &ExchangeError) {
        *self.0.outcome.lock() = failure.outcome();
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        self.http.outcomes.record(*self.outcome.get_mut());
    }
}
