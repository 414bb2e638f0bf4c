//! `POST browse/…`: the view of one principal, made by the same calls of the host as for a client of this principal.
//!
//! | path | call of the host |
//! |---|---|
//! | `list` | [`Host::list_bounded`] |
//! | `read` | [`Host::read`] |
//! | `templates`, `complete` | [`Host::templates`], [`Host::complete`] |
//! | `watch` | [`Host::subscriber`] ([`watch`](super::watch)) |
//! | `search`, `context` | [`Host::search`], [`Host::context`], with the feature `search` |
//!
//! An administrator may take any view. The audit log records it as `admin-view`, in addition to the line of the request itself, whose
//! `request_id` is the administrator's name.

use std::collections::HashMap;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_host_config::{ANONYMOUS, Config, LOCAL, Operation};
use mcp_host_model::resource::{
    Argument, Error, MissingPlugin, Notice, Resource, ResourceBody, ResourceContents, ResourceTemplate, Role,
};
use mcp_resource_host::access::Principal;
use mcp_resource_host::audit::RequestContext;
use mcp_resource_host::host::transport::PageBounds;
use mcp_resource_host::host::{AdminAction, AdminSubject, CompleteRequest, Host, ListRequest};

use super::browse_types::{
    BrowseComplete, BrowseList, BrowseRead, BrowseTemplates, CompletionView, ContentView, Contents, MAX_CONTENT,
    MAX_RESOURCES, MissingView, ResourceList, ResourceView, TemplateList, TemplateView, Viewer,
};
use super::search::languages;
use super::{AdminServer, Connection, MAX_NAMES, Refusal, StreamCredentials, body, ok, users};
use crate::http::authentication::Authenticated;
use crate::method::performed_operations;

/// The authenticated client of a request.
pub(super) enum ApiClient<'a> {
    /// An administrator, who may take any view.
    Administrator(&'a Principal),
    /// A client of `/mcp`, which may take only its own view.
    User(&'a Authenticated),
}

impl ApiClient<'_> {
    /// Requires an access token with the scopes of these operations.
    pub(super) fn require_scopes(&self, operations: &[Operation]) -> Result<(), Refusal> {
        match self {
            Self::Administrator(_) => Ok(()),
            Self::User(user) => user.require_scopes(operations).map_err(|error| users::refusal(&error)),
        }
    }
}

/// The approximate maximum size of the resources of a page in bytes.
const MAX_PAGE_BYTES: usize = 4 << 20;

/// The maximum size of a text about a resource, as JSON.
const MAX_TEXT: usize = 4 << 10;
/// The estimated size of the texts about a resource in an answer.
const RESOURCE_BYTES: usize = 1 << 10;

impl AdminServer {
    /// Answers a request below `browse/`.
    pub(super) async fn browse(
        &self,
        what: &str,
        request: Request,
        from: Connection,
        client: &ApiClient<'_>,
    ) -> Result<Response, Refusal> {
        client.require_scopes(operations(what))?;
        match what {
            "list" => self.browse_list(body(request).await?, client).await,
            "read" => self.browse_read(body(request).await?, client).await,
            "templates" => self.browse_templates(body(request).await?, client).await,
            "complete" => self.browse_complete(body(request).await?, client).await,
            "watch" => {
                let credentials = StreamCredentials::of(&request, from);
                self.browse_watch(body(request).await?, credentials, client).await
            }
            "search" | "context" => self.browse_index(what, request, client).await,
            _ => Err(Refusal::no_path()),
        }
    }

    async fn browse_list(&self, request: BrowseList, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        let BrowseList { viewer, parent, cursor, limit } = request;
        if !(1..=MAX_RESOURCES).contains(&limit) {
            return Err(Refusal::bad_request(format!("`limit` is not a number from 1 to {MAX_RESOURCES}: {limit}")));
        }
        client.require_scopes(&performed_operations(&self.host, &[Operation::List], parent.as_deref()))?;
        let viewer = self.viewer(client, viewer)?;
        let (parent, bounds) = (parent.as_deref(), PageBounds { items: limit, bytes: MAX_PAGE_BYTES });
        let listing = self.host.list_bounded(&viewer, ListRequest { parent, cursor: cursor.as_deref() }, bounds);
        let listing = self.view_as(client, parent.unwrap_or_default(), listing).await?;
        // The language of a text is visible only to principals that may read it.
        let mut languages = match client.require_scopes(&[Operation::Read]) {
            Ok(()) => languages(&self.host, &viewer, &listing.items).await,
            Err(_) => HashMap::new(),
        };
        let item = |item: Resource| {
            let language = languages.remove(item.uri.as_str());
            ResourceView { language, ..resource(&self.host, &viewer, item) }
        };
        Ok(ok(&ResourceList {
            items: listing.items.into_iter().map(item).collect(),
            next: listing.next_cursor,
            missing: missing(listing.missing),
        }))
    }

    async fn browse_read(&self, request: BrowseRead, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        let viewer = self.viewer(client, request.viewer)?;
        let contents = self.view_as(client, &request.uri, self.host.read(&viewer, &request.uri)).await?;
        let (mut left, count) = (MAX_CONTENT, contents.len());
        let mut shown = Vec::new();
        for one in contents {
            shown.push(content(&self.host, &viewer, one, &mut left));
            if left == 0 {
                break;
            }
        }
        Ok(ok(&Contents { left_out: count.saturating_sub(shown.len()), contents: shown }))
    }

    async fn browse_templates(&self, request: BrowseTemplates, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        let viewer = self.viewer(client, request.viewer)?;
        let listing = self.view_as(client, "", self.host.templates(&viewer, request.cursor.as_deref())).await?;
        Ok(ok(&TemplateList {
            items: listing.items.into_iter().map(template).collect(),
            next: listing.next_cursor,
            missing: missing(listing.missing),
        }))
    }

    async fn browse_complete(&self, request: BrowseComplete, client: &ApiClient<'_>) -> Result<Response, Refusal> {
        // The values of a search template come from resources that may be listed and read.
        client.require_scopes(&performed_operations(&self.host, &[Operation::Complete], [&*request.template]))?;
        let viewer = self.viewer(client, request.viewer)?;
        let completing = CompleteRequest {
            template: &request.template,
            argument: Argument::new(request.variable, request.value),
            context: request.known.into_iter().map(|(name, value)| Argument { name, value }).collect(),
        };
        let found = self.view_as(client, &request.template, self.host.complete(&viewer, completing)).await?;
        Ok(ok(&CompletionView { values: found.values, has_more: found.has_more }))
    }

    /// Returns the principal whose view is requested.
    pub(super) fn viewer(&self, client: &ApiClient<'_>, viewer: Option<Viewer>) -> Result<Principal, Refusal> {
        match (client, viewer) {
            (ApiClient::User(user), None) => Ok(user.principal.clone()),
            (ApiClient::User(_), Some(_)) => {
                let help = "leave `as` out: only administrators see the views of others";
                Err(Refusal::new(StatusCode::FORBIDDEN, "the view of a client is its own", Some(help)))
            }
            (ApiClient::Administrator(_), None) => Ok(Principal::LOCAL),
            (ApiClient::Administrator(_), Some(Viewer { principal, groups })) => {
                named_principal(&self.host.config(), &principal, &groups)
            }
        }
    }

    /// Runs a request of a client for itself, or of an administrator for another principal. The latter is recorded in the audit log.
    pub(super) async fn view_as<T>(
        &self,
        client: &ApiClient<'_>,
        uri: &str,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Refusal> {
        let answer = match client {
            ApiClient::User(user) => user.scopes().scope(request).await,
            ApiClient::Administrator(administrator) => {
                let context = RequestContext::of_administrator(administrator.name());
                let viewing = context.scope(request);
                let about = AdminSubject::View { uri };
                self.host.administer(administrator, AdminAction::View, about, viewing, Error::kind).await?
            }
        };
        answer.map_err(|error| {
            let status = match &error {
                Error::NotFound { .. } => StatusCode::NOT_FOUND,
                Error::InvalidRequest { .. } | Error::InvalidCursor => StatusCode::BAD_REQUEST,
                Error::Denied { .. } => StatusCode::FORBIDDEN,
                Error::Internal { .. } => StatusCode::BAD_GATEWAY,
                Error::Unavailable { .. } | Error::AuditUnavailable | Error::ShuttingDown => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            Refusal::new(status, error.to_string(), None)
        })
    }
}

/// The operations whose scopes an access token needs to browse. A search resource can be read, too, and lists resources.
fn operations(what: &str) -> &'static [Operation] {
    match what {
        "list" => &[Operation::List],
        "templates" => &[Operation::Templates],
        "complete" => &[Operation::Complete],
        // The required scopes depend on the watched resources. Those of the built-in providers are added for each path.
        "watch" => &[],
        _ => &[Operation::List, Operation::Read],
    }
}

/// Returns a principal of the config in these groups.
pub(super) fn named_principal(config: &Config, name: &str, groups: &[String]) -> Result<Principal, Refusal> {
    let principal = match name {
        LOCAL => Principal::LOCAL,
        ANONYMOUS => Principal::ANONYMOUS,
        name if config.has_principal(name) => Principal::new(name),
        name => return Err(no_principal(config, name)),
    };
    Ok(principal.with_groups(groups.iter().map(String::as_str)))
}

/// The refusal for an unknown principal, with the one that was probably meant, or the first ones.
fn no_principal(config: &Config, name: &str) -> Refusal {
    let help = config.nearest_principal(name).map(|meant| format!("did you mean `{meant}`?"));
    let help = help.unwrap_or_else(|| {
        let mut known: Vec<_> = config.principal_names().take(MAX_NAMES).map(str::to_owned).collect();
        let others = config.principal_names().count().saturating_sub(known.len());
        if others > 0 {
            known.push(format!("{others} others"));
        }
        let known = known.join(", ");
        format!(
            "it has {known}; one that an issuer, a client CA or an application authenticates is named `ISSUER/NAME`"
        )
    });
    let name = mcp_host_base::text::quote(name);
    Refusal::new(StatusCode::BAD_REQUEST, format!("the config has no principal {name}"), Some(&help))
}

/// The title of a resource's plugin, if the title of the resource begins with it, as in a merged listing.
fn title_prefix(config: &Config, uri: &str, title: &str) -> Option<String> {
    let plugin = config.plugins.iter().find(|plugin| uri.starts_with(plugin.mount.as_str()))?;
    let prefix = plugin.title.as_ref()?;
    title.strip_prefix(prefix.as_str())?.starts_with(": ").then(|| prefix.clone())
}

/// A resource, as a principal sees it.
pub(super) fn resource(host: &Host, viewer: &Principal, resource: Resource) -> ResourceView {
    let can = host.capabilities(viewer, &resource);
    let role = |role: Role| match role {
        Role::User => "user".to_owned(),
        Role::Assistant => "assistant".to_owned(),
    };
    ResourceView {
        listable: can.list,
        subscribable: can.subscribe,
        audience: resource.annotations.audience.into_iter().map(role).collect(),
        priority: resource.annotations.priority.map(|priority| priority.value()),
        modified: resource.annotations.last_modified.map(|time| time.as_str().to_owned()),
        language: None,
        notices: Notice::all_in(&resource.meta).iter().map(|notice| short(notice.to_string())).collect(),
        title_prefix: resource
            .title
            .as_deref()
            .and_then(|title| title_prefix(&host.config(), resource.uri.as_str(), title)),
        uri: String::from(resource.uri),
        name: short(resource.name),
        title: resource.title.map(short),
        description: resource.description.map(short),
        mime_type: resource.mime_type.map(short),
        size: resource.size,
    }
}

/// Truncates a text for display to [`MAX_TEXT`] bytes of JSON.
fn short(text: String) -> String {
    let (shown, _) = json_prefix(&text, MAX_TEXT);
    if shown.len() == text.len() { text } else { format!("{shown}…") }
}

/// Returns the longest prefix of a text that takes at most `max` bytes as JSON, and its size as JSON.
fn json_prefix(text: &str, max: usize) -> (&str, usize) {
    let mut left = max;
    let end = text.char_indices().find(|(_, c)| {
        let bytes = match c {
            '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
            '\0'..='\u{1f}' => 6,
            c => c.len_utf8(),
        };
        match left.checked_sub(bytes) {
            Some(rest) => {
                left = rest;
                false
            }
            None => true,
        }
    });
    let shown = end.and_then(|(end, _)| text.get(..end)).unwrap_or(text);
    (shown, max.saturating_sub(left))
}

/// A content, of which at most `left` bytes go into the answer.
fn content(host: &Host, viewer: &Principal, content: ResourceContents, left: &mut usize) -> ContentView {
    let ResourceContents { entry, body } = content;
    let bytes = body.as_bytes().len();
    let (text, blob, shown) = match body {
        ResourceBody::Text(text) => {
            let (shown, size) = json_prefix(&text, *left);
            *left = if shown.len() < text.len() { 0 } else { left.saturating_sub(size) };
            (Some(shown.to_owned()), None, shown.len())
        }
        ResourceBody::Blob(bytes) => {
            let shown = bytes.get(..(*left).min(bytes.len())).unwrap_or_default();
            *left = left.saturating_sub(shown.len());
            (None, Some(STANDARD.encode(shown)), shown.len())
        }
    };
    // The texts about the resource have their own bounds.
    *left = left.saturating_sub(RESOURCE_BYTES);
    ContentView { resource: resource(host, viewer, entry), text, blob, bytes, cut: shown < bytes }
}

fn template(template: ResourceTemplate) -> TemplateView {
    TemplateView {
        variables: template.uri_template.variables().map(str::to_owned).collect(),
        template: template.uri_template.as_str().to_owned(),
        name: template.name,
        title: template.title,
        description: template.description,
        mime_type: template.mime_type,
    }
}

fn missing(plugins: Vec<MissingPlugin>) -> Vec<MissingView> {
    plugins.into_iter().map(|MissingPlugin { plugin, reason, .. }| MissingView { plugin, reason }).collect()
}
