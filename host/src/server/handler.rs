//! The handler behind rmcp, which has the lifecycle of connections over stdio, in every revision.
//!
//! [Requests for resources](super::resource_requests) are answered before rmcp, and do not reach it.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, DiscoverResult,
    GetPromptRequestParams, GetPromptResponse, InitializeRequestParams, InitializeResult, ListPromptsResult,
    ListToolsResult, PaginatedRequestParams, ServerConfig, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use super::client::{Client, ClientCell};
use super::client_log::ClientLog;
use super::error::to_rpc;
use super::methods;
use super::notifications::{self, SessionSubscriptions};
use super::params::InvalidParams;
use super::revision::Revision;
use super::server_info::{self, ServerInfoCache};
use super::subscription_filter;
use crate::access::Principal;
use crate::audit;
use crate::config::AdvertisedCapability;
use crate::host::Host;
use crate::resource::Error;

/// The handler of one connection.
pub(super) struct Handler {
    host: Arc<Host>,
    server_info: Arc<ServerInfoCache>,
    /// The principal of all requests.
    principal: Principal,
    log: Arc<ClientLog>,
    subscriptions: Arc<SessionSubscriptions>,
    /// Fires at graceful shutdown, which ends the streams of `subscriptions/listen`.
    shutdown: CancellationToken,
}

impl Handler {
    pub(super) fn new(
        host: Arc<Host>,
        server_info: Arc<ServerInfoCache>,
        principal: Principal,
        shutdown: CancellationToken,
    ) -> Self {
        Self { host, server_info, principal, log: Arc::default(), subscriptions: Arc::default(), shutdown }
    }

    /// Returns the principal of a request whose parameters are well-formed.
    fn authorize(&self, context: &RequestContext<RoleServer>) -> Result<&Principal, ErrorData> {
        match context.extensions.get() {
            Some(InvalidParams(reason)) => Err(ErrorData::invalid_params(reason.clone(), None)),
            None => Ok(&self.principal),
        }
    }

    /// Rejects a method that does not exist.
    fn method_not_found<T>(&self, method: &str, context: &RequestContext<RoleServer>) -> Result<T, ErrorData> {
        Err(methods::method_not_found(&self.host, revision(context), method))
    }

    /// Returns whether the method exists in that revision and this session.
    fn supports_method(&self, method: &str, revision: Revision) -> bool {
        match method {
            "resources/subscribe" | "resources/unsubscribe" => revision.has_sessions() && self.may_subscribe(),
            _ => methods::is_supported(&self.host, revision, method),
        }
    }

    /// Returns whether this session can subscribe: a plugin supports subscriptions now, or the session was offered the
    /// capability at `initialize`, which holds for the lifetime of the session, whatever a reload removes.
    fn may_subscribe(&self) -> bool {
        self.subscriptions.may_subscribe() || self.host.supports_subscriptions()
    }

    fn advertises(&self, what: AdvertisedCapability) -> bool {
        self.host.config().server.advertise.contains(&what)
    }
}

/// Returns the context of a request for the audit log.
fn audit_context(context: &RequestContext<RoleServer>) -> audit::RequestContext {
    audit::RequestContext::new(None, &context.id, context.extensions.get().copied())
}

/// Returns the revision of a request.
fn revision(context: &RequestContext<RoleServer>) -> Revision {
    Revision::negotiated(context.protocol_version().as_ref())
}

/// Runs a request until it is answered or the client cancels it. A panic is confined to the request, and answered with
/// an internal error.
async fn run_cancellable<T>(
    context: &RequestContext<RoleServer>,
    request: impl Future<Output = Result<T, Error>>,
) -> Result<T, ErrorData> {
    let request = AssertUnwindSafe(request).catch_unwind();
    tokio::select! {
        answer = request => match answer {
            Ok(answer) => answer.map_err(|error| to_rpc(&error, revision(context))),
            Err(_panic) => Err(ErrorData::internal_error("the server failed; its log says why", None)),
        },
        () = context.ct.cancelled() => Err(ErrorData::internal_error("the request was cancelled", None)),
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        (*self.server_info.current(&self.host)).clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        // This retains the re-encoded request, which is small: see `reencode`.
        context.peer.set_peer_info(request.clone());
        let agreed = self.negotiate_initialize(&request)?;
        if agreed.capabilities.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true) {
            self.subscriptions.allow_subscribe();
        }
        let revision = Revision::negotiated(Some(&agreed.protocol_version));
        if let Some(client) = context.extensions.get::<ClientCell>() {
            client.set(Client { log: self.log.clone(), peer: context.peer.clone() });
        }
        Ok(server_info::for_revision(agreed, revision))
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.authorize(&context)?;
        let about = server_info::for_revision(self.get_info(), revision(&context));
        let mut discovered = DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), about);
        discovered.cache_scope = CacheScope::Public;
        Ok(discovered)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        match self.advertises(AdvertisedCapability::Tools) {
            true => self.authorize(&context).map(|_| ListToolsResult::default()),
            false => self.method_not_found("tools/list", &context),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.advertises(AdvertisedCapability::Tools) {
            true => Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None)),
            false => self.method_not_found("tools/call", &context),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.advertises(AdvertisedCapability::Prompts) {
            true => self.authorize(&context).map(|_| ListPromptsResult::default()),
            false => self.method_not_found("prompts/list", &context),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self.advertises(AdvertisedCapability::Prompts) {
            true => Err(ErrorData::invalid_params(format!("there is no prompt {}", request.name), None)),
            false => self.method_not_found("prompts/get", &context),
        }
    }

    #[allow(deprecated, reason = "the revisions that have it are still served")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !revision(&context).has_logging() {
            return self.method_not_found("logging/setLevel", &context);
        }
        self.log.set_level(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.subscriptions.watch_listing(&self.host, &self.principal, &context.peer).await;
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.may_subscribe() {
            return self.method_not_found("resources/subscribe", &context);
        }
        let principal = self.authorize(&context)?;
        let subscribed = self.subscriptions.subscribe(&self.host, principal, &context.peer, &request.uri);
        run_cancellable(&context, pin!(audit_context(&context).scope(subscribed))).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.may_subscribe() {
            return self.method_not_found("resources/unsubscribe", &context);
        }
        self.authorize(&context)?;
        let unsubscribed = self.subscriptions.unsubscribe(&self.host, &request.uri);
        audit_context(&context).scope(unsubscribed).await.map_err(|error| to_rpc(&error, revision(&context)))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.resources_list_changed = requested.resources_list_changed;
        let uris = requested.resource_subscriptions.clone();
        accepted.resource_subscriptions = uris.map(|uris| subscription_filter::accepted_uris(&self.host, uris));
        Some(accepted)
    }

    async fn listen(&self, stream: SubscriptionContext) -> Result<(), ErrorData> {
        let principal = self.authorize(stream.request_context())?.clone();
        let (revision, context) = (revision(stream.request_context()), audit_context(stream.request_context()));
        let listening = notifications::listen(&self.host, &principal, stream, &self.shutdown);
        context.scope(listening).await.map_err(|error| to_rpc(&error, revision))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if !self.supports_method(&method, revision(&context)) {
            return self.method_not_found(&method, &context);
        }
        // rmcp passes a request whose parameters it cannot parse on as one with an unknown method.
        self.authorize(&context)?;
        Err(ErrorData::invalid_params(format!("{method}: the params make no sense"), None))
    }
}
