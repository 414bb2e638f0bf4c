//! Limits with a share for each client over HTTP.

use crate::config::http::HttpServerLimits;
use crate::server::client_id::ClientId;
use crate::share_limiter::{ShareLimiter, ShareLimits, SharePermit};

pub(super) use crate::share_limiter::LimitReached;

/// The usage of each client.
pub(super) type ClientLimiter = ShareLimiter<ClientId>;
/// The usage of a client, until it is dropped.
pub(super) type ClientPermit = SharePermit<ClientId>;
/// The limits, of one client and overall.
pub(super) type ClientLimits = ShareLimits;

/// Returns the overall limit, and the share of that client in it.
pub(super) fn client_limits(overall: usize, client: &ClientId, limits: &HttpServerLimits) -> ClientLimits {
    ClientLimits { client: client.share_of(overall, limits), overall }
}
