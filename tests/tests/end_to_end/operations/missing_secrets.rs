//! Commands that start neither a server nor a plugin work while secrets of the config are missing.

use std::fs;

use mcp_host_tests::{ConfigFile, Folder, Output, Plugin, Rule, WrittenConfig, run};
use serde_json::Value;

/// Settings that only the server needs, all of which refer to something missing or unusable here.
const OF_SERVER: &str = r#"
[search.embeddings]
url = "https://embeddings.example.com/v1/embeddings"
model = "m"
dimensions = 8
key = { env = "MCP_HOST_TESTS_ABSENT" }

[[issuer]]
name = "corp"
issuer = "https://login.example.com"
introspection = { url = "https://login.example.com/introspect", client-id = "mcp-host", client-secret = { file = "absent" } }
operation-scopes = { read = ["mcp:read"] }

[[issuer]]
name = "keys"
issuer = "https://keys.example.com"
jwks = { file = "garbage" }
"#;

/// A config whose secrets are all missing, in a directory with a file `garbage` that contains none.
fn config(folder: &Folder) -> WrittenConfig {
    let absent = || toml::Value::Table(toml::toml! { env = "MCP_HOST_TESTS_ABSENT" });
    let tls = toml::toml! { certificate = "garbage" key = "absent" };
    let plugin = Plugin::keyvalue("a").bucket("pages").variable_from_file("TOKEN", &folder.path().join("absent"));
    let config = ConfigFile::new()
        .server("http", "0.0.0.0:0")
        .server("cursor-key", absent())
        .http("public-url", "https://mcp.example.com/mcp")
        .http("tls", toml::Value::Table(tls))
        .plugin(plugin)
        .plugin(Plugin::files("f", folder.path()).searched())
        .rule(Rule::for_principal("corp/ada").allow(["keyvalue://a/**"]).deny(["**/secret"]))
        .append(OF_SERVER)
        .write();
    fs::write(config.dir().join("garbage"), "neither a certificate nor keys").unwrap();
    config
}

async fn command(config: &WrittenConfig, arguments: &[&str]) -> Output {
    run([arguments, &["--config", config.path().to_str().unwrap()]].concat()).await
}

fn assert_noted(output: &Output) {
    assert!(output.stderr.contains("cannot be served") && output.stderr.contains("`MCP_HOST_TESTS_ABSENT` is not set"));
}

#[tokio::test]
async fn explain_needs_no_secret() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = config(&folder);
    let explain = async |uri: &str| command(&config, &["explain", "--as", "corp/ada", "--json", uri]).await;
    let allowed = explain("keyvalue://a/x").await;
    assert_eq!(allowed.code(), 0, "{}", allowed.stderr);
    assert_noted(&allowed);
    let allowed: Value = serde_json::from_slice(&allowed.stdout).unwrap();
    assert_eq!(allowed["scopes"], serde_json::json!(["mcp:read"]), "those of an issuer without its secret");
    assert_eq!(explain("keyvalue://a/secret").await.code(), 1);
}

#[tokio::test]
async fn keyvalue_needs_no_secret() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = config(&folder);
    let put = command(&config, &["keyvalue", "put", "a", "pages", "key", "value"]).await;
    assert_eq!(put.code(), 0, "{}", put.stderr);
    assert_noted(&put);
    assert_eq!(command(&config, &["keyvalue", "get", "a", "pages", "key"]).await.stdout, b"value");
}

#[tokio::test]
async fn index_status_needs_no_secret() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = config(&folder);
    let status = command(&config, &["index", "status", "--json"]).await;
    assert_eq!(status.code(), 0, "{}", status.stderr);
    assert_noted(&status);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!((&status["plugins"][0]["plugin"], &status["plugins"][0]["documents"]), (&"f".into(), &0.into()));
}

#[tokio::test]
async fn what_serves_needs_all_secrets_and_a_mistake_of_the_config_is_one_for_every_command() {
    let folder = Folder::with_files([("a.md", "needle")]);
    let config = config(&folder);
    for arguments in [["check"].as_slice(), &["serve"], &["list"]] {
        let refused = command(&config, arguments).await;
        assert_eq!(refused.code(), 2, "{arguments:?}: {}", refused.stderr);
        for missing in ["MCP_HOST_TESTS_ABSENT", "garbage", "absent"] {
            assert!(refused.stderr.contains(missing), "{missing}: {}", refused.stderr);
        }
    }
    let text = fs::read_to_string(config.path()).unwrap();
    fs::write(config.path(), format!("{text}\n[audits]\n")).unwrap();
    for arguments in [["keyvalue", "list", "a"].as_slice(), &["explain"], &["index", "status"]] {
        let refused = command(&config, arguments).await;
        assert_eq!(refused.code(), 2, "{arguments:?}: {}", refused.stderr);
    }
}
