//! From `push` to a served resource, without the registry.

use mcp_host_tests::{RawStdio, Registry, RegistryProject, Revision, component};
use serde_json::json;

#[tokio::test]
async fn what_is_published_and_added_is_served_when_the_registry_is_gone() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let before = project.text("mcp-host.toml");
    let published = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    assert!(published.text().starts_with(&format!("oci://{}/acme/hello@sha256:", registry.name())), "{}", published.text());
    let again = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    assert_eq!(again.text(), published.text(), "the same bytes are the same manifest");

    let added = project.run(["add", "hello", &registry.reference("1"), "--mount", "hello:///"]).await.success();
    for expected in ["1.0.0", "signed by", "sha256:"] {
        assert!(added.text().contains(expected), "{}", added.text());
    }
    let config = project.text("mcp-host.toml");
    assert!(config.starts_with(&before), "nothing else changes: {config}");
    assert!(config.contains(&format!("component = \"{}\"", registry.reference("1"))), "{config}");
    project.run(["lock", "--check"]).await.success();
    drop(registry);

    project.run(["check", "--strict"]).await.success();
    let mut server = RawStdio::start_command(project.command(["serve", "--stdio"]), Revision::V_2025_11_25).await;
    let listed = server.request("resources/list", json!({})).await;
    assert!(format!("{listed:?}").contains("hello:///"), "{listed:?}");
    server.end().await;
    let verified = project.run(["store", "verify", "--json"]).await.success().json();
    assert_eq!(verified, json!({ "components": 1, "problems": [] }));

    project.run(["remove", "hello"]).await.success();
    assert_eq!(project.text("mcp-host.toml"), before);
    assert!(!project.text("mcp-host.lock").contains("[[component]]"));
    assert_eq!(project.stored().len(), 3, "a manifest, a component and a bundle");
    project.run(["store", "gc"]).await.success();
    assert_eq!(project.stored().len(), 0);
}

#[tokio::test]
async fn another_machine_fetches_what_is_locked() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1.0")]).await.success();
    let other = RegistryProject::new(&registry);
    for name in ["mcp-host.toml", "mcp-host.lock", "acme.pub"] {
        other.write(name, project.text(name));
    }
    let missing = other.run(["check"]).await;
    assert!(missing.code() != 0 && missing.stderr.contains("`mcp-host store fetch`"), "{}", missing.stderr);
    other.run(["store", "fetch"]).await.success();
    other.run(["check", "--strict"]).await.success();
    other.run(["store", "verify"]).await.success();
}

#[tokio::test]
async fn a_component_that_was_changed_in_the_store_is_not_served_and_is_fetched_again() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1.0.0")]).await.success();
    let largest = project.stored().into_iter().max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&largest, bytes).unwrap();

    let checked = project.run(["check"]).await;
    assert_eq!(checked.code(), 1, "{}", checked.stderr);
    let said = checked.text() + &checked.stderr;
    assert!(said.contains("expected sha256:") && said.contains("`mcp-host store fetch`"), "{said}");
    let verified = project.run(["store", "verify"]).await;
    assert!(verified.code() == 1 && verified.text().contains("has been changed"), "{}", verified.text());
    project.run(["store", "fetch"]).await.success();
    project.run(["check", "--strict"]).await.success();
}

#[tokio::test]
async fn a_version_that_is_published_is_not_replaced() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    let other = project.push(&component("notes"), "1.0.0", Some("acme.pem")).await;
    assert!(other.code() == 1 && other.stderr.contains("publish a new version"), "{}", other.stderr);
    let range = project.push(&component("hello"), "1.0", None).await;
    assert!(range.stderr.contains("is no whole version"), "{}", range.stderr);
}
