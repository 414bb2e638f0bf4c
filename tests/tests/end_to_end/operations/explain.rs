//! `mcp-host explain` and `mcp-host token`: an administrator's view of access.

use std::process::Stdio;

use mcp_host_tests::{ConfigFile, Plugin, Rule, host_command, run};
use serde_json::Value;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn the_rule_that_decides_is_named_with_its_line() {
    let config = ConfigFile::new()
        .plugin(Plugin::sample("a"))
        .rule(Rule::for_principal("corp/ada").allow(["sample://a/**"]).deny(["**/secret"]))
        .write();
    let path = config.path();
    let file = path.to_str().unwrap();
    let explain = async |arguments: &[&str]| run(["explain", "--config", file].iter().chain(arguments)).await;
    let text = std::fs::read_to_string(file).unwrap();
    let line = text.lines().position(|line| line == "[[rule]]").unwrap() + 1;
    let allowed = explain(&["--as", "corp/ada", "sample://a/x"]).await;
    assert_eq!(allowed.code(), 0, "{}", allowed.stderr);
    let first = format!("allowed: `allow` has `sample://a/**`, in the rule at {file}:{line}\n");
    assert!(String::from_utf8_lossy(&allowed.stdout).starts_with(&first), "{:?}", allowed.stdout);
    let denied = explain(&["--as", "corp/ada", "--json", "sample://a/d/secret"]).await;
    assert_eq!((denied.code(), denied.stderr.as_str()), (1, ""));
    let denied: Value = serde_json::from_slice(&denied.stdout).unwrap();
    assert_eq!(
        (&denied["allowed"], &denied["plugin"], &denied["path"]),
        (&false.into(), &"a".into(), &"d/secret".into())
    );
    assert_eq!((&denied["rule"]["line"], &denied["rule"]["glob"]), (&line.into(), &"**/secret".into()));
    let other = explain(&["--as", "corp/bob", "sample://a/x"]).await;
    assert!(other.code() == 1 && String::from_utf8_lossy(&other.stdout).starts_with("denied: no rule allows it\n"));
    let nowhere = explain(&["sample://b/x"]).await;
    assert!(
        nowhere.code() == 1 && nowhere.stderr.contains("the most similar mount is `sample://a/`"),
        "{}",
        nowhere.stderr
    );
    let view = explain(&["--as", "corp/ada"]).await;
    assert!(String::from_utf8_lossy(&view.stdout).contains(&format!("rule 1, line {line}: all operations\n")));
}

#[tokio::test]
async fn a_subscription_is_denied_by_what_denies_to_read() {
    let rule = "\n[[rule]]\nprincipals = [\"corp/ada\"]\nallow = [\"sample://a/**\"]\noperations = [\"subscribe\"]\n";
    let config = ConfigFile::new().plugin(Plugin::sample("a")).append(rule).write();
    let path = config.path();
    let file = path.to_str().unwrap();
    let explain = async |arguments: &[&str]| run(["explain", "--config", file].iter().chain(arguments)).await;
    let arguments = ["--as", "corp/ada", "--op", "subscribe", "sample://a/x"];
    let denied = explain(&arguments).await;
    let text = String::from_utf8_lossy(&denied.stdout);
    let first = "denied: no rule allows it (for `read`, which `subscribe` requires, too)\n";
    assert!(denied.code() == 1 && text.starts_with(first), "{text}");
    let denied = explain(&[&arguments[..], &["--json"]].concat()).await;
    let denied: Value = serde_json::from_slice(&denied.stdout).unwrap();
    assert_eq!((&denied["allowed"], &denied["decided"]), (&false.into(), &"read".into()));
}

#[tokio::test]
async fn the_resources_of_search_are_explained() {
    let folder = mcp_host_tests::Folder::with_files([("a.md", "A note.\n")]);
    let config = ConfigFile::new()
        .plugin(Plugin::notes("n", folder.path()).searched())
        .rule(Rule::for_principal("corp/ada").allow(["search:///**"]))
        .write();
    let path = config.path();
    let file = path.to_str().unwrap();
    let explain = async |arguments: &[&str]| run(["explain", "--config", file].iter().chain(arguments)).await;
    let allowed = explain(&["--as", "corp/ada", "search:///?q=x"]).await;
    assert!(allowed.code() == 0 && String::from_utf8_lossy(&allowed.stdout).starts_with("allowed: `allow` has"));
    let denied = explain(&["--as", "corp/ada", "context:///?q=x"]).await;
    assert!(denied.code() == 1 && String::from_utf8_lossy(&denied.stdout).starts_with("denied: no rule allows it\n"));
}

#[tokio::test]
async fn the_scopes_that_a_token_needs_for_the_operation_are_named() {
    let issuer = "\n[[issuer]]\nname = \"corp\"\nissuer = \"https://login.example.com\"\njwks = \"https://login.example.com/jwks\"\n\
                  scopes = [\"mcp:read\"]\noperation-scopes = { subscribe = [\"mcp:subscribe\"] }\n";
    let config = ConfigFile::new()
        .http("public-url", "https://mcp.example.com/mcp")
        .plugin(Plugin::sample("a"))
        .rule(Rule::for_principal("corp/ada").allow(["sample://a/**"]))
        .append(issuer)
        .write();
    let path = config.path();
    let file = path.to_str().unwrap();
    let explain = async |arguments: &[&str]| run(["explain", "--config", file].iter().chain(arguments)).await.text();
    let read = explain(&["--as", "corp/ada", "sample://a/x"]).await;
    assert!(read.contains("\nscopes     mcp:read, which the token needs beside\n"), "{read}");
    let subscribe = explain(&["--as", "corp/ada", "--op", "subscribe", "--json", "sample://a/x"]).await;
    let subscribe: Value = serde_json::from_str(&subscribe).unwrap();
    assert_eq!(subscribe["scopes"], serde_json::json!(["mcp:read", "mcp:subscribe"]));
    let local = explain(&["sample://a/x"]).await;
    assert!(!local.contains("scopes"), "{local}");
}

#[tokio::test]
async fn what_the_rules_do_not_allow_is_not_found_and_the_command_says_that_they_do_not() {
    let config =
        ConfigFile::new().plugin(Plugin::sample("a")).rule(Rule::for_principal("*").allow(["sample://a/x"])).write();
    let path = config.path();
    for (command, operation) in [("read", "read"), ("list", "list")] {
        let arguments = [command, "sample://a/secret", "--as", "anonymous", "--config", path.to_str().unwrap()];
        let denied = run(arguments).await;
        assert_eq!(denied.code(), 1, "{}", denied.stderr);
        let advice = format!("`mcp-host explain --as anonymous --op {operation} sample://a/secret` shows why");
        assert!(denied.stderr.contains(&advice) && denied.stderr.contains("there is no resource"), "{}", denied.stderr);
    }
}

#[tokio::test]
async fn a_text_that_no_client_can_send_as_a_token_has_no_digest() {
    for (input, expected) in [("token: mcp_x\n", None), ("mcp_x\n", Some(64))] {
        let mut command = host_command();
        command.args(["token", "hash"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let output = process.wait_with_output().await.unwrap();
        let digest = String::from_utf8(output.stdout).unwrap();
        assert_eq!((output.status.success(), digest.trim().len()), (expected.is_some(), expected.unwrap_or(0)));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(message.contains("is not a token: it has spaces"), expected.is_none(), "{message}");
        assert!(!message.contains("mcp_x"), "{message}");
        assert_eq!(
            message.contains("a token of 5 characters can be found from its digest by brute force"),
            expected.is_some(),
            "{message}"
        );
    }
}

#[tokio::test]
async fn a_new_token_is_printed_with_its_digest() {
    let printed = run(["token", "new", "--json"]).await;
    let printed: Value = serde_json::from_slice(&printed.stdout).unwrap();
    let token = printed["token"].as_str().unwrap();
    assert!(token.starts_with("mcp_") && token.len() > 40, "{token}");
    assert_eq!(printed["token-sha256"].as_str().unwrap().len(), 64);
    let again = run(["token", "new", "--json"]).await;
    assert_ne!(serde_json::from_slice::<Value>(&again.stdout).unwrap()["token"], token);
}
