//! What there is to list: resources, and templates.

use std::hash::Hash;
use std::sync::Arc;

use crate::access::{Access, Principal};
use crate::config::Operation;
use crate::engine::CallOrigin;
use crate::plugin::{Fault, Page, Plugin};
use crate::resource::{Entry, EntryTemplate, Footprint};
use crate::uri::Path;

/// The kinds of listing. A cursor is good for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListingKind {
    /// Resources.
    Entries,
    /// Templates.
    Templates,
}

impl ListingKind {
    /// Its name in what a cursor is bound to.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Entries => "entries",
            Self::Templates => "templates",
        }
    }
}

/// Who looks at listings, by which rules.
#[derive(Clone, Debug)]
pub(crate) struct Viewer {
    pub(crate) access: Arc<Access>,
    pub(crate) principal: Principal,
}

/// What is listed.
pub(crate) trait ListingItem: Footprint + Hash + Send + 'static {
    /// Whether that one is shown it.
    fn is_visible_to(&self, viewer: &Viewer) -> bool;
}

impl ListingItem for Entry {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.access.allows(&viewer.principal, Operation::List, &self.uri)
    }
}

impl ListingItem for EntryTemplate {
    fn is_visible_to(&self, viewer: &Viewer) -> bool {
        viewer.access.allows_template(&viewer.principal, Operation::Templates, &self.uri_template)
    }
}

/// Something that plugins list.
pub(crate) trait ListingSource {
    /// What kind of listing it makes.
    const KIND: ListingKind;
    /// What is listed.
    type Item: ListingItem;

    /// Asks one plugin for the page at its own cursor, with `limit` items in mind, for a client or for the host itself. `keep`
    /// says which of them are answered; it runs as a part of the call.
    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        filter: impl FnMut(&Self::Item) -> bool + Send + 'static,
    ) -> Result<Page<Self::Item>, Fault>;
}

/// Resources: each plugin's default listing, or what is directly below one resource.
pub(crate) struct Entries<'a> {
    pub(crate) parent: Option<&'a Path>,
}

impl ListingSource for Entries<'_> {
    const KIND: ListingKind = ListingKind::Entries;
    type Item = Entry;

    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        filter: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        plugin.list_as(origin, self.parent, cursor, u32::try_from(limit).unwrap_or(u32::MAX), filter).await
    }
}

/// Templates.
pub(crate) struct Templates;

impl ListingSource for Templates {
    const KIND: ListingKind = ListingKind::Templates;
    type Item = EntryTemplate;

    async fn page(
        &self,
        origin: CallOrigin,
        plugin: &Plugin,
        cursor: Option<&str>,
        _: usize,
        filter: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        plugin.templates_as(origin, cursor, filter).await
    }
}
