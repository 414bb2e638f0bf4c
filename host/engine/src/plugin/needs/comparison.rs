//! Compares the declared needs of a provider with the grants of its plugin.
//!
//! A need without a grant is no fault of the config: an admin may refuse it. So these are notes, not warnings, and so
//! are limits below the needs. A setting of another type than the provider declares, and the address of a server for
//! which there is no grant, are mistakes, and therefore warnings. [`Requirements`](crate::plugin::Requirements) finds
//! grants without a purpose.

use std::collections::BTreeSet;

use mcp_host_base::escape::{escape, is_unsafe};
use mcp_host_config as config;
use mcp_host_config::grants::Mode;
use mcp_host_model::net::{Origin, OriginPattern, Scheme};

use super::{NeededMode, Needs, SettingType};

/// The setting of providers that choose HTTP or HTTPS by host: the list of hosts without TLS.
const PLAIN_HTTP: &str = "plain-http";
/// The maximum number of notes about one plugin.
const MAX_NOTES: usize = 20;
/// The maximum length of a reason in a note, in characters.
const MAX_WHY: usize = 200;

impl Needs {
    /// Returns the settings of the plugin that have another type than its provider declares, or are addresses without a
    /// grant: one line each, escaped, at most 20.
    pub fn warnings(&self, plugin: &config::Plugin) -> Vec<String> {
        let settings = self.config.iter().filter_map(|(key, setting)| {
            let kind = setting.kind;
            let is_other = plugin.config.get(key).is_some_and(|text| !kind.accepts_text(text));
            let text =
                || format!("the provider reads `config.{key}` as {}, and the config has another type", kind.name());
            is_other.then(|| with_why(text(), setting.why.as_deref()))
        });
        settings.chain(self.plain_http_warnings(plugin)).chain(self.address_warnings(plugin)).take(MAX_NOTES).collect()
    }

    /// Returns warnings about granted origins without TLS that the provider requests with TLS, for which it has no
    /// grant: a provider that reads `config.plain-http` uses TLS for every host that is not in this list.
    fn plain_http_warnings<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        let plain = plain_hosts(plugin);
        let granted = plugin.grants.http.iter().filter(|_| self.config.contains_key(PLAIN_HTTP));
        let origins = granted.filter_map(|grant| grant.origin.exact()).filter(|origin| origin.scheme() == Scheme::Http);
        origins.filter_map(move |origin| {
            let (host, port) = (origin.host().to_string(), origin.port());
            let is_plain = is_plain(&plain, &host, Some(port));
            let with_tls = format!("https://{host}:{port}").parse::<Origin>();
            let is_granted_with_tls = with_tls.is_ok_and(|origin| grants_exactly(plugin, &origin));
            (!is_plain && !is_granted_with_tls).then(|| {
                shown(&format!(
                    "`grants.http` has {origin}, and `config.{PLAIN_HTTP}` does not have `{}`: the provider requests that host with \
                     TLS, which is not granted",
                    origin.authority()
                ))
            })
        })
    }

    /// Returns the needs of the provider without a grant, missing required settings, settings that the provider does
    /// not read, and limits below its needs: one line each, escaped, at most 20 and the number of others.
    pub fn notes(&self, plugin: &config::Plugin) -> Vec<String> {
        let mut all = self
            .http_notes(plugin)
            .chain(self.dir_notes(plugin))
            .chain(self.name_notes(plugin))
            .chain(self.config_notes(plugin))
            .chain(self.limit_notes(plugin));
        let mut notes: Vec<_> = all.by_ref().take(MAX_NOTES).collect();
        let more = all.count();
        if more > 0 {
            notes.push(format!("and {more} more that it asks for; `mcp-host inspect` prints all of it"));
        }
        notes
    }

    fn http_notes<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        let missing = self.http.iter().filter(|need| !grants_origin(plugin, &need.origin));
        missing.map(|need| not_granted("grants.http", &need.origin.to_string(), need.why.as_deref()))
    }

    /// Returns warnings about addresses without a grant in the settings that the provider reads: texts that are URLs,
    /// and all texts of settings that are declared as addresses.
    fn address_warnings<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        let plain = self.config.contains_key(PLAIN_HTTP).then(|| plain_hosts(plugin));
        self.config.iter().flat_map(move |(key, setting)| {
            let text = plugin.config.get(key).map(String::as_str).unwrap_or_default();
            let texts = match setting.kind {
                SettingType::Array if setting.address => serde_json::from_str::<Vec<String>>(text).unwrap_or_default(),
                SettingType::String => vec![text.to_owned()],
                _ => Vec::new(),
            };
            let is_address = |text: &&String| setting.address || text.contains("://");
            let origins = texts.iter().filter(is_address).filter_map(|text| origin_of(text, plain.as_deref()));
            let denied: BTreeSet<_> =
                origins.filter(|origin| !grants_exactly(plugin, origin)).map(|origin| origin.to_string()).collect();
            let warnings = denied.into_iter().map(|origin| {
                shown(&format!(
                    "`config.{key}` is at `{origin}`, which `grants.http` does not list: no request is sent there"
                ))
            });
            warnings.collect::<Vec<_>>()
        })
    }

    fn dir_notes<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        self.dirs.iter().filter_map(|need| {
            let path = format!("{} ({})", need.guest, if need.mode == NeededMode::ReadWrite { "rw" } else { "ro" });
            match plugin.grants.dirs.get(&need.guest).map(|grant| grant.mode) {
                None => Some(not_granted("grants.dirs", &path, need.why.as_deref())),
                Some(Mode::ReadOnly) if need.mode == NeededMode::ReadWrite => Some(with_why(
                    format!("it asks for `{path}` in `grants.dirs`, and is granted it read-only"),
                    need.why.as_deref(),
                )),
                Some(_) => None,
            }
        })
    }

    fn name_notes<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        let grants = &plugin.grants;
        let buckets = self.keyvalue.iter().filter(|need| !grants.keyvalue.contains_key(&need.bucket));
        let variables = self.env.iter().filter(|need| !grants.env.contains_key(&need.name));
        let databases = self.sql.iter().filter(|need| !grants.sql.contains_key(&need.database));
        let buckets = buckets.map(|need| not_granted("grants.keyvalue", need.bucket.as_str(), need.why.as_deref()));
        let databases = databases.map(|need| not_granted("grants.sql", need.database.as_str(), need.why.as_deref()));
        buckets
            .chain(databases)
            .chain(variables.map(|need| not_granted("grants.env", need.name.as_str(), need.why.as_deref())))
    }

    fn config_notes<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        let missing = self.config.iter().filter(|(key, setting)| setting.required && !plugin.config.contains_key(*key));
        let missing = missing.map(|(key, setting)| {
            let kind = setting.kind.name();
            let note = format!("it reads `config.{key}` ({kind}), which is required and not set");
            with_why(note, setting.why.as_deref())
        });
        // A provider without declared settings may read any key.
        let unknown = plugin.config.keys().filter(|key| !self.config.is_empty() && !self.config.contains_key(*key));
        missing.chain(unknown.map(|key| {
            let known: Vec<_> = self.config.keys().take(MAX_NOTES).map(|key| format!("`{key}`")).collect();
            let meant = config::closest(key, self.config.keys().map(String::as_str));
            let meant = meant.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
            shown(&format!("it does not say that it reads `config.{key}`{meant}; it reads {}", known.join(", ")))
        }))
    }

    /// Notes about limits below the provider's minimum. If the component exports `prepare`,
    /// [`preparation_note`](crate::plugin::preparation_note) reports that nothing is prepared.
    fn limit_notes<'a>(&'a self, plugin: &'a config::Plugin) -> impl Iterator<Item = String> + 'a {
        self.limits.iter().filter_map(|(key, need)| {
            let has = key.of(&plugin.limits)?;
            let note = || format!("it asks for `limits.{key}` of at least {}, and the plugin has {has}", need.min);
            (has < need.min).then(|| with_why(note(), need.why.as_deref()))
        })
    }
}

/// Returns whether a plugin may send requests to all origins of a pattern.
fn grants_origin(plugin: &config::Plugin, wanted: &OriginPattern) -> bool {
    let origin = wanted.to_string().parse::<Origin>().ok();
    let is_granted =
        |granted: &OriginPattern| granted == wanted || origin.as_ref().is_some_and(|origin| granted.matches(origin));
    plugin.grants.http.iter().any(|grant| is_granted(&grant.origin))
}

/// Returns whether a plugin may send requests to this origin.
fn grants_exactly(plugin: &config::Plugin, origin: &Origin) -> bool {
    plugin.grants.http.iter().any(|grant| grant.origin.matches(origin))
}

/// Returns the origin of an address: a URL, or a host with a path. If the provider chooses the scheme by host, its list
/// of hosts without TLS decides. If not, the scheme of the URL decides, and the default is TLS.
fn origin_of(address: &str, plain: Option<&[String]>) -> Option<Origin> {
    let (scheme, rest) = address.split_once("://").unwrap_or(("https", address));
    let authority = rest.split(['/', '?', '#']).next()?;
    let scheme = match plain {
        None => scheme,
        Some(plain) => {
            let origin = format!("https://{authority}").parse::<Origin>().ok()?;
            let has_port = authority.rsplit(':').next().is_some_and(|port| port.parse::<u16>().is_ok());
            let port = has_port.then(|| origin.port());
            if is_plain(plain, &origin.host().to_string(), port) { "http" } else { "https" }
        }
    };
    format!("{scheme}://{authority}").parse().ok()
}

/// Returns the hosts of the setting `plain-http`, in lower case.
fn plain_hosts(plugin: &config::Plugin) -> Vec<String> {
    let written = plugin.config.get(PLAIN_HTTP).and_then(|text| serde_json::from_str::<Vec<String>>(text).ok());
    written.unwrap_or_default().into_iter().map(|host| host.to_lowercase()).collect()
}

/// Returns whether a host is in the list of hosts without TLS, with or without a port.
fn is_plain(plain: &[String], host: &str, port: Option<u16>) -> bool {
    let has = |authority: &str| plain.iter().any(|plain| plain == authority);
    match port {
        None => has(host),
        Some(port) => has(&format!("{host}:{port}")) || port == 80 && has(host),
    }
}

fn not_granted(key: &str, name: &str, why: Option<&str>) -> String {
    with_why(format!("it asks for `{name}` in `{key}`, which is not granted"), why)
}

/// Appends the publisher's reason to a note.
fn with_why(note: String, why: Option<&str>) -> String {
    match why {
        None => shown(&note),
        Some(why) => {
            let mut short: String = why.chars().take(MAX_WHY).collect();
            if short.len() < why.len() {
                short.push('…');
            }
            shown(&format!("{note} (\"{short}\")"))
        }
    }
}

fn shown(note: &str) -> String {
    escape(note, is_unsafe).into_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use mcp_host_config::Secret;
    use mcp_host_config::grants::{DirGrant, HttpGrant, KeyvalueGrant, SqlGrant, SqlUrl};

    fn plugin() -> config::Plugin {
        config::Plugin::new("web".parse().unwrap(), "web.wasm", "web://".parse().unwrap())
    }

    fn needs(value: &serde_json::Value) -> Needs {
        Needs::parse(value.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_is_asked_for_and_not_granted_is_noted_with_the_reason() {
        let needs = needs(&json!({
            "http": [{ "origin": "https://docs.rs", "why": "pages" }],
            "dirs": [{ "guest": "/repo" }, { "guest": "/drafts", "mode": "rw" }],
            "keyvalue": [{ "bucket": "pages" }],
            "sql": [{ "database": "shop" }],
            "env": [{ "name": "LANG" }],
            "config": { "rev": { "type": "string", "required": true }, "a": { "type": "string" }, "most": { "type": "integer", "default": 1 } },
        }));
        assert_eq!(
            needs.notes(&plugin()),
            [
                "it asks for `https://docs.rs` in `grants.http`, which is not granted (\"pages\")",
                "it asks for `/repo (ro)` in `grants.dirs`, which is not granted",
                "it asks for `/drafts (rw)` in `grants.dirs`, which is not granted",
                "it asks for `pages` in `grants.keyvalue`, which is not granted",
                "it asks for `shop` in `grants.sql`, which is not granted",
                "it asks for `LANG` in `grants.env`, which is not granted",
                "it reads `config.rev` (string), which is required and not set",
            ]
        );
        let mut granted = plugin();
        let grants = &mut granted.grants;
        grants.http.add(HttpGrant::new("https://docs.rs".parse().unwrap())).unwrap();
        for guest in ["/repo", "/drafts"] {
            grants.dirs.insert(guest.parse().unwrap(), DirGrant { host: "/srv".into(), mode: Mode::ReadOnly });
        }
        grants.keyvalue.insert("pages".parse().unwrap(), KeyvalueGrant::default());
        grants.sql.insert("shop".parse().unwrap(), SqlGrant::new(SqlUrl::Sqlite("/srv/shop.db".into())));
        grants.env.insert("LANG".parse().unwrap(), Secret::new("ja".to_owned()));
        granted.config.insert("rev".to_owned(), "main".to_owned());
        assert_eq!(needs.notes(&granted), ["it asks for `/drafts (rw)` in `grants.dirs`, and is granted it read-only"]);
    }

    #[test]
    fn the_address_of_a_server_in_the_config_has_to_be_granted() {
        let needs = needs(&json!({ "config": { "url": { "type": "string" } } }));
        let mut plugin = plugin();
        plugin.grants.http.add(HttpGrant::new("http://localhost:9090".parse().unwrap())).unwrap();
        for (url, warnings) in [
            (
                "http://127.0.0.1:9090/x",
                &[
                    "`config.url` is at `http://127.0.0.1:9090`, which `grants.http` does not list: no request is sent there",
                ][..],
            ),
            ("http://localhost:9090/x", &[]),
            ("no address", &[]),
        ] {
            plugin.config.insert("url".to_owned(), url.to_owned());
            assert_eq!(needs.warnings(&plugin), warnings);
        }
    }

    #[test]
    fn each_address_of_a_list_has_to_be_granted_with_the_scheme_that_the_provider_uses() {
        let array = json!({ "type": "array", "address": true });
        let needs = needs(
            &json!({ "config": { "seeds": array, "formats": { "type": "array" }, "plain-http": { "type": "array" } } }),
        );
        let mut plugin = plugin();
        for origin in ["https://docs.rs", "http://localhost:8080", "https://*.example.com"] {
            plugin.grants.http.add(HttpGrant::new(origin.parse().unwrap())).unwrap();
        }
        let config = [
            ("formats", json!(["html"])),
            ("plain-http", json!(["localhost:8080", "plain.example.com"])),
            (
                "seeds",
                json!([
                    "docs.rs/serde/",
                    "https://docs.rs/a?b",
                    "http://docs.rs",
                    "localhost:8080/x",
                    "a.example.com",
                    "crates.io/a",
                    "https://crates.io/b",
                    "docs.rs:8443/",
                    "plain.example.com/",
                ]),
            ),
        ];
        plugin.config.extend(config.map(|(key, value)| (key.to_owned(), value.to_string())));
        let expected = ["http://plain.example.com", "https://crates.io", "https://docs.rs:8443"];
        let expected = expected.map(|origin| {
            format!("`config.seeds` is at `{origin}`, which `grants.http` does not list: no request is sent there")
        });
        assert_eq!(needs.warnings(&plugin), expected);
    }

    #[test]
    fn a_granted_origin_without_tls_has_to_be_among_the_hosts_that_the_provider_requests_so() {
        let reads = needs(&json!({ "config": { "plain-http": { "type": "array" } } }));
        for (origin, plain, is_warned) in [
            ("http://docs.rs:8080", None, true),
            ("http://docs.rs:8080", Some(r#"["docs.rs"]"#), true),
            ("http://docs.rs:8080", Some(r#"["Docs.rs:8080"]"#), false),
            ("http://docs.rs", Some(r#"["docs.rs"]"#), false),
            ("https://docs.rs", None, false),
            ("http://*.docs.rs", None, false),
        ] {
            let mut plugin = plugin();
            plugin.grants.http.add(HttpGrant::new(origin.parse().unwrap())).unwrap();
            plugin.config.extend(plain.map(|plain| ("plain-http".to_owned(), plain.to_owned())));
            let warnings = reads.warnings(&plugin);
            assert_eq!(!warnings.is_empty(), is_warned, "{origin} {plain:?}: {warnings:?}");
            assert!(needs(&json!({})).warnings(&plugin).is_empty(), "another provider may use both");
        }
    }

    #[test]
    fn a_pattern_that_covers_an_origin_grants_it() {
        for (wanted, granted, is_noted) in [
            ("https://a.example.com", "https://*.example.com", false),
            ("https://*.example.com", "https://*.example.com", false),
            ("https://*.example.com", "https://a.example.com", true),
            ("https://a.example.com:8443", "https://*.example.com", true),
        ] {
            let mut plugin = plugin();
            plugin.grants.http.add(HttpGrant::new(granted.parse().unwrap())).unwrap();
            let notes = needs(&json!({ "http": [{ "origin": wanted }] })).notes(&plugin);
            assert_eq!(!notes.is_empty(), is_noted, "{wanted} {granted}");
        }
    }

    #[test]
    fn settings_of_another_type_or_that_nobody_reads_are_noted() {
        let mut plugin = plugin();
        plugin.config.insert("most".to_owned(), "many".to_owned());
        plugin.config.insert("ref".to_owned(), "main".to_owned());
        let declared = needs(
            &json!({ "config": { "most": { "type": "integer", "default": 1 }, "rev": { "type": "string", "default": "" } } }),
        );
        assert_eq!(
            declared.notes(&plugin),
            ["it does not say that it reads `config.ref` (did you mean `rev`?); it reads `most`, `rev`"]
        );
        assert_eq!(
            declared.warnings(&plugin),
            ["the provider reads `config.most` as integer, and the config has another type"]
        );
        assert!(needs(&json!({})).notes(&plugin).is_empty(), "it may read any key");
    }

    #[test]
    fn limits_below_what_is_asked_for_are_noted() {
        let needs = needs(&json!({ "limits": {
            "memory": { "min": "64MiB" },
            "cpu": { "min": "2s", "why": "large files" },
            "http.rate": { "min": "2/s" },
            "prepare.cpu": { "min": "5m" },
        } }));
        let mut plugin = plugin();
        let cpu = "it asks for `limits.cpu` of at least 2s, and the plugin has 1s (\"large files\")";
        let rate = "it asks for `limits.http.rate` of at least 2/s, and the plugin has 60/m";
        assert_eq!(needs.notes(&plugin), [cpu, rate], "nothing is prepared, so no limit of it is too low");
        plugin.limits.cpu = "2s".parse().unwrap();
        plugin.limits.http.rate = "120/m".parse().unwrap();
        plugin.limits.prepare = Some(config::limits::PrepareLimits::default());
        let prepare = "it asks for `limits.prepare.cpu` of at least 5m, and the plugin has 1m";
        assert_eq!(needs.notes(&plugin), [prepare]);
        assert!(needs.warnings(&plugin).is_empty(), "an admin may well refuse it");
    }

    #[test]
    fn notes_are_bounded_and_escaped() {
        let buckets: Vec<_> = (0..100)
            .map(|number| json!({ "bucket": format!("b{number}"), "why": "\u{1b}[2J\n".repeat(1000) }))
            .collect();
        let needs = needs(&json!({ "keyvalue": buckets }));
        let notes = needs.notes(&plugin());
        assert_eq!(notes.len(), 21);
        assert_eq!(notes[20], "and 80 more that it asks for; `mcp-host inspect` prints all of it");
        assert!(notes.iter().all(|note| note.len() < 3000 && !note.contains(char::is_control)), "{notes:?}");
    }
}
