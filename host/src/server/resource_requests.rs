//! Requests for resources, and their answers.
//!
//! They are nearly all requests that clients send. A well-formed one is answered here, from the message as it was
//! parsed, on the task that received it: rmcp would create a service, two tasks and several channels for each.
//! [`super::dispatch`] decides which they are; the transport handles the rest: the lifecycle of sessions,
//! subscriptions, streams, and the rejection of malformed requests.
//!
//! Requests of [extensions](super::extensions) are answered in the same way.
//!
//! A future has room for the largest of its branches, and is moved on its way to the task. So the branches that are rare and
//! large are boxed: a read or a listing does not carry a search.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::ErrorData;
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde_json::json;
use tracing::{Instrument, Span};

use super::budget::{self, Account, BudgetExceeded, Charge, EXPECTED_RESPONSE_SIZE, Limit};
use super::error::to_rpc;
use super::extensions;
use super::json::Encoder;
use super::jsonrpc::{self, Kind, Message};
use super::methods;
use super::params::{CompleteParams, InvalidParams, Params, ToolParams};
use super::revision::Revision;
use super::slash;
use super::tools;
use super::wire;
use crate::access::Principal;
use crate::audit::RequestContext;
use crate::config::{AdvertisedCapability, Operation};
use crate::host::transport::ReadResponse;
use crate::host::{CompleteRequest, Host};
use crate::log_target;
use crate::resource::{Argument, Completion, Error, Footprint, MissingPlugin};
use crate::text::prefix;
use crate::uri::MAX_URI_LEN;

/// The delay after which a client that exceeds its budget may retry.
const RETRY_AFTER_MS: u64 = 1000;

/// A request for resources.
#[derive(Clone, Debug)]
pub(super) enum ResourceRequest {
    /// `resources/list`, with its cursor.
    List(Option<String>),
    /// `resources/templates/list`, with its cursor.
    Templates(Option<String>),
    /// `resources/read`, with its URI.
    Read(String),
    /// `completion/complete`.
    Complete(Box<CompleteParams>),
    /// A request of an extension.
    Extension(extensions::ExtensionRequest),
    /// `tools/list`, from that cursor on.
    ListTools(Option<String>),
    /// `tools/call`.
    CallTool(ToolParams),
    /// A method that does not exist.
    Unknown(String),
}

/// An answer, ready to be encoded and sent.
pub(super) struct Reply {
    /// The message, as JSON.
    pub(super) json: Encoder,
    /// The plugins that are missing from it.
    pub(super) missing: Vec<MissingPlugin>,
    /// Its budget charge, until it has been sent; none for an error.
    pub(super) charge: Option<Charge>,
}

/// The result of a request.
struct Outcome {
    result: Encoder,
    /// The approximate memory that it takes.
    footprint: usize,
    missing: Vec<MissingPlugin>,
}

impl ResourceRequest {
    /// Parses a message of that revision; none if it is no request for resources.
    pub(super) fn from_message(
        host: &Host,
        revision: Revision,
        message: &Message,
    ) -> Option<Result<Self, InvalidParams>> {
        if let Some(asked) = extensions::parse(&host.config().server.extensions, revision, message) {
            return Some(asked.map(Self::Extension));
        }
        let Kind::Request { method, params, .. } = &message.kind else { return None };
        let has_tools = !host.config().server.tools.is_empty();
        let request = match (method.as_str(), params) {
            (
                "resources/list" | "resources/templates/list" | "resources/read" | "completion/complete",
                Err(malformed),
            ) => {
                return Some(Err(malformed.clone()));
            }
            ("resources/list", Ok(Params::Page { cursor, .. })) => Self::List(cursor.clone()),
            ("resources/templates/list", Ok(Params::Page { cursor, .. })) => Self::Templates(cursor.clone()),
            ("resources/read", Ok(Params::Resource { uri, .. })) => Self::Read(uri.clone()),
            ("completion/complete", Ok(Params::Complete(complete))) => Self::Complete(complete.clone()),
            ("tools/list" | "tools/call", Err(malformed)) if has_tools => return Some(Err(malformed.clone())),
            ("tools/list", Ok(Params::Page { cursor, .. })) if has_tools => Self::ListTools(cursor.clone()),
            ("tools/call", Ok(Params::Tool(call))) if has_tools => Self::CallTool(call.clone()),
            // A session with the capability `subscribe` retains it when no plugin supports it any more; the handler
            // knows.
            ("resources/subscribe" | "resources/unsubscribe", _) if revision.has_sessions() => return None,
            (method, _) if methods::is_supported(host, revision, method) => return None,
            (method, Ok(_)) => Self::Unknown(method.to_owned()),
            (_, Err(_)) => return None,
        };
        Some(Ok(request))
    }

    /// Returns the span of the request, at debug level: log events of its execution carry the principal, the method and the
    /// URI.
    fn span(&self, principal: &Principal) -> Span {
        let (method, uri) = match self {
            Self::List(_) => ("resources/list", None),
            Self::Templates(_) => ("resources/templates/list", None),
            Self::Read(uri) => ("resources/read", Some(uri)),
            Self::Complete(complete) => ("completion/complete", complete.template.as_ref()),
            Self::Extension(request) => request.method_and_uri(),
            Self::ListTools(_) => ("tools/list", None),
            Self::CallTool(call) => ("tools/call", call.name.as_ref()),
            Self::Unknown(_) => ("unknown", None),
        };
        let uri = uri.map(String::as_str);
        let principal = prefix(principal.name(), MAX_URI_LEN);
        tracing::debug_span!(target: log_target::SERVER, "request", principal, method, uri)
    }
}

/// Answers a request for resources in that revision, and charges the answer to that account. The audit log has the
/// context. Cancel safe: dropping the
/// future ends the calls of guests.
///
/// A panic is confined to the request, and answered with an internal error.
pub(super) async fn respond(
    host: &Host,
    principal: &Principal,
    account: &Arc<Account>,
    id: RequestId,
    request: Result<ResourceRequest, InvalidParams>,
    revision: Revision,
    context: RequestContext,
) -> Reply {
    let answered = match request {
        Ok(request) => {
            let span = request.span(principal);
            // Owned by the scope and the span, which a request that is dropped is dropped in: the audit log has the context of each.
            let executing = context.scope(execute_within_budget(host, principal, account, request, revision));
            let executing = account.client().requester(principal).scope(executing);
            AssertUnwindSafe(executing.instrument(span)).catch_unwind().await
        }
        Err(InvalidParams(reason)) => Ok(Err(ErrorData::invalid_params(reason, None))),
    };
    match answered {
        Ok(Ok((Outcome { result, missing, .. }, charge))) => {
            Reply { json: success_response(&id, result), missing, charge: Some(charge) }
        }
        Ok(Err(error)) => Reply::error(id, error),
        Err(_panic) => Reply::error(id, ErrorData::internal_error("the server failed; its log says why", None)),
    }
}

/// Wraps a result in the envelope of JSON-RPC.
fn success_response(id: &RequestId, result: Encoder) -> Encoder {
    // One allocation, unless the id is a long text.
    let mut before = Vec::with_capacity(64);
    before.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    // The serialization of a number or a string does not fail.
    let _ = serde_json::to_writer(&mut before, id);
    before.extend_from_slice(b",\"result\":");
    result.prepend(before).wrap("", "}")
}

/// Executes a request within the [budget](super::budget), and returns the outcome with its charge.
async fn execute_within_budget(
    host: &Host,
    principal: &Principal,
    account: &Arc<Account>,
    request: ResourceRequest,
    revision: Revision,
) -> Result<(Outcome, Charge), ErrorData> {
    let mut charge = account
        .charge(EXPECTED_RESPONSE_SIZE)
        .await
        .map_err(|exceeded| budget_error(exceeded, EXPECTED_RESPONSE_SIZE))?;
    let outcome = execute(host, principal, request.clone(), revision).await?;
    let price = budget::response_cost(outcome.footprint);
    if charge.resize(price).is_ok() {
        return Ok((outcome, charge));
    }
    // Neither the answer nor its reservation is held during the wait for room.
    drop((outcome, charge));
    let mut charge = account.charge(price).await.map_err(|exceeded| budget_error(exceeded, price))?;
    let outcome = execute(host, principal, request, revision).await?;
    let price = budget::response_cost(outcome.footprint);
    charge.resize(price).map_err(|exceeded| budget_error(exceeded, price))?;
    Ok((outcome, charge))
}

/// For whom there is that limit, and which key of the server's config says how much it is.
fn describe_limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Connection => {
            "on one connection; the server's `http.limits.response-memory-per-connection` says how much that is"
        }
        Limit::Client => {
            "for one client; the server's `http.limits.client-share` of `http.limits.response-memory` says how much that is"
        }
        Limit::Principal => {
            "for one principal; the server's `http.limits.principal-share` of `http.limits.response-memory` says how much \
             that is"
        }
        Limit::Overall => "for all clients; the server's `http.limits.response-memory` says how much that is",
    }
}

/// Returns the error for an answer that exceeds the budget.
fn budget_error(exceeded: BudgetExceeded, price: usize) -> ErrorData {
    let (message, data) = match exceeded {
        BudgetExceeded::Full => (
            "too many answers wait to be read by this client, or by all: read them, then try again".to_owned(),
            json!({ "kind": "unavailable", "retryAfterMs": RETRY_AFTER_MS }),
        ),
        BudgetExceeded::TooLarge(limit) => (
            format!("the answer takes {price} bytes of memory, more than may wait {}", describe_limit(limit)),
            json!({ "kind": "unavailable" }),
        ),
    };
    ErrorData::internal_error(message, Some(data))
}

impl Reply {
    fn error(id: RequestId, error: ErrorData) -> Self {
        let json = jsonrpc::to_json(&ServerJsonRpcMessage::error(error, Some(id)));
        Self { json: Encoder::from_json(json), missing: Vec::new(), charge: None }
    }
}

async fn execute(
    host: &Host,
    principal: &Principal,
    request: ResourceRequest,
    revision: Revision,
) -> Result<Outcome, ErrorData> {
    let to_rpc = |error: Error| to_rpc(&error, revision);
    match request {
        ResourceRequest::List(cursor) => {
            let encode = |entries| wire::encode_resources(entries, revision);
            let form = wire::encoding_form(revision);
            let listing = host.list_cached(principal, cursor.as_deref(), form, encode).await.map_err(to_rpc)?;
            let is_public = host.is_public(Operation::List) && cursor.is_none();
            let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
            Ok(Outcome { result: wire::list_result(listing, revision, is_public), footprint, missing })
        }
        ResourceRequest::Templates(cursor) => {
            let listing = Box::pin(host.templates(principal, cursor.as_deref())).await.map_err(to_rpc)?;
            let is_public = host.is_public(Operation::Templates) && cursor.is_none();
            let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
            Ok(Outcome { result: wire::templates_result(listing, revision, is_public), footprint, missing })
        }
        ResourceRequest::Read(uri) => {
            let encode = |contents| wire::encode_contents(contents, revision);
            let response = host.read_cached(principal, &uri, wire::encoding_form(revision), encode).await;
            let is_public = host.is_read_public(&uri);
            let response = match response {
                Ok(response) => response,
                Err(error) => return Err(Box::pin(slash::to_rpc_with_hint(host, principal, error, revision)).await),
            };
            let (result, footprint) = match response {
                ReadResponse::Contents(contents) => {
                    // An index depends on the scopes of the token, and has cursors for its principal only.
                    let is_public = is_public && !contents.iter().any(|one| one.entry.listable);
                    let footprint = contents.footprint();
                    (wire::read_result(contents, revision, is_public), footprint)
                }
                ReadResponse::Encoded { contents, .. } => {
                    (wire::cached_read_result(&contents, revision, is_public), contents.json.len())
                }
            };
            Ok(Outcome { result, footprint, missing: Vec::new() })
        }
        ResourceRequest::Complete(request) => {
            let completion = Box::pin(complete(host, principal, *request, revision)).await?;
            let footprint = completion.footprint();
            Ok(Outcome { result: wire::complete_result(completion, revision), footprint, missing: Vec::new() })
        }
        ResourceRequest::ListTools(None) => {
            let (result, footprint) = tools::list_result(&host.config().server, revision);
            Ok(Outcome { result, footprint, missing: Vec::new() })
        }
        // There is one page, so no valid cursor exists.
        ResourceRequest::ListTools(Some(_)) => Err(to_rpc(Error::InvalidCursor)),
        ResourceRequest::CallTool(call) => {
            let tools::ToolOutcome { result, footprint, missing } =
                Box::pin(tools::call(host, principal, call, revision)).await?;
            Ok(Outcome { result, footprint, missing })
        }
        ResourceRequest::Unknown(method) => Err(methods::method_not_found(host, revision, &method)),
        ResourceRequest::Extension(asked) => {
            let extensions::ExtensionOutcome { result, footprint, missing } =
                Box::pin(extensions::execute(host, principal, asked, revision)).await?;
            Ok(Outcome { result, footprint, missing })
        }
    }
}

async fn complete(
    host: &Host,
    principal: &Principal,
    request: CompleteParams,
    revision: Revision,
) -> Result<Completion, ErrorData> {
    let template = match request.template {
        Some(template) => template,
        // There are no prompts, so nothing completes an argument of one.
        None if host.config().server.advertise.contains(&AdvertisedCapability::Prompts) => {
            return Ok(Completion::default());
        }
        None => {
            let reason = "this server has no prompts; a `ref/resource` was expected";
            return Err(ErrorData::invalid_params(reason, None));
        }
    };
    let (name, value) = request.argument;
    let request = CompleteRequest {
        template: &template,
        argument: Argument { name, value },
        context: request.context.into_iter().map(|(name, value)| Argument { name, value }).collect(),
    };
    host.complete(principal, request).await.map_err(|error| to_rpc(&error, revision))
}
