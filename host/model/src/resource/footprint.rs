//! Estimated memory usage of values, for bounds in bytes.

use serde_json::Value;

use super::{Annotations, Completion, Meta, Resource, ResourceBody, ResourceContents, ResourceIcon, ResourceTemplate};

/// The memory of the smallest non-empty map: one B-tree node, with room for eleven members.
const MAP_NODE_BYTES: usize = 640;
/// The minimum number of members per node, on average.
const MEMBERS_PER_NODE: usize = 6;

/// A value whose memory usage can be estimated.
pub trait Footprint {
    /// Returns the approximate memory usage in bytes, including the value itself.
    fn footprint(&self) -> usize;
}

impl Footprint for ResourceContents {
    fn footprint(&self) -> usize {
        let body = match &self.body {
            ResourceBody::Text(text) => text.capacity(),
            ResourceBody::Blob(bytes) => bytes.capacity(),
        };
        self.entry.footprint().saturating_add(body)
    }
}

impl Footprint for Resource {
    fn footprint(&self) -> usize {
        let texts = [&self.title, &self.description, &self.mime_type].into_iter().flatten();
        let parts = texts.map(String::len).chain([
            size_of::<Self>(),
            self.uri.as_str().len(),
            self.name.len(),
            annotations(&self.annotations),
            icons(&self.icons),
            meta(&self.meta),
        ]);
        sum(parts)
    }
}

impl Footprint for ResourceTemplate {
    fn footprint(&self) -> usize {
        let texts = [&self.title, &self.description, &self.mime_type].into_iter().flatten();
        let parts = texts.map(String::len).chain([
            size_of::<Self>(),
            self.uri_template.as_str().len(),
            self.name.len(),
            annotations(&self.annotations),
            icons(&self.icons),
            meta(&self.meta),
        ]);
        sum(parts)
    }
}

impl Footprint for Completion {
    fn footprint(&self) -> usize {
        sum(self.values.iter().map(|value| value.len().saturating_add(size_of::<String>())))
    }
}

impl<T: Footprint> Footprint for [T] {
    fn footprint(&self) -> usize {
        sum(self.iter().map(Footprint::footprint))
    }
}

fn annotations(annotations: &Annotations) -> usize {
    let last_modified = annotations.last_modified.as_ref().map_or(0, |timestamp| timestamp.as_str().len());
    last_modified.saturating_add(annotations.audience.len())
}

fn icons(icons: &[ResourceIcon]) -> usize {
    sum(icons.iter().map(|icon| {
        let sizes = icon.sizes.iter().map(|size| size.len().saturating_add(size_of::<String>()));
        let mime_type = icon.mime_type.as_deref().map_or(0, str::len);
        sum(sizes.chain([size_of::<ResourceIcon>(), icon.src().len(), mime_type]))
    }))
}

fn meta(meta: &Meta) -> usize {
    let nodes = meta.len().div_ceil(MEMBERS_PER_NODE).saturating_mul(MAP_NODE_BYTES);
    sum(meta.iter().map(|(name, member)| name.len().saturating_add(value(member))).chain([nodes]))
}

/// Returns the memory of a value in addition to the value itself.
fn value(json: &Value) -> usize {
    match json {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => sum(values.iter().map(|one| size_of::<Value>().saturating_add(value(one)))),
        Value::Object(members) => meta(members),
    }
}

fn sum(parts: impl IntoIterator<Item = usize>) -> usize {
    parts.into_iter().fold(0, usize::saturating_add)
}
