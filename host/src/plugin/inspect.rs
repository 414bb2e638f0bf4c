//! What a component is and wants, found out without giving it anything.

use std::collections::BTreeSet;

use super::bindings::contract;
use super::digest::Digest;
use super::{LoadError, Plugins};
use crate::config;

/// What a provider says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// A short name for programs.
    pub name: String,
    /// The provider's own version.
    pub version: String,
    /// Its name as people read it.
    pub title: Option<String>,
    /// What it serves and how its paths are built.
    pub description: Option<String>,
    /// Whether it can tell what changed.
    pub watches: bool,
}

impl From<contract::ProviderInfo> for Info {
    fn from(info: contract::ProviderInfo) -> Self {
        Self {
            name: info.name,
            version: info.version,
            title: info.title,
            description: info.description,
            watches: info.watches,
        }
    }
}

/// What a component is and wants.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// What the file is, by its content.
    pub digest: Digest,
    /// The size of the file in bytes.
    pub size: u64,
    /// The interfaces that it imports.
    pub imports: BTreeSet<String>,
    /// The interfaces that it exports.
    pub exports: BTreeSet<String>,
    /// What it says of itself, if it gets that far.
    pub info: Result<Info, super::Fault>,
}

impl Plugins {
    /// Loads a plugin's component and asks it to describe itself. Nothing else of it runs.
    pub async fn inspect(&self, plugin: &config::Plugin) -> Result<Inspection, LoadError> {
        let loaded = self.loader.load(&plugin.component).await?;
        let engine = self.engine.wasmtime();
        let component = loaded.component.component_type();
        let imports = component.imports(engine).map(|(name, _)| name.to_owned()).collect();
        let exports = component.exports(engine).map(|(name, _)| name.to_owned()).collect();
        let info = self.assemble(plugin, &loaded).describe().await;
        Ok(Inspection { digest: loaded.digest, size: loaded.size, imports, exports, info })
    }
}
