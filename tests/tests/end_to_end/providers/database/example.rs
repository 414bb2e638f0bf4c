//! `examples/database.toml`: its commands, run verbatim.

use std::process::Stdio;

use mcp_host_tests::{Postgresql, host_command};
use tokio::process::Command;

const EXAMPLE: &str = include_str!("../../../../../examples/database.toml");
/// The server's directory in the example.
const DIR: &str = "/tmp/shop";

/// Runs the host in place of `cargo run`; the providers are built already.
const CARGO: &str = "cargo() { if [ \"$1\" = run ]; then shift 3; \"$MCP_HOST\" \"$@\"; fi; }";

#[tokio::test]
async fn the_example_runs_as_it_says() {
    let commands: String = EXAMPLE
        .lines()
        .filter_map(|line| line.strip_prefix("#   "))
        .fold(String::new(), |commands, line| commands + line + "\n");
    let (server, host) = commands.split_once("cargo xtask plugins\n").unwrap();
    let server = Postgresql::start_by_script(server, DIR);
    let script = format!("{CARGO}\n{}", host.replace(DIR, server.data().to_str().unwrap()));
    let program = host_command();
    let variables = program.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut shell = Command::new("bash");
    shell.args(["-euc", &script]).envs(variables).env("MCP_HOST", program.as_std().get_program());
    shell.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).stdin(Stdio::null()).kill_on_drop(true);
    let output = shell.output().await.unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}\n{errors}");
    for expected in ["postgres://shop/dictionary", "postgres://shop/public", "item 5", "item 6"] {
        assert!(text.contains(expected), "{expected}: {text}\n{errors}");
    }
    assert!(!text.contains("item 7"), "rows were asked for up to the fifth, and items below 10: {text}");
}
