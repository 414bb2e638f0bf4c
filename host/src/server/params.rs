//! The parameters of each method: validation, and the parts that are retained.
//!
//! rmcp treats a request whose parameters it cannot parse as one with an unknown method, or without parameters. They
//! are validated before, so that the error names the fault. Members that no method uses are skipped in place; the
//! others are retained within bounds:
//!
//! | value | retained | a larger one is |
//! |---|---|---|
//! | a URI, a template | [`MAX_URI_LEN`](crate::uri::MAX_URI_LEN) bytes | malformed; not accepted in `subscriptions/listen` |
//! | a cursor | [`MAX_CURSOR`](members::MAX_CURSOR) bytes | malformed |
//! | the name and value of a variable | [`MAX_URI_LEN`](crate::uri::MAX_URI_LEN) bytes each | malformed |
//! | variables of the completion context | [`MAX_CONTEXT_ARGUMENTS`] | malformed |
//! | the resources of `subscriptions/listen` | [`Subscriber::MAX_RESOURCES`], of [`MAX_FILTER_BYTES`] bytes together | not accepted |
//! | the arguments of a tool | [`MAX_ARGUMENTS`](members::MAX_ARGUMENTS) bytes | malformed |
//! | the client's name, title and version, a revision | [`MAX_CLIENT_INFO_TEXT`](members::MAX_CLIENT_INFO_TEXT), [`MAX_VERSION_NAME`] bytes | truncated |
//! | its capabilities, `_meta` | whether they are objects | |
//! | `traceparent` in `_meta` | the trace id, of 16 bytes | ignored |
//!
//! A member that is used and occurs twice is malformed, as two parsers may take different ones.

#![allow(deprecated, reason = "the revisions that have levels of log messages are still served")]

mod bounded;
mod listen;
mod members;
mod meta;

use rmcp::model::LoggingLevel;
use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::bounded::{BoundedString, TruncatedString, found, present, truncate, without_position};
pub(super) use self::listen::ListenParams;
use self::members::Members;
pub(super) use self::members::TOOL_PARAMS;
pub(super) use self::meta::{CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, RequestMeta};
use crate::config::Extension;

/// The retained length of a revision's name.
pub(super) const MAX_VERSION_NAME: usize = 64;

/// The fault of malformed parameters, which is attached to the request for the handler that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidParams(pub(super) String);

/// The parameters of a request that are used.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Params {
    /// None.
    Ignored,
    /// `initialize`.
    Initialize(Box<InitializeParams>),
    /// A method that lists: the children of that resource, from that cursor on.
    Page {
        /// The resource, if the method has one and it is given.
        uri: Option<String>,
        /// The position to continue from.
        cursor: Option<String>,
    },
    /// A method with one resource, which may list its children from a cursor on.
    Resource {
        /// The resource.
        uri: String,
        /// The position to continue from.
        cursor: Option<String>,
    },
    /// `completion/complete`.
    Complete(Box<CompleteParams>),
    /// `subscriptions/listen`.
    Listen(ListenParams),
    /// `logging/setLevel`.
    Level(LoggingLevel),
    /// `tools/call`.
    Tool(ToolParams),
    /// Any other method with a name, which is in that member.
    Named {
        /// The member.
        member: &'static str,
        /// The name.
        name: Option<String>,
    },
}

/// The parameters of `initialize`: the client info, for the lifetime of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitializeParams {
    /// The revision that it requests.
    pub(super) version: String,
    /// The client info.
    pub(super) client: ClientInfo,
}

/// The info that a client gives of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientInfo {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) version: String,
}

/// The parameters of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompleteParams {
    /// The template; none for a prompt, of which there are none.
    pub(super) template: Option<String>,
    /// The variable, and the typed part of its value.
    pub(super) argument: (String, String),
    /// The variables that have values already.
    pub(super) context: Vec<(String, String)>,
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolParams {
    /// The tool; none if it is no text.
    pub(super) name: Option<String>,
    /// The arguments, a JSON object.
    pub(super) arguments: Option<String>,
}

/// The parameters of a request, and its `_meta`.
#[derive(Debug)]
pub(super) struct ParsedParams {
    /// The parameters that are used.
    pub(super) params: Result<Params, InvalidParams>,
    /// Its `_meta`.
    pub(super) meta: RequestMeta,
}

/// Parses the parameters of a request with those extensions. Those of an unknown method are always valid.
pub(super) fn parse(method: &str, params: Option<&RawValue>, on: &[Extension]) -> ParsedParams {
    // Some libraries send `null` for an absent value.
    let text = params.map(RawValue::get).filter(|params| *params != "null").unwrap_or("{}");
    let malformed = |meta, fault: String| {
        let fault = format!("{}: {fault}", truncate(method, MAX_VERSION_NAME));
        ParsedParams { params: Err(InvalidParams(fault)), meta }
    };
    if !text.starts_with('{') {
        return malformed(RequestMeta::default(), "expected params to be an object".to_owned());
    }
    let members: Members<'_> = match serde_json::from_str(text) {
        Ok(members) => members,
        Err(error) => return malformed(RequestMeta::default(), without_position(&error)),
    };
    let meta = match members.meta.map(RequestMeta::parse) {
        None => RequestMeta { is_valid: true, ..RequestMeta::default() },
        Some(Ok(meta)) => meta,
        Some(Err(fault)) => return malformed(RequestMeta::default(), fault),
    };
    match members.to_params(method, on) {
        Ok(params) => ParsedParams { params: Ok(params), meta },
        Err((expected, fault)) => malformed(meta, format!("expected params `{expected}`: {fault}")),
    }
}

/// Returns the id of the request that the parameters of a notification cancel.
pub(super) fn cancelled_request_id(params: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, default, deserialize_with = "present", rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
    let members = params.get().starts_with('{').then(|| serde_json::from_str::<Cancelled<'_>>(params.get()).ok());
    members.flatten()?.request_id
}

#[cfg(feature = "http")]
impl Params {
    /// Returns the name that `Mcp-Name` has to repeat, if the method has one.
    pub(super) fn name(&self) -> Option<&str> {
        match self {
            Self::Resource { uri, .. } => Some(uri),
            Self::Named { name, .. } | Self::Tool(ToolParams { name, .. }) => name.as_deref(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
