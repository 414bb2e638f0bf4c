//! `[log]`: the format and the filter of the log of `serve`, and the trace ids of its lines.

use std::path::Path;
use std::process::Stdio;

use mcp_host_tests::{
    ConfigFile, Folder, HttpServer, Plugin, Revision, TIMEOUT, WrittenConfig, has_user_namespaces, host_command,
};
use serde_json::{Value, json};
use tokio::net::UnixDatagram;
use tokio::process::Command;
use tokio::time::timeout;

const REVISION: Revision = Revision::V_2025_11_25;
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
/// A line that every server logs at level `debug`.
const DEBUG_LINE: &str = "confinement: no new privileges";

fn config(log: &str) -> WrittenConfig {
    ConfigFile::new().plugin(Plugin::sample("a")).allow_all().append(&format!("\n[log]\n{log}\n")).write()
}

/// Returns the log of a server whose standard input ends immediately.
async fn logged(config: &WrittenConfig, options: &[&str], variable: Option<&str>) -> String {
    let mut command = host_command();
    command.args(["serve", "--stdio", "--config"]).arg(config.path()).args(options).stdin(Stdio::null());
    command.envs(variable.map(|filter| ("MCP_HOST_LOG", filter)));
    let output = command.output().await.unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{log}");
    log
}

#[tokio::test]
async fn an_option_goes_before_the_variable_and_both_before_the_config() {
    let (quiet, loud) = ("warn", "mcp_host::server=debug");
    for (option, variable, configured, is_loud) in [
        (None, None, quiet, false),
        (None, None, loud, true),
        (None, Some(loud), quiet, true),
        (None, Some(quiet), loud, false),
        (Some(loud), Some(quiet), quiet, true),
        (Some(quiet), Some(loud), loud, false),
    ] {
        let options: Vec<_> = option.into_iter().flat_map(|filter| ["--log", filter]).collect();
        let log = logged(&config(&format!("filter = \"{configured}\"")), &options, variable).await;
        assert_eq!(log.contains(DEBUG_LINE), is_loud, "{option:?} {variable:?} {configured}: {log}");
    }
}

#[tokio::test]
async fn the_format_is_that_of_the_option_or_else_of_the_config() {
    let config = config("filter = \"debug\"\nformat = \"json\"");
    for (options, is_json) in [([].as_slice(), true), (&["--log-format", "text"], false)] {
        let log = logged(&config, options, None).await;
        let line = log.lines().find(|line| line.contains(DEBUG_LINE)).unwrap_or_else(|| panic!("{log}"));
        let parsed = serde_json::from_str::<Value>(line);
        assert_eq!(parsed.is_ok_and(|line| line["level"] == "DEBUG"), is_json, "{line}");
    }
}

#[tokio::test]
async fn a_reload_applies_the_filter() {
    let config = config("filter = \"warn\"");
    let server = HttpServer::start_before_plugins_load(&config).await;
    let text = std::fs::read_to_string(config.path()).unwrap();
    config.replace_text(&text.replace("\"warn\"", "\"info\""));
    let line = server.log_line(" reloaded ").await;
    assert!(line.contains("INFO"), "{line}");
    server.end().await;
}

#[tokio::test]
async fn lines_that_belong_to_a_request_have_the_id_of_its_trace_also_those_of_providers() {
    let traceparent = format!("00-{TRACE}-00f067aa0ba902b7-00");
    let slow = Plugin::misbehaving("m").limit("deadline", "1m");
    let config = ConfigFile::new().plugin(slow).allow_all().write();
    let read = json!({ "uri": "misbehaving://m/slow?ms=200", "_meta": { "traceparent": traceparent } });
    let filter = ["--log", "info,mcp_host::access=debug,mcp_host::guest=debug"];
    for format in ["text", "json"] {
        let server = HttpServer::start_with(&config, &[filter.as_slice(), &["--log-format", format]].concat()).await;
        let mut client = server.raw_client(REVISION).await;
        client.request("resources/read", json!({ "uri": "misbehaving://m/echo/x" })).await;
        let without = server.log_line("misbehaving://m/echo/x").await;
        assert!(!without.contains("trace_id"), "{without}");
        client.request("resources/read", read.clone()).await;
        for wanted in ["misbehaving://m/slow", "a slow read has begun"] {
            let line = server.log_line(wanted).await;
            match format {
                "text" => assert!(line.contains(&format!("request{{trace_id={TRACE}}}")), "{line}"),
                _ => {
                    let line: Value = serde_json::from_str(&line).unwrap();
                    assert_eq!(line["span"]["trace_id"], TRACE, "{line}");
                }
            }
        }
        server.end().await;
    }
}

/// Runs a server whose standard input ends immediately and whose standard error is a journal stream with this socket.
/// Returns its output there.
async fn logged_to_journal(config: &WrittenConfig, socket: &Path, options: &str) -> String {
    let host = host_command();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(format!(
        "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && ln -s \"$1\" /run/systemd/journal/socket && \
         export JOURNAL_STREAM=$(stat --dereference --format %d:%i /proc/self/fd/2) && \
         exec \"$0\" serve --stdio --config \"$2\" {options}"
    ));
    command.arg(host.as_std().get_program()).arg(socket).arg(config.path()).stdin(Stdio::null());
    command.envs(host.as_std().get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().await.unwrap();
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{log}");
    log
}

#[tokio::test]
async fn lines_are_entries_with_fields_where_standard_error_is_the_journal() {
    if !has_user_namespaces() {
        return;
    }
    let folder = Folder::with_files::<&str, &str>([]);
    let path = folder.path().join("socket");
    let journal = UnixDatagram::bind(&path).unwrap();
    for confine in [false, true] {
        let plugin = Plugin::sample("a");
        let config = ConfigFile::new().server("confine", confine).plugin(plugin);
        let config = config.append("\n[log]\nfilter = \"mcp_host::server=debug\"\n").write();
        let log = logged_to_journal(&config, &path, "").await;
        assert!(!log.contains("mcp_host::server"), "no line is written there: {log}");
        let mut buffer = vec![0; 64 << 10];
        let entry = async {
            loop {
                let length = journal.recv(&mut buffer).await.unwrap();
                let entry = String::from_utf8(buffer[..length].to_vec()).unwrap();
                if entry.contains(DEBUG_LINE) {
                    return entry;
                }
            }
        };
        let entry = timeout(TIMEOUT, entry).await.expect("it is an entry");
        let fields: Vec<_> = entry.lines().filter(|line| !line.starts_with("MESSAGE=")).collect();
        assert_eq!(fields, ["PRIORITY=7", "SYSLOG_IDENTIFIER=mcp-host", "TARGET=mcp_host::server"], "{entry}");
        let log = logged_to_journal(&config, &path, "--log-format text").await;
        assert!(log.contains(DEBUG_LINE), "{log}");
    }
}
