//! Newer versions: changes that need an administrator's agreement.

use mcp_host_tests::{Registry, RegistryProject, component};
use serde_json::{Value, json};

use super::hello_that_asks_for;

#[tokio::test]
async fn an_update_that_wants_more_is_refused_until_somebody_agrees() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, modest) = hello_that_asks_for(&json!({ "env": [{ "name": "LANG" }] }));
    let (_second, greedy) =
        hello_that_asks_for(&json!({ "env": [{ "name": "LANG" }], "http": [{ "origin": "https://api.example.com" }] }));
    project.push(&modest, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    project.run(["update"]).await.success();
    project.push(&greedy, "1.1.0", Some("acme.pem")).await.success();

    let config = project.text("mcp-host.toml") + "grants.http = [\"https://api.example.com\"]\n";
    project.write("mcp-host.toml", config);
    let before = project.text("mcp-host.lock");
    let outdated = project.run(["outdated"]).await.success().text();
    assert!(outdated.contains("1.0.0") && outdated.contains("1.1.0"), "{outdated}");
    for arguments in [&["update"][..], &["update", "hello"], &["update", "hello", "--agree", "keyvalue"]] {
        let refused = project.run(arguments).await;
        assert_eq!(refused.code(), 3, "{}", refused.stderr);
        assert!(refused.text().contains("1.0.0 -> 1.1.0"), "{}", refused.text());
        assert!(refused.text().contains("it could use it now and could not before"), "{}", refused.text());
        let agreeing = "mcp-host update hello --agree http:https://api.example.com";
        assert!(refused.stderr.contains(agreeing), "{}", refused.stderr);
        assert_eq!(project.text("mcp-host.lock"), before);
    }
    let shown = project.run(["diff", "hello"]).await.success();
    assert!(shown.text().contains("http:https://api.example.com"), "{}", shown.text());
    assert_eq!(project.text("mcp-host.lock"), before);

    let for_all = project.run(["update", "--agree", "http:https://api.example.com"]).await;
    assert!(for_all.code() == 2 && for_all.stderr.contains("is for one plugin"), "{}", for_all.stderr);
    project.run(["update", "hello", "--agree", "http:https://api.example.com", "--agree", "env:OTHER"]).await.success();
    let lock = project.text("mcp-host.lock");
    assert!(lock.contains("version = \"1.1.0\"") && lock.contains("http:https://api.example.com"), "{lock}");
    assert!(!lock.contains("OTHER"), "what it does not want is not agreed to: {lock}");
    project.run(["check"]).await.success();
    let invalid = project.run(["update", "hello", "--agree", "everything"]).await;
    assert!(invalid.code() == 2 && invalid.stderr.contains("is not a capability"), "{}", invalid.stderr);
}

#[tokio::test]
async fn a_version_that_asks_for_higher_limits_has_to_be_agreed_to_and_gets_none_by_that() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let asking = |memory: &str| hello_that_asks_for(&json!({ "limits": { "memory": { "min": memory } } }));
    let (_first, modest) = asking("128MiB");
    let (_second, lower) = asking("96MiB");
    let (_third, greedy) = asking("256MiB");
    project.push(&modest, "1.0.0", Some("acme.pem")).await.success();
    let added = project.run(["add", "hello", &registry.reference("1")]).await.success().text();
    assert!(added.contains("limit:memory=128MiB"), "{added}");
    let config = project.text("mcp-host.toml");
    assert!(config.contains("\n# limits.memory = \"128MiB\"\n"), "it stands in a comment: {config}");
    project.push(&lower, "1.1.0", Some("acme.pem")).await.success();
    project.run(["update"]).await.success();
    project.push(&greedy, "1.2.0", Some("acme.pem")).await.success();
    let refused = project.run(["update"]).await;
    assert_eq!(refused.code(), 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("mcp-host update hello --agree 'limit:memory=256MiB'"), "{}", refused.stderr);
    project.run(["update", "hello", "--agree", "limit:memory=256MiB"]).await.success();
    assert!(project.text("mcp-host.lock").contains("limit:memory=256MiB"));
    let checked = project.run(["check", "--json"]).await.success().json();
    let note = "it asks for `limits.memory` of at least 256MiB, and the plugin has 64MiB";
    assert_eq!(checked["plugins"][0]["notes"], json!([note]));
}

#[tokio::test]
async fn a_config_without_components_from_registries_is_said_to_have_none() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    for arguments in [&["outdated"][..], &["update"], &["lock", "--check"], &["store", "verify"]] {
        let ended = project.run(arguments).await.success();
        let note = "note: the config names no component from a registry\n";
        assert!(ended.stderr.contains(note), "{arguments:?}: {}", ended.stderr);
    }
    let plugin =
        format!("[[plugin]]\nname = 'own'\ncomponent = '{}'\nmount = 'own:///'\n", component("hello").display());
    project.write("mcp-host.toml", project.text("mcp-host.toml") + &plugin);
    let removed = project.run(["remove", "own"]).await;
    assert_eq!(removed.code(), 2, "{}", removed.stderr);
    let help = format!("help: remove its `[[plugin]]` from {}", project.path("mcp-host.toml").display());
    assert!(removed.stderr.contains(&help), "{}", removed.stderr);
}

#[tokio::test]
async fn the_command_that_agrees_to_the_rest_repeats_what_was_agreed_to() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, modest) = hello_that_asks_for(&json!({}));
    let needs = json!({ "http": [{ "origin": "https://api.example.com" }], "keyvalue": [{ "bucket": "pages" }] });
    let (_second, greedy) = hello_that_asks_for(&needs);
    project.push(&modest, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    project.push(&greedy, "1.1.0", Some("acme.pem")).await.success();
    for (agreed, other) in [("keyvalue", "http:https://api.example.com"), ("http:https://api.example.com", "keyvalue")]
    {
        let refused = project.run(["update", "hello", "--agree", agreed]).await;
        assert_eq!(refused.code(), 3, "{}", refused.stderr);
        let agreeing = format!("to agree: mcp-host update hello --agree {agreed} --agree {other}\n");
        assert!(refused.stderr.contains(&agreeing), "{}", refused.stderr);
    }
    let both = ["update", "hello", "--agree", "keyvalue", "--agree", "http:https://api.example.com"];
    project.run(both).await.success();
}

#[tokio::test]
async fn a_tag_that_was_moved_or_is_gone_leaves_what_is_locked() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, one) = hello_that_asks_for(&json!({}));
    let (_second, other) = hello_that_asks_for(&json!({ "config": { "a": { "type": "string" } } }));
    project.push(&one, "1.0.0", Some("acme.pem")).await.success();
    project.push(&one, "1.0.1", Some("acme.pem")).await.success();
    project.push(&other, "2.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let before = project.text("mcp-host.lock");

    registry.move_tag("1.0.1", "2.0.0");
    let moved = project.run(["update"]).await;
    assert!(moved.code() == 1 && moved.stderr.contains("says that it is version `2.0.0`"), "{}", moved.stderr);
    registry.remove_tag("1.0.1");
    let lower = project.run(["update"]).await;
    assert!(lower.code() == 3 && lower.stderr.contains("--agree downgrade"), "{}", lower.stderr);
    assert_eq!(project.text("mcp-host.lock"), before);
    project.run(["check", "--strict"]).await.success();
    project.run(["update", "hello", "--agree", "downgrade"]).await.success();
    assert!(project.text("mcp-host.lock").contains("version = \"1.0.0\""));
}

#[tokio::test]
async fn the_locked_manifest_by_digest_is_no_downgrade_and_another_one_may_be() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let by_digest = async |needs: Value, version: &str| {
        let (_folder, component) = hello_that_asks_for(&needs);
        let pushed = project.push(&component, version, Some("acme.pem")).await.success();
        pushed.text().trim().to_owned()
    };
    let one = by_digest(json!({}), "1.0.0").await;
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    project.run(["add", "pinned", &one]).await.success();
    let two = by_digest(json!({ "config": { "a": { "type": "string" } } }), "1.1.0").await;
    let other = project.run(["add", "other", &two]).await;
    assert!(other.code() == 3 && other.stderr.contains("--agree downgrade"), "{}", other.stderr);
    assert!(other.text().contains("names no version, so it may be lower"), "{}", other.text());
    project.run(["add", "other", &two, "--agree", "downgrade"]).await.success();
    project.run(["check"]).await.success();
}

#[tokio::test]
async fn versions_beyond_the_range_are_listed_and_compared_without_a_change() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, modest) = hello_that_asks_for(&json!({ "env": [{ "name": "LANG" }] }));
    let (_second, greedy) =
        hello_that_asks_for(&json!({ "env": [{ "name": "LANG" }], "keyvalue": [{ "bucket": "pages" }] }));
    project.push(&modest, "1.0.0", Some("acme.pem")).await.success();
    project.push(&greedy, "2.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let before = (project.text("mcp-host.lock"), project.text("mcp-host.toml"));
    let outdated = project.run(["outdated", "--json"]).await.success().json();
    let expected =
        json!({ "source": registry.reference("1"), "locked": "1.0.0", "within": "1.0.0", "newest": "2.0.0" });
    assert_eq!(outdated, json!({ "components": 1, "outdated": [expected] }));
    let shown = project.run(["diff", "hello", &registry.reference("2")]).await.success();
    assert!(shown.text().contains("1.0.0 -> 2.0.0") && shown.text().contains("keyvalue"), "{}", shown.text());
    assert_eq!((project.text("mcp-host.lock"), project.text("mcp-host.toml")), before);
}

#[tokio::test]
async fn a_second_plugin_with_the_same_source_gets_what_is_locked() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, one) = hello_that_asks_for(&json!({}));
    project.push(&one, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let before = project.text("mcp-host.lock");
    let (_second, greedy) = hello_that_asks_for(&json!({ "env": [{ "name": "TOKEN" }] }));
    project.push(&greedy, "1.1.0", Some("acme.pem")).await.success();
    let added = project.run(["add", "other", &registry.reference("1")]).await.success();
    assert!(added.text().contains("1.0.0") && !added.text().contains("TOKEN"), "{}", added.text());
    assert_eq!(project.text("mcp-host.lock"), before);
    project.run(["remove", "hello"]).await.success();
    assert_eq!(project.text("mcp-host.lock"), before, "the other one needs it");
    project.run(["check", "--strict"]).await.success();
}

#[tokio::test]
async fn another_signer_has_to_be_agreed_to_even_if_it_is_trusted() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.trust("keys = [{ file = 'acme.pub' }, { file = 'stranger.pub' }]");
    let (_first, one) = hello_that_asks_for(&json!({}));
    project.push(&one, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    project.push(&one, "1.0.1", Some("stranger.pem")).await.success();
    let refused = project.run(["update"]).await;
    assert!(refused.code() == 3 && refused.stderr.contains("--agree signer"), "{}", refused.stderr);
    project.run(["update", "hello", "--agree", "signer"]).await.success();
}

#[tokio::test]
async fn an_old_version_at_the_tag_of_a_new_one_is_refused() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, old) = hello_that_asks_for(&json!({}));
    let (_second, new) = hello_that_asks_for(&json!({ "config": { "a": { "type": "string" } } }));
    project.push(&old, "1.0.0", Some("acme.pem")).await.success();
    project.push(&new, "1.4.0", Some("acme.pem")).await.success();
    project.push(&new, "1.9.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1.4")]).await.success();
    let before = project.text("mcp-host.lock");
    // An attacker with write access to the registry, but without the key.
    registry.move_tag("1.9.0", "1.0.0");
    let config = project.text("mcp-host.toml").replace(":1.4\"", ":1\"");
    project.write("mcp-host.toml", config);
    let refused = project.run(["lock"]).await;
    assert!(refused.code() == 1 && refused.stderr.contains("somebody moved the tag"), "{}", refused.stderr);
    assert_eq!(project.text("mcp-host.lock"), before);
}

#[tokio::test]
async fn a_range_that_was_edited_does_not_lead_around_what_was_agreed() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, modest) = hello_that_asks_for(&json!({}));
    let (_second, greedy) = hello_that_asks_for(&json!({ "http": [{ "origin": "https://api.example.com" }] }));
    project.push(&modest, "1.0.0", Some("acme.pem")).await.success();
    project.push(&greedy, "1.1.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1.0.0")]).await.success();
    let before = project.text("mcp-host.lock");
    let config = project.text("mcp-host.toml").replace(":1.0.0\"", ":1\"");
    project.write("mcp-host.toml", config);
    for _ in 0..2 {
        let refused = project.run(["lock"]).await;
        assert_eq!(refused.code(), 3, "{}", refused.stderr);
        let agreeing = "mcp-host lock hello --agree http:https://api.example.com";
        assert!(refused.stderr.contains(agreeing), "{}", refused.stderr);
        assert_eq!(project.text("mcp-host.lock"), before, "what was agreed to is kept");
    }
    let for_all = project.run(["lock", "--agree", "http:https://api.example.com"]).await;
    assert!(for_all.code() == 2 && for_all.stderr.contains("is for one plugin"), "{}", for_all.stderr);
    project.run(["lock", "hello", "--agree", "http:https://api.example.com"]).await.success();
    project.run(["check", "--strict"]).await.success();
}

#[tokio::test]
async fn needs_that_are_left_out_are_not_covered_by_what_was_agreed_and_those_that_cannot_be_read_are_not_published() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, honest) = hello_that_asks_for(&json!({ "env": [{ "name": "LANG" }] }));
    project.push(&honest, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let before = project.text("mcp-host.lock");
    // The provider imports environment variables, and does not declare which.
    let (_second, silent) = hello_that_asks_for(&json!({}));
    project.push(&silent, "1.0.1", Some("acme.pem")).await.success();
    let refused = project.run(["update"]).await;
    assert!(refused.code() == 3 && refused.stderr.contains("--agree env"), "{}", refused.stderr);
    let (_third, broken) = hello_that_asks_for(&json!("{"));
    let refused = project.push(&broken, "1.0.2", Some("acme.pem")).await;
    assert!(refused.code() == 1 && refused.stderr.contains("is not a JSON object"), "{}", refused.stderr);
    assert_eq!(project.text("mcp-host.lock"), before);
}
