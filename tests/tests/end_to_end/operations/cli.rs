//! The command line: results on standard output, everything else on standard error, and exit codes.

use std::fs;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, Folder, GitRepo, Output, Plugin, RawStdio, Revision, WrittenConfig, component, host_command, run,
    run_on_terminal, type_on_terminal,
};
use serde_json::{Value, json};

const BINARY: &[u8] = b"\x00\x01\xff\xfe";

struct CliFixture {
    _repo: GitRepo,
    config: WrittenConfig,
}

fn cli_fixture() -> CliFixture {
    let files = [("README.md", b"# Hello\n".as_slice()), ("logo.png", BINARY), ("escape.txt", b"a\x1b[2Jb\n")];
    let repo = GitRepo::with_files(files);
    let config = ConfigFile::new().page_size(2).plugin(Plugin::git("repo", repo.path())).write();
    CliFixture { _repo: repo, config }
}

impl CliFixture {
    fn arguments(&self, arguments: &[&str]) -> Vec<String> {
        let mut all: Vec<_> = arguments.iter().map(ToString::to_string).collect();
        all.extend(["--config".to_owned(), self.config.path().to_str().unwrap().to_owned()]);
        all
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        run(self.arguments(arguments)).await
    }

    async fn on_terminal(&self, arguments: &[&str]) -> Output {
        run_on_terminal(self.arguments(arguments)).await
    }
}

#[tokio::test]
async fn check_loads_everything_and_leaves_no_state_behind_but_the_key_of_the_cache() {
    let served = cli_fixture();
    let checked = served.run(&["check"]).await.success();
    assert!(checked.text().contains("git://repo/") && checked.text().contains("ok"), "{}", checked.text());
    let report = served.run(&["check", "--json"]).await.success().json();
    assert_eq!(report["plugins"][0]["name"], "repo");
    assert_eq!(report["plugins"][0]["provider"]["name"], "git");
    assert_eq!(report["plugins"][0]["error"], Value::Null);
    let state = std::fs::read_dir(served.config.dir().join("state")).unwrap();
    let left: Vec<_> = state.map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["compiled.key"]);
}

#[tokio::test]
async fn inspect_needs_no_config_and_grants_nothing() {
    let file = component("git");
    let inspected = run(["inspect", file.to_str().unwrap()]).await.success().text();
    assert!(
        inspected.contains("sha256:") && inspected.contains("mcp-host:provider/resource-provider@0.1.1"),
        "{inspected}"
    );
    let report = run(["inspect", file.to_str().unwrap(), "--json"]).await.success().json();
    assert_eq!(report["provider"]["name"], "git");
    assert_eq!(report["size"], file.metadata().unwrap().len());
    assert!(
        report["imports"].as_array().unwrap().iter().any(|name| name.as_str().unwrap().starts_with("wasi:filesystem/"))
    );
}

#[tokio::test]
async fn a_component_is_compiled_once_and_found_by_the_next_start() {
    let cache = Folder::with_files::<&str, &str>([]);
    let mut compiled = Vec::new();
    for _ in 0..2 {
        let mut command = host_command();
        command.arg("inspect").arg(component("hello")).env("XDG_CACHE_HOME", cache.path()).stdin(Stdio::null());
        let ended = command.output().await.unwrap();
        assert!(ended.status.success(), "{ended:?}");
        compiled.push(String::from_utf8(ended.stderr).unwrap().contains("compiling a component"));
    }
    assert_eq!(compiled, [true, false]);
}

/// Returns the result without its cursor, which is different each time, and whether there was one.
fn without_cursor(mut result: Value) -> (Value, bool) {
    let cursor = result.as_object_mut().unwrap().remove("nextCursor");
    (result, cursor.is_some_and(|cursor| cursor.is_string()))
}

#[tokio::test]
async fn json_is_the_result_object_of_the_protocol() {
    let served = cli_fixture();
    let mut wire = RawStdio::start(&served.config, Revision::V_2025_11_25).await;
    let page = wire.request("resources/list", json!({})).await;
    let listed = served.run(&["list", "--json"]).await.success().json();
    assert_eq!(without_cursor(listed), without_cursor(page.result().clone()));
    let templates = wire.request("resources/templates/list", json!({})).await;
    let listed = served.run(&["list", "--templates", "--json"]).await.success().json();
    assert_eq!(without_cursor(listed), without_cursor(templates.result().clone()));
    for file in ["README.md", "logo.png"] {
        let uri = format!("git://repo/blob/main/{file}");
        let read = wire.request("resources/read", json!({ "uri": &uri })).await;
        assert_eq!(&served.run(&["read", &uri, "--json"]).await.success().json(), read.result());
    }
    wire.end().await;
}

#[tokio::test]
async fn a_listing_goes_on_with_its_cursor_and_to_the_end_with_all() {
    let served = cli_fixture();
    let first = served.run(&["list"]).await.success();
    assert_eq!(first.text().lines().count(), 2, "{}", first.text());
    let cursor = first.stderr.split("--cursor ").nth(1).unwrap().split('`').next().unwrap();
    let second = served.run(&["list", "--cursor", cursor]).await.success();
    assert_eq!(second.text().lines().count(), 1);
    let all = served.run(&["list", "--all"]).await.success();
    assert_eq!(all.text().lines().count(), 3);
    let forged = served.run(&["list", "--cursor", "forged"]).await;
    assert_eq!(forged.code(), 1);
    assert!(forged.stderr.contains("cursor"), "{}", forged.stderr);
}

#[tokio::test]
async fn what_is_read_goes_to_a_pipe_or_a_file_byte_for_byte() {
    let served = cli_fixture();
    assert_eq!(served.run(&["read", "git://repo/blob/main/README.md"]).await.success().stdout, b"# Hello\n");
    assert_eq!(served.run(&["read", "git://repo/blob/main/logo.png"]).await.success().stdout, BINARY);
    assert_eq!(served.run(&["read", "git://repo/blob/main/escape.txt"]).await.success().stdout, b"a\x1b[2Jb\n");
    let file = served.config.dir().join("saved");
    let read =
        served.run(&["read", "git://repo/blob/main/logo.png", "--output", file.to_str().unwrap()]).await.success();
    assert_eq!(read.stdout, b"");
    assert_eq!(std::fs::read(&file).unwrap(), BINARY);
}

#[tokio::test]
async fn a_terminal_gets_text_without_control_characters_and_never_binary() {
    let served = cli_fixture();
    let refused = served.on_terminal(&["read", "git://repo/blob/main/logo.png"]).await;
    assert_eq!((refused.code(), refused.text().as_str()), (1, ""));
    assert!(refused.stderr.contains("is binary") && refused.stderr.contains("--output FILE"), "{}", refused.stderr);
    let shown = served.on_terminal(&["read", "git://repo/blob/main/escape.txt"]).await.success();
    assert_eq!(shown.text(), "a\\u{1b}[2Jb\r\n");
    let listed = served.on_terminal(&["list", "--color", "never"]).await.success();
    assert!(listed.text().contains("git://repo/blob/HEAD/README.md"), "{}", listed.text());
    assert!(!listed.text().contains('\u{1b}'));
}

#[tokio::test]
async fn exit_codes_tell_what_cannot_be_done_from_what_is_wrong() {
    let served = cli_fixture();
    for (arguments, code, said) in [
        (["read", "git://repo/blob/main/nothing"].as_slice(), 1, "there is no resource"),
        (&["read", "git://elsewhere/x"], 1, "there is no resource"),
        (&["read", "README.md"], 1, "does not begin with a scheme"),
        (&["list", "git://repo/blob/main/README.md"], 1, "expected a directory"),
        (&["list", "git://repo/tree/main/nothing"], 1, "there is no resource"),
        (&["read"], 2, "required"),
        (&["nonsense"], 2, "unrecognized subcommand"),
        (&["list", "--as", "locla"], 2, "the config has no principal `locla`\nhelp: did you mean `local`?"),
        (&["list", "--as", "nobody"], 2, "it has local, anonymous"),
        (&["serve", "--stdio", "--http", "127.0.0.1:0"], 2, "cannot be used with"),
    ] {
        let ended = served.run(arguments).await;
        assert_eq!(ended.code(), code, "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.text(), "", "{arguments:?}");
    }
}

#[tokio::test]
async fn a_path_in_a_message_of_a_provider_is_followed_by_its_uri() {
    let repo = GitRepo::with_files([("src/main.rs", "fn main() {}\n")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let served = CliFixture { _repo: repo, config };
    for (arguments, help) in [
        (["read", "git://repo/blob/main/src"], "help: the URI of `tree/main/src` is git://repo/tree/main/src\n"),
        (["read", "git://repo/tree/main/src/main.rs"], " is git://repo/blob/main/src/main.rs\n"),
        (["read", "git://repo/nonsense"], "\n  git://repo/blob/{rev}/{+path}  ("),
    ] {
        let ended = served.run(&arguments).await;
        assert!(ended.code() == 1 && ended.stderr.contains(help), "{arguments:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn a_usage_error_names_what_is_missing_and_no_option_that_a_variable_sets() {
    let mut command = host_command();
    command.args(["read"]).env("MCP_HOST_LOG", "warn").env("MCP_HOST_CONFIG", "team.toml");
    let output = command.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("Usage: mcp-host read <URI>"), "{said}");
    let mut command = host_command();
    command.args(["check"]).env("MCP_HOST_LOG", "warn,nonsense=loud").env("MCP_HOST_CONFIG", "/nowhere/team.toml");
    let output = command.output().await.unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(2) && said.contains("nonsense=loud"), "{said}");
    let mut command = host_command();
    command.args(["check"]).env("MCP_HOST_CONFIG", "/nowhere/team.toml");
    let said = String::from_utf8(command.output().await.unwrap().stderr).unwrap();
    assert!(said.contains("/nowhere/team.toml"), "{said}");
}

#[tokio::test]
async fn errors_of_the_command_line_are_colored_as_the_option_says() {
    let folder = Folder::with_files::<&str, &str>([]);
    let colored = type_on_terminal(folder.path(), ["chekc"]).await;
    assert!(colored.contains('\u{1b}'), "{colored}");
    for arguments in [["--color", "never", "chekc"], ["list", "--tamplates", "--color=never"]] {
        let plain = type_on_terminal(folder.path(), arguments).await;
        assert!(plain.contains("error: ") && !plain.contains('\u{1b}'), "{plain}");
    }
}

#[tokio::test]
async fn help_is_wrapped() {
    for command in ["list", "serve", "watch"] {
        let help = run([command, "--help"]).await.success().text();
        assert!(help.contains(&format!("Usage: mcp-host {command} [OPTIONS]")), "{help}");
        let longest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
        assert!((60..=100).contains(&longest.chars().count()), "{longest}");
    }
    let without_command = run::<&str>([]).await;
    assert_eq!(without_command.code(), 2);
    assert!(without_command.stderr.contains("Usage: mcp-host [OPTIONS] <COMMAND>"), "{}", without_command.stderr);
}

#[tokio::test]
async fn what_cannot_be_read_has_a_hint_of_what_can() {
    let repo = GitRepo::with_files([("docs/a.txt", "a\n")]);
    let config = ConfigFile::new().plugin(Plugin::git("repo", repo.path())).write();
    let served = CliFixture { _repo: repo, config };
    for (arguments, hint) in [
        (["read", "git://repo/"], "expected blob/{rev}/{+path}, tree/{rev}/{+path}"),
        (["read", "git://repo/blob/HEAD/docs"], "\"docs\" is a directory: read tree/HEAD/docs"),
        (["read", "git://repo/blob/HEAD/none"], "git://repo/tree/{rev}/{+path}  (A directory at a revision)"),
        (
            ["read", "git:/x/README.md"],
            "the most similar mount is `git://repo/`, and `mcp-host list` shows the resources",
        ),
        (["list", "gti://repo/tree/HEAD"], "the most similar mount is `git://repo/`"),
        (["read", "README.md"], "help: `mcp-host list` shows the URIs of the resources"),
        (["explain", "README.md"], "help: `mcp-host list` shows the URIs of the resources"),
        (["explain", "git://elsewhere/"], "the most similar mount is `git://repo/`"),
        (["watch", "git://elsewhere/"], "the most similar mount is `git://repo/`"),
        (
            ["list", "git://repo/blob/HEAD/docs/a.txt"],
            "it can be read: `mcp-host read git://repo/blob/HEAD/docs/a.txt`",
        ),
    ] {
        let ended = served.run(&arguments).await;
        assert_eq!(ended.code(), 1);
        assert!(ended.stderr.contains(hint), "{arguments:?}: {}", ended.stderr);
    }
}

#[tokio::test]
async fn two_plugins_of_one_provider_are_told_apart_by_their_titles() {
    let repo = GitRepo::with_files([("README.md", "# Hello\n")]);
    let plugin = |name: &str, title: &str| Plugin::git(name, repo.path()).set("title", title);
    let config = ConfigFile::new().plugin(plugin("a", "Kernel")).plugin(plugin("b", "Tools")).write();
    let config = config.path().to_str().unwrap().to_owned();
    let json = async |arguments: &[&str]| run([arguments, &["--json", "--config", &config]].concat()).await.json();
    let templates = json(&["list", "--templates", "--all"]).await;
    let titles: Vec<_> = templates["resourceTemplates"].as_array().unwrap().iter().map(|one| &one["title"]).collect();
    assert!(titles.contains(&&json!("Kernel: A file at a revision")), "{titles:?}");
    assert!(titles.contains(&&json!("Tools: A file at a revision")), "{titles:?}");
    let listed = json(&["list", "--all"]).await;
    let titles: Vec<_> = listed["resources"].as_array().unwrap().iter().map(|one| one["title"].clone()).collect();
    assert_eq!(titles, ["Kernel: README.md", "Tools: README.md"]);
    // Below a resource, all entries belong to one plugin, so titles have no prefix.
    let below = json(&["list", "git://a/tree/HEAD"]).await;
    assert_eq!(below["resources"][0]["title"], Value::Null, "{below}");
}

#[tokio::test]
async fn mistakes_in_the_config_name_file_and_line_and_what_to_write() {
    let good = component("git");
    let plugin = |mount: &str| format!("[[plugin]]\nname = \"repo\"\ncomponent = {good:?}\nmount = \"{mount}\"\n");
    for (text, line, said) in [
        ("[server]\npagesize = 5\n".to_owned(), 2, "page-size"),
        ("[server]\npage-size = 0\n".to_owned(), 2, "1"),
        ("[server]\nhttp = \"0.0.0.0:80\"\n".to_owned(), 2, "127.0.0.1:80"),
        (format!("{}limits = {{ memory = \"lots\" }}\n", plugin("git://repo/")), 5, "64MiB"),
        (plugin("git:repo"), 4, "mount"),
        (plugin("git://repo/") + &plugin("git://repo/x/").replace("\"repo\"", "\"other\""), 8, "overlap"),
        ("[[rule]]\nprincipals = [\"anonymus\"]\nallow = [\"**\"]\n".to_owned(), 2, "anonymous"),
        ("this is no TOML\n".to_owned(), 1, "TOML"),
    ] {
        let folder = Folder::with_files([("team.toml", text.as_bytes())]);
        let file = folder.path().join("team.toml");
        for command in ["check", "serve", "list"] {
            let ended = run([command, "--config", file.to_str().unwrap()]).await;
            assert_eq!((ended.code(), ended.text().as_str()), (2, ""), "{text}");
            assert!(ended.stderr.contains(&format!("team.toml:{line}:")), "{text}\n{}", ended.stderr);
            assert!(ended.stderr.contains(said), "{text}\n{}", ended.stderr);
        }
    }
}

#[tokio::test]
async fn a_config_that_is_not_there_is_named() {
    let ended = run(["check", "--config", "/nowhere/mcp-host.toml"]).await;
    assert_eq!(ended.code(), 2);
    assert!(ended.stderr.contains("/nowhere/mcp-host.toml"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_reader_that_goes_away_early_is_no_failure() {
    let many = Plugin::misbehaving("many").config("list", "many").config("count", 9999);
    let config = ConfigFile::new().page_size(1000).plugin(many).write();
    let mut command = host_command();
    command.args(["list", "--all", "--config"]).arg(config.path()).stdin(Stdio::null());
    let (read, write) = std::io::pipe().unwrap();
    let child = command.stdout(write).stderr(Stdio::piped()).spawn().unwrap();
    drop((command, read));
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[tokio::test]
async fn completions_are_given_for_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let completions = run(["completions", shell]).await.success();
        assert!(completions.text().contains("mcp-host"), "{shell}");
    }
}

#[tokio::test]
async fn every_command_has_a_manual_page_and_is_completed_by_each_shell() {
    let folder = Folder::with_files::<&str, &str>([]);
    let directory = folder.path().join("man1");
    run(["man", directory.to_str().unwrap()]).await.success();
    let page = fs::read_to_string(directory.join("mcp-host.1")).unwrap();
    let commands: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("mcp\\-host\\-")?.strip_suffix("(1)")).collect();
    assert!(commands.contains(&"serve"), "{page}");
    for shell in ["bash", "fish", "zsh"] {
        let script = run(["completions", shell]).await.success().text();
        for command in &commands {
            assert!(script.contains(command), "{shell} does not complete {command}");
        }
    }
    for command in commands {
        let page = fs::read_to_string(directory.join(format!("mcp-host-{command}.1"))).unwrap();
        assert!(page.contains(".SH EXAMPLES\n.nf\n"), "{page}");
    }
}

/// Returns bash's suggestions for a tab at the end of a line.
async fn completed_by_bash(line: &str) -> Vec<String> {
    let script = run(["completions", "bash"]).await.success().text();
    let call = r#"
        read -ra COMP_WORDS <<< "$line"
        [[ $line == *" " ]] && COMP_WORDS+=("")
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_LINE=$line COMP_POINT=${#line}
        function=$(complete -p mcp-host | sed -E 's/.* -F ([^ ]+).*/\1/')
        "$function" mcp-host "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = tokio::process::Command::new("bash");
    // An argument is limited to 128 KiB, and the script is longer.
    let folder = Folder::with_files([("complete.sh", format!("{script}\n{call}"))]);
    bash.arg("--norc").arg(folder.path().join("complete.sh")).env("line", line);
    let output = bash.output().await.unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn bash_completes_commands_their_options_and_fixed_values() {
    for (line, wanted) in [
        ("mcp-host ser", "serve"),
        ("mcp-host serve --", "--stdio"),
        ("mcp-host read --o", "--output"),
        ("mcp-host list --color ", "never"),
        ("mcp-host --log-format ", "json"),
        ("mcp-host completions ", "fish"),
        ("mcp-host help wa", "watch"),
    ] {
        let completed = completed_by_bash(line).await;
        assert!(completed.iter().any(|word| word == wanted), "{line:?} gives {completed:?}");
    }
}

#[tokio::test]
async fn the_schema_of_the_config_is_printed_without_a_config() {
    let schema: Value =
        serde_json::from_str(&run(["schema", "--config", "absent.toml"]).await.success().text()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["server"]["properties"]["page-size"]["maximum"], 10_000);
}

#[tokio::test]
async fn the_log_goes_to_standard_error_as_wished() {
    let served = cli_fixture();
    let uri = "git://repo/blob/main/README.md";
    let quiet = served.run(&["read", uri, "--log", "off"]).await.success();
    assert_eq!(quiet.stderr, "");
    let json = served.run(&["read", uri, "--log", "debug", "--log-format", "json"]).await.success();
    for line in json.stderr.lines() {
        assert!(serde_json::from_str::<Value>(line).is_ok_and(|event| event.is_object()), "{line}");
    }
}

#[tokio::test]
async fn a_uri_is_taken_as_people_type_it() {
    let folder = Folder::with_files([("日本語 メモ.md", "# メモ\n"), ("50%.md", "half\n")]);
    let config = ConfigFile::new().plugin(Plugin::notes("n", folder.path())).write();
    let path = config.path();
    let config = path.to_str().unwrap();
    for (uri, expected) in [
        ("notes://n/日本語 メモ.md", "# メモ\n"),
        ("notes://n/%E6%97%A5%E6%9C%AC%E8%AA%9E%20%E3%83%A1%E3%83%A2.md", "# メモ\n"),
        ("notes://n/日本語%20メモ.md", "# メモ\n"),
        ("notes://n/50%25.md", "half\n"),
    ] {
        let read = run(["read", uri, "--config", config]).await.success();
        assert_eq!(read.text(), expected, "{uri}");
    }
    let explained = run(["explain", "notes://n/日本語 メモ.md", "--config", config]).await.success();
    assert!(explained.text().contains("allow"), "{}", explained.text());
}
