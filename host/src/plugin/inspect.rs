//! What a component is and wants, found out without giving it anything.

use std::collections::BTreeSet;

use super::requirements::Requirements;
use super::{LoadError, PluginRuntime};
use crate::config;
use crate::digest::Digest;
use crate::engine::bindings::contract;
use crate::engine::loader::CompiledComponent;
use crate::text::truncate;

/// Bytes that are kept of a provider's name, version and title, each.
const MAX_NAME: usize = 1024;
/// Bytes that are kept of a provider's description.
const MAX_DESCRIPTION: usize = 65_536;

/// What a provider says of itself. It is kept for as long as the plugin is loaded, so texts are cut: names at 1 KiB, the
/// description at 64 KiB.
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
            name: truncate(info.name, MAX_NAME),
            version: truncate(info.version, MAX_NAME),
            title: info.title.map(|title| truncate(title, MAX_NAME)),
            description: info.description.map(|description| truncate(description, MAX_DESCRIPTION)),
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
    pub requirements: Requirements,
    /// What it says of itself, if it gets that far.
    pub info: Result<Info, LoadError>,
}

impl PluginRuntime {
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
            requirements: Requirements::new(component.imports(engine).map(|(name, _)| name), plugin),
            info: self.describe_without_grants(plugin, &compiled).await,
        })
    }

    async fn describe_without_grants(
        &self,
        plugin: &config::Plugin,
        compiled: &CompiledComponent,
    ) -> Result<Info, LoadError> {
        let ungranted = config::Plugin { grants: config::grants::Grants::default(), ..plugin.clone() };
        let provider = self.loader.link(&plugin.component, compiled)?;
        self.build(&ungranted, compiled, provider).describe().await.map_err(LoadError::Describe)
    }
}
