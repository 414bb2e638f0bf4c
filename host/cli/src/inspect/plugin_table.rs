//! An entry `[[plugin]]` for a component, with the needs of its provider.
//!
//! The publisher wrote the names and texts in the entry, so each stands in a TOML string or behind a `#`, and
//! characters that could end that or mislead a reader are escaped. Values that only the admin knows are placeholders:
//! `PATH`, `URL`, `VALUE`. Each setting is valid TOML without its `#`.

use std::fmt::Write as _;
use std::path::{Path, absolute};

use mcp_host_base::escape::is_unsafe;
use mcp_host_base::text::wrap;
use mcp_host_config::PluginName;
use mcp_host_engine::plugin::{NeededMode, Needs, SettingType};
use mcp_host_model::digest::Digest;
use serde_json::Value;

use crate::escape;

/// The maximum length of a comment, in characters.
const MAX_COMMENT: usize = 200;
/// The maximum width of a line with its comment, in characters: a terminal.
const MAX_WIDTH: usize = 80;
/// The maximum length of a name in the table, in characters.
const MAX_NAME: usize = 32;

/// Renders the entry: lines of TOML, each with a line break.
pub(super) fn render(name: &str, component: &Path, digest: Digest, needs: &Needs) -> String {
    let name = plugin_name(name);
    let component = absolute(component).unwrap_or_else(|_| component.to_owned());
    let mut table = Lines(String::new());
    table.line("# What the provider asks for. It gets what stays here: remove what it should");
    table.line("# not have.");
    table.line("[[plugin]]");
    table.line(&format!("name = \"{name}\""));
    table.line(&format!("component = {}", string(&component.to_string_lossy())));
    table.line(&format!("digest = \"{digest}\""));
    table.line(&format!("mount = \"{name}:///\"   # the URIs that it owns"));
    table.0.push_str(&grants(needs));
    table.0
}

/// Renders the needs: lines of TOML in an entry, each with a line break.
pub(crate) fn grants(needs: &Needs) -> String {
    let mut table = Lines(String::new());
    table.list(
        "grants.dirs",
        needs.dirs.iter().map(|need| {
            let mode = if need.mode == NeededMode::ReadWrite { ", mode = \"rw\"" } else { "" };
            (format!("{{ host = \"PATH\", guest = {}{mode} }}", string(need.guest.as_str())), need.why.as_deref())
        }),
    );
    table.list("grants.http", needs.http.iter().map(|need| (string(&need.origin.to_string()), need.why.as_deref())));
    table
        .list("grants.keyvalue", needs.keyvalue.iter().map(|need| (string(need.bucket.as_str()), need.why.as_deref())));
    table.list(
        "grants.sql",
        needs.sql.iter().map(|need| {
            (format!("{{ name = {}, url = {{ env = \"URL\" }} }}", string(need.database.as_str())), need.why.as_deref())
        }),
    );
    for need in &needs.env {
        let (key, value) = (key(need.name.as_str()), string(need.name.as_str()));
        table.commented(&format!("grants.env.{key} = {{ env = {value} }}"), need.why.as_deref());
    }
    for (key, need) in &needs.limits {
        let line = format!("limits.{key} = \"{}\"", need.min);
        if need.is_default(*key) {
            let why = need.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            table.commented(&format!("# {line}"), Some(&format!("the default suffices{why}")));
        } else {
            table.commented(&line, need.why.as_deref());
        }
    }
    for (name, setting) in &needs.config {
        let (key, kind) = (key(name), setting.kind.name());
        let why = setting.why.as_ref().map_or_else(|| kind.to_owned(), |why| format!("{kind}: {why}"));
        // The provider uses its defaults without these lines.
        match &setting.default {
            Some(default) => table.commented(&format!("# config.{key} = {}", value(default)), Some(&why)),
            None => {
                let required = if setting.required { "required " } else { "" };
                let example = example(setting.kind);
                table.commented(&format!("# config.{key} = {example}"), Some(&format!("{required}{why}")));
            }
        }
    }
    table.0
}

/// A placeholder value of this type.
fn example(kind: SettingType) -> &'static str {
    match kind {
        SettingType::String => "\"VALUE\"",
        SettingType::Integer => "0",
        SettingType::Float => "0.0",
        SettingType::Boolean => "false",
        SettingType::Array => "[]",
        SettingType::Table => "{}",
    }
}

struct Lines(String);

impl Lines {
    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// Writes a line with a comment of the publisher: behind the line, or above it if both are wider than
    /// [`MAX_WIDTH`]. Above it the comment is indented, so that it cannot look like a commented-out setting.
    fn commented(&mut self, line: &str, why: Option<&str>) {
        let Some(why) = why.map(comment) else { return self.line(line) };
        let beside = format!("{line}   # {why}");
        if beside.chars().count() <= MAX_WIDTH {
            return self.line(&beside);
        }
        let indent: String = line.chars().take_while(|c| *c == ' ').collect();
        let begin = format!("{indent}#   ");
        for part in wrap(&why, MAX_WIDTH.saturating_sub(begin.len()), 0, 0).lines() {
            self.line(&format!("{begin}{part}"));
        }
        self.line(line);
    }

    /// Writes a list with an entry on each line.
    fn list<'w>(&mut self, key: &str, entries: impl Iterator<Item = (String, Option<&'w str>)>) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return;
        }
        self.line(&format!("{key} = ["));
        entries.for_each(|(entry, why)| self.commented(&format!("    {entry},"), why));
        self.line("]");
    }
}

/// A valid plugin name as close as possible to the provider's name. It is the scheme of the plugin's URIs, too.
fn plugin_name(name: &str) -> String {
    let is_valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let name = name.to_ascii_lowercase();
    let plain: String = name.chars().take(MAX_NAME).map(|c| if is_valid(c) { c } else { '-' }).collect();
    let plain = plain.trim_start_matches(|c: char| !c.is_ascii_lowercase()).trim_end_matches('-');
    if plain.parse::<PluginName>().is_ok() { plain.to_owned() } else { "provider".to_owned() }
}

/// A text for a comment: on one line, escaped, and truncated.
fn comment(text: &str) -> String {
    let mut short: String = text.chars().take(MAX_COMMENT).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    escape::line(&short).into_owned()
}

/// A key: bare if possible.
fn key(key: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if !key.is_empty() && key.chars().all(is_bare) { key.to_owned() } else { string(key) }
}

/// A string.
fn string(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len().saturating_add(2));
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            // Writing to a string cannot fail.
            c if is_unsafe(c) => {
                let _ = write!(quoted, "\\U{:08X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A value that has a TOML counterpart, as checked earlier.
fn value(json: &Value) -> String {
    match json {
        Value::Null => string(""),
        Value::Bool(_) | Value::Number(_) => json.to_string(),
        Value::String(text) => string(text),
        Value::Array(values) => format!("[{}]", values.iter().map(value).collect::<Vec<_>>().join(", ")),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members: Vec<_> =
                members.iter().map(|(name, member)| format!("{} = {}", key(name), value(member))).collect();
            format!("{{ {} }}", members.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use mcp_host_config::{Config, Environment};

    fn table(name: &str, needs: &Value) -> String {
        let needs = Needs::parse(needs.to_string().as_bytes()).unwrap();
        render(name, Path::new("/srv/web.wasm"), Digest::compute(b"component"), &needs)
    }

    #[test]
    fn everything_stands_where_the_config_has_it() {
        let rendered = table(
            "Web Cache",
            &json!({
                "http": [{ "origin": "https://docs.rs", "why": "pages" }, { "origin": "https://*.example.com" }],
                "dirs": [{ "guest": "/repo", "why": "the repository" }, { "guest": "/drafts", "mode": "rw" }],
                "keyvalue": [{ "bucket": "pages" }],
                "sql": [{ "database": "shop", "why": "orders" }],
                "env": [{ "name": "LANG", "why": "titles" }],
                "limits": {
                    "memory": { "min": "256MiB", "why": "the index" },
                    "cpu": { "min": "500ms", "why": "large files" },
                    "prepare.cpu": { "min": "5m" },
                },
                "config": {
                    "rev": { "type": "string", "default": "HEAD", "why": "the revision" },
                    "seeds": { "type": "array", "default": ["a", { "b c": 1.5 }] },
                    "token.name": { "type": "string", "required": true },
                },
            }),
        );
        let expected = format!(
            "# What the provider asks for. It gets what stays here: remove what it should\n\
             # not have.\n\
             [[plugin]]\n\
             name = \"web-cache\"\n\
             component = \"/srv/web.wasm\"\n\
             digest = \"{}\"\n\
             mount = \"web-cache:///\"   # the URIs that it owns\n\
             grants.dirs = [\n    \
                 {{ host = \"PATH\", guest = \"/repo\" }},   # the repository\n    \
                 {{ host = \"PATH\", guest = \"/drafts\", mode = \"rw\" }},\n\
             ]\n\
             grants.http = [\n    \
                 \"https://docs.rs\",   # pages\n    \
                 \"https://*.example.com\",\n\
             ]\n\
             grants.keyvalue = [\n    \
                 \"pages\",\n\
             ]\n\
             grants.sql = [\n    \
                 {{ name = \"shop\", url = {{ env = \"URL\" }} }},   # orders\n\
             ]\n\
             grants.env.LANG = {{ env = \"LANG\" }}   # titles\n\
             limits.memory = \"256MiB\"   # the index\n\
             # limits.cpu = \"500ms\"   # the default suffices: large files\n\
             limits.prepare.cpu = \"5m\"\n\
             # config.rev = \"HEAD\"   # string: the revision\n\
             # config.seeds = [\"a\", {{ \"b c\" = 1.5 }}]   # array\n\
             # config.\"token.name\" = \"VALUE\"   # required string\n",
            Digest::compute(b"component")
        );
        assert_eq!(rendered, expected);
    }

    /// Parses a table as a config with existing directories and components, and with its commented-out defaults.
    fn parse(table: &str, dir: &Path) -> Config {
        std::fs::write(dir.join("web.wasm"), "").unwrap();
        let table = table.replace("/srv/web.wasm", "web.wasm").replace("\"PATH\"", "\".\"");
        let table: String = table
            .lines()
            .map(|line| {
                line.strip_prefix("# ")
                    .filter(|line| line.starts_with("config.") && line.contains(" = "))
                    .unwrap_or(line)
                    .to_owned()
                    + "\n"
            })
            .collect();
        let environment = Environment::empty().variable("LANG", "ja").variable("A\"]\n[[rule]]", "x");
        match Config::parse_in(&table, &dir.join("mcp-host.toml"), &environment) {
            Ok(config) => config,
            Err(error) => panic!("{table}\n{error}"),
        }
    }

    #[test]
    fn a_comment_that_is_too_wide_beside_its_line_is_above() {
        let why = "the encoding of text that is not UTF-8, such as that of old files; detected unless set";
        let rendered = table(
            "web",
            &json!({
                "config": { "encoding": { "type": "string", "why": why } },
                "http": [{ "origin": "https://docs.example.com", "why": why }],
            }),
        );
        let expected = "#   string: the encoding of text that is not UTF-8, such as that of old files;\n\
                        #   detected unless set\n# config.encoding = \"VALUE\"\n";
        assert!(rendered.ends_with(expected), "{rendered}");
        assert!(rendered.contains("\n    #   the encoding of"), "{rendered}");
        let mut lines = rendered.lines().filter(|line| !line.starts_with("digest"));
        assert!(lines.all(|line| line.chars().count() <= MAX_WIDTH), "{rendered}");
    }

    #[test]
    fn the_table_is_a_valid_config() {
        let dir = tempfile::tempdir().unwrap();
        let needs = json!({
            "http": [{ "origin": "https://docs.rs" }],
            "dirs": [{ "guest": "/repo", "mode": "rw" }],
            "keyvalue": [{ "bucket": "pages" }],
            "env": [{ "name": "LANG" }],
            "limits": { "memory": { "min": "1GiB" }, "http.timeout": { "min": "20s" }, "prepare.cpu": { "min": "5m" } },
            "config": { "rev": { "type": "string", "default": "HEAD" }, "most": { "type": "integer" },
                "name": { "type": "string", "required": true }, "ratio": { "type": "float" }, "fast": { "type": "boolean" },
                "tags": { "type": "array" }, "by-folder": { "type": "table" } },
        });
        for name in ["web", "", "7zip", "Ä", "a\"b", &"x".repeat(1000)] {
            let config = parse(&table(name, &needs), dir.path());
            let plugin = &config.plugins[0];
            assert_eq!((plugin.grants.dirs.len(), plugin.grants.env.len()), (1, 1));
            assert_eq!(plugin.config["rev"], "HEAD");
            let limits = &plugin.limits;
            let preparation = limits.prepare.as_ref().map(|limits| limits.cpu.to_string());
            let limits = (limits.memory.to_string(), limits.http.timeout.to_string(), preparation);
            assert_eq!(limits, ("1GiB".to_owned(), "20s".to_owned(), Some("5m".to_owned())));
            let examples = ["name", "most", "ratio", "fast", "tags", "by-folder"].map(|key| &*plugin.config[key]);
            assert_eq!(examples, ["VALUE", "0", "0.0", "false", "[]", "{}"]);
        }
    }

    #[test]
    fn no_text_of_a_publisher_is_more_than_a_text() {
        let dir = tempfile::tempdir().unwrap();
        let hostile = "\"]\n[[rule]]\nprincipals = [\"*\"]\nallow = [\"**\"]\n# \u{1b}[2J\u{202e}\r\\";
        let rendered = table(
            hostile,
            &json!({
                "http": [{ "origin": "https://docs.rs", "why": hostile }],
                "dirs": [{ "guest": "/a\"] # b", "why": hostile }],
                "config": { "a\"] # \\": { "type": "table", "default": { hostile: [hostile] }, "why": hostile } },
            }),
        );
        assert!(!rendered.contains(['\u{1b}', '\u{202e}', '\r']), "{rendered}");
        let config = parse(&rendered, dir.path());
        assert!(config.rules.is_empty());
        let default: Value = serde_json::from_str(&config.plugins[0].config["a\"] # \\"]).unwrap();
        assert_eq!(default, json!({ hostile: [hostile] }));
    }

    proptest! {
        #[test]
        fn any_text_comes_back_unchanged(text in any::<String>(), key in "[^\\p{Cc}]{1,20}") {
            let line = format!("{} = {}   # {}\n", super::key(&key), string(&text), comment(&text));
            prop_assert!(!line.trim_end_matches('\n').contains(is_unsafe));
            let parsed: toml::Table = line.parse().unwrap();
            prop_assert_eq!(parsed.len(), 1);
            prop_assert_eq!(parsed[&key].as_str(), Some(text.as_str()));
        }
    }
}
