//! The info of this server: its name and its capabilities.
//!
//! Exactly the capabilities that exist are announced, in each revision those that the revision defines:
//!
//! | capability | when |
//! |---|---|
//! | `resources` | always; `listChanged` in it always, as a reload may change the listing; `subscribe` when a provider reports changes |
//! | `completions` | always, from 2025-03-26 on; the method is older than its capability |
//! | `logging` | in revisions with sessions |
//! | `prompts`, `tools` | when the config announces them; the lists are empty. `tools` also when the config has tools |
//! | `experimental` | with `sep-2093` in it, when that extension is enabled: SEP-2093 defines no capability, and this member is for features outside the revisions |
//! | `extensions` | with `io.modelcontextprotocol/skills` in it, when directories can be read, from 2026-07-28 on |

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rmcp::model::{
    ExperimentalCapabilities, ExtensionCapabilities, Implementation, JsonObject, PromptsCapability,
    SKILLS_EXTENSION_ID, ServerCapabilities, ServerConfig, ToolsCapability,
};
use serde_json::json;

use super::revision::Revision;
use crate::config::{AdvertisedCapability, Extension};
use crate::host::Host;

/// The info with the members of all revisions, built once for each version of the host.
#[derive(Debug, Default)]
pub(super) struct ServerInfoCache(ArcSwapOption<CachedServerInfo>);

#[derive(Debug)]
struct CachedServerInfo {
    version: u64,
    info: Arc<ServerConfig>,
}

impl ServerInfoCache {
    /// Returns the current info.
    pub(super) fn current(&self, host: &Host) -> Arc<ServerConfig> {
        let version = host.version();
        if let Some(made) = self.0.load().as_ref().filter(|made| made.version == version) {
            return made.info.clone();
        }
        let about = Arc::new(build(host));
        self.0.store(Some(Arc::new(CachedServerInfo { version, info: about.clone() })));
        about
    }
}

fn build(host: &Host) -> ServerConfig {
    let config = host.config();
    let server = &config.server;
    let mut capabilities = ServerCapabilities::builder().enable_resources().enable_completions().build();
    capabilities.logging = Some(JsonObject::new());
    if let Some(resources) = &mut capabilities.resources {
        resources.subscribe = host.supports_subscriptions().then_some(true);
        resources.list_changed = Some(true);
    }
    for announced in &server.advertise {
        match announced {
            AdvertisedCapability::Prompts => capabilities.prompts = Some(PromptsCapability::default()),
            AdvertisedCapability::Tools => capabilities.tools = Some(ToolsCapability::default()),
        }
    }
    if !server.tools.is_empty() {
        capabilities.tools = Some(ToolsCapability::default());
    }
    for extension in &server.extensions {
        match extension {
            Extension::Sep2093 => {
                let named = (extension.name().to_owned(), JsonObject::new());
                capabilities.experimental = Some(ExperimentalCapabilities::from([named]));
            }
            Extension::Sep2640DirectoryRead => {
                let settings = JsonObject::from_iter([("directoryRead".to_owned(), json!(true))]);
                let named = (SKILLS_EXTENSION_ID.to_owned(), settings);
                capabilities.extensions = Some(ExtensionCapabilities::from([named]));
            }
        }
    }
    let mut implementation = Implementation::new(server.name.as_str(), env!("CARGO_PKG_VERSION"));
    implementation.title = server.title.clone();
    let mut about = ServerConfig::new(capabilities).with_server_info(implementation);
    about.instructions = server.instructions.clone();
    about
}

/// Removes the members that the revision does not have.
pub(super) fn for_revision(mut about: ServerConfig, revision: Revision) -> ServerConfig {
    if !revision.has_completions_capability() {
        about.capabilities.completions = None;
    }
    if !revision.has_logging() {
        about.capabilities.logging = None;
    }
    if !revision.has_extensions() {
        about.capabilities.extensions = None;
    }
    if !revision.has_titles() {
        about.server_info.title = None;
    }
    about
}
