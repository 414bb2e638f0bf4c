//! Requests to web servers: `grants.http`.
//!
//! This is all of HTTP that a guest has: `wasi:http` of WASI 0.2, with [`send_request`](WasiHttpHooks::send_request) of our
//! own. What may be asked for is in the reference of [`HttpGrants`]; this is what is done for each request, in this order:
//!
//! | step | by | refused with |
//! |---|---|---|
//! | the origin is granted | scheme, host and port | `HTTP-request-denied` |
//! | the request is small enough and has a method that may be sent | [`headers`], `limits.http.headers`, `limits.http.body` | `HTTP-request-header-section-size`, `HTTP-request-body-size`, `HTTP-request-method-invalid` |
//! | there is a request left in this minute, and a place | `limits.http.rate`, `limits.http.concurrency` | `connection-limit-reached`, at once |
//! | the name is resolved, once, and addresses of the inside are left out | [`address`] | `destination-IP-prohibited` |
//! | a connection is made to one of the addresses that were checked | [`connect`] | `connection-refused` and the like |
//! | over TLS, the server is who the name says | [`tls`] | `TLS-certificate-error` |
//! | the answer's headers are small enough | `limits.http.headers` | `HTTP-response-header-section-size` |
//! | the body is, and comes in time | [`body`], `limits.http.body`, `limits.http.timeout` | an error in the middle of the stream, never a short body |
//!
//! The whole exchange, from resolving to the last byte of the body, is bounded by `limits.http.timeout`; the guest's own
//! timeouts can only make it less. Redirects are the guest's affair: it sees the `3xx`, and its next request is looked at
//! like the first. Each exchange has a connection of its own, so that nothing of one is left for another.
//!
//! An exchange belongs to the instance: when the call ends or is dropped, so does its connection. It runs on the guest threads.
//!
//! Bounded besides: [`headers::MAX_HEADERS`] header lines in a message, [`connect::MAX_ADDRESSES`] addresses of a name. What the host
//! keeps for an instance, from the first header of a request that may never be sent, is charged to `limits.memory`
//! ([`resources`]).

mod address;
mod body;
mod connect;
mod error;
mod exchange;
mod headers;
mod resources;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::{DefaultDirectRateLimiter, Quota, RateLimiter};
use hyper::header::HeaderName;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
};

use self::connect::{Network, SystemNetwork};
use self::error::RefusalLog;
use self::resources::ResourceReservations;
use self::tls::TlsClient;
use crate::config::limits::HttpLimits;
use crate::config::{HttpGrants, OriginPattern};
use crate::sandbox::guest_log::GuestLog;
use crate::sandbox::memory::MemoryMeter;

pub(crate) use self::resources::{HttpView, add_to_linker};
pub(crate) use self::tls::TlsRoots;

/// How much of a request's body may wait for the network.
const BODY_CHUNK_SIZE: usize = 16 << 10;
/// The headers that a guest may put together when no request of its can be sent.
const MAX_HEADERS_WITHOUT_GRANT: usize = 8 << 10;
/// What a header costs in memory beside its text.
const HEADER_OVERHEAD: usize = 128;

/// A place among the exchanges of a plugin. It is free again when the last clone is gone.
type ExchangePermit = Arc<OwnedSemaphorePermit>;

/// What one plugin may do on the web, for all its instances.
pub(crate) struct OutboundHttp {
    grants: HttpGrants,
    limits: HttpLimits,
    permits: Arc<Semaphore>,
    rate: DefaultDirectRateLimiter,
    refusal_log: RefusalLog,
    network: Arc<dyn Network>,
    tls_roots: Arc<TlsRoots>,
    /// For the grants that trust more than the machine does, made when they are first used.
    per_grant_tls: BTreeMap<OriginPattern, OnceCell<TlsClient>>,
}

impl OutboundHttp {
    /// What the config grants.
    pub(crate) fn new(
        grants: &HttpGrants,
        limits: &HttpLimits,
        tls_roots: Arc<TlsRoots>,
        log: Arc<GuestLog>,
    ) -> Arc<Self> {
        Arc::new(Self::with_network(Arc::new(SystemNetwork), grants, limits, tls_roots, log))
    }

    fn with_network(
        network: Arc<dyn Network>,
        grants: &HttpGrants,
        limits: &HttpLimits,
        tls_roots: Arc<TlsRoots>,
        log: Arc<GuestLog>,
    ) -> Self {
        let rate = u32::try_from(limits.rate.get()).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let with_own_roots = grants.iter().filter(|grant| grant.ca.is_some());
        Self {
            per_grant_tls: with_own_roots.map(|grant| (grant.origin.clone(), OnceCell::new())).collect(),
            grants: grants.clone(),
            limits: limits.clone(),
            permits: Arc::new(Semaphore::new(limits.concurrency.get())),
            rate: RateLimiter::direct(Quota::per_minute(rate)),
            refusal_log: RefusalLog::new(&log),
            network,
            tls_roots,
        }
    }

    /// What one instance needs of it.
    pub(crate) fn new_instance(self: &Arc<Self>) -> InstanceHttp {
        let headers = match self.grants.is_empty() {
            true => MAX_HEADERS_WITHOUT_GRANT,
            false => usize::try_from(self.limits.headers.bytes()).unwrap_or(usize::MAX),
        };
        let mut ctx = WasiHttpCtx::new();
        // A guest that goes beyond it traps, so there is room for more headers than can be sent.
        let max_header_memory = headers.saturating_add(headers::MAX_HEADERS.saturating_mul(HEADER_OVERHEAD));
        ctx.set_field_size_limit(max_header_memory);
        InstanceHttp { ctx, hooks: Hooks(self.clone()), reservations: ResourceReservations::new(max_header_memory) }
    }
}

/// One instance's way to the web.
pub(crate) struct InstanceHttp {
    ctx: WasiHttpCtx,
    hooks: Hooks,
    reservations: ResourceReservations,
}

impl InstanceHttp {
    /// As the linker's functions want it.
    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable, memory: &'a mut MemoryMeter) -> HttpView<'a> {
        let wasi = WasiHttpCtxView { hooks: &mut self.hooks, table, ctx: &mut self.ctx };
        HttpView { wasi, reservations: &mut self.reservations, memory }
    }
}

struct Hooks(Arc<OutboundHttp>);

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        headers::is_host_controlled(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(headers::is_host_controlled)
    }

    /// It is set when the origin is known to be granted.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: hyper::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> exchange::ResponseFuture {
        Box::new(self.0.clone().exchange(request, options.unwrap_or_default()))
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_SIZE
    }
}
