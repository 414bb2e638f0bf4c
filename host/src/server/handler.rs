//! One handler for every revision and both transports.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use rmcp::model::{
    CacheScope, CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
    CompletionInfo, CustomRequest, CustomResult, DiscoverResult, ErrorCode, Extensions, GetPromptRequestMethod,
    GetPromptRequestParams, GetPromptResponse, InitializeRequestParams, InitializeResult, ListPromptsRequestMethod,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsRequestMethod, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, Reference, ServerConfig,
    SetLevelRequestMethod, SubscribeRequestMethod, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestMethod, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio_util::sync::CancellationToken;

use super::about::{self, About};
use super::client_log::ClientLog;
use super::error::to_rpc;
use super::extensions::{self, Asked};
use super::live::{self, Session};
use super::params::Malformed;
use super::revision::Revision;
use super::wire;
use crate::access::Principal;
use crate::config::{Announced, Extension, Operation};
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

    /// Who asks, if what is asked makes sense.
    fn admit(&self, context: &RequestContext<RoleServer>) -> Result<Principal, ErrorData> {
        if let Some(Malformed(reason)) = beside(&context.extensions) {
            return Err(ErrorData::invalid_params(reason.clone(), None));
        }
        self.principal_of(&context.extensions)
    }

    /// Whether there is a method of that name in that revision.
    fn knows(&self, method: &str, revision: Revision) -> bool {
        match method {
            "resources/list" | "resources/templates/list" | "resources/read" | "completion/complete" => true,
            "initialize" | "ping" => revision.has_sessions(),
            "logging/setLevel" => revision.has_logging(),
            "resources/subscribe" | "resources/unsubscribe" => revision.has_sessions() && self.may_subscribe(),
            "server/discover" | "subscriptions/listen" => !revision.has_sessions(),
            "prompts/list" | "prompts/get" => self.announces(Announced::Prompts),
            "tools/list" | "tools/call" => self.announces(Announced::Tools),
            "resources/metadata" => self.offers(Extension::Sep2093),
            "resources/directory/read" | "skills/list" | "skills/get" => {
                revision.has_extensions() && self.offers(Extension::Sep2640DirectoryRead)
            }
            _ => false,
        }
    }

    /// Whether this session can subscribe: because something can be watched now, or because it was told so when it began,
    /// which stands for as long as it lasts, whatever a reload takes away.
    fn may_subscribe(&self) -> bool {
        self.session.may_subscribe() || self.host.is_watching()
    }

    fn announces(&self, what: Announced) -> bool {
        self.host.config().server.announce.contains(&what)
    }

    fn offers(&self, extension: Extension) -> bool {
        self.host.config().server.extensions.contains(&extension)
    }

    /// Answers what an extension is asked.
    async fn extended(&self, asked: Asked, context: &RequestContext<RoleServer>) -> Result<CustomResult, ErrorData> {
        let who = self.admit(context)?;
        let answer = extensions::answer(&self.host, &who, asked, revision(context));
        let answer = unless_cancelled(context, answer).await?;
        self.log.report(&context.peer, &answer.missing).await;
        Ok(CustomResult::new(answer.result))
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

/// What a transport put beside a request.
fn beside<T: Send + Sync + 'static>(extensions: &Extensions) -> Option<&T> {
    let parts = extensions.get::<axum::http::request::Parts>();
    extensions.get().or_else(|| parts.and_then(|parts| parts.extensions.get()))
}

/// The revision that the request is of.
fn revision(context: &RequestContext<RoleServer>) -> Revision {
    Revision::agreed(context.protocol_version().as_ref())
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

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let agreed = self.negotiate_initialize(&request)?;
        if agreed.capabilities.resources.as_ref().and_then(|resources| resources.subscribe) == Some(true) {
            self.session.let_subscribe();
        }
        let revision = Revision::agreed(Some(&agreed.protocol_version));
        Ok(about::in_revision(agreed, revision))
    }

    async fn discover(&self, context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        self.admit(&context)?;
        let about = about::in_revision(self.get_info(), revision(&context));
        let mut discovered = DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), about);
        discovered.cache_scope = CacheScope::Public;
        Ok(discovered)
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let who = self.admit(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let request = ListRequest { parent: None, cursor: cursor.as_deref() };
        let listing = unless_cancelled(&context, self.host.list(&who, request)).await?;
        self.log.report(&context.peer, &listing.missing).await;
        let is_public = self.host.is_same_for_all(Operation::List);
        Ok(wire::list_result(listing, revision(&context), is_public))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let who = self.admit(&context)?;
        let cursor = request.and_then(|request| request.cursor);
        let listing = unless_cancelled(&context, self.host.templates(&who, cursor.as_deref())).await?;
        self.log.report(&context.peer, &listing.missing).await;
        let is_public = self.host.is_same_for_all(Operation::Templates);
        Ok(wire::templates_result(listing, revision(&context), is_public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let who = self.admit(&context)?;
        let contents = unless_cancelled(&context, self.host.read(&who, &request.uri)).await?;
        let is_public = self.host.is_same_for_all(Operation::Read);
        Ok(wire::read_result(contents, revision(&context), is_public).into())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let who = self.admit(&context)?;
        let template = match request.r#ref {
            Reference::Resource(template) => template,
            // There are no prompts, so nothing completes an argument of one.
            _ if self.announces(Announced::Prompts) => return Ok(CompleteResult::new(CompletionInfo::default())),
            _ => {
                let reason = "this server has no prompts; a `ref/resource` was expected";
                return Err(ErrorData::invalid_params(reason, None));
            }
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
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        match self.announces(Announced::Tools) {
            true => self.admit(&context).map(|_| ListToolsResult::default()),
            false => Err(ErrorData::method_not_found::<ListToolsRequestMethod>()),
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match self.announces(Announced::Tools) {
            true => Err(ErrorData::invalid_params(format!("there is no tool {}", request.name), None)),
            false => Err(ErrorData::method_not_found::<CallToolRequestMethod>()),
        }
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        match self.announces(Announced::Prompts) {
            true => self.admit(&context).map(|_| ListPromptsResult::default()),
            false => Err(ErrorData::method_not_found::<ListPromptsRequestMethod>()),
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        match self.announces(Announced::Prompts) {
            true => Err(ErrorData::invalid_params(format!("there is no prompt {}", request.name), None)),
            false => Err(ErrorData::method_not_found::<GetPromptRequestMethod>()),
        }
    }

    #[allow(deprecated, reason = "the revisions that have it are still served")]
    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !revision(&context).has_logging() {
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
        if !self.may_subscribe() {
            return Err(ErrorData::method_not_found::<SubscribeRequestMethod>());
        }
        let who = self.admit(&context)?;
        let subscribed = self.session.subscribe(&self.host, &who, &context.peer, &request.uri);
        unless_cancelled(&context, subscribed).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if !self.may_subscribe() {
            return Err(ErrorData::method_not_found::<UnsubscribeRequestMethod>());
        }
        self.admit(&context)?;
        self.session.unsubscribe(&self.host, &request.uri).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(live::accepted(&self.host, requested))
    }

    async fn listen(&self, stream: SubscriptionContext) -> Result<(), ErrorData> {
        let who = self.admit(stream.request_context())?;
        live::listen(&self.host, &who, stream, &self.ending).await;
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let asked = beside::<Asked>(&context.extensions).cloned();
        let method = asked.as_ref().map_or(request.method, |asked| asked.method().to_owned());
        if !self.knows(&method, revision(&context)) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None));
        }
        match asked {
            Some(asked) => self.extended(asked, &context).await,
            // A request whose parameters rmcp cannot read arrives here, as if its method was unknown.
            None => {
                self.admit(&context)?;
                Err(ErrorData::invalid_params(format!("{method}: the params make no sense"), None))
            }
        }
    }
}
