//! A parsed request.

use super::client_log::LogLevel;
use super::params::{CompleteParams, InitializeParams, ListenParams, ToolParams};

/// A request with valid parameters. The [table of methods](super::method) maps methods to variants.
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
    /// A method of this name, which does not exist.
    Unknown(String),
}

impl Request {
    /// Returns the URI or template that the request names, other than in `subscriptions/listen` and `tools/call`.
    pub(super) fn uri(&self) -> Option<&str> {
        match self {
            Self::Read(uri) | Self::Subscribe(uri) | Self::Unsubscribe(uri) => Some(uri),
            Self::Complete(complete) => complete.template.as_deref(),
            Self::Extension(request) => request.uri(),
            Self::Initialize(_)
            | Self::Ping
            | Self::Discover
            | Self::List(_)
            | Self::Templates(_)
            | Self::Listen(_)
            | Self::SetLevel(_)
            | Self::ListPrompts
            | Self::GetPrompt(_)
            | Self::ListTools(_)
            | Self::CallTool(_)
            | Self::Unknown(_) => None,
        }
    }

    /// Returns the name that `Mcp-Name` repeats, for methods with this header.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::GetPrompt(name) => Some(name),
            Self::CallTool(call) => call.name.as_deref(),
            request => request.uri(),
        }
    }
}

/// A request of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExtensionRequest {
    /// `resources/list` of SEP-2093: the children of a resource, from a cursor on.
    List { uri: Option<String>, cursor: Option<String> },
    /// `resources/read` of SEP-2093.
    Read(String),
    /// `resources/metadata` of SEP-2093.
    Metadata(String),
    /// `resources/directory/read` of SEP-2640: the children of a resource, from a cursor on.
    Directory { uri: String, cursor: Option<String> },
    /// `skills/list` of SEP-2640, from a cursor on.
    Skills(Option<String>),
    /// `skills/get` of SEP-2640.
    Skill(String),
}

impl ExtensionRequest {
    /// Returns the URI that the request names.
    pub(super) fn uri(&self) -> Option<&str> {
        match self {
            Self::List { uri, .. } => uri.as_deref(),
            Self::Read(uri) | Self::Metadata(uri) | Self::Directory { uri, .. } | Self::Skill(uri) => Some(uri),
            Self::Skills(_) => None,
        }
    }
}
