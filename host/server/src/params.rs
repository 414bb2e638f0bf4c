//! The parameters of each method: validation, and the parts that are retained.
//!
//! The error of malformed parameters names the fault. Members that no method uses are skipped in place; the others are
//! retained within bounds:
//!
//! | value | retained | a larger one is |
//! |---|---|---|
//! | a URI, a template | [`MAX_URI_LEN`](mcp_host_model::uri::MAX_URI_LEN) bytes | malformed; not accepted in `subscriptions/listen` |
//! | a cursor | [`MAX_CURSOR`](members::MAX_CURSOR) bytes | malformed |
//! | the name and value of a variable | [`MAX_URI_LEN`](mcp_host_model::uri::MAX_URI_LEN) bytes each | malformed |
//! | variables of the completion context | [`MAX_CONTEXT_ARGUMENTS`] | malformed |
//! | the resources of `subscriptions/listen` | [`Subscriber::MAX_RESOURCES`], of [`MAX_FILTER_BYTES`] bytes together | not accepted |
//! | the arguments of a tool | [`MAX_ARGUMENTS`](members::MAX_ARGUMENTS) bytes | malformed |
//! | a revision | [`MAX_VERSION_NAME`] bytes | truncated |
//! | the client's name and version, its capabilities, `_meta` | nothing but whether they are texts and objects | |
//! | `traceparent` in `_meta` | the trace id, of 16 bytes | ignored |
//!
//! A used member that occurs twice is malformed, because two parsers may choose different values.

mod bounded;
mod listen;
mod members;
mod meta;

use serde::Deserialize;
use serde_json::value::RawValue;

pub(super) use self::bounded::{BoundedString, TruncatedString, found, present, truncate, without_position};
pub(super) use self::listen::ListenParams;
pub(super) use self::members::Members;
pub(super) use self::meta::{CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, RequestMeta};
use super::error::RpcError;

/// The retained length of a revision's name.
pub(super) const MAX_VERSION_NAME: usize = 64;

/// The fault of malformed parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InvalidParams(pub(super) String);

impl From<&InvalidParams> for RpcError {
    fn from(InvalidParams(fault): &InvalidParams) -> Self {
        Self::invalid_params(fault.clone())
    }
}

/// The parameters of `initialize`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InitializeParams {
    /// The requested revision.
    pub(super) version: String,
}

/// The parameters of `completion/complete`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CompleteParams {
    /// The template. None for a prompt; there are no prompts.
    pub(super) template: Option<String>,
    /// The variable, and the typed part of its value.
    pub(super) argument: (String, String),
    /// The variables that already have values.
    pub(super) context: Vec<(String, String)>,
}

/// The parameters of `tools/call`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolParams {
    /// The tool. None if the member is not a text.
    pub(super) name: Option<String>,
    /// The arguments, a JSON object.
    pub(super) arguments: Option<String>,
}

impl ToolParams {
    /// The form of these parameters, for errors.
    pub(super) const EXPECTED: &str = "{\"name\": string, \"arguments\"?: object}";
}

/// Returns the id of the request that a notification with these parameters cancels.
pub(super) fn cancelled_request_id(params: &RawValue) -> Option<&RawValue> {
    #[derive(Deserialize)]
    struct Cancelled<'a> {
        #[serde(borrow, default, deserialize_with = "present", rename = "requestId")]
        request_id: Option<&'a RawValue>,
    }
    let members = params.get().starts_with('{').then(|| serde_json::from_str::<Cancelled<'_>>(params.get()).ok());
    members.flatten()?.request_id
}

#[cfg(test)]
mod tests;
