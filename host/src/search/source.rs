//! Sources: what is indexed of one plugin.

use governor::{DefaultDirectRateLimiter, RateLimiter};

use crate::config;
use crate::config::search::PluginSearch;
use crate::digest::Digest;
use crate::provider::NativePlugin;
use crate::resource::Resource;

/// The kinds of MIME types whose content is not read unless the config names them.
const BINARY_KINDS: [&str; 4] = ["image/", "audio/", "video/", "font/"];

/// What is indexed of a plugin.
#[derive(Debug)]
pub(crate) struct SearchSource {
    settings: PluginSearch,
    /// The digest of everything that the content depends on, as far as the config says.
    key: Digest,
    /// The budget of reads.
    reads: DefaultDirectRateLimiter,
}

impl SearchSource {
    /// The source of a plugin; none if it is not searched.
    pub(crate) fn of_component(plugin: &config::Plugin) -> Option<Self> {
        let config::Plugin { component, mount, config, grants, .. } = plugin;
        let settings = plugin.search.as_ref()?;
        Some(Self::new(settings, &format!("{component:?} {mount} {config:?} {grants:?}")))
    }

    /// The source of a native plugin; none if it is not searched.
    pub(crate) fn of_native(plugin: &NativePlugin) -> Option<Self> {
        Some(Self::new(plugin.search.as_ref()?, &format!("{} {}", plugin.name, plugin.mount)))
    }

    fn new(settings: &PluginSearch, identity: &str) -> Self {
        let PluginSearch { types, max_document, .. } = settings;
        let key = Digest::compute(format!("{identity} {types:?} {max_document:?}").as_bytes());
        Self { settings: settings.clone(), key, reads: RateLimiter::direct(settings.reads.quota()) }
    }

    pub(super) fn settings(&self) -> &PluginSearch {
        &self.settings
    }

    pub(super) fn key(&self) -> &[u8; 32] {
        self.key.bytes()
    }

    pub(super) fn reads(&self) -> &DefaultDirectRateLimiter {
        &self.reads
    }

    /// Whether a resource is indexed, by its URI, and found: the index may be older than the config.
    pub(super) fn includes(&self, uri: &str) -> bool {
        let uri = uri.split_once('?').map_or(uri, |(uri, _)| uri);
        let PluginSearch { include, exclude, .. } = &self.settings;
        (include.is_empty() || include.iter().any(|glob| glob.matches(uri)))
            && !exclude.iter().any(|glob| glob.matches(uri))
    }

    /// Whether the content of a resource is read, by what is known of it.
    pub(super) fn reads_content_of(&self, resource: &Resource) -> bool {
        let is_small = resource.size.is_none_or(|size| size <= self.settings.max_document.bytes());
        let is_text = match (resource.mime_type.as_deref(), self.settings.types.as_slice()) {
            (None, _) => true,
            (Some("inode/directory"), _) => false,
            (Some(kind), []) => {
                let kind = kind.to_ascii_lowercase();
                !BINARY_KINDS.iter().any(|binary| kind.starts_with(binary))
            }
            (Some(kind), types) => types.iter().any(|range| range.includes(kind)),
        };
        is_small && is_text
    }
}
