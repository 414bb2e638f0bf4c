//! Inspection of a component without any grants, and of a loaded plugin: what its provider needs against what it is
//! granted.

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

/// The imports, the exports and the self-description of a component.
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
    /// Its declared needs; none if it declares none.
    pub needs: Result<Option<Needs>, NeedsError>,
    /// Its description, if it loads that far.
    pub info: Result<ProviderInfo, LoadError>,
}

impl Plugin {
    /// Returns the warnings about its grants and settings without reading a file: empty until its declared needs have
    /// been read ([`PluginRuntime::warnings`]), and for a native provider.
    pub fn known_warnings(&self, config: &config::Plugin) -> Vec<String> {
        let mut requirements = self.requirements.clone();
        requirements.record_denied_buckets(self.denied_buckets());
        let of_needs = match self.needs.get() {
            None => return Vec::new(),
            Some(Ok(None)) => Vec::new(),
            Some(Ok(Some(needs))) => {
                requirements.apply_needs(needs);
                needs.warnings(config)
            }
            Some(Err(error)) => vec![error.warning()],
        };
        requirements.warnings().chain(of_needs).collect()
    }
}

impl PluginRuntime {
    /// Compiles a plugin's component and, if it is a provider, calls `describe` in a sandbox without grants. No other
    /// code of it runs.
    ///
    /// # Errors
    ///
    /// The file is not a component that this host can compile, or not the component that the plugin is pinned to. A
    /// component that is not a provider is no error, but part of the result.
    pub async fn inspect(&self, plugin: &config::Plugin) -> Result<Inspection, LoadError> {
        let compiled = self.loader.load(plugin).await?;
        let engine = compiled.component.engine();
        let component = compiled.component.component_type();
        let names = |names: &mut dyn Iterator<Item = &str>| names.map(str::to_owned).collect();
        let needs = self.needs(&plugin.component).await;
        let mut requirements = Requirements::new(component.imports(engine).map(|(name, _)| name), plugin);
        if let Ok(Some(needs)) = &needs {
            requirements.apply_needs(needs);
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

    /// Reads the declared needs of a component file's provider; none if it declares none.
    pub async fn needs(&self, component: &Path) -> Result<Option<Needs>, NeedsError> {
        let section = self.loader.custom_section(component, NEEDS_SECTION, MAX_NEEDS_LEN).await?;
        section.map(|section| Needs::parse(&section)).transpose()
    }

    /// Returns the imports of a loaded plugin's component and the buckets that it opened, compared with the grants of
    /// this config and with the declared needs of its provider. Reads the component's file once.
    pub async fn requirements(&self, plugin: &Plugin, config: &config::Plugin) -> Requirements {
        let mut requirements = plugin.requirements().clone();
        requirements.record_denied_buckets(plugin.denied_buckets());
        if plugin.digest().is_some()
            && let Ok(Some(needs)) = self.needs_of(plugin, config).await
        {
            requirements.apply_needs(needs);
        }
        requirements
    }

    /// Returns the warnings about a loaded plugin's grants and settings: all that `check` finds without a server and
    /// without a call. Reads the component's file once.
    pub async fn warnings(&self, plugin: &Plugin, config: &config::Plugin) -> Vec<String> {
        if plugin.digest().is_some() {
            // A failure is one of the warnings.
            let _ = self.needs_of(plugin, config).await;
        }
        plugin.known_warnings(config)
    }

    /// Returns the declared needs of a loaded component's provider. Reads the component's file once.
    async fn needs_of<'p>(
        &self,
        plugin: &'p Plugin,
        config: &config::Plugin,
    ) -> Result<Option<&'p Needs>, &'p NeedsError> {
        let needs = plugin.needs.get_or_init(|| self.needs(&config.component)).await;
        needs.as_ref().map(Option::as_ref)
    }

    /// Returns the declared needs of a loaded plugin's provider that this config does not grant: one line each
    /// ([`Needs::notes`]). Also returns invalid settings ([`Needs::warnings`]), and whether its preparation is not
    /// permitted. Reads the component's file once.
    pub async fn unmet_needs(&self, plugin: &Plugin, config: &config::Plugin) -> Vec<String> {
        if plugin.digest().is_none() {
            return Vec::new();
        }
        let needs = self.needs_of(plugin, config).await.unwrap_or_default();
        let unmet = needs.iter().flat_map(|needs| needs.warnings(config).into_iter().chain(needs.notes(config)));
        unmet.chain(preparation_note(plugin.preparation().is_some(), config, needs)).collect()
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
