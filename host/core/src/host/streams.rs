//! Whole listings as streams, over all their pages.

use std::collections::VecDeque;

use futures::stream::{self, Stream, StreamExt};
use mcp_host_model::resource::{Error, Listing, MissingPlugin, Resource, ResourceTemplate};

use super::{Host, ListRequest};
use crate::access::Principal;

/// The position of a stream in a listing.
struct Walk<T> {
    items: VecDeque<Result<T, Error>>,
    cursor: Option<String>,
    is_at_end: bool,
}

impl<T> Walk<T> {
    fn new() -> Self {
        Self { items: VecDeque::new(), cursor: None, is_at_end: false }
    }

    fn add_page(&mut self, page: Result<Listing<T>, Error>) {
        match page {
            Ok(page) => {
                self.items.extend(page.items.into_iter().map(Ok));
                self.items.extend(page.missing.into_iter().map(|missing| Err(unavailable_error(missing))));
                self.is_at_end = page.next_cursor.is_none();
                self.cursor = page.next_cursor;
            }
            Err(error) => {
                self.items.push_back(Err(error));
                self.is_at_end = true;
            }
        }
    }
}

fn unavailable_error(missing: MissingPlugin) -> Error {
    let MissingPlugin { plugin, reason, retry_after } = missing;
    Error::Unavailable { plugin, reason, retry_after }
}

impl Host {
    /// Streams the whole merged listing. One page is held in memory at a time.
    ///
    /// A plugin that fails is an item [`Error::Unavailable`], and the stream continues with the next plugin. Any other
    /// error is the last item.
    ///
    /// ```no_run
    /// use futures::StreamExt;
    /// use mcp_resource_host::access::Principal;
    /// use mcp_resource_host::config::Config;
    /// use mcp_resource_host::Host;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let host = Host::start(Config::load("mcp-host.toml")?).await?;
    /// let mut entries = host.list_all(&Principal::LOCAL);
    /// while let Some(entry) = entries.next().await {
    ///     println!("{}", entry?.uri);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list_all(&self, principal: &Principal) -> impl Stream<Item = Result<Resource, Error>> + Send + Unpin + '_ {
        let principal = principal.clone();
        stream_pages(move |cursor| {
            let principal = principal.clone();
            async move { self.list(&principal, ListRequest { parent: None, cursor: cursor.as_deref() }).await }
        })
    }

    /// Streams all templates. Errors are items as in [`list_all`](Self::list_all).
    pub fn templates_all(
        &self,
        principal: &Principal,
    ) -> impl Stream<Item = Result<ResourceTemplate, Error>> + Send + Unpin + '_ {
        let principal = principal.clone();
        stream_pages(move |cursor| {
            let principal = principal.clone();
            async move { self.templates(&principal, cursor.as_deref()).await }
        })
    }
}

fn stream_pages<'a, T, F>(
    page: impl Fn(Option<String>) -> F + Send + 'a,
) -> impl Stream<Item = Result<T, Error>> + Send + Unpin + 'a
where
    T: Send + 'a,
    F: Future<Output = Result<Listing<T>, Error>> + Send + 'a,
{
    let items = stream::unfold((Walk::new(), page), |(mut walk, page)| async move {
        loop {
            if let Some(item) = walk.items.pop_front() {
                return Some((item, (walk, page)));
            }
            if walk.is_at_end {
                return None;
            }
            let next = page(walk.cursor.take()).await;
            walk.add_page(next);
        }
    });
    items.boxed()
}
