//! `wasi:config/store`: the plugin's `config` table, and what the host tells a provider about its limits.
//!
//! Keys that begin with `mcp-host/` are the host's, and an error in a `config` table: `get` answers them, and `get-all` does not have them, because a provider
//! may refuse keys that it does not know. A provider that asks a host that does not know such a key gets none.
//!
//! | key | value |
//! |---|---|
//! | `mcp-host/limits.cpu-ms` | `limits.cpu` in milliseconds |
//! | `mcp-host/limits.deadline-ms` | `limits.deadline` in milliseconds |

use std::collections::BTreeMap;
use std::time::Duration;

use super::bindings::store;
use super::state::GuestState;
use crate::config;

/// What a plugin reads of its config.
pub(crate) struct GuestConfig {
    /// The `config` table.
    table: BTreeMap<String, String>,
    /// The values of the host's keys.
    reserved: [(&'static str, String); 2],
}

impl GuestConfig {
    /// The config of a plugin.
    pub(super) fn new(plugin: &config::Plugin) -> Self {
        Self {
            table: plugin.config.clone(),
            reserved: [
                ("mcp-host/limits.cpu-ms", milliseconds(plugin.limits.cpu.duration())),
                ("mcp-host/limits.deadline-ms", milliseconds(plugin.limits.deadline.duration())),
            ],
        }
    }

    fn get(&self, key: &str) -> Option<&String> {
        let reserved = self.reserved.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        reserved.or_else(|| self.table.get(key))
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

impl store::Host for GuestState {
    fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<String>, store::Error>> {
        Ok(Ok(self.config.get(&key).cloned()))
    }

    fn get_all(&mut self) -> wasmtime::Result<Result<Vec<(String, String)>, store::Error>> {
        Ok(Ok(self.config.table.iter().map(|(key, value)| (key.clone(), value.clone())).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_can_ask_for_its_limits_and_does_not_get_them_among_its_settings() {
        let text = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\nlimits = { cpu = '3s', deadline = '7s' }\n\
                    config = { rev = 'main' }\n";
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        let config = config::Config::parse(text, &dir.path().join("mcp-host.toml")).unwrap();
        let guest = GuestConfig::new(&config.plugins[0]);
        assert_eq!(guest.get("mcp-host/limits.cpu-ms").map(String::as_str), Some("3000"));
        assert_eq!(guest.get("mcp-host/limits.deadline-ms").map(String::as_str), Some("7000"));
        assert_eq!(guest.table.keys().collect::<Vec<_>>(), ["rev"]);
    }
}
