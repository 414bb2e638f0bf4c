//! Sources of listings: resources and templates.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mcp_host_config::Operation;
use mcp_host_engine::CallOrigin;
use mcp_host_engine::plugin::{Fault, FilteredPage, Plugin};
use mcp_host_model::resource::{Footprint, Resource, ResourceTemplate};
use mcp_host_model::uri::{Path, Uri};

use crate::access::{Policy, Principal};
use crate::response_cache::{CachedPlugin, EncodedResources, EncodingForm, ListedResources, PageKey, ViewId};

/// The kind of a listing. A cursor is valid for one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingKind {
    /// Resources.
    Entries,
    /// Templates.
    Templates,
    /// Skills.
    Skills,
}

impl ListingKind {
    /// Returns the operation of the access rules.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Entries | Self::Skills => Operation::List,
            Self::Templates => Operation::Templates,
        }
    }

    /// Returns the name of the kind in the binding of a cursor.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Templates => "templates",
            Self::Skills => "skills",
        }
    }
}

/// The principal that a listing is made for, and its policy.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) policy: Arc<Policy>,
    pub(crate) principal: Principal,
}

/// An item of a page, or several consecutive ones.
pub(crate) trait PageItem: Footprint + Send {
    /// Prepends the title of its plugin to its own title, or to its name if it has no title.
    fn prefix_title(&mut self, plugin_title: &str);

    /// The number of items.
    fn count(&self) -> usize {
        1
    }

    /// Returns how many of the first items take at most the given number of bytes.
    fn count_within(&self, bytes: usize) -> usize {
        usize::from(self.footprint() <= bytes)
    }

    /// Keeps the first `count` items, at least one, and returns the others, if any.
    fn split_off(&mut self, _count: usize) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }
}

/// An item of a listing that is not cached: each listing calls its provider.
pub(crate) trait ListingItem: PageItem + Hash + 'static {
    /// Returns whether the viewer may see the item.
    fn is_visible_to(&self, viewer: &Viewer) -> bool;
}

impl ListingItem for Resource {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.policy.allows(Operation::List, &self.uri)
    }
}

impl PageItem for Resource {
    fn prefix_title(&mut self, plugin_title: &str) {
        Resource::prefix_title(self, plugin_title);
    }
}

impl ListingItem for ResourceTemplate {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.policy.allows_template(Operation::Templates, &self.uri_template)
    }
}

impl PageItem for ResourceTemplate {
    fn prefix_title(&mut self, plugin_title: &str) {
        ResourceTemplate::prefix_title(self, plugin_title);
    }
}

/// A source of the pages of a merged listing.
pub(crate) trait PageSource {
    /// The kind of its listing.
    const KIND: ListingKind;
    /// The type of its items.
    type Item: PageItem;

    /// Requests a page of one plugin at the plugin's own cursor, for a client: the items that the viewer may
    /// see, about `limit` of them.
    async fn page(
        &self,
        plugin: &CachedPlugin,
        cursor: Option<&str>,
        limit: usize,
        viewer: &Viewer,
    ) -> Result<FilteredPage<Self::Item>, Fault>;
}

impl<S: ListingSource> PageSource for S {
    const KIND: ListingKind = S::KIND;
    type Item = S::Item;

    async fn page(
        &self,
        plugin: &CachedPlugin,
        cursor: Option<&str>,
        limit: usize,
        viewer: &Viewer,
    ) -> Result<FilteredPage<S::Item>, Fault> {
        let viewer = viewer.clone();
        let is_visible = move |item: &S::Item| item.is_visible_to(&viewer);
        ListingSource::page(self, CallOrigin::Client, plugin, cursor, limit, is_visible).await
    }
}

/// A source of items that are not cached: each listing calls its provider.
pub(crate) trait ListingSource {
    /// The kind of its listing.
    const KIND: ListingKind;
    /// The type of its items.
    type Item: ListingItem;

    /// Requests a page of one plugin at the plugin's own cursor, about `limit` items, for a client or for the
    /// host itself. `filter` runs as part of the call, and items for which it returns false are dropped.
    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        filter: impl FnMut(&Self::Item) -> bool + Send + 'static,
    ) -> Result<FilteredPage<Self::Item>, Fault>;
}

/// Resources: each plugin's default listing, or the children of one resource.
pub(crate) struct Entries<'a> {
    pub(crate) parent: Option<&'a Path>,
}

impl ListingSource for Entries<'_> {
    const KIND: ListingKind = ListingKind::Entries;
    type Item = Resource;

    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        mut filter: impl FnMut(&Resource) -> bool + Send + 'static,
    ) -> Result<FilteredPage<Resource>, Fault> {
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        plugin.list(origin, self.parent, cursor, limit, move |entry| filter(&entry).then_some(entry)).await
    }
}

/// Each plugin's default listing, in encoded form if it is cached.
pub(crate) struct CachedEntries<E> {
    /// The number of items on a cached page, however many are requested: the same for every principal.
    page_size: u32,
    form: EncodingForm,
    encode: E,
    has_called: AtomicBool,
}

impl<E> CachedEntries<E> {
    /// Entries in pages of this size, encoded in this form.
    pub(crate) fn new(page_size: u32, form: EncodingForm, encode: E) -> Self {
        Self { page_size, form, encode, has_called: AtomicBool::new(false) }
    }

    /// Returns whether a page was not in the cache, so that a provider was called.
    pub(crate) fn has_called(&self) -> bool {
        self.has_called.load(Ordering::Relaxed)
    }
}

impl<E, F> PageSource for CachedEntries<E>
where
    E: Fn(Vec<Resource>) -> F,
    F: Future<Output = EncodedResources>,
{
    const KIND: ListingKind = ListingKind::Entries;
    type Item = ListedResources;

    async fn page(
        &self,
        plugin: &CachedPlugin,
        cursor: Option<&str>,
        limit: usize,
        viewer: &Viewer,
    ) -> Result<FilteredPage<ListedResources>, Fault> {
        let (policy, view) = (viewer.policy.clone(), ViewId::of(&viewer.policy, plugin.mount()));
        let is_visible = move |uri: &Uri| policy.allows(Operation::List, uri);
        // Titles are prefixed before they are encoded.
        let encode = |mut entries: Vec<Resource>| {
            if let Some(title) = plugin.title() {
                entries.iter_mut().for_each(|entry| entry.prefix_title(title));
            }
            (self.encode)(entries)
        };
        let limit = u32::try_from(limit).unwrap_or(u32::MAX);
        // A cursor may be older than a change to smaller pages, and skip more items than a page has now.
        let page = PageKey { cursor, size: self.page_size.max(limit), form: self.form };
        let listed = plugin.list_cached(page, limit, view, is_visible, encode).await;
        if !listed.as_ref().is_ok_and(|(_, is_hit)| *is_hit) {
            self.has_called.store(true, Ordering::Relaxed);
        }
        listed.map(|(page, _)| page)
    }
}

impl PageItem for ListedResources {
    /// Encoded entries have the prefix already.
    fn prefix_title(&mut self, plugin_title: &str) {
        if let Self::One(entry) = self {
            entry.prefix_title(plugin_title);
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Encoded(run) => run.len(),
        }
    }

    fn count_within(&self, bytes: usize) -> usize {
        match self {
            Self::One(entry) => usize::from(entry.footprint() <= bytes),
            Self::Encoded(run) => run.count_within(bytes),
        }
    }

    fn split_off(&mut self, count: usize) -> Option<Self> {
        match self {
            Self::One(_) => None,
            Self::Encoded(run) => run.split_off(count).map(Self::Encoded),
        }
    }
}

/// Templates.
pub(crate) struct Templates;

impl ListingSource for Templates {
    const KIND: ListingKind = ListingKind::Templates;
    type Item = ResourceTemplate;

    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        _: usize,
        filter: impl FnMut(&ResourceTemplate) -> bool + Send + 'static,
    ) -> Result<FilteredPage<ResourceTemplate>, Fault> {
        plugin.templates(origin, cursor, filter).await
    }
}
