//! The listing of the project's plugins: resources and templates, as the principal `local` sees them.
//!
//! Bounded: the first [`MAX_ITEMS`] of each are fetched and compared.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use futures::StreamExt;
use mcp_host_model::resource::{Annotations, Error, Meta, Resource, ResourceIcon, ResourceTemplate};
use mcp_resource_host::access::Principal;
use mcp_resource_host::host::Host;

use crate::output::{Destination, Output};
use crate::table::{Cell, Table};

/// The number of resources, and of templates, that are fetched.
const MAX_ITEMS: usize = 2000;
/// The number of resources, and of templates, that are shown.
const MAX_SHOWN: usize = 50;

/// A listing.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The URIs of the resources, in their order.
    pub(super) uris: Vec<String>,
    /// Resources and templates.
    pub(super) items: BTreeMap<ItemKey, Item>,
    /// Whether the listing has further items.
    pub(super) is_truncated: bool,
    /// The errors of parts that could not be fetched.
    pub(super) errors: Vec<String>,
}

/// The identity of an item: a resource and a template may have the same text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ItemKey {
    Resource(String),
    Template(String),
}

/// An item of a listing: its descriptive fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) mime_type: Option<String>,
    pub(super) size: Option<u64>,
    /// The other fields that are set.
    pub(super) fields: BTreeMap<&'static str, String>,
}

impl Listing {
    /// Fetches the current listing.
    pub(super) async fn fetch(host: &Host) -> Self {
        let mut listing = Self::default();
        let mut resources = host.list_all(&Principal::LOCAL);
        while let Some(resource) = resources.next().await {
            match resource {
                Ok(_) if listing.uris.len() >= MAX_ITEMS => {
                    listing.is_truncated = true;
                    break;
                }
                Ok(resource) => {
                    let uri = resource.uri.as_str().to_owned();
                    listing.uris.push(uri.clone());
                    listing.items.insert(ItemKey::Resource(uri), Item::from(resource));
                }
                Err(error) => listing.add_error(&error),
            }
        }
        let mut templates = host.templates_all(&Principal::LOCAL).take(MAX_ITEMS);
        while let Some(template) = templates.next().await {
            match template {
                Ok(template) => {
                    let uri = template.uri_template.as_str().to_owned();
                    listing.items.insert(ItemKey::Template(uri), Item::from(template));
                }
                Err(error) => listing.add_error(&error),
            }
        }
        listing
    }

    fn add_error(&mut self, error: &Error) {
        let error = error.to_string();
        // Resources and templates of a plugin usually fail for the same reason.
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    /// `3 resources, 1 template`.
    pub(super) fn count(&self) -> String {
        let more = if self.is_truncated { "more than " } else { "" };
        let templates = self.items.len().saturating_sub(self.uris.len());
        format!("{more}{}, {}", count(self.uris.len(), "resource"), count(templates, "template"))
    }

    /// Shows the first items, with numbers for choosing resources.
    pub(super) fn show(&self, is_colored: bool) -> std::io::Result<String> {
        let mut shown = Vec::new();
        let mut output = Output::to(&mut shown, Destination::Terminal).colored(is_colored);
        let rows = self.uris.iter().take(MAX_SHOWN).enumerate().filter_map(|(index, uri)| {
            let item = self.items.get(&ItemKey::Resource(uri.clone()))?;
            Some([
                Cell::verbatim(&index.saturating_add(1).to_string()),
                Cell::verbatim(uri),
                Cell::optional(item.mime_type.as_deref()),
                Cell::optional(item.size.map(|size| ByteSize(size).to_string()).as_deref()),
                Cell::text(item.title.as_deref().unwrap_or(&item.name)),
            ])
        });
        Table::new(["#", "URI", "TYPE", "SIZE", "NAME"]).print(rows.collect(), &mut output)?;
        let templates: Vec<_> = self
            .items
            .iter()
            .filter_map(|(key, item)| match key {
                ItemKey::Template(uri) => Some((uri, item)),
                ItemKey::Resource(_) => None,
            })
            .collect();
        let rows = templates.iter().take(MAX_SHOWN).map(|(uri, item)| {
            [
                Cell::verbatim(uri),
                Cell::optional(item.mime_type.as_deref()),
                Cell::text(item.title.as_deref().unwrap_or(&item.name)),
            ]
        });
        Table::new(["TEMPLATE", "TYPE", "NAME"]).print(rows.collect(), &mut output)?;
        let hidden =
            self.uris.len().saturating_sub(MAX_SHOWN).saturating_add(templates.len().saturating_sub(MAX_SHOWN));
        if hidden > 0 || self.is_truncated {
            let more = if self.is_truncated { "more than " } else { "" };
            output.line(&format!("and {more}{hidden} more; `mcp-host list --all` shows all"))?;
        }
        output.flush()?;
        drop(output);
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }
}

/// `1 resource`, `2 resources`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

impl From<Resource> for Item {
    fn from(resource: Resource) -> Self {
        let Resource {
            uri: _,
            name,
            title,
            description,
            mime_type,
            size,
            annotations,
            icons,
            listable,
            subscribable,
            ttl,
            meta,
        } = resource;
        let mut fields = common_fields(description, &annotations, &icons, &meta);
        fields.extend(listable.then(|| ("listable", "yes".to_owned())));
        fields.extend(subscribable.then(|| ("subscribable", "yes".to_owned())));
        fields.extend(ttl.map(|ttl| ("ttl", humantime::format_duration(ttl).to_string())));
        Self { name, title, mime_type, size, fields }
    }
}

impl From<ResourceTemplate> for Item {
    fn from(template: ResourceTemplate) -> Self {
        let ResourceTemplate { uri_template: _, name, title, description, mime_type, annotations, icons, meta } =
            template;
        let fields = common_fields(description, &annotations, &icons, &meta);
        Self { name, title, mime_type, size: None, fields }
    }
}

fn common_fields(
    description: Option<String>,
    annotations: &Annotations,
    icons: &[ResourceIcon],
    meta: &Meta,
) -> BTreeMap<&'static str, String> {
    let mut fields = BTreeMap::new();
    fields.extend(description.map(|text| ("description", text)));
    fields.extend((*annotations != Annotations::default()).then(|| ("annotations", format!("{annotations:?}"))));
    fields.extend((!icons.is_empty()).then(|| ("icons", format!("{icons:?}"))));
    fields.extend((!meta.is_empty()).then(|| ("meta", serde_json::to_string(meta).unwrap_or_default())));
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(name: &str, size: Option<u64>) -> Item {
        Item { name: name.to_owned(), size, ..Item::default() }
    }

    fn listing(resources: usize) -> Listing {
        let uris: Vec<_> = (0..resources).map(|number| format!("a:///{number}")).collect();
        let mut items: BTreeMap<_, _> =
            uris.iter().map(|uri| (ItemKey::Resource(uri.clone()), item(uri, Some(1024)))).collect();
        items.insert(ItemKey::Template("a:///{x}".to_owned()), item("by x\u{1b}", None));
        Listing { uris, items, ..Listing::default() }
    }

    #[test]
    fn a_listing_is_shown_with_numbers_to_choose_by() {
        assert_eq!(
            listing(1).show(false).unwrap(),
            "#  URI     TYPE  SIZE     NAME\n\
             1  a:///0  -     1.0 KiB  a:///0\n\
             TEMPLATE  TYPE  NAME\n\
             a:///{x}  -     by x\\u{1b}\n"
        );
    }

    #[test]
    fn a_long_listing_is_shown_to_a_limit() {
        let shown = listing(60).show(false).unwrap();
        assert!(shown.ends_with("and 10 more; `mcp-host list --all` shows all\n"), "{shown}");
        let longer = Listing { is_truncated: true, ..listing(MAX_ITEMS) };
        assert!(longer.show(false).unwrap().contains("and more than 1950 more"));
        assert_eq!(longer.count(), "more than 2000 resources, 1 template");
    }
}
