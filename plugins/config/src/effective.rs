//! The effective configuration: the values served from the merged layers.
//!
//! A layer whose file does not exist is absent, as in applications. A layer that cannot be parsed is skipped, and its
//! fault is shown: the values of the other layers help to find out why an application does not start.

use crate::environment::{self, Variables};
use crate::merge::{Merged, Origin, Source};
use crate::redact::Secrets;
use crate::settings::Settings;
use folder::{Folder, Item, ItemKind};
use mcp_provider::{Failure, Result};
use serde_json::{Map, Value, json};
use std::time::SystemTime;

/// The maximum size of the pointers and origins of one answer, in bytes.
const MAX_ORIGINS: usize = 2 << 20;

/// The maximum total size of the files of all layers, as a multiple of the maximum size of one file.
const MAX_FULL_LAYERS: usize = 4;

/// The layers, as read.
#[derive(Debug)]
pub(crate) struct Effective {
    merged: Merged,
    layers: Vec<Layer>,
    /// The secrets of all layers, including overridden values, because another key may have a copy of one.
    secrets: Secrets,
    /// The modification time of the newest file.
    pub(crate) modified: Option<SystemTime>,
}

/// The displayed form of a layer.
#[derive(Debug)]
struct Layer {
    name: String,
    state: State,
}

/// The result of reading a layer.
#[derive(Debug)]
enum State {
    Merged,
    Absent,
    Faulty(String),
}

impl Effective {
    /// Reads and merges the layers: the defaults, the files in order, and the environment, with its secrets.
    pub(crate) fn read(folder: &Folder, settings: &Settings, variables: &Variables, secrets: &Secrets) -> Result<Self> {
        let mut effective =
            Self { merged: Merged::new(), layers: Vec::new(), secrets: secrets.clone(), modified: None };
        if let Some(defaults) = &settings.defaults {
            let mut defaults = Value::Object(defaults.clone());
            settings.redactor.keys(&mut defaults);
            effective.add(settings, "defaults".to_owned(), Ok(defaults));
        }
        let mut budget = settings.max_file.saturating_mul(MAX_FULL_LAYERS);
        for names in &settings.layers {
            effective.add_file(folder, settings, names, &mut budget)?;
        }
        if let Some(naming) = &settings.naming {
            let source = |name: &str| Source { layer: effective.layers.len(), variable: Some(name.into()) };
            for (name, text) in variables {
                let Some(keys) = naming.keys(name) else { continue };
                let mut value = environment::value(text);
                settings.redactor.keys(&mut value);
                effective.merged.merge_at(&keys, value, &source(name));
            }
            effective.layers.push(Layer { name: format!("env {}*", naming.prefix()), state: State::Merged });
        }
        Ok(effective)
    }

    fn add(&mut self, settings: &Settings, name: String, value: std::result::Result<Value, String>) {
        if let Ok(value) = &value {
            settings.redactor.collect(value, &mut self.secrets);
        }
        let state = match value {
            Ok(table @ Value::Object(_)) => {
                self.merged.merge(table, &Source { layer: self.layers.len(), variable: None });
                State::Merged
            }
            // An empty file has no values.
            Ok(Value::Null) => State::Merged,
            Ok(_) => State::Faulty("expected a table, that is keys with values, found something else".to_owned()),
            Err(fault) => State::Faulty(fault),
        };
        self.layers.push(Layer { name, state });
    }

    fn add_file(&mut self, folder: &Folder, settings: &Settings, names: &str, budget: &mut usize) -> Result<()> {
        let name = format!("file/{names}");
        let read = folder.find(names).and_then(|item| match item.kind {
            ItemKind::File => read_values(folder, settings, &item),
            ItemKind::Folder => Err(Failure::denied("expected a file, found a directory")),
        });
        let (value, item) = match read {
            Ok(read) => read,
            Err(Failure::NotFound) => {
                self.layers.push(Layer { name, state: State::Absent });
                return Ok(());
            }
            // The file is too large, or a link that leads out of the directory. Any other failure is a failure of the
            // whole.
            Err(Failure::Denied(reason)) => {
                self.add(settings, name, Err(reason));
                return Ok(());
            }
            Err(failure) => return Err(failure),
        };
        self.modified = self.modified.max(item.modified);
        let size = usize::try_from(item.size).unwrap_or(usize::MAX);
        *budget = budget.checked_sub(size).ok_or_else(|| {
            let most = settings.max_file.saturating_mul(MAX_FULL_LAYERS);
            Failure::denied(format!("expected layers of at most {most} bytes together, found more at `{name}`"))
        })?;
        self.add(settings, name, value);
        Ok(())
    }

    /// Returns the document at a pointer: the redacted values, their origins, and the layers.
    ///
    /// # Errors
    ///
    /// [`Failure::NotFound`] if there is no value, [`Failure::Denied`] if there are too many.
    pub(crate) fn show(&self, settings: &Settings, pointer: &str) -> Result<Value> {
        let mut values = self.merged.to_value();
        settings.redactor.document(&mut values, &self.secrets);
        let values = values.pointer_mut(pointer).ok_or(Failure::NotFound)?.take();
        let mut origins = Map::new();
        let mut bytes: usize = 0;
        self.merged.origins(pointer, |at, origin| {
            bytes = bytes.saturating_add(at.len()).saturating_add(64);
            origins.insert(at.to_owned(), self.origin(origin));
            if bytes <= MAX_ORIGINS {
                return Ok(());
            }
            Err(Failure::denied("there are too many values for one answer; ask for a part: `effective?pointer=/KEY`"))
        })?;
        Ok(json!({ "values": values, "origins": origins, "layers": self.layers.iter().map(layer).collect::<Value>() }))
    }

    fn name(&self, layer: usize) -> &str {
        self.layers.get(layer).map(|layer| layer.name.as_str()).unwrap_or_default()
    }

    fn origin(&self, origin: &Origin) -> Value {
        let mut shown = Map::new();
        shown.insert("layer".to_owned(), self.name(origin.source.layer).into());
        if let Some(variable) = &origin.source.variable {
            shown.insert("variable".to_owned(), variable.as_ref().into());
        }
        if !origin.overrides.is_empty() {
            shown.insert("overrides".to_owned(), origin.overrides.iter().map(|layer| self.name(*layer)).collect());
        }
        Value::Object(shown)
    }
}

fn layer(layer: &Layer) -> Value {
    match &layer.state {
        State::Merged => json!({ "layer": layer.name }),
        State::Absent => json!({ "layer": layer.name, "absent": true }),
        State::Faulty(fault) => json!({ "layer": layer.name, "fault": fault }),
    }
}

/// Reads the values of a file, or the reason why it has none, with the file's metadata at the time of the read. Keys
/// are redacted.
///
/// # Errors
///
/// Failures of the file system, and [`Failure::Denied`] for a file that is too large.
pub(crate) fn read_values(
    folder: &Folder,
    settings: &Settings,
    item: &Item,
) -> Result<(std::result::Result<Value, String>, Item)> {
    let format = settings.formats.of(item.name()).ok_or(Failure::NotFound)?;
    let (bytes, item) = folder.read_whole(item, settings.max_file)?;
    let mut values = format.parse(&bytes);
    if let Ok(values) = &mut values {
        settings.redactor.keys(values);
    }
    Ok((values, item))
}
