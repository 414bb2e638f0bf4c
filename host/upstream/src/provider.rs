//! The provider of an upstream: the functions of the contract as requests of the protocol.
//!
//! | function | request |
//! |---|---|
//! | `list` | `resources/list`, a page for a page; up to [`MAX_EMPTY_PAGES`] pages without entries are passed over |
//! | `templates` | `resources/templates/list`, all pages |
//! | `read` | `resources/read` |
//! | `stat` | none, if the resource was listed; else `resources/read` |
//! | `complete` | `completion/complete` |
//! | `changes` | subscriptions ([`subscriptions`](crate::subscriptions)), or readings ([`polling`](crate::polling)) |
//!
//! An error of the upstream says what a client may see: that a resource does not exist, and that a request is invalid, without a text that
//! has a URI of the upstream in it. Everything else is logged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use mcp_host_base::log_target;
use mcp_host_base::text::{Excerpt, truncate};
use mcp_host_base::throttle::ThrottlePerReason;
use mcp_host_config::Plugin;
use mcp_host_model::provider::{
    ChangeSet, Contents, Entry, Failure, Page, Provider, ProviderInfo, Result, Template, async_trait,
};
use mcp_host_model::resource::{Argument, Completion};
use parking_lot::Mutex;
use rmcp::model::{
    ArgumentInfo, CompleteRequestParams, CompletionContext, ErrorCode, ErrorData, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
};
use rmcp::service::ServiceError;
use tokio_util::task::AbortOnDropHandle;

use crate::connection::{ConnectError, Connector, Link};
use crate::convert;
use crate::cursor::{CursorFault, PageCursor};
use crate::http;
use crate::listed::{Listed, Verdict};
use crate::mapping::Mapping;
use crate::polling::Readings;
use crate::subscriptions::Subscriptions;
use crate::updates::Updates;

/// The pages without entries that one call passes over.
const MAX_EMPTY_PAGES: usize = 16;
/// The pages of templates.
const MAX_TEMPLATE_PAGES: usize = 1000;
/// The readings of watched resources that are under way at once.
const MAX_READINGS: usize = 4;
/// The shortest time for which a subscription is held that nobody asks for.
const MIN_IDLE: Duration = Duration::from_secs(90);
/// The time between two lines of the log with the same reason.
const LOG_PERIOD: Duration = Duration::from_secs(60);
/// The bytes of a message of an upstream that a client may see.
const MAX_MESSAGE: usize = 512;
/// The key of the listing among the readings: no path.
const LISTING: &str = "";

/// The client of one upstream.
pub(crate) struct UpstreamProvider {
    shared: Arc<Shared>,
    info: ProviderInfo,
    _release: AbortOnDropHandle<()>,
}

struct Shared {
    name: Arc<str>,
    connector: Connector,
    mapping: Arc<Mapping>,
    updates: Arc<Updates>,
    polls: bool,
    idle: Duration,
    max_items: usize,
    listed: Mutex<Listed>,
    /// The upstream's templates, by their path templates.
    templates: Mutex<Option<HashMap<String, String>>>,
    traversals: AtomicU64,
    subscriptions: tokio::sync::Mutex<Subscriptions>,
    readings: Mutex<Readings>,
    asked_at: Mutex<Instant>,
    log: ThrottlePerReason,
}

impl UpstreamProvider {
    /// Opens the first connection.
    pub(crate) async fn start(plugin: &Plugin, connector: Connector) -> std::result::Result<Self, ConnectError> {
        let link = connector.link().await?;
        let polls = plugin.upstream.as_ref().is_some_and(|upstream| upstream.poll);
        let watches = link.can_subscribe() || link.notifies_of_listing() || polls;
        Ok(Self::new(plugin, connector, describe(&link).watches(watches)))
    }

    /// A client that has no connection yet, of a server with that description.
    pub(crate) fn new(plugin: &Plugin, connector: Connector, info: ProviderInfo) -> Self {
        let polls = plugin.upstream.as_ref().is_some_and(|upstream| upstream.poll);
        let name: Arc<str> = plugin.name.as_str().into();
        let idle = plugin.watch_interval.duration().saturating_mul(3).max(MIN_IDLE);
        let memory = usize::try_from(plugin.limits.memory.bytes()).unwrap_or(usize::MAX);
        let (mapping, updates) = (connector.mapping().clone(), connector.updates().clone());
        let runtime = connector.runtime.clone();
        let subscriptions = Subscriptions::new(name.clone(), mapping.clone(), updates.clone(), runtime.clone(), idle);
        let shared = Arc::new(Shared {
            name,
            connector,
            mapping,
            updates,
            polls,
            idle,
            max_items: plugin.limits.response_items.get(),
            listed: Mutex::new(Listed::new(memory.div_euclid(2))),
            templates: Mutex::default(),
            traversals: AtomicU64::new(fastrand::u64(..u64::MAX / 2)),
            subscriptions: tokio::sync::Mutex::new(subscriptions),
            readings: Mutex::default(),
            asked_at: Mutex::new(Instant::now()),
            log: ThrottlePerReason::new(LOG_PERIOD),
        });
        let _release = AbortOnDropHandle::new(runtime.spawn(release_when_idle(shared.clone())));
        Self { shared, info, _release }
    }

    /// Connects, and returns what the server says of itself.
    pub(crate) async fn connect(&self) -> std::result::Result<ProviderInfo, ConnectError> {
        Ok(describe(&*self.shared.connector.link().await?))
    }
}

/// Gives up the subscriptions when nobody watches any more.
async fn release_when_idle(shared: Arc<Shared>) {
    loop {
        tokio::time::sleep(shared.idle.div_f64(2.0)).await;
        let mut subscriptions = shared.subscriptions.lock().await;
        let is_idle = shared.asked_at.lock().elapsed() >= shared.idle;
        if is_idle && !subscriptions.is_empty() {
            let link = shared.connector.open_link();
            subscriptions.release(link.as_ref()).await;
        }
    }
}

fn describe(link: &Link) -> ProviderInfo {
    let server = link.info.server_info.as_ref();
    let mut info = ProviderInfo::new(
        server.map(|server| server.name.clone()).unwrap_or_default(),
        server.map(|server| server.version.clone()).unwrap_or_default(),
    );
    info.title = server.and_then(|server| server.title.clone());
    info.description = link.info.instructions.clone();
    info
}

#[async_trait]
impl Provider for UpstreamProvider {
    fn describe(&self) -> ProviderInfo {
        self.info.clone()
    }

    async fn list(&self, parent: Option<&str>, cursor: Option<&str>, _limit: usize) -> Result<Page> {
        match parent {
            Some(_) => Err(Failure::invalid("resources of an upstream have no children")),
            None => self.shared.list(cursor).await,
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
}

impl Shared {
    /// The upstream's URI of a path: as it was listed, else in normal form.
    fn spelling(&self, path: &str) -> Result<String> {
        match self.listed.lock().spelling(path) {
            Ok(Some(spelling)) => Ok(spelling.to_owned()),
            Ok(None) => Ok(self.mapping.uri(path)),
            Err(()) => Err(Failure::NotFound),
        }
    }

    async fn list(&self, cursor: Option<&str>) -> Result<Page> {
        let mut at = match cursor {
            None => None,
            Some(text) => {
                let cursor = PageCursor::decode(text);
                Some(cursor.ok_or_else(|| Failure::invalid("the cursor is none of this listing"))?)
            }
        };
        let new_traversal = || self.traversals.fetch_add(1, Ordering::Relaxed);
        let traversal = at.as_ref().map_or_else(new_traversal, |at| at.traversal);
        let link = self.connector.link_for_call().await?;
        if !link.has_resources() {
            return Ok(Page::last([]));
        }
        for _ in 0..MAX_EMPTY_PAGES {
            let params = at.as_ref().map(|at| PaginatedRequestParams::default().with_cursor(Some(at.upstream.clone())));
            let page = match link.peer.list_resources(params).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(Page::last([]));
                }
                Err(error) => return Err(self.failure(&link, error, None)),
            };
            at = next_cursor(at.as_ref(), traversal, page.next_cursor)?;
            let ttl = convert::ttl(page.ttl_ms, page.cache_scope);
            let mut listed = self.listed.lock();
            let entries = page.resources.into_iter().filter_map(|resource| {
                let spelling = resource.uri.clone();
                let path = self.path("listed", &spelling)?;
                let entry = convert::entry(resource, path, ttl, self.polls || link.can_subscribe());
                match listed.record(&entry, &self.mapping.uri(&entry.path), &spelling, traversal) {
                    Verdict::Keep => Some(entry),
                    Verdict::Ambiguous => {
                        self.tell("spelled twice", &spelling, "it is listed in two spellings, and both are dropped");
                        None
                    }
                    Verdict::NoRoom => {
                        self.tell(
                            "no room",
                            &spelling,
                            "`limits.memory` has no room for its spelling, and it is dropped",
                        );
                        None
                    }
                }
            });
            let entries: Vec<_> = entries.collect();
            if at.is_none() {
                listed.finish(traversal);
            }
            if at.is_none() || !entries.is_empty() {
                return Ok(Page { entries, next_cursor: at.map(|at| at.encode()) });
            }
        }
        // The host goes on from here.
        Ok(Page { entries: Vec::new(), next_cursor: at.map(|at| at.encode()) })
    }

    async fn request_reading(&self, link: &Link, path: &str, spelling: &str) -> Result<ReadResourceResult> {
        let answer = link.peer.read_resource_once(ReadResourceRequestParams::new(spelling)).await;
        match answer.map_err(|error| self.failure(link, error, Some((path, spelling))))? {
            ReadResourceResponse::Complete(result) => Ok(result),
            _ => Err(Failure::denied("the upstream asks for input of its user, which the host does not give")),
        }
    }

    async fn read(&self, path: &str) -> Result<Vec<Contents>> {
        let spelling = self.spelling(path)?;
        let link = self.connector.link_for_call().await?;
        let result = self.request_reading(&link, path, &spelling).await?;
        let ttl = convert::ttl(result.ttl_ms, result.cache_scope);
        let mut contents = Vec::with_capacity(result.contents.len());
        let is_empty = result.contents.is_empty();
        for one in result.contents {
            let uri = convert::uri_of(&one);
            let of = if uri == spelling { Some(path.to_owned()) } else { self.path("read", uri) };
            let Some(of) = of else { continue };
            let known = self.listed.lock().entry(&of).cloned();
            let mut entry = known.unwrap_or_else(|| Entry::new(of, ""));
            entry.ttl = ttl;
            entry.subscribable = self.polls || link.can_subscribe();
            contents.push(convert::contents(one, entry).map_err(Failure::internal)?);
        }
        match (contents.is_empty(), is_empty) {
            (false, _) => Ok(contents),
            (true, true) => Err(Failure::NotFound),
            (true, false) => Err(Failure::internal("all contents have URIs that cannot be mapped")),
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

    async fn templates(&self) -> Result<Vec<Template>> {
        let link = self.connector.link_for_call().await?;
        let (mut templates, mut by_path, mut at) = (Vec::new(), HashMap::new(), None::<PageCursor>);
        if !link.has_resources() {
            return Ok(templates);
        }
        for _ in 0..MAX_TEMPLATE_PAGES {
            let params = at.as_ref().map(|at| PaginatedRequestParams::default().with_cursor(Some(at.upstream.clone())));
            let page = match link.peer.list_resource_templates(params).await {
                Ok(page) => page,
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => {
                    return Ok(templates);
                }
                Err(error) => return Err(self.failure(&link, error, None)),
            };
            at = next_cursor(at.as_ref(), 0, page.next_cursor)?;
            for template in page.resource_templates {
                match self.mapping.template(&template.uri_template) {
                    Ok(path) if !by_path.contains_key(&path) => {
                        by_path.insert(path.clone(), template.uri_template.clone());
                        templates.push(convert::template(template, path));
                    }
                    Ok(_) => self.tell("template twice", &template.uri_template, "it is listed twice, and dropped"),
                    Err(error) => {
                        self.tell("template", &template.uri_template, &format!("it cannot be mapped: {error}"))
                    }
                }
            }
            if templates.len() > self.max_items {
                return Err(Failure::internal("the upstream has more templates than `limits.response-items` allows"));
            }
            if at.is_none() {
                *self.templates.lock() = Some(by_path);
                return Ok(templates);
            }
        }
        Err(Failure::internal(format!("the upstream has more than {MAX_TEMPLATE_PAGES} pages of templates")))
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
        let argument = ArgumentInfo::new(argument.name.clone(), argument.value.clone());
        let mut params = CompleteRequestParams::new(Reference::for_resource(spelling), argument);
        if !context.is_empty() {
            let known = context.iter().map(|argument| (argument.name.clone(), argument.value.clone())).collect();
            params = params.with_context(CompletionContext::with_arguments(known));
        }
        let answer = link.peer.complete(params).await.map_err(|error| self.failure(&link, error, None))?;
        let completion = answer.completion;
        Ok(Completion {
            values: completion.values,
            total: completion.total,
            has_more: completion.has_more.unwrap_or_default(),
        })
    }

    async fn changes(&self, watched: &[String], since: Option<&str>) -> Result<ChangeSet> {
        *self.asked_at.lock() = Instant::now();
        let link = self.connector.link_for_call().await?;
        let spelled: Vec<_> =
            watched.iter().filter_map(|path| Some((path.clone(), self.spelling(path).ok()?))).collect();
        if self.polls && !link.can_subscribe() {
            self.updates.watch(watched.iter().map(String::as_str));
            self.poll(&link, &spelled).await?;
        }
        let held = self.subscriptions.lock().await.hold(&link, spelled).await;
        held.map_err(|error| self.failure(&link, error, None))?;
        Ok(self.updates.since(watched, since))
    }

    /// Reads what is watched again, and the first page of the listing, unless the upstream notifies of it.
    async fn poll(&self, link: &Arc<Link>, watched: &[(String, String)]) -> Result<()> {
        let now = Instant::now();
        let keys =
            watched.iter().map(|(path, _)| path.as_str()).chain((!link.notifies_of_listing()).then_some(LISTING));
        let due = self.readings.lock().due(keys, now, self.idle);
        let spellings: HashMap<&str, &str> =
            watched.iter().map(|(path, spelling)| (path.as_str(), spelling.as_str())).collect();
        let mut readings = futures::stream::iter(due)
            .map(|key| async {
                let reading = match spellings.get(key.as_str()) {
                    Some(spelling) => self.request_reading(link, &key, spelling).await.map(|result| {
                        (
                            serde_json::to_vec(&result.contents).unwrap_or_default(),
                            convert::ttl(result.ttl_ms, result.cache_scope),
                        )
                    }),
                    None => link.peer.list_resources(None).await.map_err(|error| self.failure(link, error, None)).map(
                        |page| {
                            (
                                serde_json::to_vec(&page.resources).unwrap_or_default(),
                                convert::ttl(page.ttl_ms, page.cache_scope),
                            )
                        },
                    ),
                };
                (key, reading)
            })
            .buffer_unordered(MAX_READINGS);
        while let Some((key, reading)) = readings.next().await {
            let (content, ttl) = match reading {
                Ok(reading) => reading,
                // A resource may appear and disappear.
                Err(Failure::NotFound | Failure::InvalidRequest(_) | Failure::Denied(_)) => (Vec::new(), None),
                Err(failure) => return Err(failure),
            };
            let is_changed = self.readings.lock().record(&key, &content, ttl, now);
            match (is_changed, key.as_str()) {
                (false, _) => {}
                (true, LISTING) => self.updates.listing_changed(),
                (true, path) => drop(self.updates.changed(path)),
            }
        }
        Ok(())
    }

    /// The path of a URI of the upstream. One that cannot be mapped is logged.
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

    /// The failure of a request. A connection that failed is dropped.
    fn failure(&self, link: &Link, error: ServiceError, requested: Option<(&str, &str)>) -> Failure {
        match error {
            ServiceError::McpError(error) => self.failure_of_answer(&error, requested),
            ServiceError::UnexpectedResponse => {
                Failure::internal("the upstream answers with something else than what it is asked")
            }
            error => {
                let refuses = error.auth_challenge().is_some();
                let is_answered = refuses || http::is_answered(&error);
                tracing::debug!(target: log_target::PLUGIN, plugin = &*self.name, %error, "a request to the upstream failed");
                if is_answered {
                    let why = if refuses {
                        "refuses the credentials of the host"
                    } else {
                        "does not answer as the protocol says"
                    };
                    return Failure::unavailable(format!("the upstream {why}"));
                }
                self.connector.fail(link);
                Failure::unavailable("the connection to the upstream failed")
            }
        }
    }

    fn failure_of_answer(&self, error: &ErrorData, requested: Option<(&str, &str)>) -> Failure {
        let message = error.message.as_ref();
        let is_missing = error.code == ErrorCode::RESOURCE_NOT_FOUND
            || error.code == ErrorCode::INVALID_PARAMS
                && error.data.as_ref().is_some_and(|data| data.get("uri").is_some())
            || says_missing(message);
        match requested {
            Some(_) if is_missing => return Failure::NotFound,
            _ if error.code != ErrorCode::INVALID_PARAMS && error.code != ErrorCode::INVALID_REQUEST => {
                return Failure::internal(format!(
                    "the upstream answers with the error {}: {}",
                    error.code.0,
                    Excerpt(message)
                ));
            }
            _ => {}
        }
        let message = match requested {
            Some((path, spelling)) => message.replace(spelling, &self.mapping.host_uri(path)),
            None => message.to_owned(),
        };
        // Another URI of the upstream means nothing to a client, or something else.
        let own = requested.map(|(path, _)| self.mapping.host_uri(path)).unwrap_or_default();
        match message.replace(&own, "").contains("://") && !own.is_empty() || own.is_empty() && message.contains("://")
        {
            true => Failure::invalid("the upstream rejects the request"),
            false => Failure::invalid(truncate(message, MAX_MESSAGE)),
        }
    }
}

/// Whether a message says that a resource does not exist, as SDKs word it that have no code for that.
fn says_missing(message: &str) -> bool {
    let message = message.to_ascii_lowercase();
    message.contains("not found") || message.contains("unknown resource") || message.contains("no such resource")
}

/// The cursor of the page after the one at `at`.
fn next_cursor(at: Option<&PageCursor>, traversal: u64, upstream: Option<String>) -> Result<Option<PageCursor>> {
    let internal = |fault: CursorFault| Failure::internal(fault.to_string());
    match (at, upstream) {
        (_, None) => Ok(None),
        (None, Some(upstream)) => Ok(Some(PageCursor::first(traversal, upstream))),
        (Some(at), Some(upstream)) => at.next(upstream).map(Some).map_err(internal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sdks_say_of_a_missing_resource_is_understood() {
        for message in ["Resource x:a not found", "MCP error -32602: Resource x not found", "Unknown resource: x:a"] {
            assert!(says_missing(message), "{message}");
        }
        assert!(!says_missing("the argument is invalid"));
    }
}
