//! The execution of requests, and their answers, over both transports.
//!
//! A request is executed on the task that received it. Its answer, result or error, is charged to its client
//! ([`budget`](super::budget)).
//!
//! A future has the size of its largest branch, and is moved on its way to the task. So rare and large branches are
//! boxed: the future of a read or a listing has no room for a search.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, LazyLock};

use futures::FutureExt;
use mcp_host_base::log_target;
use mcp_host_base::text::prefix;
use mcp_host_config::{AdvertisedCapability, Operation};
use mcp_host_model::caller::AccessToken;
use mcp_host_model::resource::{Argument, Completion, Error, Footprint, MissingPlugin};
use mcp_host_model::uri::MAX_URI_LEN;
use mcp_resource_host::host::CompleteRequest;
use mcp_resource_host::host::transport::ReadResponse;
use serde_json::json;
use tracing::{Instrument, Level, Span, field};

use super::budget::{self, BudgetExceeded, Charge, EXPECTED_PROTOCOL_RESPONSE_SIZE, EXPECTED_RESPONSE_SIZE, Limit};
use super::dispatch::Call;
use super::error::{self, RpcError, to_rpc, to_rpc_with_hint};
use super::extensions;
use super::json::Encoder;
use super::jsonrpc::{Rejection, RejectionStatus, RequestId, Response};
use super::method::method_not_found;
use super::params::CompleteParams;
use super::request::Request;
use super::request_context::{Outcome, RequestContext};
use super::server_info;
use super::session::Session;
use super::tools;
use super::wire;

/// The delay after which a client that exceeds its budget may retry.
const RETRY_AFTER_MS: u64 = 1000;

/// An answer, ready to be encoded and sent.
pub(super) struct Reply {
    /// The message, as JSON.
    pub(super) json: Encoder,
    /// The plugins that are missing from the answer.
    pub(super) missing: Vec<MissingPlugin>,
    /// The budget charge, held until the answer has been sent.
    pub(super) charge: Charge,
    /// The outcome, for metrics.
    pub(super) outcome: error::Outcome,
}

/// Returns the log span of a request: log events of its execution carry the trace id and, at debug level, the
/// principal, the method and the URI.
fn log_span(context: &RequestContext, method: &'static str, request: &Request) -> Span {
    let trace_id = context.trace.id().map(field::display);
    if !tracing::span_enabled!(target: log_target::SERVER, Level::DEBUG) {
        return match trace_id {
            Some(trace_id) => tracing::error_span!(target: log_target::REQUEST, "request", trace_id),
            None => Span::none(),
        };
    }
    let uri = match request {
        Request::CallTool(call) => call.name.as_deref(),
        request => request.uri(),
    };
    let principal = prefix(context.principal.name(), MAX_URI_LEN);
    tracing::debug_span!(target: log_target::SERVER, "request", principal, method, uri, trace_id)
}

/// The longest error about missing room for an answer.
static LONGEST_REFUSAL: LazyLock<RpcError> = LazyLock::new(|| {
    let too_large = Limit::ALL.map(|limit| budget_error(BudgetExceeded::TooLarge(limit), usize::MAX));
    let longest = |longest: RpcError, error| if error_len(&error) > error_len(&longest) { error } else { longest };
    too_large.into_iter().fold(budget_error(BudgetExceeded::Full, 0), longest)
});

/// Returns the length of an error as JSON.
fn error_len(error: &RpcError) -> usize {
    Response::new(RequestId::Number(0), Err(error.clone())).to_json().len()
}

/// Returns the bytes with which a request is always answered: the cost of the longest error about missing room for its
/// answer.
pub(super) fn refusal_cost(id: &RequestId) -> usize {
    budget::encoded_cost(Response::new(id.clone(), Err(LONGEST_REFUSAL.clone())).to_json().len())
}

/// Answers a request, or rejects it if there is no room even for an error. With `reserved`, of at least
/// [`refusal_cost`], there is. Cancel safe: dropping the future ends the calls of guests.
///
/// A panic is confined to the request, and answered with an internal error.
pub(super) async fn respond(
    context: &RequestContext,
    id: RequestId,
    call: Call,
    reserved: Option<Box<Charge>>,
) -> Result<Reply, Rejection> {
    let Call { method, request, revision: _ } = call;
    let beginning = success_beginning(&id);
    let mut charge = reserved.map_or_else(|| context.account.empty_charge(), |reserved| *reserved);
    let answered = match request {
        Ok(request) => {
            let span = log_span(context, method.map_or("unknown", |method| method.name), &request);
            let expected = match method.is_some_and(|method| method.is_protocol) {
                true => EXPECTED_PROTOCOL_RESPONSE_SIZE,
                false => EXPECTED_RESPONSE_SIZE,
            };
            // Boxed: each scope moves its future, which has several KiB.
            let executing = Box::pin(execute_within_budget(context, request, expected, beginning.len(), &mut charge));
            // Owned by the scope and the span, so that a dropped request is dropped within them, and the audit log has
            // its context.
            let executing = context.audit.clone().scope(executing);
            let executing = context.scopes.scope(executing);
            let executing = AccessToken::scope(context.issued_token.clone(), executing);
            let executing = context.account.client().requester(&context.principal).scope(executing);
            AssertUnwindSafe(executing.instrument(span).instrument(context.trace.span())).catch_unwind().await
        }
        Err(malformed) => {
            let reserved = reserve(&mut charge, EXPECTED_PROTOCOL_RESPONSE_SIZE).await;
            Ok(reserved.and_then(|()| Err((&malformed).into())))
        }
    };
    let error = match answered {
        Ok(Ok(Outcome { result, missing, .. })) => {
            let json = result.prepend(beginning).wrap("", "}").in_span(context.trace.encoding());
            return Ok(Reply { json, missing, charge, outcome: error::Outcome::Ok });
        }
        Ok(Err(error)) => error,
        Err(_panic) => RpcError::panicked(),
    };
    context.trace.fail(&error);
    Reply::error(id, error, charge)
}

/// Returns the beginning of a response with a result, up to the result.
fn success_beginning(id: &RequestId) -> Vec<u8> {
    // One allocation suffices, unless the id is a long text.
    let mut beginning = Vec::with_capacity(64);
    beginning.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
    // A number or a string always serializes.
    let _ = serde_json::to_writer(&mut beginning, id);
    beginning.extend_from_slice(b",\"result\":");
    beginning
}

/// Executes a request within the [budget](super::budget): `charge` is resized to `expected` bytes for the execution,
/// and then to the cost of the answer with `envelope` bytes around it. It never has fewer bytes than at the beginning.
/// After an error, it has at most what was reserved.
async fn execute_within_budget(
    context: &RequestContext,
    request: Request,
    expected: usize,
    envelope: usize,
    charge: &mut Charge,
) -> Result<Outcome, RpcError> {
    let least = charge.bytes();
    let cost = |outcome: &Outcome| budget::response_cost(outcome.footprint).saturating_add(envelope).max(least);
    reserve(charge, expected).await?;
    let outcome = execute(context, request.clone()).await?;
    let price = cost(&outcome);
    match charge.resize(price) {
        Ok(()) => return Ok(outcome),
        Err(BudgetExceeded::Full) => {}
        // The error has the reservation.
        Err(exceeded @ BudgetExceeded::TooLarge(_)) => return Err(budget_error(exceeded, price)),
    }
    // Neither the answer nor its reservation is held while waiting for room.
    drop(outcome);
    charge.reduce_to(least);
    reserve(charge, price).await?;
    let outcome = execute(context, request).await?;
    let price = cost(&outcome);
    charge.resize(price).map_err(|exceeded| budget_error(exceeded, price))?;
    Ok(outcome)
}

/// Enlarges a charge as soon as there is room.
async fn reserve(charge: &mut Charge, bytes: usize) -> Result<(), RpcError> {
    let bytes = bytes.max(charge.bytes());
    charge.resize_when_free(bytes).await.map_err(|exceeded| budget_error(exceeded, bytes))
}

/// Describes the subject of a limit, and the config key of its value.
fn describe_limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Connection => {
            "on one connection; the server's `http.limits.response-memory-per-connection` is the limit"
        }
        Limit::Client => {
            "for one client; the server's `http.limits.client-share` of `http.limits.response-memory` is the limit"
        }
        Limit::Principal => {
            "for one principal; the server's `http.limits.principal-share` of `http.limits.response-memory` is the limit"
        }
        Limit::Overall => "for all clients; the server's `http.limits.response-memory` is the limit",
    }
}

/// Returns the error for an answer that exceeds the budget.
pub(super) fn budget_error(exceeded: BudgetExceeded, price: usize) -> RpcError {
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
    RpcError::internal(message).with_data(data)
}

impl Reply {
    /// The answer of a failed request, with its charge resized to it. Without room for it, the answer is the error of
    /// the budget. Without room for that, the request is rejected with it.
    pub(super) fn error(id: RequestId, error: RpcError, mut charge: Charge) -> Result<Self, Rejection> {
        let mut outcome = error.outcome();
        let mut json = Response::new(id.clone(), Err(error)).to_json();
        let price = budget::encoded_cost(json.len());
        if let Err(exceeded) = charge.resize(price) {
            let refused = budget_error(exceeded, price);
            outcome = refused.outcome();
            json = Response::new(id.clone(), Err(refused.clone())).to_json();
            if charge.resize(budget::encoded_cost(json.len())).is_err() {
                return Err(Rejection::new(Some(id), refused).with_status(RejectionStatus::Ok));
            }
        }
        Ok(Self { json: Encoder::from_json(json), missing: Vec::new(), charge, outcome })
    }
}

/// Executes a request.
async fn execute(context: &RequestContext, request: Request) -> Result<Outcome, RpcError> {
    let RequestContext { host, config, principal, revision, session, .. } = context;
    let revision = *revision;
    let to_rpc = |error: Error| to_rpc(&error, revision);
    match request {
        Request::List(cursor) => {
            let encode = |entries| wire::encode_resources(entries, revision);
            let form = wire::encoding_form(revision);
            let was_public = host.is_public(Operation::List) && cursor.is_none();
            let listing = host.list_cached(principal, cursor.as_deref(), form, encode).await.map_err(to_rpc)?;
            let is_public = was_public && host.is_public(Operation::List);
            let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
            Ok(Outcome { result: wire::list_result(listing, revision, is_public), footprint, missing })
        }
        Request::Templates(cursor) => {
            let was_public = host.is_public(Operation::Templates) && cursor.is_none();
            let listing = Box::pin(host.templates(principal, cursor.as_deref())).await.map_err(to_rpc)?;
            let is_public = was_public && host.is_public(Operation::Templates);
            let (footprint, missing) = (listing.items.footprint(), listing.missing.clone());
            Ok(Outcome { result: wire::templates_result(listing, revision, is_public), footprint, missing })
        }
        Request::Read(uri) => {
            let encode = |contents| wire::encode_contents(contents, revision);
            // Checked before the read, and again after it, because a reload in between may have changed the rules that
            // applied to the response.
            let was_public = host.is_read_public(&uri);
            let response = host.read_cached(principal, &uri, wire::encoding_form(revision), encode).await;
            let is_public = was_public && host.is_read_public(&uri);
            let response = match response {
                Ok(response) => response,
                Err(error) => return Err(Box::pin(to_rpc_with_hint(host, principal, error, revision)).await),
            };
            Ok(match response {
                ReadResponse::Contents(contents) => {
                    // An index depends on the scopes of the token, and contains cursors for its principal only.
                    let is_public = is_public && !contents.iter().any(|one| one.entry.listable);
                    let footprint = contents.footprint();
                    Outcome::new(wire::read_result(contents, revision, is_public), footprint)
                }
                ReadResponse::Encoded { contents, .. } => {
                    Outcome::new(wire::cached_read_result(&contents, revision, is_public), contents.json.len())
                }
            })
        }
        Request::Complete(request) => {
            let completion = Box::pin(complete(context, *request)).await?;
            let footprint = completion.footprint();
            Ok(Outcome::new(wire::complete_result(completion, revision), footprint))
        }
        Request::ListTools(None) => {
            let (result, footprint) = tools::list_result(&config.server, revision);
            Ok(Outcome::new(result, footprint))
        }
        // There is only one page, so no cursor is valid.
        Request::ListTools(Some(_)) => Err(to_rpc(Error::InvalidCursor)),
        Request::CallTool(call) => Box::pin(tools::call(context, call)).await,
        Request::Extension(request) => Box::pin(extensions::execute(context, request)).await,
        Request::Unknown(method) => Err(method_not_found(host, config, principal, revision, &method)),
        Request::Ping => Ok(Outcome::small(&json!({}))),
        Request::Discover => Ok(Outcome::small(&server_info::discover(host, config, principal, revision))),
        Request::SetLevel(level) => {
            session_of(session)?.log().set_level(level);
            Ok(Outcome::small(&json!({})))
        }
        Request::Subscribe(uri) => {
            Box::pin(host.subscribe(session_of(session)?.subscriber(), &uri)).await.map_err(to_rpc)?;
            Ok(Outcome::small(&json!({})))
        }
        Request::Unsubscribe(uri) => {
            host.unsubscribe(session_of(session)?.subscriber(), &uri).map_err(to_rpc)?;
            Ok(Outcome::small(&json!({})))
        }
        // The list may be announced, but it is always empty.
        Request::ListPrompts => Ok(Outcome::small(&match revision.has_cache_hints() {
            true => json!({ "resultType": "complete", "prompts": [], "ttlMs": 0, "cacheScope": "private" }),
            false => json!({ "prompts": [] }),
        })),
        Request::GetPrompt(name) => Err(RpcError::invalid_params(format!("there is no prompt {name}"))),
        // The transport opens sessions and streams.
        Request::Initialize(_) | Request::Listen(_) => Err(RpcError::invalid_request("the request has no one answer")),
    }
}

/// Returns the session of a request that needs one. Dispatch has already rejected requests without one.
fn session_of(session: &Option<Arc<Session>>) -> Result<&Session, RpcError> {
    session.as_deref().ok_or_else(|| RpcError::invalid_request("the request is about a session"))
}

async fn complete(context: &RequestContext, request: CompleteParams) -> Result<Completion, RpcError> {
    let template = match request.template {
        Some(template) => template,
        // There are no prompts, so their arguments have no completions.
        None if context.config.server.advertise.contains(&AdvertisedCapability::Prompts) => {
            return Ok(Completion::default());
        }
        None => {
            return Err(RpcError::invalid_params("this server has no prompts; a `ref/resource` was expected"));
        }
    };
    let (name, value) = request.argument;
    let request = CompleteRequest {
        template: &template,
        argument: Argument { name, value },
        context: request.context.into_iter().map(|(name, value)| Argument { name, value }).collect(),
    };
    context.host.complete(&context.principal, request).await.map_err(|error| to_rpc(&error, context.revision))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use super::*;
    use crate::budget::{Budget, Limits};
    use crate::client_id::ClientId;

    /// An answer that exceeds a limit by itself must not be refused as one that only has to wait, because its client
    /// would send the request again and again.
    #[tokio::test]
    async fn what_is_reserved_for_a_request_has_room_for_each_refusal_of_its_answer() {
        let exceeded = Limit::ALL.map(BudgetExceeded::TooLarge).into_iter().chain([BudgetExceeded::Full]);
        for (id, exceeded) in [RequestId::Number(1), RequestId::Text("\u{1}".repeat(1024).into())]
            .iter()
            .flat_map(|id| exceeded.clone().map(move |exceeded| (id, exceeded)))
        {
            let max = refusal_cost(id);
            let limits = Limits { connection: max, client: max, principal: max, overall: max, wait: Duration::ZERO };
            let account = Budget::new(move || limits).account(ClientId::from_address(Ipv4Addr::LOCALHOST.into()));
            let charge = account.charge(max).await.unwrap();
            let error = budget_error(exceeded, usize::MAX);
            let reply = Reply::error(id.clone(), error.clone(), charge).unwrap();
            let json = String::from_utf8(reply.json.into_vec()).unwrap();
            assert!(json.contains(&*error.message), "{json}");
            assert!(reply.charge.bytes() <= max);
        }
    }
}
