//! Outbound HTTP: `grants.http`.
//!
//! A guest has no other HTTP: this is `wasi:http` of WASI 0.2, with the host's own
//! [`send_request`](WasiHttpHooks::send_request). The reference of [`HttpGrants`] defines which requests are allowed.
//! Each request passes these steps, in this order:
//!
//! | step | mechanism | error if it fails |
//! |---|---|---|
//! | the origin is granted (allowlist) | scheme, host and port | `HTTP-request-denied` |
//! | the request is within its size limits, and its method is allowed | [`headers`], `limits.http.headers`, `limits.http.body` | `HTTP-request-header-section-size`, `HTTP-request-body-size`, `HTTP-request-method-invalid` |
//! | an access token is available, if the grant has a source of tokens | [`oauth`] | `internal-error`, which SDKs treat as temporary |
//! | concurrency limit and rate limit, with a share for each client ([`fair_semaphore`](mcp_host_base::fair_semaphore), [`fair_rate`](crate::fair_rate)) | `limits.http.concurrency`, `limits.http.rate` | `connection-limit-reached`, immediately |
//! | the name is resolved, once, and non-public addresses are filtered out (SSRF protection) | [`is_public`](mcp_host_model::net::is_public) | `destination-IP-prohibited` |
//! | a connection to one of the validated addresses is established | [`connect`] | `connection-refused` and similar |
//! | over TLS, the server's certificate is verified for the name | [`tls`] | `TLS-certificate-error` |
//! | the response's headers are within their size limit, and informational responses (1xx) before it within about twice that | `limits.http.headers`, [`head_limit`] | `HTTP-response-header-section-size` |
//! | the body is within its size limit, and arrives before the deadline | [`body`], `limits.http.body`, `limits.http.timeout` | an error in the middle of the stream, never a short body |
//!
//! The whole exchange, from name resolution to the last byte of the body, is bounded by `limits.http.timeout`; the
//! guest's own timeouts can only shorten it. Redirects are not followed: the guest receives the `3xx`, and its next
//! request is checked like the first. Each exchange has a separate connection, so no state of one exchange is visible
//! to another.
//!
//! An exchange belongs to the instance: when the call ends or is dropped, so is the connection. It runs on the guest
//! threads, in tasks whose processor time is a part of `limits.cpu` of the call ([`HostCpuBudget`]).
//!
//! Also bounded: [`headers::MAX_HEADERS`] header lines per message, [`connect::MAX_ADDRESSES`] addresses per name.
//! Memory that the host keeps for an instance, from the first header of a request that may never be sent, is charged to
//! `limits.memory` ([`resources`]).

mod body;
mod connect;
mod error;
mod exchange;
mod head_limit;
mod headers;
pub mod oauth;
mod record;
mod resources;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::join_all;
use hyper::header::HeaderName;
use mcp_host_config::grants::HttpGrants;
use mcp_host_config::limits::HttpLimits;
use mcp_host_model::net::OriginPattern;
use mcp_host_model::requester::{Client, FairSemaphore, Permit};
use tokio::sync::OnceCell;
use wasmtime::component::ResourceTable;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks,
};

use self::connect::{Network, SystemNetwork};
use self::oauth::AccessTokens;
use self::resources::ResourceReservations;
use self::tls::TlsClient;
use crate::cpu::HostCpuBudget;
use crate::fair_rate::FairRate;
use crate::grant_usage::HttpOutcomeCounts;
use crate::guest_log::{GuestLog, ThrottledWarnings};
use crate::memory::MemoryMeter;

pub(crate) use self::resources::{HttpView, add_to_linker};
pub use self::tls::TlsRoots;

/// The size of the chunks in which a request body is buffered for the network.
const BODY_CHUNK_SIZE: usize = 16 << 10;
/// The maximum size of the headers that a guest without grants may build, although it cannot send a request.
const MAX_HEADERS_WITHOUT_GRANT: usize = 8 << 10;
/// The memory that a header takes in addition to its text.
const HEADER_OVERHEAD: usize = 128;

/// A permit of `limits.http.concurrency`, released with its last clone.
type ExchangePermit = Arc<Permit>;

/// Outbound HTTP of one plugin, shared by all its instances.
pub(crate) struct OutboundHttp {
    grants: HttpGrants,
    limits: HttpLimits,
    permits: FairSemaphore,
    rate: FairRate,
    warnings: ThrottledWarnings,
    network: Arc<dyn Network>,
    tls_roots: Arc<TlsRoots>,
    /// The TLS clients of grants with separate certificate authorities, created at first use.
    per_grant_tls: BTreeMap<OriginPattern, OnceCell<TlsClient>>,
    /// The access tokens of grants that have a source of tokens.
    access_tokens: BTreeMap<OriginPattern, Arc<AccessTokens>>,
    outcomes: HttpOutcomeCounts,
}

impl OutboundHttp {
    /// Creates the outbound HTTP that `grants` and `limits` allow.
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
        let with_own_roots = grants.iter().filter(|grant| grant.ca.is_some());
        let access_tokens = grants.iter().filter_map(|grant| {
            let tokens = AccessTokens::new(grant.oauth.as_ref()?, network.clone(), tls_roots.clone());
            Some((grant.origin.clone(), tokens))
        });
        Self {
            per_grant_tls: with_own_roots.map(|grant| (grant.origin.clone(), OnceCell::new())).collect(),
            access_tokens: access_tokens.collect(),
            grants: grants.clone(),
            limits: limits.clone(),
            permits: FairSemaphore::new(limits.concurrency.get(), usize::MAX),
            rate: FairRate::new(limits.rate.quota()),
            warnings: ThrottledWarnings::new(log),
            network,
            tls_roots,
            outcomes: HttpOutcomeCounts::default(),
        }
    }

    /// The exchanges that have ended, by outcome.
    pub(crate) fn outcomes(&self) -> &HttpOutcomeCounts {
        &self.outcomes
    }

    /// Requests an access token from each source. The error is for the admin.
    pub(crate) async fn check_access_tokens(&self) -> Result<(), String> {
        let checks = self.access_tokens.iter().map(|(origin, tokens)| async move {
            let error = tokens.token().await.err()?;
            let server = tokens.server();
            Some(format!("there is no access token for {origin} (`oauth` in `grants.http`) from {server}: {error}"))
        });
        let errors: Vec<_> = join_all(checks).await.into_iter().flatten().collect();
        if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
    }

    /// Connects to each granted origin without a wildcard, with a TLS handshake if it is `https`, and sends nothing.
    /// Returns a warning for each failure.
    pub(crate) async fn check_origins(&self) -> Vec<String> {
        let checks = self.grants.iter().map(|grant| async move {
            let origin = grant.origin.exact()?;
            let error = self.try_connection(grant, origin).await.err()?;
            Some(format!("the origin {origin} of `grants.http` cannot be used now: {error}"))
        });
        join_all(checks).await.into_iter().flatten().collect()
    }

    /// Creates the state of one instance.
    pub(crate) fn new_instance(self: &Arc<Self>) -> InstanceHttp {
        let headers = match self.grants.is_empty() {
            true => MAX_HEADERS_WITHOUT_GRANT,
            false => usize::try_from(self.limits.headers.bytes()).unwrap_or(usize::MAX),
        };
        let mut ctx = WasiHttpCtx::new();
        // A guest that exceeds this size traps, so this size is larger than the headers that can be sent.
        let max_header_memory = headers.saturating_add(headers::MAX_HEADERS.saturating_mul(HEADER_OVERHEAD));
        ctx.set_field_size_limit(max_header_memory);
        InstanceHttp {
            ctx,
            hooks: Hooks { http: self.clone(), cpu: HostCpuBudget::unlimited(), client: None },
            reservations: ResourceReservations::new(max_header_memory),
        }
    }
}

/// Outbound HTTP of one instance.
pub struct InstanceHttp {
    ctx: WasiHttpCtx,
    hooks: Hooks,
    reservations: ResourceReservations,
}

impl InstanceHttp {
    /// Begins a call for this client. Its exchanges have this budget of processor time.
    pub(crate) fn begin_call(&mut self, cpu: HostCpuBudget, client: Client) {
        (self.hooks.cpu, self.hooks.client) = (cpu, client);
    }

    /// Returns the view for the linker's functions.
    pub(crate) fn view<'a>(&'a mut self, table: &'a mut ResourceTable, memory: &'a mut MemoryMeter) -> HttpView<'a> {
        let wasi = WasiHttpCtxView { hooks: &mut self.hooks, table, ctx: &mut self.ctx };
        HttpView { wasi, reservations: &mut self.reservations, memory }
    }
}

struct Hooks {
    http: Arc<OutboundHttp>,
    /// The processor time of the exchanges of the current call.
    cpu: HostCpuBudget,
    /// The client of the current call.
    client: Client,
}

impl WasiHttpHooks for Hooks {
    fn is_forbidden_header(&mut self, name: &HeaderName) -> bool {
        headers::is_host_controlled(name)
    }

    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(headers::is_host_controlled)
    }

    /// The `Host` header is set later, once the origin is known to be granted.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn send_request(
        &mut self,
        request: hyper::Request<WasiBody>,
        options: Option<RequestOptions>,
        _: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> exchange::ResponseFuture {
        self.http.clone().counted_exchange(request, options.unwrap_or_default(), self.client.clone(), self.cpu.clone())
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_SIZE
    }
}
