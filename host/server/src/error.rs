//! The errors of JSON-RPC and MCP: the only place that assigns codes.
//!
//! | error of the façade | code | `data` |
//! |---|---|---|
//! | not found | -32002, and -32602 from revision 2026-07-28 on | `uri` |
//! | invalid request, invalid cursor | -32602 | |
//! | denied | -32602 | `kind: "denied"` |
//! | unavailable | -32603 | `kind: "unavailable"`, `plugin`, `retryAfterMs` if known |
//! | no space in the audit log | -32603 | `kind: "unavailable"`, `retryAfterMs` |
//! | shutting down | -32603 | `kind: "unavailable"` |
//! | internal | -32603 | `kind: "internal"`, `plugin` |
//! | a rate limit of clients | -32603 | `kind: "unavailable"`, `retryAfterMs` |
//!
//! The message of a URI that is not found has a hint if a template explains the URI ([`slash_hint`]). In some templates
//! a variable is one segment among others (`blob/{rev}/{+path}`), although its values may have slashes (the branch
//! `feature/x`). A URI with such a slash is not found, and the error alone does not explain why. The hint depends only
//! on the URI and on the templates that the principal may see, so it is the same for a hidden resource and for one that
//! does not exist.

use std::borrow::Cow;

use mcp_host_base::time::saturating_millis;
use mcp_host_config::Operation;
use mcp_host_model::resource::Error;
use mcp_resource_host::access::rate::RateExceeded;
use mcp_resource_host::access::{CredentialScopes, Principal};
use mcp_resource_host::host::{Host, transport};
use serde::Serialize;
use serde_json::{Value, json};

use super::revision::Revision;

/// The delay after which a request that could not be recorded may be sent again.
const AUDIT_RETRY_AFTER_MS: u64 = 1000;
/// The maximum number of templates that are inspected for a hint.
const MAX_HINT_TEMPLATES: usize = 20;

/// The error object of a response.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct RpcError {
    pub(super) code: ErrorCode,
    pub(super) message: Cow<'static, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

/// A code of JSON-RPC or MCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ErrorCode(i32);

impl ErrorCode {
    pub(super) const PARSE_ERROR: Self = Self(-32700);
    pub(super) const INVALID_REQUEST: Self = Self(-32600);
    pub(super) const METHOD_NOT_FOUND: Self = Self(-32601);
    pub(super) const INVALID_PARAMS: Self = Self(-32602);
    pub(super) const INTERNAL_ERROR: Self = Self(-32603);
    const RESOURCE_NOT_FOUND: Self = Self(-32002);
    /// An HTTP header does not match the message.
    pub(super) const HEADER_MISMATCH: Self = Self(-32020);
    pub(super) const UNSUPPORTED_PROTOCOL_VERSION: Self = Self(-32022);
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// The outcome of a request, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ok,
    NotFound,
    Denied,
    InvalidParams,
    InvalidRequest,
    ParseError,
    MethodNotFound,
    UnsupportedRevision,
    HeaderMismatch,
    Unavailable,
    Internal,
    Cancelled,
}

impl Outcome {
    /// All outcomes, in the order of their numbers.
    pub(super) const ALL: [Self; 12] = [
        Self::Ok,
        Self::NotFound,
        Self::Denied,
        Self::InvalidParams,
        Self::InvalidRequest,
        Self::ParseError,
        Self::MethodNotFound,
        Self::UnsupportedRevision,
        Self::HeaderMismatch,
        Self::Unavailable,
        Self::Internal,
        Self::Cancelled,
    ];

    /// The outcome of a request with this answer.
    pub(super) fn of<T>(answer: &Result<T, RpcError>) -> Self {
        answer.as_ref().map_or_else(RpcError::outcome, |_| Self::Ok)
    }

    /// The name of the outcome in metrics.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::NotFound => "not-found",
            Self::Denied => "denied",
            Self::InvalidParams => "invalid-params",
            Self::InvalidRequest => "invalid-request",
            Self::ParseError => "parse-error",
            Self::MethodNotFound => "method-not-found",
            Self::UnsupportedRevision => "unsupported-revision",
            Self::HeaderMismatch => "header-mismatch",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
            Self::Cancelled => "cancelled",
        }
    }
}

impl RpcError {
    /// The outcome of a request with this error.
    pub(super) fn outcome(&self) -> Outcome {
        let member = |name: &str| self.data.as_ref().and_then(|data| data.get(name));
        let kind = member("kind").and_then(Value::as_str);
        match self.code {
            ErrorCode::RESOURCE_NOT_FOUND => Outcome::NotFound,
            ErrorCode::INVALID_PARAMS if kind == Some("denied") => Outcome::Denied,
            ErrorCode::INVALID_PARAMS if member("uri").is_some() => Outcome::NotFound,
            ErrorCode::INVALID_PARAMS => Outcome::InvalidParams,
            ErrorCode::PARSE_ERROR => Outcome::ParseError,
            ErrorCode::METHOD_NOT_FOUND => Outcome::MethodNotFound,
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => Outcome::UnsupportedRevision,
            ErrorCode::HEADER_MISMATCH => Outcome::HeaderMismatch,
            ErrorCode::INTERNAL_ERROR if kind == Some("unavailable") => Outcome::Unavailable,
            ErrorCode::INTERNAL_ERROR => Outcome::Internal,
            _ => Outcome::InvalidRequest,
        }
    }

    pub(super) fn new(code: ErrorCode, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(super) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_REQUEST, message)
    }

    pub(super) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INVALID_PARAMS, message)
    }

    pub(super) fn internal(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorCode::INTERNAL_ERROR, message)
    }

    /// The error of a request that panicked.
    pub(super) fn panicked() -> Self {
        Self::internal("the server failed; its log has the reason")
    }

    pub(super) fn with_data(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }

    /// The error for a revision that this server does not have.
    pub(super) fn unsupported_revision(message: impl Into<Cow<'static, str>>, requested: &str) -> Self {
        let data = json!({ "supported": Revision::ALL.map(Revision::name), "requested": requested });
        Self::new(ErrorCode::UNSUPPORTED_PROTOCOL_VERSION, message).with_data(data)
    }
}

/// Converts an error to the JSON-RPC error of this revision.
pub(super) fn to_rpc(error: &Error, revision: Revision) -> RpcError {
    let (code, data) = match error {
        Error::NotFound { uri } if revision.has_code_for_not_found() => {
            (ErrorCode::RESOURCE_NOT_FOUND, json!({ "uri": uri }))
        }
        Error::NotFound { uri } => (ErrorCode::INVALID_PARAMS, json!({ "uri": uri })),
        Error::InvalidRequest { .. } | Error::InvalidCursor => (ErrorCode::INVALID_PARAMS, Value::Null),
        Error::Denied { .. } => (ErrorCode::INVALID_PARAMS, json!({ "kind": "denied" })),
        Error::Unavailable { plugin, retry_after, .. } => {
            let mut data = json!({ "kind": "unavailable", "plugin": plugin });
            if let (Some(after), Some(members)) = (retry_after, data.as_object_mut()) {
                let millis = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                members.insert("retryAfterMs".to_owned(), millis.into());
            }
            (ErrorCode::INTERNAL_ERROR, data)
        }
        Error::AuditUnavailable => {
            (ErrorCode::INTERNAL_ERROR, json!({ "kind": "unavailable", "retryAfterMs": AUDIT_RETRY_AFTER_MS }))
        }
        Error::ShuttingDown => (ErrorCode::INTERNAL_ERROR, json!({ "kind": "unavailable" })),
        Error::Internal { plugin } => (ErrorCode::INTERNAL_ERROR, json!({ "kind": "internal", "plugin": plugin })),
    };
    RpcError { code, message: error.to_string().into(), data: (!data.is_null()).then_some(data) }
}

/// Returns how a slash in the URI may have to be written. None if the credentials of the request do not allow
/// templates.
pub(super) async fn slash_hint(host: &Host, principal: &Principal, uri: &str) -> Option<String> {
    if !CredentialScopes::current_include(Operation::Templates) {
        return None;
    }
    // Most URIs of denied or absent resources need no call of the provider.
    if !host.mount_of(uri).is_some_and(|mount| transport::may_have_slash_hint(&mount, uri)) {
        return None;
    }
    let (_, templates) = host.templates_at(principal, uri, MAX_HINT_TEMPLATES).await?;
    transport::slash_hint(uri, &templates)
}

/// Converts the error of a read to the JSON-RPC error of this revision, with the hint.
pub(super) async fn to_rpc_with_hint(host: &Host, principal: &Principal, error: Error, revision: Revision) -> RpcError {
    let hint = match &error {
        Error::NotFound { uri } => slash_hint(host, principal, uri).await,
        _ => None,
    };
    let mut error = to_rpc(&error, revision);
    if let Some(hint) = hint {
        error.message = format!("{}; {hint}", error.message).into();
    }
    error
}

/// Returns the error of a request that exceeds a rate limit of clients.
pub(super) fn rate_exceeded(exceeded: &RateExceeded) -> RpcError {
    let millis = saturating_millis(exceeded.retry_after);
    let message = format!("{exceeded} (`{}`); try again in {millis} ms", exceeded.limit.key());
    RpcError::internal(message).with_data(json!({ "kind": "unavailable", "retryAfterMs": millis }))
}
