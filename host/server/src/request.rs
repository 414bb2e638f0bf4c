//! A request as it was parsed, and the context in which it is executed.

use std::sync::Arc;

use mcp_host_config::Config;
use mcp_host_model::caller::AccessToken;
use mcp_resource_host::access::Principal;
use mcp_resource_host::audit;
use mcp_resource_host::host::Host;

use super::budget::Account;
use super::client_log::LogLevel;
use super::extensions::ExtensionRequest;
use super::params::{CompleteParams, InitializeParams, ListenParams, ToolParams};
use super::revision::Revision;
use super::session::Session;
use super::trace::RequestTrace;

/// A request with valid parameters. The [table of methods](super::method) says which method parses to which.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    /// `initialize`.
    Initialize(Box<InitializeParams>),
    /// `ping`.
    Ping,
    /// `server/discover`.
    Discover,
    /// `resources/list`, with its cursor.
    List(Option<String>),
    /// `resources/templates/list`, with its cursor.
    Templates(Option<String>),
    /// `resources/read`, with its URI.
    Read(String),
    /// A request of an extension.
    Extension(ExtensionRequest),
    /// `resources/subscribe`.
    Subscribe(String),
    /// `resources/unsubscribe`.
    Unsubscribe(String),
    /// `subscriptions/listen`.
    Listen(ListenParams),
    /// `completion/complete`.
    Complete(Box<CompleteParams>),
    /// `logging/setLevel`.
    SetLevel(LogLevel),
    /// `prompts/list`. There are no prompts.
    ListPrompts,
    /// `prompts/get`, with the name of the prompt.
    GetPrompt(String),
    /// `tools/list`, with its cursor.
    ListTools(Option<String>),
    /// `tools/call`.
    CallTool(ToolParams),
    /// A method of that name, which does not exist.
    Unknown(String),
}

impl Request {
    /// Returns the URI or template that the request names, other than in `subscriptions/listen` and `tools/call`.
    pub(super) fn uri(&self) -> Option<&str> {
        match self {
            Self::Read(uri) | Self::Subscribe(uri) | Self::Unsubscribe(uri) => Some(uri),
            Self::Complete(complete) => complete.template.as_deref(),
            Self::Extension(request) => request.uri(),
            _ => None,
        }
    }

    /// Returns the name that `Mcp-Name` repeats, in methods that have it.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::GetPrompt(name) => Some(name),
            Self::CallTool(call) => call.name.as_deref(),
            request => request.uri(),
        }
    }
}

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
    /// The access token of an issuer that it came with.
    pub(super) issued_token: Option<AccessToken>,
}
