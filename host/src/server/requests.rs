//! Requests for resources: what they ask, and their answers.
//!
//! They are nearly all that clients send. A request that is in order is answered here, straight from the message that came
//! in, on the task that took it; rmcp, which makes a service, two tasks and some channels for each request, does not see it.
//! rmcp has the rest: how sessions begin and end, subscriptions and streams, and whatever is not in order, which it refuses.
//! The transports decide what is in order, by the rules that rmcp has ([`super::message`], `http::standing`).
//!
//! What is asked of an [extension](super::extensions) is answered in the same way.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use rmcp::ErrorData;
use rmcp::model::{CompleteResult, CompletionInfo, CustomResult, RequestId, ServerJsonRpcMessage, ServerResult};

use super::error::to_rpc;
use super::extensions;
use super::message::{self, Kind, Message};
use super::methods;
use super::params::{Complete, Malformed, Params};
use super::revision::Revision;
use super::wire;
use crate::access::Principal;
use crate::config::{Announced, Operation};
use crate::host::{CompleteRequest, Host, ListRequest};
use crate::resource::{Argument, Error, Listing, Missing};

/// Content of so many bytes is written as JSON on a thread apart, so that other requests need not wait for it.
const LARGE: usize = 2 << 20;

/// What a request for resources asks.
#[derive(Clone, Debug)]
pub(super) enum Asked {
    /// `resources/list`, from that cursor on.
    List(Option<String>),
    /// `resources/templates/list`, from that cursor on.
    Templates(Option<String>),
    /// `resources/read` of that URI.
    Read(String),
    /// `completion/complete`.
    Complete(Box<Complete>),
    /// What an extension answers.
    Extended(extensions::Asked),
    /// A method that there is not.
    Unknown(String),
}

/// An answer that has a result.
struct Answer {
    /// Makes the result, which takes time for one of megabytes.
    result: Box<dyn FnOnce() -> ServerResult + Send>,
    /// About how many bytes it has.
    size: usize,
    /// The plugins that are missing from it.
    missing: Vec<Missing>,
}

impl Asked {
    /// What a message of that revision asks, if it is a request for resources, or of a method that there is not.
    pub(super) fn of(host: &Host, revision: Revision, message: &Message) -> Option<Result<Self, Malformed>> {
        if let Some(asked) = extensions::look(&host.config().server.extensions, revision, message) {
            return Some(asked.map(Self::Extended));
        }
        let Kind::Request { method, params, .. } = &message.kind else { return None };
        let asked = match (method.as_str(), params) {
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
            // A session that was told that it may subscribe may go on when nothing is watched any more, which it knows.
            ("resources/subscribe" | "resources/unsubscribe", _) if revision.has_sessions() => return None,
            (method, _) if methods::has(host, revision, method) => return None,
            (method, Ok(_)) => Self::Unknown(method.to_owned()),
            (_, Err(_)) => return None,
        };
        Some(Ok(asked))
    }
}

/// Answers a request for resources in the words of that revision, as JSON. Dropping the future ends the calls of guests.
///
/// A fault of the host itself stays in its request, and is answered too. With the answer comes what is missing from it.
pub(super) async fn answer(
    host: &Host,
    who: &Principal,
    id: RequestId,
    asked: Result<Asked, Malformed>,
    revision: Revision,
) -> (Vec<u8>, Vec<Missing>) {
    let answered = match asked {
        Ok(asked) => AssertUnwindSafe(ask(host, who, asked, revision)).catch_unwind().await,
        Err(Malformed(reason)) => Ok(Err(ErrorData::invalid_params(reason, None))),
    };
    let answer = match answered {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return (refusal(id, error), Vec::new()),
        Err(_panic) => return (failure(id), Vec::new()),
    };
    let Answer { result, size, missing } = answer;
    let own_id = id.clone();
    let encode = move || {
        let mut result = result();
        if !revision.has_cache_hints() {
            result.strip_result_type_for_legacy_peer();
        }
        message::to_json(&ServerJsonRpcMessage::response(result, own_id))
    };
    let json = match size < LARGE {
        true => encode(),
        false => host.aside(encode).await.unwrap_or_else(|| failure(id)),
    };
    (json, missing)
}

fn refusal(id: RequestId, error: ErrorData) -> Vec<u8> {
    message::to_json(&ServerJsonRpcMessage::error(error, Some(id)))
}

fn failure(id: RequestId) -> Vec<u8> {
    refusal(id, ErrorData::internal_error("the server failed; its log says why", None))
}

async fn ask(host: &Host, who: &Principal, asked: Asked, revision: Revision) -> Result<Answer, ErrorData> {
    let to_rpc = |error: Error| to_rpc(&error, revision);
    match asked {
        Asked::List(cursor) => {
            let request = ListRequest { parent: None, cursor: cursor.as_deref() };
            let listing = host.list(who, request).await.map_err(to_rpc)?;
            let is_public = host.is_same_for_all(Operation::List);
            Ok(Answer::merged(listing, move |listing| wire::list_result(listing, revision, is_public).into()))
        }
        Asked::Templates(cursor) => {
            let listing = host.templates(who, cursor.as_deref()).await.map_err(to_rpc)?;
            let is_public = host.is_same_for_all(Operation::Templates);
            Ok(Answer::merged(listing, move |listing| wire::templates_result(listing, revision, is_public).into()))
        }
        Asked::Read(uri) => {
            let contents = host.read(who, &uri).await.map_err(to_rpc)?;
            let is_public = host.is_same_for_all(Operation::Read);
            let size = contents.iter().map(|contents| contents.body.as_bytes().len()).sum();
            let result = move || wire::read_result(contents, revision, is_public).into();
            Ok(Answer { result: Box::new(result), size, missing: Vec::new() })
        }
        Asked::Complete(request) => {
            let completion = complete(host, who, *request, revision).await?;
            Ok(Answer { result: Box::new(|| completion.into()), size: 0, missing: Vec::new() })
        }
        Asked::Unknown(method) => Err(methods::unknown(host, revision, &method)),
        Asked::Extended(asked) => {
            let answer = extensions::answer(host, who, asked, revision).await?;
            let result = move || ServerResult::CustomResult(CustomResult::new(answer.result));
            Ok(Answer { result: Box::new(result), size: 0, missing: answer.missing })
        }
    }
}

async fn complete(
    host: &Host,
    who: &Principal,
    request: Complete,
    revision: Revision,
) -> Result<CompleteResult, ErrorData> {
    let template = match request.template {
        Some(template) => template,
        // There are no prompts, so nothing completes an argument of one.
        None if host.config().server.announce.contains(&Announced::Prompts) => {
            return Ok(CompleteResult::new(CompletionInfo::default()));
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
        known: request.known.into_iter().map(|(name, value)| Argument { name, value }).collect(),
    };
    let completion = host.complete(who, request).await.map_err(|error| to_rpc(&error, revision))?;
    Ok(wire::complete_result(completion))
}

impl Answer {
    /// A page of a merged listing.
    fn merged<T: Send + 'static>(
        listing: Listing<T>,
        result: impl FnOnce(Listing<T>) -> ServerResult + Send + 'static,
    ) -> Self {
        let missing = listing.missing.clone();
        Self { result: Box::new(|| result(listing)), size: 0, missing }
    }
}
