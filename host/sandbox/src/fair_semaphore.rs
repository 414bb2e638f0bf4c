//! Permits of one plugin that its clients share: for its calls (`limits.concurrency`), for their HTTP exchanges
//! (`limits.http.concurrency`), and for the connections to a database.
//!
//! The calls of one client ([`Requester`]) may take half of what is free ([`fair_semaphore`]). The client over stdio, the command line and the
//! host's own indexers have no other client beside them and may take everything.

use mcp_host_base::fair_semaphore;
use mcp_host_model::requester::Requester;

pub use mcp_host_base::fair_semaphore::NoPlace;

/// The client that a call is made for; none for an indexer.
pub(crate) type Client = Option<Requester>;

/// The permits and the queue. Clones share them.
pub type FairSemaphore = fair_semaphore::FairSemaphore<Option<Requester>>;

/// A permit, released when it is dropped.
pub type Permit = fair_semaphore::Permit<Option<Requester>>;
