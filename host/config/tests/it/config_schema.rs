//! The JSON Schema of the config accepts every config that the reader accepts, and rejects the mistakes that a schema
//! can express.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use mcp_host_config::{Config, Environment};
use serde_json::{Value, json};

/// The mistakes in `ui/invalid` that the schema does not express, by reason. All others are invalid by the schema.
const NOT_EXPRESSIBLE: &[(&str, &[&str])] = &[
    (
        "files, directories and variables that do not exist or have other contents",
        &[
            "admin_socket_directory_missing",
            "audit_directory_missing",
            "audit_file_is_a_directory",
            "component_is_a_directory",
            "client_ca_of_no_authority",
            "component_missing",
            "component_name_unknown",
            "component_reference_not_locked",
            "cursor_key_too_short",
            "database_file_missing",
            "database_url_of_another_kind",
            "directory_is_a_file",
            "client_ca_of_no_authority",
            "directory_missing",
            "http_tls_broken",
            "http_tls_files",
            "http_tls_of_a_kind_that_is_unknown",
            "http_tls_of_another_key",
            "http_tls_swapped",
            "somebody_elses_home",
            "registry_store_is_a_file",
            "trust_key_missing",
            "trust_key_of_another_kind",
            "trust_root_of_another_kind",
            "value_file_missing",
            "variable_in_path",
            "variable_not_set",
        ],
    ),
    (
        "conflicts between entries",
        &[
            "config_key_of_the_host",
            "glob_with_an_encoded_star",
            "unescaped_password",
            "address_beyond_loopback",
            "admin_beyond_loopback",
            "admin_beyond_loopback_without_tls",
            "admin_socket_with_tls",
            "admin_address_of_clients",
            "address_beyond_loopback_without_authentication",
            "address_beyond_loopback_without_tls",
            "bucket_shared_without_cluster",
            "bucket_twice",
            "client_ca_without_tls",
            "cluster_without_cursor_key",
            "cluster_without_servers",
            "database_keys_of_postgresql",
            "database_twice",
            "database_without_schemas",
            "embeddings_without_endpoint",
            "guest_path_twice",
            "http_bodies_without_body",
            "http_limits_of_bodies",
            "http_oauth_without_tls",
            "http_origin_twice",
            "overlapping_mounts",
            "program_cpu_of_a_plugin",
            "same_mount_twice",
            "same_name_twice",
            "search_mount",
            "search_shared_without_cluster",
            "search_shared_without_search",
            "tool_without_search",
            "trust_identities_without_root",
            "trust_minimum_above_the_keys",
            "trust_root_without_identities",
            "trust_source_twice",
            "trust_unsigned_with_keys",
            "trust_unsigned_with_provenance",
            "upstream_globs",
            "upstream_of_npx",
            "upstream_of_uvx",
            "upstream_overlaps_a_plugin",
            "upstream_prefix_of_another_kind",
            "upstream_program_with_grants_of_a_component",
            "upstream_program_with_keys_of_a_url",
            "upstream_token_of_nobody",
            "upstream_url_with_keys_of_a_program",
            "upstream_with_both_kinds_of_mounts",
            "upstream_without_prefix",
        ],
    ),
    ("bounds of quantities", &["size_out_of_range", "time_out_of_range"]),
    (
        "grammars beyond regular expressions",
        &[
            "component_reference_of_a_tag",
            "component_reference_of_another_digest",
            "component_reference_without_repository",
            "component_reference_without_version",
            "dev_watch_is_no_glob",
            "glob_with_stars_in_a_segment",
            "trust_identity_of_everybody",
        ],
    ),
];

fn schema() -> Validator {
    jsonschema::draft202012::new(&Config::json_schema()).unwrap()
}

/// The file as JSON, if it is TOML. JSON has neither dates nor numbers that are not finite.
fn to_json(text: &str) -> Option<Value> {
    fn convert(value: toml::Value) -> Value {
        match value {
            toml::Value::String(text) => text.into(),
            toml::Value::Integer(number) => number.into(),
            toml::Value::Float(number) => json!(number),
            toml::Value::Boolean(truth) => truth.into(),
            toml::Value::Datetime(date) => date.to_string().into(),
            toml::Value::Array(items) => items.into_iter().map(convert).collect(),
            toml::Value::Table(entries) => {
                Value::Object(entries.into_iter().map(|(key, entry)| (key, convert(entry))).collect())
            }
        }
    }
    Some(convert(toml::Value::Table(text.parse().ok()?)))
}

/// The configs in a directory, in the order of their names.
fn configs(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}

fn assert_valid(text: &str, name: &str) {
    let config = to_json(text).unwrap_or_else(|| panic!("{name} is not TOML"));
    let errors: Vec<_> =
        schema().iter_errors(&config).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:#?}");
}

#[test]
fn the_schema_is_one() {
    assert!(jsonschema::draft202012::meta::is_valid(&Config::json_schema()));
}

#[test]
fn every_example_is_valid() {
    for file in configs("../../examples").into_iter().chain(configs("tests/ui/valid")) {
        assert_valid(&fs::read_to_string(&file).unwrap(), &file.display().to_string());
    }
    let documentation = fs::read_to_string("../../docs/config.md").unwrap();
    let example = documentation.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_valid(example, "docs/config.md");
}

#[test]
fn every_mistake_is_invalid_unless_a_schema_cannot_express_it() {
    let schema = schema();
    let mut accepted = BTreeSet::new();
    for file in configs("tests/ui/invalid") {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        if to_json(&text).is_some_and(|config| schema.is_valid(&config)) {
            accepted.insert(file.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    let expected: BTreeSet<_> =
        NOT_EXPRESSIBLE.iter().flat_map(|(_, names)| names.iter()).map(|name| (*name).to_owned()).collect();
    let (missed, stale) = (&accepted - &expected, &expected - &accepted);
    assert!(missed.is_empty() && stale.is_empty(), "accepted: {missed:#?}, listed without need: {stale:#?}");
}

/// A config with one plugin and this line, which is a key of the plugin or begins another section.
fn with_line(line: &str) -> String {
    let plugin = "[[plugin]]\nname = 'a'\ncomponent = 'plugins/git.wasm'\nmount = 'a://b/'\n";
    format!("{plugin}{line}\n")
}

#[test]
fn what_the_reader_accepts_is_valid() {
    let environment = Environment::empty().home("tests/ui/valid/home").variable("TOKEN", "x");
    for line in [
        "limits.memory = ' 2gib '",
        "limits.memory = '64 mb'",
        "limits.memory = '67108864B'",
        "limits.deadline = ' 1m30s '",
        "limits.deadline = '2 min'",
        "limits.deadline = '0.001d'",
        "limits.cpu = '1.5s 250ms'",
        "limits.rate = ' 60 / min '",
        "limits.rate = '3600000000/h'",
        "limits.log = '1.5 MiB / m'",
        "limits.log = '1KB/s'",
        "limits.http.rate = '1/h'",
        "watch-interval = '1h'",
        "grants.dirs = [{ host = 'notes', guest = '/' }]",
        "grants.dirs = [{ host = 'notes', guest = '/..a/.b/c../ノート/' }]",
        "grants.http = ['HTTPS://Docs.RS:443', 'http://[::1]:8080', 'https://*.example.com', 'https://bücher.example.']",
        "grants.http = [{ origin = 'https://a.b', headers-from = { \"X-A_b.c~1\" = { env = 'TOKEN' } } }]",
        "grants.http = [{ origin = 'https://a.b', oauth = { service-account = { file = 'secrets/service-account.json' }, scopes = ['!'] } }]",
        "grants.http = [{ origin = 'https://a.b', oauth = { client-id = 'é', client-secret = { env = 'TOKEN' }, token-uri = 'HTTP://[::1]/?a' } }]",
        "grants.env = { 'a.b-c' = '', '_1' = { env = 'TOKEN' } }",
        "grants.keyvalue = ['A.b-c_1', { bucket = '0' }]",
        "grants.sql = [{ name = 'A.b-c_1', url = 'sqlite:shop.db' }, { name = '0', url = { file = 'secrets/shop-url' }, schemas = ['My Schema'] }]",
        "config = {}",
        "instances = {}",
        "[http]\nhosts = ['[::1]', 'a.b', '192.168.1.2', 'bücher.example']",
        "[http]\nlimits.client-share = ' 1 / 2 '",
        "[server]\nhttp = '[::1]:0'",
        "[server]\nhttp = '127.0.0.2:65535'",
        "[server]\nname = ' ノ '\ninstructions = ''",
        "[server]\ncache = '.'\nstate = '~'",
        "[[rule]]\nprincipals = ['*', 'local', 'é/b']\nallow = ['**', '**/.env', 'a://{b,c}/**', 'a:b', 'a://b/?/%7e']",
        "[dev]\nbuild = '''\nmake\nmake install\n'''\nwatch = ['src', './*.{c,h}', '../wit', '/usr/include/a b.h']",
        "[dev]",
        "[[trust]]\nsources = ['oci://A.example', 'oci://[::1]:5000/a_b/c-d']\nunsigned = true",
        "[registry]\nmirrors = { 'a.example:5000' = ['[::1]/b', 'localhost'] }\nprivate = ['a.b:1']",
        "[[rule]]\nprincipals = ['x/y']\ndeny = ['notes:///非公開/**']\noperations = ['list']",
    ] {
        let text = with_line(line);
        // The reader accepts each of these lines, so the schema must, too.
        let config = Config::parse_in(&text, Path::new("tests/ui/valid/mcp-host.toml"), &environment);
        match config {
            Ok(_) => assert_valid(&text, line),
            Err(error) => panic!("{line}: {error}"),
        }
    }
}

/// Calls `visit` with every schema within a schema, and its path.
fn visit_schemas(schema: &Value, path: &str, visit: &mut impl FnMut(&Value, &str)) {
    visit(schema, path);
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        visit_schemas(property, &format!("{path}.{key}"), visit);
    }
    for keyword in ["items", "additionalProperties"] {
        if schema[keyword].is_object() {
            visit_schemas(&schema[keyword], &format!("{path}[]"), visit);
        }
    }
    for alternative in schema["anyOf"].as_array().into_iter().flatten() {
        visit_schemas(alternative, path, visit);
    }
}

#[test]
fn every_key_is_documented() {
    let mut undocumented = Vec::new();
    visit_schemas(&Config::json_schema(), "", &mut |schema, path| {
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let text = property["description"].as_str().unwrap_or_default();
            if text.is_empty() || text.contains("](") || text.contains("[`") {
                undocumented.push(format!("{path}.{key}: {text}"));
            }
        }
    });
    assert!(undocumented.is_empty(), "{undocumented:#?}");
}

#[test]
fn every_default_is_valid() {
    let mut defaults = 0;
    visit_schemas(&Config::json_schema(), "", &mut |schema, path| {
        if let Some(default) = schema.get("default") {
            assert!(jsonschema::draft202012::is_valid(schema, default), "{path}: {default}");
            defaults += 1;
        }
    });
    assert!(defaults > 30, "{defaults}");
}
