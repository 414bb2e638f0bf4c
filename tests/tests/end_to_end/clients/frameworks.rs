//! How agent frameworks process a tool's result: the message that they send to a model, recorded by a stand-in on
//! loopback. docs/search.md has the results as a table.

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mcp_host_tests::{ConfigFile, Folder, Plugin, TIMEOUT, WrittenConfig, client_program, host_binary, run};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

const FRAMEWORKS: [&str; 4] = ["langchain", "openai-agents", "pydantic-ai", "ai-sdk"];
const TEXT: &str = "The circuit breaker opens after five failures.";
/// An image of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// Returns the message with the call's result that an agent sends to its model, or the error that ends the agent.
async fn sent(framework: &str, config: &WrittenConfig, tool: &str, arguments: &str) -> Result<String, String> {
    let mut command = match framework {
        "ai-sdk" => {
            let mut command = Command::new("node");
            command.arg(client_program("ai-sdk/agent.mjs"));
            command
        }
        _ => {
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/frameworks/framework.py");
            let mut command = Command::new::<OsString>(client_program("frameworks/bin/python").into_os_string());
            command.arg(script).arg(framework).env("PYTHONDONTWRITEBYTECODE", "1");
            command
        }
    };
    command.args([tool, arguments]).arg(host_binary()).args(["serve", "--stdio", "--log", "off", "--config"]);
    command.arg(config.path()).stdin(Stdio::null()).kill_on_drop(true);
    let output = timeout(TIMEOUT, command.output()).await.expect("the agent ends").expect("the agent starts");
    let printed = String::from_utf8_lossy(&output.stdout);
    let outcome: Value = serde_json::from_str(printed.lines().last().unwrap_or_default())
        .unwrap_or_else(|error| panic!("{error}: {printed}\n{}", String::from_utf8_lossy(&output.stderr)));
    match outcome["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(outcome["sent"].to_string()),
    }
}

fn config(folder: &Folder) -> ConfigFile {
    ConfigFile::new().server("tools", vec!["list", "read"]).plugin(Plugin::files("f", folder.path()))
}

/// Writes the config, and compiles its component. The Python SDK raises `BrokenResourceError` if a notification arrives
/// while it closes a session, and LangChain closes a session just when a plugin may have finished compiling.
async fn write_compiled(config: ConfigFile) -> WrittenConfig {
    let config = config.write();
    run(["check".as_ref(), "--config".as_ref(), config.path().as_os_str()]).await.success();
    config
}

fn folder() -> Folder {
    let png = STANDARD.decode(PNG).expect("it is base64");
    Folder::with_files([("guide.md", TEXT.as_bytes()), ("dot.png", png.as_slice())])
}

const LIST: (&str, &str) = ("list_resources", r#"{ "uri": "files://f/" }"#);
const READ: (&str, &str) = ("read_resource", r#"{ "uri": "files://f/guide.md" }"#);
const SHOW: (&str, &str) = ("read_resource", r#"{ "uri": "files://f/dot.png" }"#);

#[tokio::test]
async fn every_framework_shows_its_model_a_result_once() {
    let folder = folder();
    let config = write_compiled(config(&folder)).await;
    for framework in FRAMEWORKS {
        let listed = sent(framework, &config, LIST.0, LIST.1).await.unwrap();
        assert_eq!(listed.matches("files://f/guide.md").count(), 1, "{framework}: {listed}");
        let read = sent(framework, &config, READ.0, READ.1).await.unwrap();
        assert_eq!(read.matches(TEXT).count(), 1, "{framework}: {read}");
        let shown = sent(framework, &config, SHOW.0, SHOW.1).await.unwrap();
        let has_data = shown.contains(PNG);
        assert_eq!(has_data, ["langchain", "ai-sdk"].contains(&framework), "{framework}: {shown}");
    }
}

#[tokio::test]
async fn links_end_agents_of_langchain_and_so_are_off_unless_the_config_has_them() {
    let folder = folder();
    let config = write_compiled(config(&folder).server("tool-links", true)).await;
    for framework in FRAMEWORKS {
        let listed = sent(framework, &config, LIST.0, LIST.1).await;
        match framework {
            "langchain" => assert!(listed.as_ref().is_err_and(|error| error.contains("file URLs")), "{listed:?}"),
            _ => assert!(
                listed.as_ref().is_ok_and(|sent| sent.contains("files://f/guide.md")),
                "{framework}: {listed:?}"
            ),
        }
    }
}

#[tokio::test]
async fn structured_content_takes_the_place_of_the_text_in_some_frameworks() {
    let folder = folder();
    let config = write_compiled(config(&folder).server("tool-structured-content", true)).await;
    for framework in FRAMEWORKS {
        let read = sent(framework, &config, READ.0, READ.1).await.unwrap();
        assert_eq!(read.matches(TEXT).count(), 1, "{framework}: {read}");
        assert_eq!(read.contains("mimeType"), framework == "pydantic-ai", "{framework}: {read}");
    }
}
