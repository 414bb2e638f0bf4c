//! What this server says of itself, as the config has it by now.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use rmcp::model::{Implementation, JsonObject, ServerCapabilities, ServerConfig};

use crate::host::Host;

/// What this server says of itself, made once for each generation.
#[derive(Debug, Default)]
pub(super) struct About(ArcSwapOption<Made>);

#[derive(Debug)]
struct Made {
    generation: u64,
    info: Arc<ServerConfig>,
}

impl About {
    /// What it says now.
    pub(super) fn now(&self, host: &Host) -> Arc<ServerConfig> {
        let generation = host.generation();
        if let Some(made) = self.0.load().as_ref().filter(|made| made.generation == generation) {
            return made.info.clone();
        }
        let info = Arc::new(info(host));
        self.0.store(Some(Arc::new(Made { generation, info: info.clone() })));
        info
    }
}

fn info(host: &Host) -> ServerConfig {
    let config = host.config();
    let server = &config.server;
    let mut capabilities = ServerCapabilities::builder().enable_resources().enable_completions().build();
    capabilities.logging = Some(JsonObject::new());
    if let Some(resources) = &mut capabilities.resources {
        resources.subscribe = host.is_watching().then_some(true);
        // A reload may change it, whatever the providers do.
        resources.list_changed = Some(true);
    }
    let mut implementation = Implementation::new(server.name.as_str(), env!("CARGO_PKG_VERSION"));
    implementation.title = server.title.clone();
    let mut info = ServerConfig::new(capabilities).with_server_info(implementation);
    info.instructions = server.instructions.clone();
    info
}
