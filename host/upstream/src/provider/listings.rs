//! Listings of an upstream: its resources, a page for a page, and its templates, all pages.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use mcp_host_model::provider::{Failure, Page, Result, Template};
use rmcp::model::{
    ClientRequest, ErrorCode, ListResourceTemplatesRequest, ListResourcesRequest, PaginatedRequestParams,
};
use rmcp::service::ServiceError;

use super::{Shared, unexpected};
use crate::answer;
use crate::convert;
use crate::cursor::{CursorFault, PageCursor};
use crate::listed::Verdict;

/// The pages without entries that one call passes over.
const MAX_EMPTY_PAGES: usize = 16;
/// The pages of templates.
const MAX_TEMPLATE_PAGES: usize = 1000;

impl Shared {
    pub(super) async fn list(&self, cursor: Option<&str>) -> Result<Page> {
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
            let request = ClientRequest::ListResourcesRequest(ListResourcesRequest {
                method: Default::default(),
                params: at.as_ref().map(|at| PaginatedRequestParams::default().with_cursor(Some(at.upstream.clone()))),
                extensions: Default::default(),
            });
            let text = match self.ask(&link, request).await {
                Ok(text) => text,
                Err(error) if is_unknown_method(&error) => return Ok(Page::last([])),
                Err(error) => return Err(self.failure(&link, error, None)),
            };
            let page = answer::list::<answer::Resource<'_>>(&text, self.max_items).map_err(unexpected)?;
            self.tell_invalid("resource", page.invalid);
            at = next_cursor(at.as_ref(), traversal, page.next_cursor)?;
            let mut listed = self.listed.lock();
            let entries = page.items.unwrap_or_default().into_iter().filter_map(|resource| {
                let spelling = resource.uri.clone();
                let path = self.path("listed", &spelling);
                self.survey.lock().record(&spelling, path.is_some());
                let path = path?;
                let entry = convert::entry(resource, path, page.ttl, self.polls || link.can_subscribe());
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

    pub(super) async fn templates(&self) -> Result<Vec<Template>> {
        let link = self.connector.link_for_call().await?;
        let (mut templates, mut by_path, mut at) = (Vec::new(), HashMap::new(), None::<PageCursor>);
        if !link.has_resources() {
            return Ok(templates);
        }
        for _ in 0..MAX_TEMPLATE_PAGES {
            let request = ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                method: Default::default(),
                params: at.as_ref().map(|at| PaginatedRequestParams::default().with_cursor(Some(at.upstream.clone()))),
                extensions: Default::default(),
            });
            let text = match self.ask(&link, request).await {
                Ok(text) => text,
                Err(error) if is_unknown_method(&error) => return Ok(templates),
                Err(error) => return Err(self.failure(&link, error, None)),
            };
            let page = answer::list::<answer::Template<'_>>(&text, self.max_items).map_err(unexpected)?;
            self.tell_invalid("template", page.invalid);
            at = next_cursor(at.as_ref(), 0, page.next_cursor)?;
            for template in page.items.unwrap_or_default() {
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
}

fn is_unknown_method(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND)
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
