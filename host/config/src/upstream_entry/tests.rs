use std::collections::BTreeSet;
use std::path::Path;

use crate::{Config, Environment, Plugin, SandboxMode, TokenHolder, UpstreamCommand, UpstreamSource};

fn parse(text: &str) -> Result<Config, String> {
    let environment = Environment::empty().variable("TOKEN", "hunter2").variable("PATH", "/usr/bin:/bin");
    Config::parse_in(text, Path::new("/etc/mcp-host.toml"), &environment).map_err(|error| error.to_string())
}

fn upstream(keys: &str) -> Result<Plugin, String> {
    parse(&format!("[[upstream]]\nname = 'up'\n{keys}")).map(|config| config.plugins[0].clone())
}

#[test]
fn an_upstream_is_a_plugin_without_a_component() {
    let plugin = upstream(
        "url = 'https://mcp.example.com/mcp'\nmount = 'Up+'\nauth = { token = { env = 'TOKEN' } }\npoll = true\n\
         required = true\nlimits = { deadline = '2s' }",
    )
    .unwrap();
    assert_eq!((plugin.name.as_str(), plugin.mount.as_str(), plugin.required), ("up", "up+", true));
    assert_eq!(plugin.source(), "https://mcp.example.com/mcp");
    let upstream = plugin.upstream.unwrap();
    assert!(upstream.poll && upstream.prefix.is_none());
    assert_eq!(upstream.authorization.unwrap().expose().as_str(), "Bearer hunter2");
}

#[test]
fn a_mount_like_that_of_a_plugin_replaces_a_prefix() {
    let url = "url = 'http://127.0.0.1:1/mcp'\n";
    let plugin = upstream(&format!("{url}mount = 'files://nas/'\nprefix = 'file:///srv/'")).unwrap();
    assert_eq!(plugin.upstream.unwrap().prefix.unwrap().as_str(), "file:///srv/");
    for (keys, message) in [
        ("mount = 'files://nas/'", "needs `prefix`"),
        ("mount = 'up+'\nprefix = 'file:///srv/'", "no prefix is replaced"),
        ("mount = 'web://'\nprefix = 'file:///srv/'", "has hosts below it"),
        ("mount = 'files://nas/'\nprefix = 'up+'", "is not the beginning of URIs"),
    ] {
        let error = upstream(&format!("{url}{keys}")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_command_line_is_to_be_written_as_a_list() {
    let error = upstream("command = 'ls -l /srv'\nmount = 'up+'").unwrap_err();
    assert!(error.contains("`upstream.command` must be a list"), "{error}");
    assert!(error.contains("write each argument for itself: `command = [\"ls\", \"-l\", \"/srv\"]`"), "{error}");
    let error = upstream("command = 'ls'\nmount = 'up+'").unwrap_err();
    assert!(error.contains("put it in brackets: `command = ["), "{error}");
}

#[test]
fn a_limit_is_suggested_that_an_upstream_has() {
    let url = "url = 'http://127.0.0.1:1/mcp'\nmount = 'up+'\n";
    let error = upstream(&format!("{url}limits = {{ mem = '1MiB', timeout = '1s' }}")).unwrap_err();
    assert!(error.contains("did you mean `memory`?") && error.contains("did you mean `deadline`?"), "{error}");
    assert!(error.contains("`program-cpu`") && !error.contains("`handles`"), "{error}");
}

fn command(keys: &str) -> UpstreamCommand {
    let plugin = upstream(keys).unwrap();
    let UpstreamSource::Command(command) = plugin.upstream.unwrap().source else { panic!("it is a command") };
    command
}

#[test]
fn the_script_of_an_interpreter_is_a_path_of_the_config_and_other_arguments_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for file in ["bin/python3.12", "bin/acme", "server.py", "data.json"] {
        std::fs::write(folder.path().join(file), "").unwrap();
    }
    let file = folder.path().join("mcp-host.toml");
    let environment = Environment::empty().variable("PATH", bin.to_str().unwrap());
    let parse = |command: &str| {
        let text = format!("[[upstream]]\nname = 'up'\nmount = 'up+'\ncommand = {command}\n");
        Config::parse_in(&text, &file, &environment).map_err(|error| error.to_string())
    };
    let arguments = |command: &str| {
        let config = parse(command).unwrap();
        let (_, command) = config.programs().next().unwrap();
        command.arguments.clone()
    };
    let script = folder.path().join("server.py").display().to_string();
    assert_eq!(arguments("['python3.12', '-u', 'server.py', 'data.json']"), ["-u", &script, "data.json"]);
    assert_eq!(arguments("['python3.12', './server.py']"), [script.as_str()]);
    for kept in ["['python3.12', '-m', 'server.py']", "['python3.12', 'server']", "['acme', 'server.py']"] {
        assert!(!arguments(kept).contains(&script), "{kept}");
    }
    let error = parse("['python3.12', 'gone.py']").unwrap_err();
    assert!(error.contains("there is no file at") && error.contains("gone.py"), "{error}");

    let warnings = |command: &str| {
        let all = parse(command).unwrap().warnings();
        all.iter().map(ToString::to_string).filter(|one| one.contains("starts in `/`")).collect::<Vec<_>>()
    };
    let told = warnings("['python3.12', 'server.py', 'data.json', '--file=data.json', 'data', '/data']");
    assert_eq!(told.len(), 1, "{told:?}");
    let full = folder.path().join("data.json").display().to_string();
    assert!(told[0].contains("the argument `data.json`") && told[0].contains(&full), "{told:?}");
    assert_eq!(warnings("['acme', 'server.py']").len(), 1);
}

#[test]
fn a_program_is_installed_and_confined_unless_the_config_says_otherwise() {
    let confined = command("mount = 'up+'\ncommand = ['sh', '-c', 'x']\nuser = 'mcp'");
    assert!(confined.program.is_absolute() && confined.program.ends_with("sh"));
    assert_eq!(confined.arguments, ["-c", "x"]);
    let memory =
        |more| upstream(&format!("mount = 'up+'\ncommand = ['sh']\n{more}")).unwrap().limits.memory.to_string();
    assert_eq!((memory(""), memory("limits.memory = '1GiB'")), ("256MiB".to_owned(), "1GiB".to_owned()));
    let cpu = |more| upstream(&format!("mount = 'up+'\ncommand = ['sh']\n{more}")).unwrap().limits.program_cpu;
    let hour = cpu("limits.program-cpu = '1h'").map(|limit| limit.duration().as_secs());
    assert_eq!((cpu(""), hour), (None, Some(3600)));
    assert_eq!((confined.sandbox, confined.user.as_deref()), (SandboxMode::Full, Some("mcp")));
    assert_eq!(command("mount = 'up+'\nsandbox = 'none'\ncommand = ['sh']").sandbox, SandboxMode::None);
    for (keys, message) in [
        ("command = []", "the command is empty"),
        ("command = ['no-such-program-here']", "no directory of `PATH`"),
        ("command = ['uvx', 'acme']", "`uv tool install acme`"),
        ("sandbox = 'half'\ncommand = ['sh']", "is not a sandbox"),
        ("user = 'root'\ncommand = ['sh']", "is not started as root"),
        ("user = 'a b'\ncommand = ['sh']", "is not the name of a user"),
        ("user = 'mcp'\nurl = 'https://a.example/mcp'", "`user` is for a program"),
    ] {
        let error = upstream(&format!("mount = 'up+'\n{keys}")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_program_is_granted_directories_variables_and_origins() {
    let keys = "mount = 'up+'\ncommand = ['sh']\ngrants.env = { A = { env = 'TOKEN' } }\n\
                grants.dirs = [{ host = '/usr', guest = '/data' }]\ngrants.http = ['https://a.example']";
    let grants = upstream(keys).unwrap().grants;
    assert_eq!((grants.env.len(), grants.dirs.len(), grants.http.iter().count()), (1, 1, 1));
    for (keys, message) in [
        ("sandbox = 'none'\ngrants.http = ['https://a.example']", "without a sandbox"),
        ("sandbox = 'none'\ngrants.dirs = [{ host = '/usr', guest = '/data' }]", "without a sandbox"),
        ("grants.keyvalue = ['a']", "`grants.keyvalue` is for components"),
        (
            "grants.http = [{ origin = 'https://a.example', headers-from = { x-key = { env = 'TOKEN' } } }]",
            "cannot be granted to a program",
        ),
    ] {
        let error = upstream(&format!("mount = 'up+'\ncommand = ['sh']\n{keys}")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_confined_server_has_programs() {
    let config = parse(
        "[server]\nhttp = '127.0.0.1:8080'\nconfine = true\n[[upstream]]\nname = 'up'\ncommand = ['sh']\nmount = 'up+'",
    )
    .unwrap();
    assert_eq!(config.programs().count(), 1);
}

#[test]
fn principals_and_groups_have_tokens_and_share_nothing() {
    let text = |more: &str, tokens: &str| {
        format!(
            "[[principal]]\nname = 'ada'\ntoken-sha256 = '{:064}'\n[[group]]\nname = 'team'\nprincipals = ['ada']\n[[upstream]]\nname = \
             'up'\nmount = 'up+'\nurl = 'https://a.example/mcp'\n{more}\nauth = {{ tokens = [{tokens}] }}",
            1
        )
    };
    let ada = "{ principal = 'ada', token = { env = 'TOKEN' } }";
    let all = format!(
        "{ada}, {{ group = 'team', token = {{ env = 'TOKEN' }} }}, {{ group = 'corp/x', token = {{ env = 'TOKEN' }} }}"
    );
    let upstream = parse(&text("", &all)).unwrap().plugins[0].upstream.clone().unwrap();
    let holders: Vec<_> = upstream.identities.iter().map(|identity| identity.holder.clone()).collect();
    let group = |name: &str| TokenHolder::Group(name.to_owned());
    assert_eq!(holders, [TokenHolder::Principal("ada".to_owned()), group("team"), group("corp/x")]);
    assert_eq!(upstream.identities[0].token.expose().as_str(), "Bearer hunter2");
    for (more, tokens, message) in [
        ("", "", "has 0 entries"),
        (
            "",
            "{ principal = 'bob', token = { env = 'TOKEN' } }",
            "the principal `bob`, which this config does not have",
        ),
        ("", "{ group = 'ada', token = { env = 'TOKEN' } }", "the group `ada`, which this config does not have"),
        ("", "{ principal = '*', token = { env = 'TOKEN' } }", "no name of a principal"),
        ("", "{ token = { env = 'TOKEN' } }", "neither `principal` nor `group`"),
        ("", &format!("{ada}, {ada}"), "an earlier token has the same holder"),
        ("search = {}", ada, "the index is one for all principals"),
        ("skills = ['**']", ada, "skills are kept for all principals"),
    ] {
        let error = parse(&text(more, tokens)).unwrap_err();
        assert!(error.contains(message), "{message}: {error}");
    }
    parse(&text("poll = true", ada)).unwrap();
}

#[test]
fn with_views_nothing_is_shared() {
    let keys = |more: &str| upstream(&format!("url = 'https://a.example/mcp'\nmount = 'up+'\n{more}"));
    assert!(!keys("").unwrap().has_views() && !keys("views = 'shared'").unwrap().has_views());
    assert!(keys("views = 'principal'\npoll = true").unwrap().has_views());
    for (more, message) in [
        ("views = 'group'", "`group` is not who shares answers"),
        ("views = 'principal'\nsearch = {}", "`search` cannot be set beside `views = \"principal\"`: the index is one"),
    ] {
        let error = keys(more).unwrap_err();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn access_tokens_come_from_a_token_endpoint_or_are_exchanged_there() {
    let keys = |auth: &str| upstream(&format!("url = 'https://a.example/mcp'\nmount = 'up+'\nauth = {{ {auth} }}"));
    let client =
        "oauth = { client-id = 'host', client-secret = { env = 'TOKEN' }, token-uri = 'https://login.example/token' }";
    let plugin = keys(client).unwrap();
    assert!(!plugin.has_views() && plugin.upstream.unwrap().oauth.is_some());
    let plugin = keys(&format!("forward = 'exchange', {client}")).unwrap();
    assert!(plugin.has_views());
    let upstream = plugin.upstream.unwrap();
    assert_eq!((upstream.exchange.unwrap().client.id.as_str(), upstream.oauth), ("host", None));
    for (auth, message) in [
        ("forward = 'exchange'", "none of `token`, `tokens` and `oauth`"),
        ("forward = 'exchange', token = { env = 'TOKEN' }", "`forward` requires `oauth`"),
        (&format!("token = {{ env = 'TOKEN' }}, {client}"), "both `token` and `oauth`"),
        (
            "forward = 'exchange', oauth = { refresh-token = { env = 'TOKEN' }, client-id = 'host', token-uri = 'https://login.example/token' }",
            "requires the credentials of a client",
        ),
    ] {
        let error = keys(auth).unwrap_err();
        assert!(error.contains(message), "{message}: {error}");
    }
}

#[test]
fn upstreams_and_plugins_conflict_like_plugins() {
    let other = |name: &str, mount: &str| {
        parse(&format!(
            "[[upstream]]\nname = 'up'\nurl = 'https://a.example/mcp'\nmount = 'git+'\n[[upstream]]\nname = '{name}'\nurl = \
             'https://b.example/mcp'\nmount = '{mount}'\nprefix = 'x://'"
        ))
    };
    other("b", "git://").unwrap();
    assert!(other("up", "git://").unwrap_err().contains("two plugins are named `up`"));
    assert!(other("b", "git+ssh://").unwrap_err().contains("overlap"));
}

#[test]
fn what_belongs_to_the_host_is_hidden_from_each_program() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["server.sh", "other.token"] {
        std::fs::write(folder.path().join(file), "secret").unwrap();
    }
    let environment = Environment::empty().variable("PATH", "/usr/bin:/bin").variable("XDG_STATE_HOME", "/states");
    let hidden = |keys: &str| {
        let text = format!(
            "{keys}\n[[upstream]]\nname = 'own'\nmount = 'own+'\ncommand = ['sh', 'server.sh']\n\
             [[upstream]]\nname = 'other'\nmount = 'other+'\nurl = 'https://mcp.example.com/mcp'\n\
             auth = {{ token = {{ file = 'other.token' }} }}\n"
        );
        let config = Config::parse_in(&text, &folder.path().join("mcp-host.toml"), &environment).unwrap();
        let (_, command) = config.programs().next().unwrap();
        (command.hidden.iter().cloned().collect::<Vec<_>>(), command.hidden_log.clone())
    };
    let at = |name: &str| folder.path().join(name);
    let states = ["/states/mcp-host", "/states/mcp-host/components"].map(std::path::PathBuf::from);
    let mut expected = vec![at("mcp-host.toml"), at("other.token")];
    expected.extend(states);
    expected.sort_unstable();
    assert_eq!(hidden(""), (expected, None));
    let keys = "server = { state = 'state', cache = 'cache' }\naudit = { file = 'audit.jsonl' }\n\
                admin = { listen = 'unix:admin.sock' }";
    let expected =
        ["admin.sock", "audit.jsonl", "cache", "mcp-host.toml", "other.token", "state", "state/components"].map(at);
    assert_eq!(hidden(keys), (expected.to_vec(), Some(at("audit.jsonl"))));
}

#[test]
fn what_is_hidden_from_a_program_does_not_change_the_identity_of_its_plugin() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.sh"), "").unwrap();
    let text = "[[upstream]]\nname = 'own'\nmount = 'own+'\ncommand = ['sh', 'server.sh']\n";
    let plugins = |states: &str| {
        let environment = Environment::empty().variable("PATH", "/usr/bin:/bin").variable("XDG_STATE_HOME", states);
        Config::parse_in(text, &folder.path().join("mcp-host.toml"), &environment).unwrap().plugins
    };
    let (one, other) = (plugins("/states"), plugins("/others"));
    assert_ne!(one, other);
    assert_eq!(format!("{one:?}"), format!("{other:?}"));
}

#[test]
fn a_program_is_told_what_all_plugins_are_granted() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for dir in ["notes", "drafts", "own"] {
        std::fs::create_dir(at(dir)).unwrap();
    }
    for file in ["server.sh", "notes.wasm", "shop.db"] {
        std::fs::write(at(file), "").unwrap();
    }
    let text = "[[plugin]]\nname = 'notes'\ncomponent = 'notes.wasm'\nmount = 'notes:///'\n\
                grants.dirs = [{ host = 'notes', guest = '/a' }, { host = 'drafts', guest = '/b', mode = 'rw' }]\n\
                grants.sql = [{ name = 'shop', url = 'sqlite:shop.db' }]\n\
                [[upstream]]\nname = 'up'\nmount = 'up+'\ncommand = ['sh', 'server.sh']\n\
                grants.dirs = [{ host = 'own', guest = '/own', mode = 'rw' }]\n";
    let environment = Environment::empty().variable("PATH", "/usr/bin:/bin");
    let config = Config::parse_in(text, &at("mcp-host.toml"), &environment).unwrap();
    let (_, command) = config.programs().next().unwrap();
    let granted = ["drafts", "notes", "own", "shop.db", "shop.db-journal", "shop.db-shm", "shop.db-wal"];
    assert_eq!(*command.granted, BTreeSet::from(granted.map(at)));
    assert_eq!(*command.writable, BTreeSet::from(["drafts", "own"].map(at)));
    assert!(!command.hidden.contains(&at("notes")));
}

#[test]
fn a_program_that_a_plugin_may_replace_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for dir in ["out", "app"] {
        std::fs::create_dir(at(dir)).unwrap();
        std::fs::write(at(dir).join("server.sh"), "").unwrap();
    }
    std::fs::write(at("p.wasm"), "").unwrap();
    let told = |script: &str, mode: &str| {
        let text = format!(
            "[[plugin]]\nname = 'writer'\ncomponent = 'p.wasm'\nmount = 'p:///'\n\
             grants.dirs = [{{ host = 'out', guest = '/out', mode = '{mode}' }}]\n\
             [[upstream]]\nname = 'up'\nmount = 'up+'\ncommand = ['sh', '{script}']\n"
        );
        let environment = Environment::empty().variable("PATH", "/usr/bin:/bin");
        let config = Config::parse_in(&text, &at("mcp-host.toml"), &environment).unwrap();
        let warnings = config.warnings().into_iter().map(|warning| warning.to_string());
        warnings.filter(|warning| warning.contains("does not start the program")).collect::<Vec<_>>()
    };
    let warnings = told("out/server.sh", "rw");
    assert!(warnings.len() == 1 && warnings[0].contains("plugin `writer` may write to"), "{warnings:?}");
    assert_eq!([told("out/server.sh", "ro"), told("app/server.sh", "rw")], [(); 2].map(|()| Vec::<String>::new()));
}
