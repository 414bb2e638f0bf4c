//! The context that a request is executed in, and what comes of it.

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

/// What a request is executed with, determined once: however long it takes, it sees one config.
pub(super) struct RequestContext {
    pub(super) host: Arc<Host>,
    /// The config at the time when the request was received.
    pub(super) config: Arc<Config>,
    /// On whose behalf it is executed.
    pub(super) principal: Principal,
    /// The account that the answer is charged to.
    pub(super) account: Arc<Account>,
    pub(super) revision: Revision,
    /// The session, if the request belongs to one.
    pub(super) session: Option<Arc<Session>>,
    /// What the audit log records of it.
    pub(super) audit: audit::RequestContext,
    pub(super) trace: RequestTrace,
    /// The operations that its credentials are for.
    pub(super) scopes: CredentialScopes,
    /// The access token of an issuer that it came with.
    pub(super) issued_token: Option<AccessToken>,
}

/// The result of a request.
pub(super) struct Outcome {
    pub(super) result: Encoder,
    /// The approximate memory that it takes.
    pub(super) footprint: usize,
    /// The plugins that are missing from it.
    pub(super) missing: Vec<MissingPlugin>,
}

impl Outcome {
    /// A result of few bytes.
    pub(super) fn small(result: &Value) -> Self {
        Self::new(Encoder::from_json(result.to_string().into_bytes()), 0)
    }

    /// A result from which no plugin is missing.
    pub(super) fn new(result: Encoder, footprint: usize) -> Self {
        Self { result, footprint, missing: Vec::new() }
    }
}
