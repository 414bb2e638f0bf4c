//! Permits of one plugin that its clients share: for its calls (`limits.concurrency`), for their HTTP exchanges
//! (`limits.http.concurrency`), and for the connections to a database.
//!
//! The calls of one client ([`Requester`]) may take half of the free permits ([`fair_semaphore`]). The client over stdio, the command line and
//! the host's own indexers compete with no other client, and may take everything.

use mcp_host_base::fair_semaphore;
use mcp_host_model::requester::Requester;

pub use mcp_host_base::fair_semaphore::NoPlace;

/// The client of a call. None for an indexer.
pub(crate) type Client = Option<Requester>;

/// The permits and the queue. Clones share them.
pub type FairSemaphore = fair_semaphore::FairSemaphore<Option<Requester>>;

/// A permit, released when it is dropped.
pub type Permit = fair_semaphore::Permit<Option<Requester>>;
