//! `mcp-host connect` and `disconnect`: the files of clients.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use base64::Engine as _;
use mcp_host_tests::{ConfigFile, Folder, Plugin, RawStdio, Revision, WrittenConfig, component, host_command};
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use tokio::process::Command;

/// A home directory with a folder of notes.
struct User {
    home: Folder,
}

struct Ended {
    code: i32,
    out: String,
    err: String,
}

impl User {
    fn new() -> Self {
        Self { home: Folder::with_files([("notes/a.md", "# A\n")]) }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.home.path().canonicalize().unwrap().join(path)
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_str(&self.read(path)).unwrap()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = host_command();
        command.args(arguments).env("HOME", self.home.path()).current_dir(self.home.path()).stdin(Stdio::null());
        command
    }

    /// Runs `mcp-host` in the home directory.
    async fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments)).await
    }

    /// The arguments that connect a client to the folder of notes.
    async fn connect_notes(&self, client: &str, more: &[&str]) -> Ended {
        let plugins = component("notes").parent().unwrap().to_str().unwrap().to_owned();
        self.run(&[&["connect", client, "notes", "--plugins", &plugins], more].concat()).await
    }
}

impl Ended {
    async fn of(mut command: Command) -> Self {
        let output = command.output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }

    fn success(self) -> Self {
        assert_eq!(self.code, 0, "{}", self.err);
        self
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {}", self.out))
    }
}

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

/// A config of a server over HTTP at an address, with a principal.
fn http_config(address: &str) -> WrittenConfig {
    let notes = Folder::with_files([("a.md", "# A\n")]);
    let config = ConfigFile::new().server("name", "team").server("http", address);
    config.plugin(Plugin::notes("notes", notes.path())).principal("ci", "token-of-ci").write()
}

/// The clients, their files, and the keys of their servers.
const FILES: [(&str, &str, &str); 6] = [
    ("vscode", ".config/Code/User/mcp.json", "servers"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers"),
    ("claude-code", ".claude.json", "mcpServers"),
    ("cursor", ".cursor/mcp.json", "mcpServers"),
    ("gemini-cli", ".gemini/settings.json", "mcpServers"),
    ("zed", ".config/zed/settings.json", "context_servers"),
];

#[tokio::test]
async fn what_is_written_starts_a_server_of_the_paths() {
    let user = User::new();
    for (client, file, key) in FILES {
        let printed = user.connect_notes(client, &[]).await.success();
        assert!(!user.path(file).exists(), "{client}: nothing is written without being asked");
        let ended = user.connect_notes(client, &["--write"]).await.success();
        assert!(ended.out.is_empty() && ended.err.contains(file), "{}", ended.err);
        assert_eq!(printed.json(), user.json(file), "{client}");
        assert_eq!(mode(&user.path(file)), 0o600, "{client}");
        let entry = user.json(file)[key]["notes"].clone();
        assert!(entry["args"].as_array().unwrap().contains(&json!(user.path("notes"))), "{entry}");
    }
    let codex = user.connect_notes("codex", &["--write"]).await.success();
    assert!(codex.err.contains(".codex/config.toml"), "{}", codex.err);
    let codex: toml::Table = user.read(".codex/config.toml").parse().unwrap();
    let entry = &codex["mcp_servers"]["notes"];
    let arguments = entry["args"].as_array().unwrap().iter().map(|argument| argument.as_str().unwrap());

    let mut command = host_command();
    assert_eq!(entry["command"].as_str(), command.as_std().get_program().to_str());
    command.args(arguments);
    let mut wire = RawStdio::start_command(command, Revision::V_2025_11_25).await;
    assert_eq!(wire.read("notes:///a.md").await.unwrap(), "# A\n");
    wire.end().await;
}

#[tokio::test]
async fn what_is_in_a_file_stays_and_disconnecting_restores_every_byte() {
    let user = User::new();
    let json = "{\r\n\t// mine\r\n\t\"z\": [1,2,  3],\r\n\t\"KEY\": {\r\n\t\t\"other\": { \"command\": \"x\" }, // why\r\n\t},\r\n\t\"a\": \
                null\r\n}\r\n";
    let toml = "# mine\nmodel  =  'x'\n\n[mcp_servers.other] # why\ncommand = \"x\"\n\n[tui]\na = 1\n";
    let files = FILES.map(|(client, file, key)| (client, file, json.replace("KEY", key)));
    for (client, file, text) in files.into_iter().chain([("codex", ".codex/config.toml", toml.to_owned())]) {
        fs::create_dir_all(user.path(file).parent().unwrap()).unwrap();
        fs::write(user.path(file), &text).unwrap();
        let backup = user.path(&format!("{file}.mcp-host.bak"));
        user.connect_notes(client, &["--write"]).await.success();
        let changed = user.read(file);
        assert!(changed.contains("mine") && changed.contains("why") && changed.contains("mcp-host"), "{changed}");
        assert_eq!((fs::read_to_string(&backup).unwrap(), mode(&backup)), (text.clone(), 0o600), "{client}");
        let again = user.connect_notes(client, &["--write"]).await.success();
        assert!(again.err.contains("has the server `notes` already"), "{}", again.err);
        assert_eq!(user.read(file), changed, "{client}");
        let ended = user.run(&["disconnect", client]).await.success();
        assert!(ended.err.contains("removed the server `notes`"), "{}", ended.err);
        assert_eq!(user.read(file), text, "{client}");
        assert_eq!(fs::read_to_string(&backup).unwrap(), text, "{client}: the first backup stays");
        assert_eq!(user.read(&format!("{file}.mcp-host.bak.2")), changed, "{client}");
        let ended = user.run(&["disconnect", client]).await;
        assert!(ended.code == 1 && ended.err.contains("no server that `mcp-host connect` added"), "{}", ended.err);
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_changed_safely_is_left_as_it_is() {
    let user = User::new();
    fs::create_dir(user.path(".cursor")).unwrap();
    let file = user.path(".cursor/mcp.json");
    for (text, said) in [
        ("{\"mcpServers\": {", "line 1"),
        ("{\n  \"a\": 1\n  \"b\": 2\n}\n", "line 2"),
        ("[]", "not an object"),
        ("{\"mcpServers\": []}", "`mcpServers` is not an object"),
        ("{\"mcpServers\": {}, \"mcpServers\": {}}", "`mcpServers` twice, again on line 1 column 20"),
        ("{\"mcpServers\": {\"notes\": {\"command\": \"other\"}}}", "another server `notes`, other"),
    ] {
        fs::write(&file, text).unwrap();
        let ended = user.connect_notes("cursor", &["--write"]).await;
        assert!(ended.code == 1 && ended.err.contains(said), "{text}: {} {}", ended.code, ended.err);
        assert!(ended.err.contains(file.to_str().unwrap()) && ended.err.contains("help: "), "{}", ended.err);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
    fs::write(&file, b"{\n\xff}").unwrap();
    let ended = user.connect_notes("cursor", &["--write"]).await;
    assert!(ended.code == 1 && ended.err.contains("is not UTF-8: line 2 column 1"), "{}", ended.err);
    fs::write(&file, "{\"mcpServers\": {\"notes\": {\"command\": \"other\"}}}").unwrap();
    let ended = user.connect_notes("cursor", &["--write", "--force"]).await.success();
    assert!(ended.err.contains("instead of other"), "{}", ended.err);
    assert_eq!(user.json(".cursor/mcp.json")["mcpServers"]["notes"]["type"], "stdio");
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("nowhere", &file).unwrap();
    let ended = user.connect_notes("cursor", &["--write"]).await;
    assert!(ended.code == 1 && ended.err.contains("symbolic link to a file that does not exist"), "{}", ended.err);
    assert!(!user.path(".cursor/nowhere").exists());
}

#[tokio::test]
async fn a_link_to_a_file_elsewhere_stays_a_link() {
    let user = User::new();
    fs::create_dir_all(user.path(".config/zed")).unwrap();
    fs::write(user.path("dotfiles.json"), "{}").unwrap();
    std::os::unix::fs::symlink("../../dotfiles.json", user.path(".config/zed/settings.json")).unwrap();
    user.connect_notes("zed", &["--write"]).await.success();
    assert!(user.path(".config/zed/settings.json").symlink_metadata().unwrap().is_symlink());
    assert!(user.read("dotfiles.json").contains("context_servers"));
    assert_eq!(user.read("dotfiles.json.mcp-host.bak"), "{}");
}

#[tokio::test]
async fn a_project_and_another_file_have_the_form_of_their_client() {
    let user = User::new();
    for (client, file) in [
        ("vscode", ".vscode/mcp.json"),
        ("claude-code", ".mcp.json"),
        ("cursor", ".cursor/mcp.json"),
        ("codex", ".codex/config.toml"),
        ("gemini-cli", ".gemini/settings.json"),
        ("zed", ".zed/settings.json"),
    ] {
        user.connect_notes(client, &["--write", "--project"]).await.success();
        assert!(user.read(file).contains("mcp-host"), "{client}");
        user.run(&["disconnect", client, "--project"]).await.success();
    }
    let ended = user.connect_notes("claude-desktop", &["--write", "--project"]).await;
    assert!(ended.code == 2 && ended.err.contains("Claude Desktop has no file of a project"), "{}", ended.err);
    user.connect_notes("vscode", &["--write", "--file", "profile.json"]).await.success();
    assert!(user.json("profile.json")["servers"]["notes"].is_object());
}

#[tokio::test]
async fn a_config_is_started_or_reached_and_its_token_is_never_shown() {
    let user = User::new();
    let config = http_config("127.0.0.1:8123");
    let file = config.path();
    let run = async |arguments: &[&str]| {
        let mut command = user.command(&[arguments, &["--config", file.to_str().unwrap()]].concat());
        command.env("MCP_HOST_TOKEN", "mcp_secret");
        Ended::of(command).await
    };
    let server = |printed: &Ended, key: &str| printed.json()[key]["team"].clone();
    let printed = run(&["connect", "vscode"]).await.success();
    assert_eq!(server(&printed, "servers")["headers"]["Authorization"], "Bearer ${input:team-token}");
    assert_eq!(printed.json()["inputs"][0]["id"], "team-token");
    for (client, key, reference) in [
        ("claude-code", "mcpServers", "Bearer ${MCP_HOST_TOKEN}"),
        ("cursor", "mcpServers", "Bearer ${env:MCP_HOST_TOKEN}"),
        ("gemini-cli", "mcpServers", "Bearer ${MCP_HOST_TOKEN}"),
        ("zed", "context_servers", "Bearer TOKEN"),
    ] {
        let printed = run(&["connect", client]).await.success();
        let entry = server(&printed, key);
        assert_eq!(entry["headers"]["Authorization"], reference, "{client}");
        let url = entry.get("url").or(entry.get("httpUrl")).unwrap();
        assert_eq!(url, "http://127.0.0.1:8123/mcp", "{client}");
        assert!(!format!("{}{}", printed.out, printed.err).contains("mcp_secret"), "{client}");
    }
    let codex = run(&["connect", "codex", "--token-variable", "TEAM"]).await.success().out;
    assert_eq!(codex, "[mcp_servers.team]\nurl = \"http://127.0.0.1:8123/mcp\"\nbearer_token_env_var = \"TEAM\"\n");
    let started = run(&["connect", "claude-desktop", "--stdio"]).await.success();
    let expected = json!(["serve", "--stdio", "--config", file.to_str().unwrap()]);
    assert_eq!(server(&started, "mcpServers")["args"], expected);
    let refused = run(&["connect", "claude-desktop"]).await;
    assert!(refused.code == 2 && refused.err.contains("`--stdio` lets it start"), "{}", refused.err);

    let ended = run(&["connect", "zed", "--write"]).await.success();
    assert!(!ended.err.contains("mcp_secret"), "{}", ended.err);
    assert_eq!(
        user.json(".config/zed/settings.json")["context_servers"]["team"]["headers"]["Authorization"],
        "Bearer mcp_secret"
    );
    let ended = user.run(&["connect", "zed", "--write", "--config", file.to_str().unwrap()]).await;
    assert!(ended.code == 1 && ended.err.contains("`MCP_HOST_TOKEN` is not set"), "{}", ended.err);
    let ended = user.run(&["disconnect", "zed", "--name", "team"]).await;
    assert!(ended.code == 1 && ended.err.contains("another server `team`, http://127.0.0.1:8123/mcp"), "{}", ended.err);
    let ended = user.run(&["disconnect", "zed"]).await;
    assert!(ended.code == 1 && ended.err.contains("its servers: team"), "{}", ended.err);
    run(&["disconnect", "zed"]).await.success();
}

#[tokio::test]
async fn links_have_the_server_and_no_token() {
    let user = User::new();
    let remote = ["--url", "https://mcp.example.com/mcp", "--token", "--name", "team", "--link"];
    let vscode = user.run(&[&["connect", "vscode"], &remote[..]].concat()).await.success().out;
    let query = vscode.trim_end().strip_prefix("vscode:mcp/install?").unwrap();
    let config: Value = serde_json::from_str(&percent_decode_str(query).decode_utf8().unwrap()).unwrap();
    assert_eq!(config["url"], "https://mcp.example.com/mcp");
    assert_eq!((&config["name"], &config["inputs"][0]["type"]), (&json!("team"), &json!("promptString")));
    let cursor = user.connect_notes("cursor", &["--link"]).await.success().out;
    let config = cursor.trim_end().strip_prefix("cursor://anysphere.cursor-deeplink/mcp/install?name=notes&config=");
    let config = percent_decode_str(config.unwrap()).decode_utf8().unwrap().into_owned();
    let config: Value = serde_json::from_slice(&base64::prelude::BASE64_STANDARD.decode(config).unwrap()).unwrap();
    assert_eq!(config["args"][1], "--stdio");
    let ended = user.connect_notes("codex", &["--link"]).await;
    assert!(ended.code == 2 && ended.err.contains("Codex has no links"), "{}", ended.err);
}

#[tokio::test]
async fn another_client_gets_the_common_form() {
    let user = User::new();
    let plugins = component("notes").parent().unwrap().to_str().unwrap().to_owned();
    let ended = user.run(&["connect", "--json", "notes", "--plugins", &plugins]).await.success();
    let entry = ended.json()["mcpServers"]["notes"].clone();
    assert_eq!((&entry["type"], &entry["args"][0]), (&json!("stdio"), &json!("serve")));
    let remote = user.run(&["connect", "--json", "--url", "http://127.0.0.1:1/mcp"]).await.success();
    assert_eq!(
        remote.json(),
        json!({ "mcpServers": { "mcp-host": { "type": "http", "url": "http://127.0.0.1:1/mcp" } } })
    );
}

#[tokio::test]
async fn wrong_usage_is_named_with_what_to_do() {
    let user = User::new();
    let any_port = http_config("127.0.0.1:0");
    let any_port = any_port.path();
    fs::create_dir(user.path("${HOME}")).unwrap();
    for (arguments, said) in [
        (["connect"].as_slice(), "<CLIENT>"),
        (&["connect"], "name one of vscode, "),
        (&["connect", "emacs"], "there is no client `emacs`"),
        (&["connect", "emacs"], "npx add-mcp"),
        (&["connect", "--json", "cursor"], "leave out `--json`"),
        (&["connect", "cursor", "absent"], "`absent` cannot be served"),
        (&["connect", "cursor", "."], "is the home directory"),
        (&["connect", "cursor"], "there is no such file"),
        (&["connect", "cursor", "notes", "--url", "https://a.example/mcp"], "either PATH or `--url`"),
        (&["connect", "cursor", "--url", "http://a.example/mcp"], "is not encrypted"),
        (&["connect", "cursor", "--plugins", "x"], "need a PATH"),
        (&["connect", "cursor", "notes", "--config", "x.toml"], "cannot be used with '[PATH]...'"),
        (&["connect", "cursor", "notes", "--name", "my notes"], "letters, digits"),
        (&["connect", "cursor", "${HOME}"], "expands `${` in an entry as a variable"),
        (&["connect", "gemini-cli", "${HOME}"], "expands `$` in an entry as a variable"),
        (&["connect", "cursor", "notes", "--force"], "--write"),
        (&["connect", "cursor", "--config", any_port.to_str().unwrap()], "port 0"),
        (&["disconnect", "emacs"], "possible values"),
        (&["disconnect"], "name one of vscode, "),
    ] {
        let ended = user.run(arguments).await;
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments:?}: {}", ended.err);
        assert!(ended.err.contains(said), "{arguments:?}: {}", ended.err);
    }
}

#[tokio::test]
async fn a_link_in_a_project_that_leads_out_of_it_is_not_written_through() {
    let user = User::new();
    fs::create_dir_all(user.path("project/notes")).unwrap();
    fs::write(user.path("project/notes/a.md"), "# A\n").unwrap();
    fs::create_dir(user.path("private")).unwrap();
    fs::write(user.path("private/settings.json"), "{}").unwrap();
    std::os::unix::fs::symlink("../private/settings.json", user.path("project/.mcp.json")).unwrap();
    std::os::unix::fs::symlink("../private", user.path("project/.cursor")).unwrap();
    let plugins = component("notes").parent().unwrap().to_str().unwrap().to_owned();
    for client in ["claude-code", "cursor"] {
        for arguments in [&["connect", client, "notes", "--write", "--plugins", &plugins][..], &["disconnect", client]]
        {
            let mut command = user.command(&[arguments, &["--project"]].concat());
            command.current_dir(user.path("project"));
            let ended = Ended::of(command).await;
            assert!(ended.code == 1 && ended.err.contains("leads out of the project"), "{client}: {}", ended.err);
        }
    }
    assert_eq!(user.read("private/settings.json"), "{}");
    assert_eq!(fs::read_dir(user.path("private")).unwrap().count(), 1);
}

#[tokio::test]
async fn another_server_of_ours_is_neither_replaced_nor_removed_by_its_url_alone() {
    let user = User::new();
    user.connect_notes("cursor", &["--write", "--name", "team"]).await.success();
    let before = user.read(".cursor/mcp.json");
    let remote = ["--url", "https://mcp.example.com/mcp", "--name", "team", "--write"];
    let ended = user.run(&[&["connect", "cursor"], &remote[..]].concat()).await;
    assert!(
        ended.code == 1 && ended.err.contains("another server `team`") && ended.err.contains("--force"),
        "{}",
        ended.err
    );
    assert_eq!(user.read(".cursor/mcp.json"), before, "a server of other paths is another one");

    fs::write(user.path(".cursor/mcp.json"), "{\"mcpServers\": {\"bank\": {\"url\": \"https://bank.example/mcp\"}}}")
        .unwrap();
    let ended = user.run(&["disconnect", "cursor", "--name", "bank"]).await;
    assert!(ended.code == 1 && ended.err.contains("another server `bank`, https://bank.example/mcp"), "{}", ended.err);
    assert!(
        ended.err.contains("`--force` removes it anyway") && !ended.err.contains("choose another name"),
        "{}",
        ended.err
    );
    let ended = user.run(&["disconnect", "cursor", "--name", "bank", "--url", "https://mcp.example.com/mcp"]).await;
    assert_eq!(ended.code, 1, "{}", ended.err);
    user.run(&["disconnect", "cursor", "--name", "bank", "--url", "https://bank.example/mcp"]).await.success();
}

#[tokio::test]
async fn of_several_servers_the_name_says_which_is_removed() {
    let user = User::new();
    for name in ["one", "two"] {
        user.connect_notes("cursor", &["--write", "--name", name]).await.success();
    }
    let ended = user.run(&["disconnect", "cursor"]).await;
    assert!(ended.code == 1 && ended.err.contains("one, two") && ended.err.contains("--name"), "{}", ended.err);
    user.run(&["disconnect", "cursor", "--name", "one"]).await.success();
    let left = user.json(".cursor/mcp.json");
    assert_eq!(left["mcpServers"].as_object().unwrap().keys().collect::<Vec<_>>(), ["two"]);
    let ended = user.run(&["disconnect", "cursor", "--name", "one"]).await;
    assert!(ended.code == 1 && ended.err.contains("no server `one`"), "{}", ended.err);
}
