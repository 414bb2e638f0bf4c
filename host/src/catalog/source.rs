//! Sources of listings: resources and templates.

use std::hash::Hash;
use std::sync::Arc;

use crate::access::{Policy, Principal};
use crate::config::Operation;
use crate::engine::CallOrigin;
use crate::plugin::{Fault, FilteredPage, Plugin};
use crate::resource::{Footprint, Resource, ResourceTemplate};
use crate::uri::Path;

/// The kind of a listing. A cursor is valid for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingKind {
    /// Resources.
    Entries,
    /// Templates.
    Templates,
}

impl ListingKind {
    /// Returns the operation of the access rules.
    pub(super) fn operation(self) -> Operation {
        match self {
            Self::Entries => Operation::List,
            Self::Templates => Operation::Templates,
        }
    }

    /// Returns the name of the kind in a cursor's binding.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Templates => "templates",
        }
    }
}

/// The principal for whom a listing is made, and its policy.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) policy: Arc<Policy>,
    pub(crate) principal: Principal,
}

/// An item of a listing.
pub(crate) trait ListingItem: Footprint + Hash + Send + 'static {
    /// Returns whether the viewer may see the item.
    fn is_visible_to(&self, viewer: &Viewer) -> bool;

    /// Puts the title of its plugin in front of its own title, or of its name if it has none.
    fn prefix_title(&mut self, plugin_title: &str);
}

fn prefixed(plugin_title: &str, title: Option<&str>, name: &str) -> String {
    format!("{plugin_title}: {}", title.unwrap_or(name))
}

impl ListingItem for Resource {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.policy.allows(Operation::List, &self.uri)
    }

    fn prefix_title(&mut self, plugin_title: &str) {
        self.title = Some(prefixed(plugin_title, self.title.as_deref(), &self.name));
    }
}

impl ListingItem for ResourceTemplate {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.policy.allows_template(Operation::Templates, &self.uri_template)
    }

    fn prefix_title(&mut self, plugin_title: &str) {
        self.title = Some(prefixed(plugin_title, self.title.as_deref(), &self.name));
    }
}

/// A source of listed items.
pub(crate) trait ListingSource {
    /// The kind of its listing.
    const KIND: ListingKind;
    /// The type of its items.
    type Item: ListingItem;

    /// Requests a page from one plugin at the plugin's own cursor, with `limit` as the desired number of items, for a
    /// client or for the host itself. Items for which `filter` returns false are dropped; it runs as part of the call.
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
        filter: impl FnMut(&Resource) -> bool + Send + 'static,
    ) -> Result<FilteredPage<Resource>, Fault> {
        plugin.list(origin, self.parent, cursor, u32::try_from(limit).unwrap_or(u32::MAX), filter).await
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
