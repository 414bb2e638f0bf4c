//! What there is to list: resources, and templates.

use std::hash::Hash;
use std::sync::Arc;

use crate::access::{Access, Principal};
use crate::config::Operation;
use crate::plugin::{Fault, Page, Plugin, Turn};
use crate::resource::{Entry, EntryTemplate, Footprint};
use crate::uri::Path;

/// The kinds of listing. A cursor is good for one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Resources.
    Entries,
    /// Templates.
    Templates,
}

impl Kind {
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
pub(crate) trait Item: Footprint + Hash + Send + 'static {
    /// Whether that one is shown it.
    fn is_shown_to(&self, viewer: &Viewer) -> bool;
}

impl Item for Entry {
    fn is_shown_to(&self, viewer: &Viewer) -> bool {
        viewer.access.allows(&viewer.principal, Operation::List, &self.uri)
    }
}

impl Item for EntryTemplate {
    fn is_shown_to(&self, viewer: &Viewer) -> bool {
        viewer.access.allows_template(&viewer.principal, Operation::Templates, &self.uri_template)
    }
}

/// Something that plugins list.
pub(crate) trait Source {
    /// What kind of listing it makes.
    const KIND: Kind;
    /// What is listed.
    type Item: Item;

    /// Asks one plugin for the page at its own cursor, with `limit` items in mind, for a client or for the host itself. `keep`
    /// says which of them are answered; it runs as a part of the call.
    async fn page(
        &self,
        turn: Turn,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        keep: impl FnMut(&Self::Item) -> bool + Send + 'static,
    ) -> Result<Page<Self::Item>, Fault>;
}

/// Resources: each plugin's default listing, or what is directly below one resource.
pub(crate) struct Entries<'a> {
    pub(crate) parent: Option<&'a Path>,
}

impl Source for Entries<'_> {
    const KIND: Kind = Kind::Entries;
    type Item = Entry;

    async fn page(
        &self,
        turn: Turn,
        plugin: &Plugin,
        cursor: Option<&str>,
        limit: usize,
        keep: impl FnMut(&Entry) -> bool + Send + 'static,
    ) -> Result<Page<Entry>, Fault> {
        plugin.list_as(turn, self.parent, cursor, u32::try_from(limit).unwrap_or(u32::MAX), keep).await
    }
}

/// Templates.
pub(crate) struct Templates;

impl Source for Templates {
    const KIND: Kind = Kind::Templates;
    type Item = EntryTemplate;

    async fn page(
        &self,
        turn: Turn,
        plugin: &Plugin,
        cursor: Option<&str>,
        _: usize,
        keep: impl FnMut(&EntryTemplate) -> bool + Send + 'static,
    ) -> Result<Page<EntryTemplate>, Fault> {
        plugin.templates_as(turn, cursor, keep).await
    }
}
