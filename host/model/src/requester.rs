//! The requester: the client on whose behalf the current task executes a request, for shares of resources that the
//! clients of a plugin have in common.
//!
//! An authenticated principal is one requester, from any address. Any other client over HTTP is its address, or its
//! network with IPv6, as for the limits of `[http.limits]`. The server sets the requester, because only the transport
//! knows the address; for a request without a transport, the requester is the principal. It is a task-local variable,
//! like the context of the audit log: everything between the façade and a plugin runs on the task of the request.
//!
//! Requesters share the permits of a plugin ([`FairSemaphore`]): for its calls (`limits.concurrency`), for their HTTP
//! exchanges (`limits.http.concurrency`), and for the connections to a database. One requester may take half of the
//! free permits. The client over stdio, the command line and the host's own indexers compete with no other client, and
//! may take everything.

use std::net::IpAddr;

use mcp_host_base::fair_semaphore::{self, Sharer};
use tokio::task::futures::TaskLocalFuture;

use crate::principal::Principal;

tokio::task_local! {
    /// The requester of the request that the current task executes.
    static CURRENT: Requester;
}

/// The client that a request is made for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Requester {
    /// A principal, without its groups.
    Principal(Principal),
    /// An address, or the first of a network.
    Address(IpAddr),
    /// The host itself, on behalf of all clients that watch something, with the share of one client.
    Host,
}

impl Requester {
    /// Executes a request for this requester.
    pub fn scope<F: Future>(self, request: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self, request)
    }

    /// Returns the requester of the current task, or the principal if the task has none.
    pub fn current_or(principal: &Principal) -> Self {
        Self::current().unwrap_or_else(|| Self::Principal(principal.identity()))
    }

    /// Returns the requester of the current task; none if the host itself makes the request.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Returns whether this is the client that started the host, which leaves no share for others.
    pub fn is_local(&self) -> bool {
        *self == Self::Principal(Principal::LOCAL)
    }
}

impl Sharer for Requester {
    fn has_no_others(&self) -> bool {
        self.is_local()
    }
}

/// The client of a call. None for an indexer.
pub type Client = Option<Requester>;

/// The permits and the queue. Clones share them.
pub type FairSemaphore = fair_semaphore::FairSemaphore<Client>;

/// A permit, released when it is dropped.
pub type Permit = fair_semaphore::Permit<Client>;
