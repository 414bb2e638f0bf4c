use std::path::Path;

use crate::{Config, Environment, Plugin, UpstreamSource};

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
        ("mount = 'files://nas/'", "nothing says which URIs"),
        ("mount = 'up+'\nprefix = 'file:///srv/'", "no prefix is replaced"),
        ("mount = 'web://'\nprefix = 'file:///srv/'", "has hosts below it"),
        ("mount = 'files://nas/'\nprefix = 'up+'", "is not the beginning of URIs"),
    ] {
        let error = upstream(&format!("{url}{keys}")).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn a_program_is_installed_and_known_to_run_without_a_sandbox() {
    let keys = "mount = 'up+'\nsandbox = 'none'\ngrants.env = { A = { env = 'TOKEN' } }\n";
    let plugin = upstream(&format!("{keys}command = ['sh', '-c', 'x']")).unwrap();
    let UpstreamSource::Command(command) = plugin.upstream.unwrap().source else { panic!("it is a command") };
    assert!(command.program.is_absolute() && command.program.ends_with("sh"));
    assert_eq!(command.arguments, ["-c", "x"]);
    for (keys, message) in [
        ("mount = 'up+'\ncommand = ['sh']", "has no sandbox for programs"),
        ("mount = 'up+'\nsandbox = 'none'\ncommand = []", "the command is empty"),
        ("mount = 'up+'\nsandbox = 'none'\ncommand = ['no-such-program-here']", "no directory of `PATH`"),
        ("mount = 'up+'\nsandbox = 'none'\ncommand = ['uvx', 'acme']", "`uv tool install acme`"),
        ("mount = 'up+'\nsandbox = 'none'\ncommand = ['sh']\ngrants.http = ['https://a.example']", "without a sandbox"),
        ("mount = 'up+'\nsandbox = 'full'\ncommand = ['sh']", "is not a sandbox"),
    ] {
        let error = upstream(keys).unwrap_err();
        assert!(error.contains(message), "{error}");
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
