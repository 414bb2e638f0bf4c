//! The JSON-RPC errors for the façade's errors: the only place that assigns codes.
//!
//! | error | code | `data` |
//! |---|---|---|
//! | not found | -32002, and -32602 from revision 2026-07-28 on | `uri` |
//! | invalid request, invalid cursor | -32602 | |
//! | denied | -32602 | `kind: "denied"` |
//! | unavailable | -32603 | `kind: "unavailable"`, `plugin`, `retryAfterMs` if known |
//! | no space in the audit log | -32603 | `kind: "unavailable"`, `retryAfterMs` |
//! | shutting down | -32603 | `kind: "unavailable"` |
//! | internal | -32603 | `kind: "internal"`, `plugin` |
//! | a rate limit of clients | -32603 | `kind: "unavailable"`, `retryAfterMs` |

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::{Value, json};

use super::revision::Revision;
use crate::access::rate::RateExceeded;
use crate::resource::Error;
use crate::time::saturating_millis;

/// The delay after which a request that could not be recorded may be sent again.
const AUDIT_RETRY_AFTER_MS: u64 = 1000;

/// Converts an error to a JSON-RPC error of that revision.
pub(super) fn to_rpc(error: &Error, revision: Revision) -> ErrorData {
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
    ErrorData::new(code, error.to_string(), (!data.is_null()).then_some(data))
}

/// Returns the error of a request that exceeds a rate limit of clients.
pub(super) fn rate_exceeded(exceeded: &RateExceeded) -> ErrorData {
    let millis = saturating_millis(exceeded.retry_after);
    let message = format!("{exceeded} (`{}`); try again in {millis} ms", exceeded.limit.key());
    let data = json!({ "kind": "unavailable", "retryAfterMs": millis });
    ErrorData::new(ErrorCode::INTERNAL_ERROR, message, Some(data))
}
