//! Inspection of a component without any grants.

use std::collections::BTreeSet;
use std::path::Path;

use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::ProviderInfo;

use super::preparation::preparation_note;
use super::requirements::Requirements;
use super::{LoadError, MAX_NEEDS_LEN, NEEDS_SECTION, Needs, NeedsError, Plugin, PluginRuntime};
use crate::bindings::PREPARE;
use crate::loader::CompiledComponent;

/// What a component imports, exports and says about itself.
#[derive(Debug)]
pub struct Inspection {
    /// The digest of the file.
    pub digest: Digest,
    /// The size of the file in bytes.
    pub size: u64,
    /// The interfaces that it imports.
    pub imports: BTreeSet<String>,
    /// The interfaces that it exports.
    pub exports: BTreeSet<String>,
    /// The imports, compared with the grants of the plugin.
    pub requirements: Requirements,
    /// Whether it exports `prepare`.
    pub prepares: bool,
    /// What it asks for; none if it does not say.
    pub needs: Result<Option<Needs>, NeedsError>,
    /// Its description, if it loads that far.
    pub info: Result<ProviderInfo, LoadError>,
}

impl PluginRuntime {
    /// Compiles a plugin's component and, if it is a provider, calls `describe`, in a sandbox without grants. Nothing
    /// else of it runs.
    ///
    /// # Errors
    ///
    /// The file is not a component that this host can compile, or not the one that the plugin is pinned to. A component
    /// that is not a provider is part of the answer.
    pub async fn inspect(&self, plugin: &config::Plugin) -> Result<Inspection, LoadError> {
        let compiled = self.loader.load(plugin).await?;
        let engine = self.engine.wasmtime();
        let component = compiled.component.component_type();
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
        let needs = self.needs(&plugin.component).await;
        let mut requirements = Requirements::new(component.imports(engine).map(|(name, _)| name), plugin);
        if let Ok(Some(needs)) = &needs {
            requirements.excuse_optional_buckets(needs);
        }
        Ok(Inspection {
            digest: compiled.digest,
            size: compiled.size,
            imports: names(&mut component.imports(engine).map(|(name, _)| name)),
            exports: names(&mut component.exports(engine).map(|(name, _)| name)),
            requirements,
            prepares: compiled.component.get_export_index(None, PREPARE).is_some(),
            needs,
            info: self.describe_without_grants(plugin, &compiled).await,
        })
    }

    /// Reads what the provider of a component file asks for; none if it does not say.
    pub async fn needs(&self, component: &Path) -> Result<Option<Needs>, NeedsError> {
        let section = self.loader.custom_section(component, NEEDS_SECTION, MAX_NEEDS_LEN).await?;
        section.map(|section| Needs::parse(&section)).transpose()
    }

    /// Returns what the provider of a loaded plugin asks for, beyond what that config grants it: a line each ([`Needs::notes`]), and
    /// settings that are mistakes ([`Needs::warnings`]), and that it may not prepare its data. The component's file is read once.
    pub async fn unmet_needs(&self, plugin: &Plugin, config: &config::Plugin) -> Vec<String> {
        if plugin.digest().is_none() {
            return Vec::new();
        }
        let read = async { self.needs(&config.component).await.unwrap_or_default() };
        let needs = plugin.needs.get_or_init(|| read).await;
        let unmet = needs.iter().flat_map(|needs| needs.warnings(config).into_iter().chain(needs.notes(config)));
        unmet.chain(preparation_note(plugin.preparation().is_some(), config, needs.as_ref())).collect()
    }

    async fn describe_without_grants(
        &self,
        plugin: &config::Plugin,
        compiled: &CompiledComponent,
    ) -> Result<ProviderInfo, LoadError> {
        let ungranted = config::Plugin { grants: config::grants::Grants::default(), ..plugin.clone() };
        let provider = self.loader.link(plugin, compiled)?;
        self.build(&ungranted, compiled, provider).describe().await.map_err(LoadError::Describe)
    }
}
