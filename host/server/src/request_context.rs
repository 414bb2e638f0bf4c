//! The context in which a request is executed, and its outcome.

use std::sync::Arc;

use mcp_host_config::Config;
use mcp_host_model::caller::AccessToken;
use mcp_host_model::resource::MissingPlugin;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::audit;
use mcp_resource_host::host::Host;
use serde_json::Value;

use super::budget::Account;
use super::json::Encoder;
use super::revision::Revision;
use super::session::Session;
use super::trace::RequestTrace;

/// The context of a request, determined once: the request sees one config for its whole duration.
pub(super) struct RequestContext {
    pub(super) host: Arc<Host>,
    /// The config at the arrival of the request.
    pub(super) config: Arc<Config>,
    /// The principal on whose behalf the request is executed.
    pub(super) principal: Principal,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
    pub(super) revision: Revision,
    /// The session, if the request belongs to one.
    pub(super) session: Option<Arc<Session>>,
    /// The request's data for the audit log.
    pub(super) audit: audit::RequestContext,
    pub(super) trace: RequestTrace,
    /// The operations that the scopes of the credentials allow.
    pub(super) scopes: CredentialScopes,
    /// The issuer's access token that authenticated the request.
    pub(super) issued_token: Option<AccessToken>,
}

/// The result of a request.
pub(super) struct Outcome {
    pub(super) result: Encoder,
    /// The approximate memory of the result.
    pub(super) footprint: usize,
    /// The plugins that are missing from the result.
    pub(super) missing: Vec<MissingPlugin>,
}

impl Outcome {
    /// A result of few bytes.
    pub(super) fn small(result: &Value) -> Self {
        let json = result.to_string().into_bytes();
        let footprint = json.len();
        Self::new(Encoder::from_json(json), footprint)
    }

    /// A result without missing plugins.
    pub(super) fn new(result: Encoder, footprint: usize) -> Self {
        Self { result, footprint, missing: Vec::new() }
    }
}
