//! `examples/search.toml` with another repository and another web server: a client that supports only tools searches
//! all of it.

use std::path::{Path, PathBuf};

use mcp_host_tests::{ConfigFile, GitRepo, MockOrigin, Plugin, Reply, WrittenConfig};
use serde_json::Value;
use toml::Table;

use crate::clients::ts_and_python_clients::{over_stdio, program, summary};

/// Returns the absolute path of a file of the example.
fn absolute(path: &str) -> toml::Value {
    let examples: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    examples.join(path).to_str().expect("it is UTF-8").into()
}

fn config(repository: &GitRepo, web: &MockOrigin) -> WrittenConfig {
    let example: Table = include_str!("../../../../examples/search.toml").parse().expect("the example is TOML");
    let mut config = ConfigFile::new().server("tools", example["server"]["tools"].clone());
    // The clients read the structured content, and check it against the output schemas.
    config = config.server("tool-structured-content", true);
    for plugin in example["plugin"].as_array().expect("it has plugins") {
        let mut plugin = plugin.as_table().expect("a plugin is a table").clone();
        plugin["component"] = absolute(plugin["component"].as_str().expect("a path"));
        let is_git = plugin["name"].as_str() == Some("git");
        if let Some(directories) = plugin["grants"].get_mut("dirs") {
            let host = directories[0]["host"].as_str().expect("a path").to_owned();
            directories[0]["host"] =
                if is_git { repository.path().to_str().expect("it is UTF-8").into() } else { absolute(&host) };
        } else {
            let address = format!("127.0.0.1:{}", web.port());
            plugin["grants"]["http"] = vec![web.origin()].into();
            plugin["config"] = Table::from_iter([
                ("seeds".to_owned(), vec![format!("{address}/guide")].into()),
                ("plain-http".to_owned(), vec![address].into()),
            ])
            .into();
        }
        config = config.plugin(Plugin::from_table(plugin));
    }
    config.write()
}

async fn ask(language: &str, config: &WrittenConfig, question: &str) -> Value {
    let mut command = program(language, "tools");
    command.env("WORDS", question);
    over_stdio(&mut command, config);
    summary(command).await
}

#[tokio::test]
async fn a_client_that_knows_only_tools_asks_over_files_git_notes_and_the_web() {
    let source = "//! The ferry scheduler.\n\nfn depart_at_noon() {}\n";
    let repository = GitRepo::with_files([("src/ferry.rs", source)]);
    let web = MockOrigin::http().await;
    web.serve("/guide", Reply::ok("text/plain", "The zeppelin guide explains how to moor an airship.\n"));
    let config = config(&repository, &web);
    let port = web.port();
    for (language, question, mount, text) in [
        ("python", "what does the circuit breaker do after five failures", "files:///", "circuit breaker"),
        ("typescript", "when does the ferry depart", "git://project/blob/HEAD/src/ferry.rs", "depart_at_noon"),
        ("python", "what is front matter", "notes:///", "front matter"),
        ("typescript", "how do I moor an airship", &format!("web://127.0.0.1:{port}/guide"), "zeppelin"),
    ] {
        let answer = ask(language, &config, question).await;
        let passages = answer["passages"].as_array().expect("a list").clone();
        let found = passages.iter().find(|passage| {
            let (uri, passage) =
                (passage["uri"].as_str().unwrap_or_default(), passage["text"].as_str().unwrap_or_default());
            uri.starts_with(mount) && passage.to_lowercase().contains(text)
        });
        assert!(found.is_some(), "{question}: {answer}");
        for passage in passages {
            let (text, read) = (passage["text"].as_str().unwrap(), passage["read"].as_str().unwrap());
            assert!(read.contains(text.trim()), "{}: its URI opens and has the passage: {read}", passage["uri"]);
        }
    }
}
