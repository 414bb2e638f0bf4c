//! The provider `config`, compared with an application with the same layers: dynaconf merges files of each format and
//! the environment, and prints the result.

use std::fs;
use std::process::Command;

use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, StdioServer, client_program, content_bytes};
use rmcp::model::ErrorCode;
use serde_json::{Map, Value, json};

/// The layers, lowest first.
const LAYERS: [(&str, &str); 4] = [
    (
        "defaults.toml",
        "name = \"shop\"\ndebug = false\n[server]\nhost = \"localhost\"\nport = 80\n[server.tls]\nenabled = false\n\
         [limits]\nrate = 0.5\n",
    ),
    ("base.ini", "[server]\nhost = example.org\nbacklog = 5\n[mail]\nsender = a@example.org\n"),
    (
        "app.yaml",
        "tls: &tls {enabled: true, cert: a.pem}\nserver:\n  port: 8080\n  tls:\n    <<: *tls\nhosts: [a, b]\n",
    ),
    ("local.json", r#"{"server": {"port": 9090}, "limits": {"rate": 1.5}, "title": "日本語", "none": null}"#),
];

/// The topmost layer.
const VARIABLES: [(&str, &str); 5] = [
    ("SHOP_SERVER__PORT", "7070"),
    ("SHOP_DEBUG", "true"),
    ("SHOP_LIMITS__BURST", "3"),
    ("SHOP_TAGS", r#"["x", "y"]"#),
    ("SHOP_SERVER__BANNER", "hello there"),
];

const APPLICATION: &str = "\
from dynaconf import Dynaconf
settings = Dynaconf(
    settings_files=[\"defaults.toml\", \"base.ini\", \"app.yaml\", \"local.json\"],
    core_loaders=[\"TOML\", \"INI\", \"YAML\", \"JSON\"], merge_enabled=True, envvar_prefix=\"SHOP\")
";

fn plugin(folder: &Folder) -> Plugin {
    let layers: toml::Value = LAYERS.map(|(name, _)| toml::Value::from(name)).to_vec().into();
    let plugin = Plugin::configuration("c", folder.path()).config("layers", layers).config("env-prefix", "SHOP_");
    VARIABLES.iter().fold(plugin, |plugin, (name, value)| plugin.variable(name, value))
}

/// Runs a dynaconf command that writes JSON to standard output.
fn dynaconf(folder: &Folder, arguments: &[&str]) -> Value {
    let mut command = Command::new(client_program("dynaconf/bin/dynaconf"));
    command.args(["-i", "application.settings"]).args(arguments).current_dir(folder.path());
    command.env("PYTHONDONTWRITEBYTECODE", "1").envs(VARIABLES);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns a value with all keys in lower case: dynaconf compares keys without regard to case, and prints some of them
/// in upper case.
fn lower_case(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| (key.to_lowercase(), lower_case(value)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        other => other,
    }
}

async fn read_json(server: &StdioServer, path: &str) -> Value {
    serde_json::from_str(&server.client().text(&format!("config://c/{path}")).await).unwrap()
}

#[tokio::test]
async fn effective_values_and_their_origins_are_those_of_an_application_with_the_same_layers() {
    let folder = Folder::with_files(LAYERS);
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin(&folder)).write()).await;
    folder.write("application.py", APPLICATION);
    let effective = read_json(&server, "effective").await;
    let theirs = dynaconf(&folder, &["list", "--json"]);
    assert_eq!(effective["values"], lower_case(theirs));
    for key in
        ["server.port", "server.host", "server.tls.cert", "limits.rate", "limits.burst", "mail.sender", "tags", "title"]
    {
        let inspected = dynaconf(&folder, &["inspect", "-f", "json", "-k", key]);
        // A variable in the same table repeats all values of the table. The source is the entry where the value first
        // appeared.
        let history = inspected["history"].as_array().unwrap();
        let winner = history.iter().take_while(|entry| entry["value"] == inspected["current"]).last().unwrap();
        let winner = winner["identifier"].as_str().unwrap();
        let pointer = format!("/{}", key.replace('.', "/"));
        let ours = effective["origins"][&pointer]["layer"].as_str().unwrap();
        let is_same = match ours.strip_prefix("file/") {
            Some(file) => winner.ends_with(&format!("/{file}")),
            None => winner == "SHOP" && ours == "env SHOP_*",
        };
        assert!(is_same, "{key}: {ours}, and {winner} for dynaconf");
    }
    server.end().await;
}

#[tokio::test]
async fn a_plugin_sees_granted_variables_only_and_shows_no_secret() {
    let folder = Folder::with_files([(
        "a.toml",
        "[db]\nurl = \"postgres://app:s3cr3t-word@db/x\"\npassword = \"s3cr3t-word\"\n",
    )]);
    let plugin = Plugin::configuration("c", folder.path()).variable("API_TOKEN", "s3cr3t-word").variable("LANG", "ja");
    let server = StdioServer::start(&ConfigFile::new().plugin(plugin).write()).await;
    let client = server.client();
    let uris =
        ["effective", "env", "env/API_TOKEN", "env/LANG", "file/a.toml"].map(|path| format!("config://c/{path}"));
    assert_eq!(client.uris().await, uris);
    let variables = client.read("config://c/env").await.unwrap();
    let variables: Vec<_> = variables.iter().skip(1).map(content_bytes).collect();
    assert_eq!(variables, ["<redacted: 8 to 15 characters>".as_bytes(), b"ja"], "behind the index");
    for resource in client.resources().await {
        let contents = client.read(&resource.uri).await.unwrap();
        let text = contents.iter().map(content_bytes).collect::<Vec<_>>().concat();
        assert!(!String::from_utf8_lossy(&text).contains("s3cr3t"), "{}", resource.uri);
        // The size of an index depends on the client.
        let has_size = resource.uri != "config://c/env";
        assert_eq!(resource.size, has_size.then(|| u64::try_from(text.len()).unwrap()), "{}", resource.uri);
    }
    let error = client.read_error("config://c/env/HOME").await;
    assert_eq!(error.code, ErrorCode(-32002));
    server.end().await;
}

#[tokio::test]
async fn hostile_files_are_refused_in_the_sandbox_and_the_plugin_goes_on() {
    let mut laughs = "a0: &a0 [lol]\n".to_owned();
    for n in 1..20 {
        laughs.push_str(&format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(",")));
    }
    let variables = format!("A=xxxxxxxxxx\n{}", "A=$A$A\n".repeat(40));
    let folder = Folder::with_files([
        ("laughs.yaml", laughs.into_bytes()),
        ("deep.yaml", b"[".repeat(1 << 19)),
        ("deep.json", b"{\"a\":".repeat(1 << 17)),
        ("deep.toml", [b"a = ".to_vec(), b"[".repeat(1 << 19)].concat()),
        ("dotted.toml", [b"a.".repeat(1 << 18), b"a = 1".to_vec()].concat()),
        (".env", variables.into_bytes()),
        ("huge.json", b" ".repeat(3 << 20)),
        ("euc.toml", b"a = \"\xc6\xfc\xcb\xdc\"\n".to_vec()),
        ("good.toml", b"a = 1\n".to_vec()),
    ]);
    let server = StdioServer::start(&ConfigFile::new().plugin(Plugin::configuration("c", folder.path())).write()).await;
    let refused =
        ["laughs.yaml", "deep.yaml", "deep.json", "deep.toml", "dotted.toml", ".env", "huge.json", "euc.toml"];
    for _ in 0..2 {
        for name in refused {
            let error = server.client().read_error(&format!("config://c/file/{name}")).await;
            assert!(error.message.contains("expected") || error.message.contains("recur"), "{name}: {}", error.message);
        }
    }
    assert_eq!(server.client().uris().await.len(), 2 + refused.len() + 1);
    assert_eq!(read_json(&server, "file/good.toml").await, json!({ "a": 1 }));
    server.end().await;
}

#[tokio::test]
async fn a_subscriber_of_the_effective_configuration_hears_of_what_is_effective() {
    let folder = Folder::with_files([("a.toml", "x = 1\n"), ("b.toml", "x = 2\n")]);
    let plugin = Plugin::configuration("c", folder.path()).config("layers", vec!["a.toml", "b.toml"]);
    let config = ConfigFile::new().plugin(plugin.set("watch-interval", "100ms")).write();
    let mut wire = RawStdio::start(&config, Revision::V_2025_11_25).await;
    wire.subscribe("config://c/effective?pointer=/x").await;
    wire.subscribe("config://c/file/a.toml").await;
    // A rename, because a file that is truncated and then written is empty for a moment.
    let edited = Folder::with_files([("a.toml", "x = 10\n")]);
    fs::rename(edited.path().join("a.toml"), folder.path().join("a.toml")).unwrap();
    let update = wire.notification("notifications/resources/updated").await;
    assert_eq!(update["params"]["uri"], "config://c/file/a.toml", "the value of `b.toml` is above it");
    folder.write("b.toml", "x = 20\n");
    let update = wire.notification("notifications/resources/updated").await;
    assert_eq!(update["params"]["uri"], "config://c/effective?pointer=/x");
    wire.end().await;
}

/// A Kubernetes volume: files are links into a hidden directory, which is replaced as a whole.
#[tokio::test]
async fn the_files_of_a_kubernetes_volume_are_served_from_its_data() {
    let folder = Folder::with_files([("..one/app.toml", "a = 1\n"), ("..two/app.toml", "a = 2\n")]);
    folder.symlink("..data", "..one");
    folder.symlink("app.toml", "..data/app.toml");
    let config = ConfigFile::new().plugin(Plugin::configuration("c", &folder.path().join("..data"))).write();
    let server = StdioServer::start(&config).await;
    assert_eq!(read_json(&server, "file/app.toml").await, json!({ "a": 1 }));
    folder.symlink("..aside", "..two");
    std::fs::rename(folder.path().join("..aside"), folder.path().join("..data")).unwrap();
    assert_eq!(read_json(&server, "file/app.toml").await, json!({ "a": 2 }));
    server.end().await;
}
