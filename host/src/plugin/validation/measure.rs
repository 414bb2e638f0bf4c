//! How much an answer holds, before anything is made of it: its items, and its memory.
//!
//! Everything that there can be many of counts against `limits.response-items`: entries, templates, contents, completions and changed
//! paths; of an entry or a template its annotations, the roles of its audience, its icons and their sizes, the members and
//! elements of its `meta`. What is charged to `limits.memory` is an upper bound: the answer as it was lifted, and beside it what
//! it will be turned into. Strings and bodies move and are held once.

use super::Validator;
use super::json::JsonCount;
use crate::engine::bindings::contract;
use crate::plugin::fault::Fault;
use crate::resource::{Contents, Entry, EntryTemplate, Icon};
use crate::uri::MAX_URI_LEN;

/// What an answer holds.
#[derive(Debug, Default)]
pub(super) struct Measure {
    /// Items of all kinds.
    pub(super) items: usize,
    /// Bytes, as lifted and as what it is turned into.
    bytes: usize,
}

impl Measure {
    /// So many values of a list, beside what they refer to.
    pub(super) fn add_list<T>(&mut self, list: &[T]) {
        self.add_bytes(size_of_val(list));
    }

    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn add_text(&mut self, text: Option<&String>) {
        self.add_bytes(text.map_or(0, String::len));
    }

    /// What a path becomes behind a mount of so many bytes: a URI and, for a moment, a path.
    fn add_path(&mut self, path: &str, mount: usize) {
        self.add_bytes(path.len());
        self.add_bytes(path.len().min(MAX_URI_LEN).saturating_mul(2).saturating_add(mount));
    }
}

impl Validator {
    /// Counts so many items of a list that is an answer, or most of one.
    pub(super) fn check_item_count<T>(&mut self, what: &'static str, items: &[T]) -> Result<(), Fault> {
        self.measure.items = items.len();
        self.measure.add_list(items);
        self.check_item_limit(what)
    }

    /// Charges all that was measured.
    pub(super) fn charge(&mut self) -> Result<(), Fault> {
        let bytes = std::mem::take(&mut self.measure.bytes);
        self.work.charge(bytes)
    }

    fn add_items(&mut self, items: usize) -> Result<(), Fault> {
        self.measure.items = self.measure.items.saturating_add(items);
        self.check_item_limit("items (icons, sizes, annotations and metadata among them)")
    }

    fn check_item_limit(&self, what: &'static str) -> Result<(), Fault> {
        let (found, limit) = (self.measure.items, self.context.max_items);
        if found > limit { Err(Fault::Items { what, found, limit }) } else { Ok(()) }
    }

    pub(super) async fn measure_entries(&mut self, entries: &[contract::Entry]) -> Result<(), Fault> {
        self.measure.add_bytes(entries.len().saturating_mul(size_of::<(usize, Entry)>()));
        for entry in entries {
            self.work.step(measure_cost(&entry.icons, entry.meta.as_deref())).await?;
            self.measure_entry(entry)?;
        }
        Ok(())
    }

    pub(super) async fn measure_contents(&mut self, contents: &[contract::Contents]) -> Result<(), Fault> {
        self.measure.add_bytes(contents.len().saturating_mul(size_of::<Contents>()));
        for contents in contents {
            self.work.step(measure_cost(&contents.entry.icons, contents.entry.meta.as_deref())).await?;
            self.measure_entry(&contents.entry)?;
            self.measure.add_bytes(match &contents.body {
                contract::Body::Text(text) => text.len(),
                contract::Body::TextBytes(bytes) | contract::Body::Blob(bytes) => bytes.len(),
            });
        }
        Ok(())
    }

    pub(super) fn measure_entry(&mut self, entry: &contract::Entry) -> Result<(), Fault> {
        self.measure.add_path(&entry.path, self.context.mount.as_str().len());
        self.measure.add_bytes(entry.name.len());
        for text in [&entry.title, &entry.description, &entry.mime_type] {
            self.measure.add_text(text.as_ref());
        }
        self.measure_hints(entry.annotations.as_ref(), &entry.icons)?;
        self.measure_meta(entry.meta.as_deref())
    }

    pub(super) async fn measure_templates(&mut self, templates: &[contract::EntryTemplate]) -> Result<(), Fault> {
        self.measure.add_bytes(templates.len().saturating_mul(size_of::<(usize, EntryTemplate)>()));
        for template in templates {
            self.work.step(measure_cost(&template.icons, template.meta.as_deref())).await?;
            self.measure.add_path(&template.path_template, self.context.mount.as_str().len());
            self.measure.add_bytes(template.name.len());
            for text in [&template.title, &template.description, &template.mime_type] {
                self.measure.add_text(text.as_ref());
            }
            self.measure_hints(template.annotations.as_ref(), &template.icons)?;
            self.measure_meta(template.meta.as_deref())?;
        }
        Ok(())
    }

    /// Texts of an answer that is nothing but texts.
    pub(super) async fn measure_texts(&mut self, texts: &[String]) -> Result<(), Fault> {
        for text in texts {
            self.work.step(5).await?;
            self.measure.add_bytes(text.len());
        }
        Ok(())
    }

    fn measure_hints(
        &mut self,
        annotations: Option<&contract::Annotations>,
        icons: &[contract::Icon],
    ) -> Result<(), Fault> {
        if let Some(annotations) = annotations {
            self.measure.add_list(&annotations.audience);
            self.measure.add_text(annotations.last_modified.as_ref());
            self.add_items(annotations.audience.len().saturating_add(1))?;
        }
        if icons.is_empty() {
            return Ok(());
        }
        self.measure.add_list(icons);
        self.measure.add_bytes(icons.len().saturating_mul(size_of::<Icon>()));
        self.add_items(icons.len())?;
        for icon in icons {
            self.measure.add_bytes(icon.src.len());
            self.measure.add_text(icon.mime_type.as_ref());
            // Once as lifted, once as those that are valid.
            self.measure.add_list(&icon.sizes);
            self.measure.add_list(&icon.sizes);
            self.add_items(icon.sizes.len())?;
            icon.sizes.iter().for_each(|size| self.measure.add_bytes(size.len()));
        }
        Ok(())
    }

    fn measure_meta(&mut self, meta: Option<&str>) -> Result<(), Fault> {
        let Some(meta) = meta else { return Ok(()) };
        let mut count = JsonCount::default();
        count.feed(meta.as_bytes());
        // The text as lifted, and the texts of the tree.
        self.measure.add_bytes(meta.len().saturating_mul(2));
        self.measure.add_bytes(count.tree_bytes());
        self.add_items(count.values())
    }
}

/// Nanoseconds that it takes to measure an entry or a template, by estimate.
fn measure_cost(icons: &[contract::Icon], meta: Option<&str>) -> usize {
    let sizes = icons.iter().fold(0, |sum: usize, icon| sum.saturating_add(icon.sizes.len()));
    sizes.saturating_mul(2).saturating_add(meta.map_or(0, str::len)).saturating_add(50)
}

/// Nanoseconds that it takes to check an entry or a template of that path, by estimate: at worst some for each byte of the path
/// and the metadata, where small objects are an allocation every few bytes, and for each icon and size.
pub(super) fn check_cost(path: &str, icons: &[contract::Icon], meta: Option<&str>) -> usize {
    let icons = icons.iter().fold(0, |sum: usize, icon| {
        let icon = icon.sizes.len().saturating_mul(20).saturating_add(icon.src.len().saturating_mul(2));
        sum.saturating_add(icon).saturating_add(50)
    });
    let texts = path.len().saturating_add(meta.map_or(0, str::len)).saturating_mul(10);
    icons.saturating_add(texts).saturating_add(300)
}
