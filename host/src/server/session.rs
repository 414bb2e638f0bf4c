//! A session of the revisions that have them, as `initialize` opens it. Over stdio a connection has one, over HTTP there
//! are [many](super::http).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::Value;

use super::client_log::ClientLog;
use super::jsonrpc;
use super::revision::Revision;
use crate::access::Principal;
use crate::host::Host;
use crate::watch::{Subscriber, Update};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    agreement: Agreement,
    /// Its subscriptions, with the principal that opened it and the groups of its last request.
    subscriber: Arc<Subscriber>,
    /// Whether changes of the listing are notified: `notifications/initialized` has been received.
    watches_listing: AtomicBool,
    log: ClientLog,
}

/// What `initialize` agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    /// The revision.
    pub(super) revision: Revision,
    /// Whether the capability `subscribe` is offered.
    pub(super) may_subscribe: bool,
}

impl Session {
    /// Opens a session of that principal.
    pub(super) fn new(host: &Host, principal: &Principal, agreement: Agreement) -> Self {
        Self {
            agreement,
            subscriber: Arc::new(host.subscriber(principal)),
            watches_listing: AtomicBool::new(false),
            log: ClientLog::default(),
        }
    }

    /// The negotiated revision.
    pub(super) fn revision(&self) -> Revision {
        self.agreement.revision
    }

    /// Whether the capability `subscribe` was offered at `initialize`, which holds for the lifetime of the session.
    pub(super) fn may_subscribe(&self) -> bool {
        self.agreement.may_subscribe
    }

    /// Its subscriptions.
    pub(super) fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    /// Its log messages.
    pub(super) fn log(&self) -> &ClientLog {
        &self.log
    }

    /// Begins to notify changes of the listing.
    pub(super) fn watch_listing(&self) {
        if !self.watches_listing.swap(true, Ordering::Relaxed) {
            self.subscriber.watch_listing();
        }
    }
}

/// Returns the notification of an update, with that `_meta`.
pub(super) fn update_notification(update: Update, meta: Option<Value>) -> Value {
    let (method, uri) = match update {
        Update::Resource(uri) => ("resources/updated", Some(uri)),
        Update::Listing => ("resources/list_changed", None),
    };
    let uri = uri.map(|uri| ("uri".to_owned(), Value::String(uri)));
    let meta = meta.map(|meta| ("_meta".to_owned(), meta));
    jsonrpc::notification(method, uri.into_iter().chain(meta).collect())
}
