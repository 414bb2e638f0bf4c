//! The provider of an upstream: the functions of the contract as requests of the protocol.
//!
//! | function | request |
//! |---|---|
//! | `list` | `resources/list`, one page, whole or in parts; up to [`listings::MAX_EMPTY_PAGES`] empty pages are skipped |
//! | `templates` | `resources/templates/list`, all pages |
//! | `read` | `resources/read` |
//! | `stat` | none, if the resource was listed; else `resources/read` |
//! | `complete` | `completion/complete` |
//! | `changes` | subscriptions ([`subscriptions`](crate::subscriptions)), or polling ([`polling`](crate::polling)) |
//!
//! [`errors`] decides which details of an upstream's error a client receives. All details are logged.

mod listings;
mod survey;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use mcp_host_base::log_target;
use mcp_host_base::text::Excerpt;
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_config::Plugin;
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Outage, Page, Program, Programs, Provider, ProviderInfo, Result, Template,
    async_trait,
};
use mcp_host_model::resource::{Argument, Completion, Notice, NoticeKind};
use parking_lot::Mutex;
use rmcp::model::{
    ArgumentInfo, ClientRequest, CompleteRequest, CompleteRequestParams, CompletionContext, ListResourcesRequest,
    ReadResourceRequest, ReadResourceRequestParams, Reference,
};
use rmcp::service::ServiceError;
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use crate::answer::{self, Invalid};
use crate::ask::Asker;
use crate::connection::{ConnectError, Connector, Link};
use crate::convert;
use crate::direct::Direct;
use crate::errors;
use crate::health::Health;
use crate::http::{self, Credentials, ErrorStatus, HttpClient, Thread};
use crate::listed::{Listed, Spelling};
use crate::mapping::Mapping;
use crate::message::max_message;
use crate::polling::{Content, Key, LISTING, Poller};
use crate::subscriptions::Subscriptions;
use crate::updates::Updates;
use crate::walks::Walks;

use self::survey::Survey;
pub(crate) use self::survey::is_of_empty_server;

/// The minimum time for which a subscription is kept without a request for its changes.
const MIN_IDLE: Duration = Duration::from_secs(90);
/// The time between two lines of the log with the same reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);

/// The connector of a client, and the sender of its requests.
pub(crate) struct Opening {
    connector: Connector,
    asker: Asker,
}

impl Opening {
    /// Uses this connector. In the revision without sessions, requests are posted with `http` and these credentials.
    pub(crate) fn new(
        plugin: &Plugin,
        connector: Connector,
        http: Option<&HttpClient>,
        credentials: Credentials,
    ) -> Self {
        let runtime = connector.runtime.clone();
        let direct = Direct::new(runtime.clone(), plugin, http, credentials, connector.updates());
        Self { connector, asker: Asker::new(runtime, direct) }
    }
}

/// The client of one upstream.
pub(crate) struct UpstreamProvider {
    shared: Arc<Shared>,
    info: ProviderInfo,
    deadline: Duration,
    /// Keeps the connection open; none before the first connection.
    watch: OnceLock<AbortOnDropHandle<()>>,
    _release: AbortOnDropHandle<()>,
}

struct Shared {
    name: Arc<str>,
    connector: Connector,
    asker: Asker,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    /// Whether resources, and the listing, are polled if the upstream does not notify of their changes.
    polls: bool,
    idle: Duration,
    max_items: usize,
    /// The maximum number of bytes of all templates.
    max_bytes: usize,
    listed: Mutex<Listed>,
    /// The upstream's templates, by their path templates.
    templates: Mutex<Option<HashMap<String, String>>>,
    traversals: AtomicU64,
    walks: Walks,
    subscriptions: tokio::sync::Mutex<Subscriptions>,
    poller: Poller,
    /// The time of the host's last request for changes; none if nothing is watched any more.
    asked_at: Mutex<Option<Instant>>,
    /// Notified when nothing is watched any more.
    released: Notify,
    survey: Mutex<Survey>,
    log: ThrottlePerReason,
}

impl UpstreamProvider {
    /// Opens the first connection.
    pub(crate) async fn start(plugin: &Plugin, opening: Opening) -> std::result::Result<Self, ConnectError> {
        let link = opening.connector.link().await?;
        let polls = plugin.upstream.as_ref().is_some_and(|upstream| upstream.poll);
        let info = describe(&link, polls);
        let provider = Self::new(NonZeroUsize::MIN, plugin, opening, info);
        provider.keep_open();
        Ok(provider)
    }

    /// Creates one of several clients of a server, without a connection.
    pub(crate) fn one_of(clients: NonZeroUsize, plugin: &Plugin, opening: Opening) -> Self {
        Self::new(clients, plugin, opening, ProviderInfo::default())
    }

    fn new(clients: NonZeroUsize, plugin: &Plugin, opening: Opening, info: ProviderInfo) -> Self {
        let Opening { connector, asker } = opening;
        let polls = plugin.upstream.as_ref().is_some_and(|upstream| upstream.poll);
        let name: Arc<str> = plugin.name.as_str().into();
        let idle = plugin.watch_interval.duration().saturating_mul(3).max(MIN_IDLE);
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX).div_euclid(clients.get());
        let (mapping, updates) = (connector.mapping().clone(), connector.updates().clone());
        let runtime = connector.runtime.clone();
        let (deadline, poll_updates) = (plugin.limits.deadline.duration(), updates.clone());
        let subscriptions =
            Subscriptions::new(name.clone(), mapping.clone(), updates.clone(), runtime.clone(), idle, deadline);
        let shared = Arc::new(Shared {
            name,
            connector,
            mapping,
            updates,
            polls,
            idle,
            max_items: plugin.limits.response_items.get(),
            max_bytes: max_message(&plugin.limits),
            listed: Mutex::new(Listed::new(memory.div_euclid(2))),
            walks: Walks::new(asker.clone(), deadline, memory, max_message(&plugin.limits)),
            asker,
            templates: Mutex::default(),
            traversals: AtomicU64::new(fastrand::u64(..u64::MAX / 2)),
            subscriptions: tokio::sync::Mutex::new(subscriptions),
            poller: Poller::new(runtime.clone(), poll_updates, deadline),
            asked_at: Mutex::new(Some(Instant::now())),
            released: Notify::new(),
            survey: Mutex::default(),
            log: ThrottlePerReason::new(LOG_PERIOD),
        });
        let _release = AbortOnDropHandle::new(runtime.spawn(release_when_idle(shared.clone())));
        Self { shared, info, deadline, watch: OnceLock::new(), _release }
    }

    /// Connects. Returns the server's description of itself, and whether its changes can be watched. From then on the
    /// connection is kept open.
    pub(crate) async fn connect(&self) -> std::result::Result<ProviderInfo, ConnectError> {
        let link = self.shared.connector.link().await?;
        self.keep_open();
        Ok(describe(&link, self.shared.polls))
    }

    /// Cancels the subscriptions at the upstream, because nothing is watched any more.
    pub(crate) fn release(&self) {
        *self.shared.asked_at.lock() = None;
        self.shared.released.notify_one();
    }

    fn keep_open(&self) {
        self.watch.get_or_init(|| self.shared.connector.watch());
    }

    /// Returns the status of the program, if the upstream is a program that was started.
    pub(crate) fn program(&self) -> Option<Program> {
        self.shared.connector.program()
    }

    /// Returns whether changes of the listing can be reported. True while there is no connection, because it is not
    /// known then.
    pub(crate) fn watches_listing(&self) -> bool {
        let is_read_again = |link: &Link| self.shared.polls && !link.can_subscribe();
        let link = self.shared.connector.open_link();
        link.is_none_or(|link| link.notifies_of_listing() || is_read_again(&link))
    }

    pub(crate) fn health(&self) -> &Health {
        self.shared.connector.health()
    }

    /// Lists the first page, within the deadline of a call.
    pub(crate) async fn try_listing(&self) -> std::result::Result<(), String> {
        match tokio::time::timeout(self.deadline, self.shared.list(None, usize::MAX)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(failure)) => Err(format!("its listing fails: {failure}")),
            Err(_) => Err(format!("its listing is not answered within `limits.deadline` ({:?})", self.deadline)),
        }
    }
}

/// Cancels the reads of the poller, which share the client's state.
impl Drop for UpstreamProvider {
    fn drop(&mut self) {
        self.shared.poller.stop();
    }
}

/// Cancels the subscriptions when nothing is watched any more.
async fn release_when_idle(shared: Arc<Shared>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(shared.idle.div_f64(2.0)) => {}
            () = shared.released.notified() => {}
        }
        let mut subscriptions = shared.subscriptions.lock().await;
        let asked_at = *shared.asked_at.lock();
        if asked_at.is_none() {
            // Without a connection, the host may be waiting for a failed upstream. It finds the changes after the
            // recovery.
            shared.poller.forget();
        }
        let is_idle = asked_at.is_none_or(|at| at.elapsed() >= shared.idle);
        if is_idle && !subscriptions.is_empty() {
            let link = shared.connector.open_link();
            subscriptions.release(link.as_ref());
        }
    }
}

/// Returns the server's description of itself. With `polls`, changes are detected by polling if it does not notify of
/// them.
fn describe(link: &Link, polls: bool) -> ProviderInfo {
    let server = link.info.server_info.as_ref();
    let mut info = ProviderInfo::new(
        server.map(|server| server.name.clone()).unwrap_or_default(),
        server.map(|server| server.version.clone()).unwrap_or_default(),
    );
    info.title = server.and_then(|server| server.title.clone());
    info.description = link.info.instructions.clone();
    info.watches(link.can_subscribe() || link.notifies_of_listing() || polls)
}

#[async_trait]
impl Provider for UpstreamProvider {
    fn describe(&self) -> ProviderInfo {
        self.info.clone()
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, limit: usize) -> Result<Page> {
        match parent {
            Some(_) => Err(Failure::invalid("resources of an upstream have no children")),
            None => self.shared.list(cursor, limit).await,
        }
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        self.shared.read(path).await
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.shared.stat(path).await
    }

    async fn templates(&self) -> Result<Vec<Template>> {
        self.shared.templates().await
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        self.shared.complete(template, argument, context).await
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        self.shared.changes(watched, since).await
    }

    async fn changed(&self) {
        self.shared.updates.recorded().await;
    }

    fn outage(&self) -> Option<Outage> {
        self.health().outage()
    }

    fn memory(&self) -> Option<u64> {
        self.shared.connector.memory()
    }

    fn reset(&self) {
        self.shared.connector.reset();
    }

    fn programs(&self) -> Option<Programs> {
        self.program().map(|program| self.shared.connector.ledger().programs(vec![program]))
    }

    async fn check(&self) -> std::result::Result<Vec<String>, String> {
        Ok(tokio::time::timeout(self.deadline, self.shared.warnings()).await.unwrap_or_default())
    }
}

impl Shared {
    /// Returns the upstream's URI of a path: as listed, else in canonical form. A path that was neither listed nor is
    /// in canonical form is not found.
    fn spelling(&self, path: &str) -> Result<String> {
        match self.listed.lock().spelling(path) {
            Spelling::Listed(spelling) => Ok(spelling.to_owned()),
            Spelling::Canonical => Ok(self.mapping.uri(path)),
            Spelling::Unlisted if self.mapping.is_requestable(path) => Ok(self.mapping.uri(path)),
            Spelling::Unlisted | Spelling::Ambiguous => Err(Failure::NotFound),
        }
    }

    /// Sends a request, and returns the text of its result.
    async fn ask(&self, link: &Link, request: ClientRequest) -> std::result::Result<String, ServiceError> {
        let answer = self.asker.ask(link, request, Thread::OfCall).await;
        if matches!(answer, Ok(_) | Err(ServiceError::McpError(_) | ServiceError::UnexpectedResponse)) {
            self.connector.health().answered();
        }
        answer
    }

    async fn request_reading(&self, link: &Link, path: &str, spelling: &str) -> Result<String> {
        let request = ReadResourceRequest::new(ReadResourceRequestParams::new(spelling));
        let answer = self.ask(link, ClientRequest::ReadResourceRequest(request)).await;
        answer.map_err(|error| self.failure(link, error, Some(path)))
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let spelling = self.spelling(path)?;
        let link = self.connector.link_for_call().await?;
        let text = self.request_reading(&link, path, &spelling).await?;
        let result = answer::list::<answer::Contents<'_>>(&text, self.max_items).map_err(unexpected)?;
        let asks = || Failure::denied("the upstream requests input of its user, which the host does not support");
        let items = result.items.ok_or_else(asks)?;
        let mut contents = Vec::with_capacity(items.len());
        let count = items.len();
        for one in items {
            let of = if one.uri == spelling { Some(path.to_owned()) } else { self.path("read", &one.uri) };
            let Some(of) = of else { continue };
            let known = self.listed.lock().entry(&of).cloned();
            let mut entry = known.unwrap_or_else(|| Entry::new(of, ""));
            entry.ttl = result.ttl;
            entry.subscribable = self.polls || link.can_subscribe();
            contents.push(convert::contents(one, entry).map_err(Failure::internal)?);
        }
        let left_out = count.saturating_sub(contents.len());
        let noticed = contents.iter().position(|one| one.entry.path == path).unwrap_or_default();
        match contents.get_mut(noticed) {
            Some(noticed) if left_out > 0 => {
                // Without the URIs, which rules cannot judge.
                let text =
                    format!("{left_out} of {count} contents of the upstream are left out: their URIs cannot be mapped");
                let notice = Notice::new(NoticeKind::Incomplete, text);
                noticed.entry.meta = Some(convert::with_notice(noticed.entry.meta.take(), notice));
                Ok(contents)
            }
            Some(_) => Ok(contents),
            None if count == 0 => Err(Failure::NotFound),
            None => Err(Failure::internal("all contents have URIs that cannot be mapped")),
        }
    }

    async fn stat(&self, path: &str) -> Result<Entry> {
        self.spelling(path)?;
        if let Some(entry) = self.listed.lock().entry(path) {
            return Ok(entry.clone());
        }
        // The protocol has no other way to learn whether it exists.
        let contents = self.read(path).await?;
        let found = contents.into_iter().find(|contents| contents.entry.path == path);
        let mut entry = found.map(|contents| contents.entry).ok_or(Failure::NotFound)?;
        entry.meta = None;
        Ok(entry)
    }

    async fn complete(&self, template: &str, argument: &Argument, context: &[Argument]) -> Result<Completion> {
        let known = |templates: &Option<HashMap<String, String>>| templates.as_ref()?.get(template).cloned();
        let mut spelling = known(&self.templates.lock());
        if spelling.is_none() {
            self.templates().await?;
            spelling = known(&self.templates.lock());
        }
        let spelling = spelling.ok_or_else(|| Failure::invalid("the upstream has no such template"))?;
        let link = self.connector.link_for_call().await?;
        if !link.completes() {
            return Ok(Completion::default());
        }
        let info = ArgumentInfo::new(argument.name.clone(), argument.value.clone());
        let mut params = CompleteRequestParams::new(Reference::for_resource(spelling), info);
        if !context.is_empty() {
            let known = context.iter().map(|argument| (argument.name.clone(), argument.value.clone())).collect();
            params = params.with_context(CompletionContext::with_arguments(known));
        }
        let answer = self.ask(&link, ClientRequest::CompleteRequest(CompleteRequest::new(params))).await;
        let text = answer.map_err(|error| self.failure(&link, error, None))?;
        let completion = answer::completion(&text).map_err(unexpected)?;
        let count = completion.values.len();
        let values = self.requestable(completion.values, template, argument, context);
        let is_whole = values.len() == count;
        Ok(Completion {
            values,
            total: completion.total.filter(|_| is_whole),
            has_more: completion.has_more.unwrap_or_default() && is_whole,
        })
    }

    /// Returns the values whose expansion of the template can be requested. For the others, rules would apply to
    /// another spelling.
    fn requestable(
        &self,
        values: Vec<String>,
        template: &str,
        argument: &Argument,
        context: &[Argument],
    ) -> Vec<String> {
        let Some(template) = self.mapping.host_template(template) else { return Vec::new() };
        let leads_to = |value: &str| {
            let named = context.iter().map(|one| (one.name.as_str(), one.value.as_str()));
            let mut named: BTreeMap<_, _> = named.collect();
            named.insert(&argument.name, value);
            self.mapping.expand(&template, &named)
        };
        let is_requestable = |value: &String| leads_to(value).is_some_and(|path| self.spelling(&path).is_ok());
        values.into_iter().filter(is_requestable).collect()
    }

    async fn changes(self: &Arc<Self>, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        *self.asked_at.lock() = Some(Instant::now());
        let link = self.connector.link_for_call().await?;
        let spelled: Vec<_> =
            watched.iter().filter_map(|path| Some((path.clone(), self.spelling(path).ok()?))).collect();
        if self.polls && !link.can_subscribe() {
            self.updates.watch(watched.iter().map(String::as_str));
            self.poll(&link, &spelled).await;
        }
        self.subscriptions.lock().await.hold(&link, spelled).await;
        Ok(self.updates.since(watched, since))
    }

    /// Polls the watched resources, and the first page of the listing unless the upstream notifies of it.
    async fn poll(self: &Arc<Self>, link: &Arc<Link>, watched: &[(String, String)]) {
        let keys = watched.iter().map(|(path, _)| Some(path.clone()));
        let keys = keys.chain((!link.notifies_of_listing()).then_some(LISTING));
        let spellings: HashMap<&str, &str> =
            watched.iter().map(|(path, spelling)| (path.as_str(), spelling.as_str())).collect();
        let read = |key: &Key| {
            let (shared, link) = (self.clone(), link.clone());
            let of = key.as_ref().and_then(|path| Some((path.clone(), (*spellings.get(path.as_str())?).to_owned())));
            async move {
                match of {
                    Some((path, spelling)) => Content::of(shared.request_reading(&link, &path, &spelling).await?).await,
                    None => {
                        let request = ListResourcesRequest {
                            method: Default::default(),
                            params: None,
                            extensions: Default::default(),
                        };
                        let answer = shared.ask(&link, ClientRequest::ListResourcesRequest(request)).await;
                        Content::of(answer.map_err(|error| shared.failure(&link, error, None))?).await
                    }
                }
            }
            .boxed()
        };
        self.poller.poll(keys, self.idle, read).await;
    }

    /// Returns the path of a URI of the upstream. A URI that cannot be mapped is logged.
    fn path(&self, what: &'static str, uri: &str) -> Option<String> {
        self.mapping.path(uri).inspect_err(|error| self.tell(what, uri, &format!("it cannot be mapped: {error}"))).ok()
    }

    /// Logs that a URI was dropped.
    fn tell(&self, reason: &'static str, uri: &str, why: &str) {
        if let Some(more) = self.log.record(reason) {
            let uri = Excerpt(uri).to_string();
            tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, uri, why, more, "a URI of the upstream was dropped");
        }
    }

    /// Logs that items of a listing were dropped.
    fn tell_invalid(&self, what: &'static str, invalid: Option<Invalid>) {
        let Some(Invalid { count, first, error }) = invalid else { return };
        if let Some(more) = self.log.record(what) {
            let (item, error) = (Excerpt(&first).to_string(), Excerpt(&error).to_string());
            tracing::warn!(target: log_target::PLUGIN, plugin = &*self.name, count, item, error, more, "a listed {what} of the upstream is invalid, and was dropped");
        }
    }

    /// Returns the failure of a request. A failed connection is dropped. If only the exchange of this request failed,
    /// the connection is checked first: the server may fail on this request alone, and others use the connection.
    fn failure(&self, link: &Link, error: ServiceError, requested: Option<&str>) -> Failure {
        match error {
            ServiceError::McpError(error) => errors::failure(&self.mapping, &error, requested),
            ServiceError::UnexpectedResponse => unexpected("no result"),
            error => {
                let refuses = error.auth_challenge().is_some();
                let is_answered = refuses || http::is_answered(&error);
                tracing::debug!(target: log_target::PLUGIN, plugin = &*self.name, %error, "a request to the upstream failed");
                if let Some(ErrorStatus { status, retry_after }) = http::error_status(&error) {
                    let reason = format!("the upstream responded with status {status}");
                    return Failure::Unavailable { reason, retry_after };
                }
                if is_answered {
                    let why = if refuses { "refuses the credentials of the host" } else { "violates the protocol" };
                    return Failure::unavailable(format!("the upstream {why}"));
                }
                match http::is_of_one_exchange(&error) {
                    true => self.connector.doubt(link),
                    false => self.connector.fail(link),
                }
                Failure::unavailable("the connection to the upstream failed")
            }
        }
    }
}

/// Returns the failure of a request whose answer has the wrong type.
fn unexpected(error: impl std::fmt::Display) -> Failure {
    Failure::internal(format!("the response of the upstream does not match the request: {error}"))
}
