//! Listings of an upstream: its resources, by whole or partial pages, and its templates, all pages at once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcp_host_model::provider::{Entry, Failure, Page, Result, Template};
use rmcp::model::{ClientRequest, ErrorCode, ListResourceTemplatesRequest, PaginatedRequestParams};
use rmcp::service::ServiceError;

use super::{Shared, unexpected};
use crate::answer;
use crate::connection::Link;
use crate::convert;
use crate::cursor::{CursorFault, PageCursor};
use crate::listed::{Verdict, size_of_entry};
use crate::walks::{self, Moment, Rest};

/// The maximum number of successive pages without entries that one call skips.
const MAX_EMPTY_PAGES: usize = 16;
/// The maximum number of pages of templates.
const MAX_TEMPLATE_PAGES: usize = 1000;

/// One call of a walk through a listing.
struct Walk {
    link: Arc<Link>,
    /// Whether the call has a cursor.
    is_continued: bool,
    /// The maximum number of entries that the call can use.
    limit: usize,
}

impl Walk {
    /// Returns the current connection and state of the listing.
    fn now(&self, shared: &Shared) -> Moment {
        Moment::now(&self.link, &shared.updates)
    }
}

impl Shared {
    pub(super) async fn list(&self, cursor: Option<&str>, limit: usize) -> Result<Page> {
        let mut at = match cursor {
            None => PageCursor::start(self.traversals.fetch_add(1, Ordering::Relaxed)),
            Some(text) => PageCursor::decode(text)
                .ok_or_else(|| Failure::invalid("the cursor does not belong to this listing"))?,
        };
        let link = self.connector.link_for_call().await?;
        if !link.has_resources() {
            return Ok(Page::last([]));
        }
        let walk = Walk { link, is_continued: cursor.is_some(), limit };
        if let Some(rest) = self.walks.rest(&at, walk.now(self)) {
            self.read_ahead(&walk, rest.entries.len(), 0, rest.next.as_ref());
            return Ok(self.part(&walk, rest));
        }
        for _ in 0..MAX_EMPTY_PAGES {
            let text = match self.walks.page(&at, walk.now(self)).await {
                Some(text) => text,
                None => match self.ask(&walk.link, walks::request(&at)).await {
                    Ok(text) => text,
                    Err(error) if is_unknown_method(&error) => {
                        self.survey.lock().end();
                        return Ok(Page::last([]));
                    }
                    Err(error) => return Err(self.failure(&walk.link, error, None)),
                },
            };
            let page = answer::list::<answer::Resource<'_>>(&text, self.max_items).map_err(unexpected)?;
            self.tell_invalid("resource", page.invalid);
            let next = next_cursor(&at, page.next_cursor)?;
            let items = page.items.unwrap_or_default();
            self.read_ahead(&walk, items.len().saturating_sub(at.offset), text.len(), next.as_ref());
            let mut entries = self.entries(&walk.link, items, page.ttl, at.traversal);
            if next.is_none() {
                self.listed.lock().finish(at.traversal);
                self.survey.lock().end();
            }
            entries.drain(..at.offset.min(entries.len()));
            match next {
                Some(next) if entries.is_empty() => at = next,
                next => return Ok(self.part(&walk, Rest::new(at, entries, next))),
            }
        }
        // The host continues at this cursor, in another call.
        Ok(Page { entries: Vec::new(), next_cursor: Some(at.encode()) })
    }

    /// Converts the resources of a page, and returns the entries that are served.
    fn entries(
        &self,
        link: &Link,
        items: Vec<answer::Resource<'_>>,
        ttl: Option<Duration>,
        traversal: u64,
    ) -> Vec<Entry> {
        let (mut listed, mut survey) = (self.listed.lock(), self.survey.lock());
        let is_subscribable = self.polls || link.can_subscribe();
        let entry = |resource: answer::Resource<'_>| {
            let spelling = resource.uri.clone();
            let path = self.path("listed", &spelling);
            survey.record(&spelling, path.is_some());
            let entry = convert::entry(resource, path?, ttl, is_subscribable);
            match listed.record(&entry, &self.mapping.uri(&entry.path), &spelling, traversal) {
                Verdict::Keep => Some(entry),
                Verdict::Ambiguous => {
                    self.tell("spelled twice", &spelling, "it is listed in two spellings, and both are dropped");
                    None
                }
                Verdict::NoRoom => {
                    self.tell("no room", &spelling, "`limits.memory` has no room for its spelling, and it is dropped");
                    None
                }
            }
        };
        items.into_iter().filter_map(entry).collect()
    }

    /// Returns as many entries as the call can use, and keeps the others for the next call.
    fn part(&self, walk: &Walk, mut rest: Rest) -> Page {
        let entries: Vec<_> = rest.entries.by_ref().take(walk.limit).collect();
        if rest.entries.len() == 0 {
            return Page { entries, next_cursor: rest.next.map(|next| next.encode()) };
        }
        rest.at.offset = rest.at.offset.saturating_add(entries.len());
        let next_cursor = Some(rest.at.encode());
        self.walks.keep(rest, walk.now(self), size_of_entry);
        Page { entries, next_cursor }
    }

    /// Requests the next page, while this page of `bytes` bytes is converted and sent to the client. Does nothing for
    /// the first page of a walk, or if entries remain for another call.
    fn read_ahead(&self, walk: &Walk, entries: usize, bytes: usize, next: Option<&PageCursor>) {
        if let Some(next) = next.filter(|_| walk.is_continued && entries <= walk.limit) {
            self.walks.read_ahead(&walk.link, next, bytes, walk.now(self));
        }
    }

    pub(super) async fn templates(&self) -> Result<Vec<Template>> {
        let link = self.connector.link_for_call().await?;
        let (mut templates, mut by_path, mut at) = (Vec::new(), HashMap::new(), PageCursor::start(0));
        let mut bytes = 0_usize;
        if !link.has_resources() {
            return Ok(templates);
        }
        for _ in 0..MAX_TEMPLATE_PAGES {
            let request = ClientRequest::ListResourceTemplatesRequest(ListResourceTemplatesRequest {
                method: Default::default(),
                params: at.upstream.clone().map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor))),
                extensions: Default::default(),
            });
            let text = match self.ask(&link, request).await {
                Ok(text) => text,
                Err(error) if is_unknown_method(&error) => return Ok(templates),
                Err(error) => return Err(self.failure(&link, error, None)),
            };
            bytes = bytes.saturating_add(text.len());
            if bytes > self.max_bytes {
                let max = self.max_bytes;
                return Err(Failure::internal(format!(
                    "the upstream's templates have more than {max} bytes, which `limits.response-size` allows"
                )));
            }
            let page = answer::list::<answer::Template<'_>>(&text, self.max_items).map_err(unexpected)?;
            self.tell_invalid("template", page.invalid);
            let next = next_cursor(&at, page.next_cursor)?;
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
            let Some(next) = next else {
                *self.templates.lock() = Some(by_path);
                return Ok(templates);
            };
            at = next;
        }
        Err(Failure::internal(format!("the upstream has more than {MAX_TEMPLATE_PAGES} pages of templates")))
    }
}

fn is_unknown_method(error: &ServiceError) -> bool {
    matches!(error, ServiceError::McpError(error) if error.code == ErrorCode::METHOD_NOT_FOUND)
}

/// Returns the cursor of the page after `at`.
fn next_cursor(at: &PageCursor, upstream: Option<String>) -> Result<Option<PageCursor>> {
    let internal = |fault: CursorFault| Failure::internal(fault.to_string());
    upstream.map(|upstream| at.next(upstream)).transpose().map_err(internal)
}
