//! Inspection of a component without any grants.

use std::collections::BTreeSet;

use mcp_host_config as config;
use mcp_host_model::digest::Digest;
use mcp_host_model::provider::ProviderInfo;

use super::requirements::Requirements;
use super::{LoadError, Needs, NeedsError, PluginRuntime};
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
            needs,
            info: self.describe_without_grants(plugin, &compiled).await,
        })
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
