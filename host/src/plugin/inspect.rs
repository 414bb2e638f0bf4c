//! What a component is and wants, found out without giving it anything.

use std::collections::BTreeSet;

use super::bindings::contract;
use super::loader::Compiled;
use super::needs::Needs;
use super::{LoadError, Plugins};
use crate::config::{self, Digest};

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
#[derive(Debug)]
pub struct Inspection {
    /// What the file is, by its content.
    pub digest: Digest,
    /// The size of the file in bytes.
    pub size: u64,
    /// The interfaces that it imports.
    pub imports: BTreeSet<String>,
    /// The interfaces that it exports.
    pub exports: BTreeSet<String>,
    /// What it imports against what its plugin is granted.
    pub needs: Needs,
    /// What it says of itself, if it gets that far.
    pub info: Result<Info, LoadError>,
}

impl Plugins {
    /// Compiles a plugin's component and, if it is a provider, asks it to describe itself, in a sandbox with nothing granted.
    /// Nothing else of it runs.
    ///
    /// # Errors
    ///
    /// The file is no component that this host can compile, or not the one that the plugin is pinned to. That it is no
    /// provider is part of the answer.
    pub async fn inspect(&self, plugin: &config::Plugin) -> Result<Inspection, LoadError> {
        let compiled = self.loader.load(plugin).await?;
        let engine = self.engine.wasmtime();
        let component = compiled.component.component_type();
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
        Ok(Inspection {
            digest: compiled.digest,
            size: compiled.size,
            imports: names(&mut component.imports(engine).map(|(name, _)| name)),
            exports: names(&mut component.exports(engine).map(|(name, _)| name)),
            needs: Needs::of(component.imports(engine).map(|(name, _)| name), plugin),
            info: self.described(plugin, &compiled).await,
        })
    }

    async fn described(&self, plugin: &config::Plugin, compiled: &Compiled) -> Result<Info, LoadError> {
        let ungranted = config::Plugin { grants: config::Grants::default(), ..plugin.clone() };
        let provider = self.loader.link(&plugin.component, compiled)?;
        self.assemble(&ungranted, compiled, provider).describe().await.map_err(LoadError::Describe)
    }
}
