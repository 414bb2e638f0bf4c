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
//! An administrator may take any view. The audit log records it as `admin-view`, in addition to the line of the request
//! itself, whose `request_id` is the administrator's name.
//!
//! [`Host::list_bounded`]: mcp_resource_host::host::Host::list_bounded
//! [`Host::read`]: mcp_resource_host::host::Host::read
//! [`Host::templates`]: mcp_resource_host::host::Host::templates
//! [`Host::complete`]: mcp_resource_host::host::Host::complete
//! [`Host::subscriber`]: mcp_resource_host::host::Host::subscriber
//! [`Host::search`]: mcp_resource_host::host::Host::search
//! [`Host::context`]: mcp_resource_host::host::Host::context

use std::collections::HashMap;

use axum::extract::Request;
use axum::response::Response;
use mcp_host_config::Operation;
use mcp_host_model::resource::{Argument, Resource};
use mcp_resource_host::host::transport::PageBounds;
use mcp_resource_host::host::{CompleteRequest, ListRequest};

use super::browse_types::{
    BrowseComplete, BrowseList, BrowseRead, BrowseTemplates, CompletionView, Contents, MAX_CONTENT, MAX_RESOURCES,
    ResourceList, ResourceView, TemplateList,
};
use super::search::languages;
use super::shown::{content, missing, resource, template};
use super::viewer::ApiClient;
use super::{AdminServer, Connection, Refusal, StreamCredentials, body, ok};
use crate::method::performed_operations;

/// The approximate maximum size of the resources of a page in bytes.
const MAX_PAGE_BYTES: usize = 4 << 20;

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
}

/// The operations whose scopes an access token needs to browse. A search resource can be read, too, and lists
/// resources.
fn operations(what: &str) -> &'static [Operation] {
    match what {
        "list" => &[Operation::List],
        "templates" => &[Operation::Templates],
        "complete" => &[Operation::Complete],
        // The required scopes depend on the watched resources. The scopes of the built-in providers are added for each
        // path.
        "watch" => &[],
        _ => &[Operation::List, Operation::Read],
    }
}
