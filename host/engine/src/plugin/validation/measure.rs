//! The size of an answer, measured before anything is allocated for it: its items, and its memory.
//!
//! All repeatable parts count against `limits.response-items`: entries, templates, contents, completions and changed
//! paths; in an entry or a template also annotations, audience roles, icons and their sizes, and the members and
//! elements of `meta`. The charge to `limits.memory` is an upper bound: the answer as returned by the provider, and
//! its validated form. Strings and bodies are moved, so they are held once.

use mcp_host_model::json::JsonCount;
use mcp_host_model::provider::{self, Template};
use mcp_host_model::resource::{Resource, ResourceContents, ResourceIcon, ResourceTemplate, Role};
use mcp_host_model::uri::MAX_URI_LEN;

use super::Validator;
use crate::fault::Fault;
use crate::instance::REPLY_SLACK;

/// The size of an answer.
#[derive(Debug, Default)]
pub(super) struct Measure {
    /// The number of items of all kinds.
    pub(super) items: usize,
    /// The size of the answer in bytes, as returned by the provider.
    answer: usize,
    /// The bytes to charge: the answer and its validated form.
    bytes: usize,
}

impl Measure {
    /// Adds the items of a list, without the data that they refer to.
    pub(super) fn add_list<T>(&mut self, list: &[T]) {
        self.add_text_bytes(size_of_val(list));
    }

    /// Adds bytes of the answer.
    pub(super) fn add_text_bytes(&mut self, bytes: usize) {
        self.answer = self.answer.saturating_add(bytes);
        self.add_bytes(bytes);
    }

    /// Adds bytes of the validated answer.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn add_text(&mut self, text: Option<&String>) {
        self.add_text_bytes(text.map_or(0, String::len));
    }

    /// Adds a path, its URI with the mount, and the temporary copy of the normalized path.
    fn add_path(&mut self, path: &str, mount: usize) {
        self.add_text_bytes(path.len());
        self.add_bytes(path.len().min(MAX_URI_LEN).saturating_mul(2).saturating_add(mount));
    }
}

impl Validator {
    /// Counts the items of the answer's main list.
    pub(super) fn check_item_count<T>(&mut self, what: &'static str, items: &[T]) -> Result<(), Fault> {
        self.measure.items = items.len();
        self.measure.add_list(items);
        self.check_item_limit(what)
    }

    /// Charges the measured size, unless the answer exceeds the maximum size.
    pub(super) fn charge(&mut self) -> Result<(), Fault> {
        if let Some(limit) = self.context.max_response_size
            && self.measure.answer as u64 > limit.saturating_add(REPLY_SLACK as u64)
        {
            return Err(Fault::ResponseSize(limit));
        }
        let bytes = std::mem::take(&mut self.measure.bytes);
        self.work.charge(bytes)
    }

    fn add_items(&mut self, items: usize) -> Result<(), Fault> {
        self.measure.items = self.measure.items.saturating_add(items);
        self.check_item_limit("items (icons, sizes, annotations and metadata among them)")
    }

    fn check_item_limit(&self, what: &'static str) -> Result<(), Fault> {
        let (found, limit) = (self.measure.items, self.context.max_items);
        if found > limit { Err(Fault::ResponseItems { what, found, limit }) } else { Ok(()) }
    }

    pub(super) async fn measure_entries(&mut self, entries: &[provider::Entry]) -> Result<(), Fault> {
        self.measure.add_bytes(entries.len().saturating_mul(size_of::<(usize, Resource)>()));
        for entry in entries {
            self.work.step(measure_cost(&entry.icons, entry.meta.as_deref())).await?;
            self.measure_entry(entry)?;
        }
        Ok(())
    }

    pub(super) async fn measure_contents(&mut self, contents: &[provider::Contents]) -> Result<(), Fault> {
        self.measure.add_bytes(contents.len().saturating_mul(size_of::<ResourceContents>()));
        for contents in contents {
            self.work.step(measure_cost(&contents.entry.icons, contents.entry.meta.as_deref())).await?;
            self.measure_entry(&contents.entry)?;
            self.measure.add_text_bytes(contents.body.size());
        }
        Ok(())
    }

    pub(super) fn measure_entry(&mut self, entry: &provider::Entry) -> Result<(), Fault> {
        self.measure.add_path(&entry.path, self.context.mount.as_str().len());
        self.measure.add_text_bytes(entry.name.len());
        for text in [&entry.title, &entry.description, &entry.mime_type] {
            self.measure.add_text(text.as_ref());
        }
        self.measure_annotations(&entry.audience, entry.priority, entry.last_modified.as_ref())?;
        self.measure_icons(&entry.icons)?;
        self.measure_meta(entry.meta.as_deref())
    }

    pub(super) async fn measure_templates(&mut self, templates: &[Template]) -> Result<(), Fault> {
        self.measure.add_bytes(templates.len().saturating_mul(size_of::<(usize, ResourceTemplate)>()));
        for template in templates {
            self.work.step(measure_cost(&template.icons, template.meta.as_deref())).await?;
            self.measure.add_path(&template.path_template, self.context.mount.as_str().len());
            self.measure.add_text_bytes(template.name.len());
            for text in [&template.title, &template.description, &template.mime_type] {
                self.measure.add_text(text.as_ref());
            }
            self.measure_annotations(&template.audience, template.priority, template.last_modified.as_ref())?;
            self.measure_icons(&template.icons)?;
            self.measure_meta(template.meta.as_deref())?;
        }
        Ok(())
    }

    /// Measures the texts of an answer that consists of texts.
    pub(super) async fn measure_texts(&mut self, texts: &[String]) -> Result<(), Fault> {
        for text in texts {
            self.work.step(5).await?;
            self.measure.add_text_bytes(text.len());
        }
        Ok(())
    }

    fn measure_annotations(
        &mut self,
        audience: &[Role],
        priority: Option<f64>,
        last_modified: Option<&String>,
    ) -> Result<(), Fault> {
        if audience.is_empty() && priority.is_none() && last_modified.is_none() {
            return Ok(());
        }
        self.measure.add_list(audience);
        self.measure.add_text(last_modified);
        self.add_items(audience.len().saturating_add(1))
    }

    fn measure_icons(&mut self, icons: &[provider::Icon]) -> Result<(), Fault> {
        if icons.is_empty() {
            return Ok(());
        }
        self.measure.add_list(icons);
        self.measure.add_bytes(icons.len().saturating_mul(size_of::<ResourceIcon>()));
        self.add_items(icons.len())?;
        for icon in icons {
            self.measure.add_text_bytes(icon.src.len());
            self.measure.add_text(icon.mime_type.as_ref());
            // Counted twice: as returned, and for the valid sizes.
            self.measure.add_list(&icon.sizes);
            self.measure.add_bytes(size_of_val(icon.sizes.as_slice()));
            self.add_items(icon.sizes.len())?;
            icon.sizes.iter().for_each(|size| self.measure.add_text_bytes(size.len()));
        }
        Ok(())
    }

    fn measure_meta(&mut self, meta: Option<&str>) -> Result<(), Fault> {
        let Some(meta) = meta else { return Ok(()) };
        let mut count = JsonCount::default();
        count.feed(meta.as_bytes());
        // Counted as the returned text, and as the texts of the tree.
        self.measure.add_text_bytes(meta.len());
        self.measure.add_bytes(meta.len());
        self.measure.add_bytes(count.tree_bytes());
        self.add_items(count.values())
    }
}

/// Returns the estimated nanoseconds to measure an entry or a template.
fn measure_cost(icons: &[provider::Icon], meta: Option<&str>) -> usize {
    let sizes = icons.iter().fold(0, |sum: usize, icon| sum.saturating_add(icon.sizes.len()));
    sizes.saturating_mul(2).saturating_add(meta.map_or(0, str::len)).saturating_add(50)
}

/// Returns the estimated nanoseconds to validate an entry or a template with this path. The worst case has a cost per
/// byte of the path and the metadata, where small objects are an allocation every few bytes, and per icon and size.
pub(super) fn check_cost(path: &str, icons: &[provider::Icon], meta: Option<&str>) -> usize {
    let icons = icons.iter().fold(0, |sum: usize, icon| {
        let icon = icon.sizes.len().saturating_mul(20).saturating_add(icon.src.len().saturating_mul(2));
        sum.saturating_add(icon).saturating_add(50)
    });
    let texts = path.len().saturating_add(meta.map_or(0, str::len)).saturating_mul(10);
    icons.saturating_add(texts).saturating_add(300)
}
