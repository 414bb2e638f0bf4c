//! `wasi:config/store`: the plugin's `config` table, and the host's values about the plugin's limits and grants.
//!
//! Keys that begin with `mcp-host/` belong to the host, and are an error in a `config` table. `get` answers them, but
//! `get-all` leaves them out, because a provider may refuse unknown keys. A host that does not know such a key answers
//! none.
//!
//! | key | value |
//! |---|---|
//! | `mcp-host/limits.cpu-ms` | `limits.cpu` in milliseconds |
//! | `mcp-host/limits.deadline-ms` | `limits.deadline` in milliseconds |
//! | `mcp-host/limits.prepare.cpu-ms` | `limits.prepare.cpu` in milliseconds; none if `prepare` is not called |
//! | `mcp-host/prepare.percent` | the finished part of the preparation, `0` to `100`; none if it is unknown |
//! | `mcp-host/grants.http/ORIGIN` | whether requests to the origin are granted, `true` or `false`: `mcp-host/grants.http/https://docs.rs` |
//! | `mcp-host/grants.keyvalue/NAME` | whether the bucket is granted, `true` or `false` |
//!
//! Data that a provider has stored, in a bucket or a directory, remains after a reload has revoked a grant. The key of
//! origins is for a provider that serves stored responses of web servers. It is answered by the same look-up that
//! decides about requests, so a provider does not have to parse patterns of origins. For an origin that is invalid or
//! longer than [`MAX_ORIGIN_LEN`], the value is `false`. The key of buckets is for a provider that can work without a
//! bucket, because an attempt to open a bucket that is not granted is logged.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use mcp_host_config as config;
use mcp_host_config::grants::HttpGrants;
use mcp_host_model::net::Origin;

/// The prefix of the keys for granted origins.
const HTTP_GRANT: &str = "mcp-host/grants.http/";
/// The prefix of the keys for granted buckets.
const KEYVALUE_GRANT: &str = "mcp-host/grants.keyvalue/";
/// The key of the finished part of the preparation.
const PREPARED: &str = "mcp-host/prepare.percent";
/// The maximum length of an origin in a key, enough for a scheme, the longest host name and a port.
const MAX_ORIGIN_LEN: usize = 512;

/// The finished part of a plugin's preparation.
#[derive(Debug)]
pub struct PreparedPercent(AtomicU8);

impl PreparedPercent {
    /// A number that is not a percentage.
    const UNKNOWN: u8 = u8::MAX;

    /// Sets the percentage. None if it is unknown.
    pub fn set(&self, percent: Option<u8>) {
        self.0.store(percent.unwrap_or(Self::UNKNOWN), Ordering::Relaxed);
    }

    /// Returns the percentage, if it is known.
    pub fn get(&self) -> Option<u8> {
        Some(self.0.load(Ordering::Relaxed)).filter(|percent| *percent <= 100)
    }
}

impl Default for PreparedPercent {
    fn default() -> Self {
        Self(AtomicU8::new(Self::UNKNOWN))
    }
}

/// The config that a plugin reads.
pub(crate) struct GuestConfig {
    /// The `config` table.
    table: BTreeMap<String, String>,
    /// The values of the host's keys.
    reserved: Vec<(&'static str, String)>,
    /// The finished part of the preparation.
    prepared: Arc<PreparedPercent>,
    /// The granted origins.
    http: HttpGrants,
    /// The granted buckets.
    buckets: BTreeSet<String>,
}

impl GuestConfig {
    /// Creates the config of a plugin.
    pub(super) fn new(plugin: &config::Plugin, prepared: Arc<PreparedPercent>) -> Self {
        let limits = &plugin.limits;
        let prepare = limits.prepare.as_ref().map(|prepare| prepare.cpu.duration());
        let limits = [
            ("mcp-host/limits.cpu-ms", Some(limits.cpu.duration())),
            ("mcp-host/limits.deadline-ms", Some(limits.deadline.duration())),
            ("mcp-host/limits.prepare.cpu-ms", prepare),
        ];
        Self {
            table: plugin.config.clone(),
            reserved: limits.into_iter().filter_map(|(key, limit)| Some((key, milliseconds(limit?)))).collect(),
            prepared,
            http: plugin.grants.http.clone(),
            buckets: plugin.grants.keyvalue.keys().map(ToString::to_string).collect(),
        }
    }

    /// The value of a key. None if it is not set.
    pub(crate) fn get(&self, key: &str) -> Option<String> {
        if let Some(origin) = key.strip_prefix(HTTP_GRANT) {
            return Some(self.is_granted(origin).to_string());
        }
        if let Some(bucket) = key.strip_prefix(KEYVALUE_GRANT) {
            return Some(self.buckets.contains(bucket).to_string());
        }
        if key == PREPARED {
            return self.prepared.get().map(|percent| percent.to_string());
        }
        let reserved = self.reserved.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        reserved.or_else(|| self.table.get(key)).cloned()
    }

    /// The provider's own table, without the host's keys.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        self.table.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Returns whether requests to an origin are granted.
    fn is_granted(&self, origin: &str) -> bool {
        let origin =
            Some(origin).filter(|origin| origin.len() <= MAX_ORIGIN_LEN).and_then(|text| text.parse::<Origin>().ok());
        origin.is_some_and(|origin| self.http.grant_for(&origin).is_some())
    }
}

fn milliseconds(duration: Duration) -> String {
    duration.as_millis().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the config that the plugin in a config file reads. Its component is a file, because the config must not
    /// name a missing one.
    fn guest_config(text: &str) -> GuestConfig {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.wasm"), "").unwrap();
        let config = config::Config::parse(text, &dir.path().join("mcp-host.toml")).unwrap();
        GuestConfig::new(&config.plugins[0], Arc::default())
    }

    #[test]
    fn a_provider_can_ask_whether_it_is_prepared_and_how_far() {
        let text = |limits| {
            format!("[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\nlimits = {{ {limits} }}\n")
        };
        let prepared = guest_config(&text("prepare = { cpu = '90s' }"));
        let [cpu, percent] = ["mcp-host/limits.prepare.cpu-ms", "mcp-host/prepare.percent"];
        assert_eq!((prepared.get(cpu).as_deref(), prepared.get(percent)), (Some("90000"), None));
        prepared.prepared.set(Some(42));
        assert_eq!(prepared.get(percent).as_deref(), Some("42"));
        prepared.prepared.set(None);
        assert_eq!(prepared.get(percent), None);
        assert_eq!(guest_config(&text("")).get(cpu), None);
    }

    #[test]
    fn a_provider_can_ask_for_its_limits_and_does_not_get_them_among_its_settings() {
        let text = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\nlimits = { cpu = '3s', deadline = '7s' }\n\
                    config = { rev = 'main' }\n";
        let guest = guest_config(text);
        assert_eq!(guest.get("mcp-host/limits.cpu-ms").as_deref(), Some("3000"));
        assert_eq!(guest.get("mcp-host/limits.deadline-ms").as_deref(), Some("7000"));
        assert_eq!(guest.table.keys().collect::<Vec<_>>(), ["rev"]);
    }

    #[test]
    fn a_provider_can_ask_whether_an_origin_is_granted_and_gets_the_answer_of_the_lookup_for_requests() {
        let text = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\n\
                    grants.http = ['https://docs.rs', 'https://*.example.com', 'http://127.0.0.1:8080']\n";
        let guest = guest_config(text);
        let long = format!("https://{}.example.com", "a.".repeat(MAX_ORIGIN_LEN));
        for (origin, expected) in [
            ("https://docs.rs", "true"),
            ("https://DOCS.rs:443", "true"),
            ("https://a.b.example.com", "true"),
            ("http://127.0.0.1:8080", "true"),
            ("http://docs.rs", "false"),
            ("https://docs.rs:8443", "false"),
            ("https://example.com", "false"),
            ("http://127.0.0.1", "false"),
            ("https://*.example.com", "false"),
            ("docs.rs", "false"),
            ("", "false"),
            (&long, "false"),
        ] {
            assert_eq!(guest.get(&format!("{HTTP_GRANT}{origin}")).as_deref(), Some(expected), "{origin}");
        }
        assert_eq!(guest.get("mcp-host/grants.http"), None);
    }

    #[test]
    fn a_provider_can_ask_whether_a_bucket_is_granted() {
        let text = "[[plugin]]\nname = 'a'\ncomponent = 'a.wasm'\nmount = 'a:///'\ngrants.keyvalue = ['pages']\n";
        let guest = guest_config(text);
        for (bucket, expected) in [("pages", "true"), ("Pages", "false"), ("", "false")] {
            assert_eq!(guest.get(&format!("{KEYVALUE_GRANT}{bucket}")).as_deref(), Some(expected), "{bucket}");
        }
    }
}
