//! The source of a plugin's search index, by its config: resources, the budget of reads, and the identity of the
//! content.

use governor::{DefaultDirectRateLimiter, RateLimiter};
use hmac::Mac;
use mcp_host_base::private_dir::{self, SECRET_LEN};
use mcp_host_config as config;
use mcp_host_config::Secret;
use mcp_host_config::search::PluginSearch;
use mcp_host_model::resource::Resource;
use mcp_host_model::uri::Mount;
use zeroize::Zeroizing;

use super::NativePlugin;

/// The prefixes of MIME types whose content is not read unless the config names them.
const BINARY_KINDS: [&str; 4] = ["image/", "audio/", "video/", "font/"];

/// The source of a plugin's search index.
#[derive(Debug)]
pub struct SearchSource {
    settings: PluginSearch,
    /// All settings of the config that the content depends on, including the values of secrets: another password may
    /// open another database.
    identity: Secret<String>,
    /// The values of secrets, and the settings of search: what the content depends on, besides what all replicas of a
    /// cluster that share polls have in common.
    shared_identity: Secret<String>,
    /// The budget of reads.
    reads: DefaultDirectRateLimiter,
}

impl SearchSource {
    /// Creates the source of a plugin in the config; none if it is not searched.
    pub fn of_component(plugin: &config::Plugin) -> Option<Self> {
        let config::Plugin { component, mount, config, grants, upstream, .. } = plugin;
        let secrets: Vec<_> = grants.secrets().collect();
        let mut identity = format!("{component:?} {mount} {config:?} {grants:?} {secrets:?}");
        if let Some(upstream) = upstream {
            let token = upstream.authorization.as_ref().map(|value| value.expose().as_str());
            identity = format!("{identity} {upstream:?} {token:?}");
        }
        Some(Self::new(plugin.search.as_ref()?, identity, &Zeroizing::new(format!("{secrets:?}"))))
    }

    /// Creates the source of a native plugin; none if it is not searched.
    pub(crate) fn of_native(plugin: &NativePlugin) -> Option<Self> {
        Some(Self::new(plugin.search.as_ref()?, format!("{} {}", plugin.name, plugin.mount), ""))
    }

    fn new(settings: &PluginSearch, identity: String, secrets: &str) -> Self {
        let PluginSearch { include, exclude, types, max_document, max_bytes, .. } = settings;
        let identity = Zeroizing::new(identity);
        let identity = Secret::new(format!("{} {types:?} {max_document:?}", *identity));
        let shared_identity =
            Secret::new(format!("{secrets} {include:?} {exclude:?} {types:?} {max_document:?} {max_bytes:?}"));
        let reads = RateLimiter::direct(settings.reads.quota());
        Self { settings: settings.clone(), identity, shared_identity, reads }
    }

    /// Returns a value that is equal at all replicas of a cluster with this secret whose index has the same content,
    /// and reveals nothing about the values of secrets. `plugin` is what the replicas compare to share their polls, and
    /// `form` describes the form of the index.
    pub fn shared_key(&self, secret: &[u8; SECRET_LEN], plugin: &[u8], form: &str) -> [u8; 32] {
        private_dir::derive(secret, &[form.as_bytes(), plugin, self.shared_identity.expose().as_bytes()])
    }

    /// Returns the key of the source in an index with this secret: an authentication code, which reveals nothing about
    /// the values of secrets.
    pub fn key(&self, secret: &[u8; SECRET_LEN]) -> [u8; 32] {
        let mut mac = private_dir::mac(secret);
        mac.update(self.identity.expose().as_bytes());
        mac.finalize().into_bytes().into()
    }

    /// The settings of its search.
    pub fn settings(&self) -> &PluginSearch {
        &self.settings
    }

    /// The rate limit of reads for the index.
    pub fn reads(&self) -> &DefaultDirectRateLimiter {
        &self.reads
    }

    /// Returns whether the resource with this URI is indexed and may be found: the index may be older than the config.
    pub fn includes(&self, uri: &str) -> bool {
        let uri = uri.split_once('?').map_or(uri, |(uri, _)| uri);
        let PluginSearch { include, exclude, .. } = &self.settings;
        (include.is_empty() || include.iter().any(|glob| glob.matches(uri)))
            && !exclude.iter().any(|glob| glob.matches(uri))
    }

    /// Returns the URI of an indexed document; none if the config does not include it, because the index may be older,
    /// or shared with another host.
    pub fn uri(&self, mount: &Mount, path: &str) -> Option<String> {
        let uri = [mount.as_str(), path].concat();
        self.includes(&uri).then_some(uri)
    }

    /// Returns whether the content of a resource is read, judging by its metadata.
    pub fn reads_content_of(&self, resource: &Resource) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use mcp_host_config::Plugin;

    #[test]
    fn a_source_is_another_one_with_another_secret_and_shows_none() {
        let source = |value: &str| {
            let mut plugin = Plugin::new("shop".parse().unwrap(), "shop.wasm", "shop:///".parse().unwrap());
            plugin.search = Some(PluginSearch::default());
            plugin.grants.env.insert("TOKEN".parse().unwrap(), Secret::new(value.to_owned()));
            SearchSource::of_component(&plugin).unwrap()
        };
        let (one, other) = (source("tulip"), source("rose"));
        assert_eq!(one.key(&[1; 32]), source("tulip").key(&[1; 32]));
        assert_ne!(one.key(&[1; 32]), other.key(&[1; 32]));
        assert_ne!(one.key(&[1; 32]), one.key(&[2; 32]), "without the key of the index it tells nothing");
        assert!(!format!("{one:?}").contains("tulip"));
        let shared = |source: &SearchSource| source.shared_key(&[1; 32], b"plugin", "form");
        assert_eq!(shared(&one), shared(&source("tulip")));
        assert_ne!(shared(&one), shared(&other), "a replica with other credentials has another index");
        for another in [
            one.shared_key(&[2; 32], b"plugin", "form"),
            one.shared_key(&[1; 32], b"other", "form"),
            one.shared_key(&[1; 32], b"plugin", "other"),
        ] {
            assert_ne!(another, shared(&one));
        }
    }
}
