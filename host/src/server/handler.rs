//! One handler for every revision and both transports.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, ErrorCode, Extensions,
    ListPromptsRequestMethod, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListToolsRequestMethod, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, Reference, ServerConfig, SetLevelRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use super::about::About;
use super::client_log::ClientLog;
use super::error::to_rpc;
use super::live::{self, Session};
use super::wire;
use crate::access::Principal;
use crate::host::{CompleteRequest, Host, ListRequest};
use crate::resource::{Argument, Error};

/// Which transport a handler is behind, and so how it knows who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Face {
    /// The client started this process: it is `local`.
    Stdio,
    /// The HTTP layer says who asks, anew with each request.
    Http,
}

/// Answers MCP requests. One for each session, or for each request where there are no sessions.
pub(super) struct Handler {
    host: Arc<Host>,
    about: Arc<About>,
    face: Face,
    log: ClientLog,
    session: Session,
    /// Fires when the server is to end: streams that a client waits on end then.
    ending: CancellationToken,
}

impl Handler {
    pub(super) fn new(host: Arc<Host>, about: Arc<About>, face: Face, ending: CancellationToken) -> Self {
        Self { host, about, face, log: ClientLog::default(), session: Session::default(), ending }
    }

    fn principal(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        self.principal_of(&context.extensions)
    }

    fn principal_of(&self, extensions: &Extensions) -> Result<Principal, ErrorData> {
        match self.face {
            Face::Stdio => Ok(Principal::LOCAL),
            Face::Http => extensions
                .get::<axum::http::request::Parts>()
                .and_then(|parts| parts.extensions.get::<Principal>())
                .cloned()
                .ok_or_else(|| ErrorData::internal_error("the request has no principal", None)),
        }
    }
}

/// Whether the request is of revision 2026-07-28 or later, which have no sessions.
fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Runs a request until it is answered or the client cancels it; the guest's call ends with it. A fault of the host itself
/// stays in its request, and is answered too.
async fn unless_cancelled<T>(
    context: &RequestContext<RoleServer>,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, ErrorData> {
    let request = AssertUnwindSafe(request).catch_unwind();
    tokio::select! {
        answer = request => match answer {
            Ok(answer) => answer.map_err(|error| to_rpc(&error)),
            Err(_panic) => Err(ErrorData::internal_error("the server failed; its log says why", None)),
        },
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        (*self.about.now(&self.host)).clone()
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let who = self.principal(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let request = ListRequest { parent: None, cursor: cursor.as_deref() };
        let listing = unless_cancelled(&context, self.host.list(&who, request)).await?;
        self.log.report(&context.peer, &listing.missing).await;
        Ok(wire::list_result(listing))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let who = self.principal(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let listing = unless_cancelled(&context, self.host.templates(&who, cursor.as_deref())).await?;
        self.log.report(&context.peer, &listing.missing).await;
        Ok(wire::templates_result(listing))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let who = self.principal(&context)?;
        let contents = unless_cancelled(&context, self.host.read(&who, &request.uri)).await?;
        let ttl_ms = wire::ttl_ms(&contents);
        let result = wire::read_result(contents);
        // Hints for caches came with revision 2026-07-28. What one principal may read, another may not: never public.
        Ok(match is_stateless(&context) {
            true => result.with_ttl_ms(ttl_ms).with_cache_scope(CacheScope::Private).into(),
            false => result.into(),
        })
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let who = self.principal(&context)?;
        let Reference::Resource(template) = request.r#ref else {
            return Err(ErrorData::invalid_params("this server has no prompts; a `ref/resource` was expected", None));
        };
        let known = request.context.and_then(|context| context.arguments).unwrap_or_default();
        let request = CompleteRequest {
            template: &template.uri,
            argument: Argument { name: request.argument.name, value: request.argument.value },
            known: known.into_iter().map(|(name, value)| Argument { name, value }).collect(),
        };
        let completion = unless_cancelled(&context, self.host.complete(&who, request)).await?;
        Ok(wire::complete_result(completion))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListToolsRequestMethod>())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    #[allow(deprecated, reason = "the revisions that have it are still served")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Revision 2026-07-28 has no sessions that a level could belong to, and removed the method.
        if context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
        {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        self.log.set_level(&request);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if let Ok(who) = self.principal_of(&context.extensions) {
            self.session.watch_listing(&self.host, &who, &context.peer).await;
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let who = self.principal(&context)?;
        let subscribed = self.session.subscribe(&self.host, &who, &context.peer, &request.uri);
        unless_cancelled(&context, subscribed).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.session.unsubscribe(&self.host, &request.uri).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(live::accepted(&self.host, requested))
    }

    async fn listen(&self, stream: SubscriptionContext) -> Result<(), ErrorData> {
        let who = self.principal(stream.request_context())?;
        live::listen(&self.host, &who, stream, &self.ending).await;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        // A request whose parameters rmcp cannot read arrives here, as if its method was unknown.
        let method = request.method.as_str();
        let message = match method {
            "resources/read" => "expected params `{\"uri\": string}`",
            "completion/complete" => {
                "expected params `{\"ref\": {\"type\": \"ref/resource\", \"uri\": string}, \"argument\": {\"name\": string, \
                 \"value\": string}}`"
            }
            "logging/setLevel" => {
                "expected params `{\"level\": string}`, one of debug, info, notice, warning, error, critical, alert, emergency"
            }
            "resources/subscribe" | "resources/unsubscribe" => "expected params `{\"uri\": string}`",
            "resources/list" | "resources/templates/list" => "expected params `{\"cursor\"?: string}`",
            "initialize" => {
                "expected params `{\"protocolVersion\": string, \"capabilities\": object, \"clientInfo\": object}`"
            }
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method.to_owned(), None)),
        };
        Err(ErrorData::invalid_params(format!("{method}: {message}"), None))
    }
}
