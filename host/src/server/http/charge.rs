//! The budget charge of an answer, which travels with the response through the layers to the connection that sends it.

use std::sync::Arc;

use axum::response::Response;
use parking_lot::Mutex;

use crate::server::budget::Charge;

/// A charge in the extensions of a response.
#[derive(Clone)]
pub(super) struct ResponseCharge(Arc<Mutex<Option<Charge>>>);

impl ResponseCharge {
    /// Attaches a charge to a response.
    pub(super) fn attach(response: &mut Response, charge: Charge) {
        response.extensions_mut().insert(Self(Arc::new(Mutex::new(Some(charge)))));
    }

    /// Takes the charge from a response, if it has one.
    pub(super) fn take_from(response: &mut Response) -> Option<Charge> {
        let Self(charge) = response.extensions_mut().remove()?;
        charge.lock().take()
    }
}
