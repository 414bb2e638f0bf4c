//! A session, which `initialize` opens in revisions with sessions. Over stdio a connection has one; over HTTP there are
//! [many](super::http).

use std::sync::Arc;
use std::time::SystemTime;

use mcp_resource_host::access::Principal;
use mcp_resource_host::audit::SessionHash;
use mcp_resource_host::host::{self, Host, SessionInfo};
use mcp_resource_host::watch::Subscriber;
use parking_lot::Mutex;

use super::client_log::ClientLog;
use super::revision::Revision;
use super::server_metrics::{OpenSession, ServerMetrics, Transport};

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    agreement: Agreement,
    /// The subscriptions, with the principal that opened the session and the groups of its last request.
    subscriber: Arc<Subscriber>,
    listing_watch: Mutex<ListingWatch>,
    log: ClientLog,
    /// Lists the session for administrators until it is dropped.
    _listed: host::OpenSession,
    /// Counts the session while it is open.
    _open: OpenSession,
}

/// The state of a session's watch on the listing. The host has to walk the listing for it.
#[derive(Debug, Default)]
struct ListingWatch {
    /// Whether `notifications/initialized` has been received.
    is_initialized: bool,
    /// Whether the credentials of the last request allow the operation `list`.
    may_list: bool,
    is_watching: bool,
    /// Whether the listing was watched before, here or at another replica, so that changes may have been missed since.
    has_lapsed: bool,
}

/// The agreement of `initialize`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agreement {
    /// The revision.
    pub(super) revision: Revision,
    /// Whether the capability `subscribe` is offered.
    pub(super) may_subscribe: bool,
}

impl Session {
    /// Opens a session of this principal over this transport. `hash` is the hash of the session's id, if it has one.
    pub(super) fn new(
        host: &Host,
        principal: &Principal,
        agreement: Agreement,
        transport: Transport,
        hash: Option<SessionHash>,
    ) -> Self {
        let info = SessionInfo {
            principal: principal.name().to_owned(),
            hash,
            revision: agreement.revision.name(),
            opened: SystemTime::now(),
        };
        let subscriber = Arc::new(host.subscriber(principal));
        if transport == Transport::Http {
            subscriber.mark_as_streamed();
        }
        Self {
            _listed: host.open_session(info),
            agreement,
            subscriber,
            listing_watch: Mutex::new(ListingWatch { may_list: true, ..ListingWatch::default() }),
            log: ClientLog::default(),
            _open: ServerMetrics::of(host).open_session(transport, agreement.revision),
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

    /// The subscriptions of the session.
    pub(super) fn subscriber(&self) -> &Arc<Subscriber> {
        &self.subscriber
    }

    /// The log messages of the session.
    pub(super) fn log(&self) -> &ClientLog {
        &self.log
    }

    /// Handles `notifications/initialized`: changes of the listing are notified from now on, as soon as the credentials
    /// allow `list`.
    pub(super) fn watch_listing(&self) {
        self.update_listing_watch(|watch| watch.is_initialized = true);
    }

    /// Makes a change of the listing pending when the watch begins, because the listing may have changed while another
    /// replica watched it.
    pub(super) fn listing_may_have_changed(&self) {
        self.listing_watch.lock().has_lapsed = true;
    }

    /// Sets whether the credentials of the client allow the operation `list`. Without it, the listing is no longer
    /// watched.
    pub(super) fn set_may_list(&self, may_list: bool) {
        self.update_listing_watch(|watch| watch.may_list = may_list);
    }

    fn update_listing_watch(&self, update: impl FnOnce(&mut ListingWatch)) {
        // Locked until the subscriber has been updated.
        let mut watch = self.listing_watch.lock();
        update(&mut watch);
        let is_wanted = watch.is_initialized && watch.may_list;
        if std::mem::replace(&mut watch.is_watching, is_wanted) == is_wanted {
            return;
        }
        if !is_wanted {
            watch.has_lapsed = true;
            self.subscriber.unwatch_listing();
        } else if watch.has_lapsed {
            self.subscriber.watch_listing_again();
        } else {
            self.subscriber.watch_listing();
        }
    }
}
