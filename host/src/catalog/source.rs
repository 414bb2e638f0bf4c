//! What there is to list: resources, and templates.

use crate::access::{Access, Principal};
use crate::config::Operation;
use crate::plugin::{Fault, Page, Plugin};
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

/// Something that plugins list.
pub(crate) trait Source {
    /// What kind of listing it makes.
    const KIND: Kind;
    /// What is listed.
    type Item: Footprint;

    /// Asks one plugin for the page at its own cursor, with `limit` items in mind.
    async fn page(&self, plugin: &Plugin, cursor: Option<&str>, limit: usize) -> Result<Page<Self::Item>, Fault>;

    /// Whether the item is shown to the one who asks.
    fn shows(&self, item: &Self::Item) -> bool;
}

/// Resources: each plugin's default listing, or what is directly below one resource.
pub(crate) struct Entries<'a> {
    pub(crate) parent: Option<&'a Path>,
    pub(crate) access: &'a Access,
    pub(crate) principal: &'a Principal,
}

impl Source for Entries<'_> {
    const KIND: Kind = Kind::Entries;
    type Item = Entry;

    async fn page(&self, plugin: &Plugin, cursor: Option<&str>, limit: usize) -> Result<Page<Entry>, Fault> {
        plugin.list(self.parent, cursor, u32::try_from(limit).unwrap_or(u32::MAX)).await
    }

    fn shows(&self, entry: &Entry) -> bool {
        self.access.allows(self.principal, Operation::List, &entry.uri)
    }
}

/// Templates.
pub(crate) struct Templates<'a> {
    pub(crate) access: &'a Access,
    pub(crate) principal: &'a Principal,
}

impl Source for Templates<'_> {
    const KIND: Kind = Kind::Templates;
    type Item = EntryTemplate;

    async fn page(&self, plugin: &Plugin, cursor: Option<&str>, _: usize) -> Result<Page<EntryTemplate>, Fault> {
        plugin.templates(cursor).await
    }

    fn shows(&self, template: &EntryTemplate) -> bool {
        self.access.allows_template(self.principal, Operation::Templates, &template.uri_template)
    }
}
