//! One HTTP request: the state that its messages share, and the guards that each message holds while it is in
//! flight.

use axum::http::{HeaderMap, HeaderName};
use mcp_host_base::trace::{ClientContext, TraceParent};
use mcp_resource_host::audit;

use crate::dispatch::Dispatch;
use crate::http::request_source::RequestSource;
use crate::http::sessions::SessionGuard;
use crate::in_flight::Claim;
use crate::jsonrpc::{Rejection, RequestId};
use crate::method::Method;
use crate::request::Request;
use crate::revision::Revision;
use crate::server_metrics::Transport;
use crate::trace::{RequestTrace, TracedRequest};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The state shared by the messages of one HTTP request.
pub(super) struct Exchange<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) source: &'a RequestSource,
    pub(super) session: Option<SessionGuard>,
}

/// The guards of a request in flight, held until it is answered.
pub(super) struct InFlightRequest {
    /// The claim of the request's id in the session. None outside of a session.
    pub(super) claim: Option<Claim>,
    pub(super) trace: RequestTrace,
    pub(super) audit: audit::RequestContext,
}

impl Exchange<'_> {
    /// Processes a message that has no answer.
    pub(super) fn accept(&self, message: &Dispatch) {
        match (message, &self.session) {
            (Dispatch::Cancel(id), Some(session)) => session.in_flight().cancel(id),
            (Dispatch::Initialized, Some(session)) => session.initialized(),
            _ => {}
        }
    }

    /// Records a request as in flight.
    pub(super) fn begin(
        &self,
        id: &RequestId,
        method: Option<&'static Method>,
        request: Option<&Request>,
        revision: Revision,
        traceparent: Option<TraceParent>,
    ) -> Result<InFlightRequest, Rejection> {
        let claim =
            self.session.as_ref().map(|session| session.in_flight().claim(id).ok_or(Rejection::id_in_flight(id)));
        let claim = claim.transpose()?;
        let trace = self.trace(id, method, request, revision, traceparent);
        let audit = audit::RequestContext::new(self.session.as_ref().map(SessionGuard::hash), id, trace.id());
        Ok(InFlightRequest { claim, trace, audit })
    }

    /// Begins the trace of a request.
    pub(super) fn trace(
        &self,
        id: &RequestId,
        method: Option<&'static Method>,
        request: Option<&Request>,
        revision: Revision,
        traceparent: Option<TraceParent>,
    ) -> RequestTrace {
        let RequestSource { peer, config, .. } = self.source;
        let (session, transport) = (self.session.as_ref().map(SessionGuard::hash), Transport::Http);
        let (address, http) = (peer.account.client().address(), traceparent_of(self.headers));
        let (id, revision) = (Some(id), Some(revision));
        let traced = TracedRequest { id, method, request, revision, session, transport, address };
        RequestTrace::begin(config, ClientContext { message: traceparent, http }, &traced)
    }
}

/// The trace context in the headers.
pub(super) fn traceparent_of(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get(TRACEPARENT)?.to_str().ok()?.parse().ok()
}
