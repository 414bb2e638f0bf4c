//! Refusals: each states the reason, and the config, the lock and the store's names remain unchanged.

use mcp_host_tests::{Output, Registry, RegistryProject, ReservedPort, component};

use super::registry_with_hello;

/// Asserts that a command failed with a message, and that nothing is locked.
fn refused(project: &RegistryProject, output: &Output, expected: &[&str]) {
    assert_ne!(output.code(), 0, "{}", output.text());
    for expected in expected {
        assert!(output.stderr.contains(expected), "{expected}: {}", output.stderr);
    }
    assert!(!project.path("mcp-host.lock").exists(), "nothing was locked");
    assert!(!project.text("mcp-host.toml").contains("[[plugin]]"));
}

#[tokio::test]
async fn no_signature_and_that_of_a_stranger_are_told_apart() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let reference = registry.reference("1.0.0");
    project.push(&component("hello"), "1.0.0", None).await.success();
    let add = async || project.run(["add", "hello", &reference]).await;
    refused(&project, &add().await, &["has no signature", "`unsigned = true`"]);

    project.push(&component("hello"), "1.0.0", Some("stranger.pem")).await.success();
    refused(
        &project,
        &add().await,
        &["is signed by 0 of the keys", "expected sha256:", "found 1 signature bundle said to be by sha256:"],
    );

    project.trust("keys = [{ file = 'acme.pub' }, { file = 'stranger.pub' }]\nminimum = 2");
    refused(&project, &add().await, &["is signed by 1 of the keys", "2 must have signed"]);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    add().await.success();
}

#[tokio::test]
async fn a_key_past_its_date_locks_nothing_new() {
    let (registry, project) = registry_with_hello().await;
    project.trust("keys = [{ file = 'acme.pub', not-after = 2020-01-01 }]");
    let added = project.run(["add", "hello", &registry.reference("1")]).await;
    refused(&project, &added, &["which counts until 2020-01-01 (`not-after`)"]);
}

#[tokio::test]
async fn a_source_that_nobody_trusts_and_one_that_is_unsigned_on_purpose() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("hello"), "1.0.0", None).await.success();
    let reference = registry.reference("1");
    project.write_config("", "");
    refused(&project, &project.run(["add", "hello", &reference]).await, &["no `[[trust]]` of the config is for"]);
    project.trust("unsigned = true");
    let added = project.run(["add", "hello", &reference]).await.success();
    assert!(added.text().contains("nobody"), "{}", added.text());
}

#[tokio::test]
async fn what_is_not_there_or_not_locked_names_the_command() {
    let (registry, project) = registry_with_hello().await;
    let add = async |version: &str| project.run(["add", "hello", &registry.reference(version)]).await;
    refused(&project, &add("3").await, &["is a version within"]);
    let source = registry.reference("1.0");
    let config = project.text("mcp-host.toml");
    project.write(
        "mcp-host.toml",
        format!("{config}\n[[plugin]]\nname = 'hello'\ncomponent = '{source}'\nmount = 'hello:///'\n"),
    );
    for command in ["check", "serve"] {
        let failed = project.run([command]).await;
        assert!(failed.code() == 2 && failed.stderr.contains("is not locked"), "{}", failed.stderr);
        assert!(failed.stderr.contains("`mcp-host lock`"), "{}", failed.stderr);
    }
    assert_eq!(project.run(["lock", "--check"]).await.code(), 1);
    project.run(["lock"]).await.success();
    project.run(["check"]).await.success();
}

#[tokio::test]
async fn a_mirror_that_is_dead_is_passed_over_and_a_registry_that_is_dead_is_named() {
    let (registry, project) = registry_with_hello().await;
    let nobody = ReservedPort::new();
    let trust = format!("[[trust]]\nsources = ['oci://{}']\nunsigned = true\n", registry.name());
    let mirrors = format!("mirrors = {{ '{}/acme' = ['{}/cache'] }}", registry.name(), nobody.address());
    project.write_config(&trust, &mirrors);
    project.run(["add", "hello", &registry.reference("1")]).await.success();

    let other = RegistryProject::at(&nobody.address().to_string(), registry.authority());
    let added = other.run(["add", "hello", &format!("oci://{}/acme/hello:1", nobody.address())]).await;
    refused(&other, &added, &["cannot get the versions of", "cannot connect to"]);
}

#[tokio::test]
async fn a_pull_through_mirror_and_its_registry_stand_in_for_each_other() {
    let registry = Registry::open().await;
    let publisher = RegistryProject::new(&registry);
    publisher.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    let project_with = |mirror: &Registry| {
        let project = RegistryProject::new(&registry);
        project.write("acme.pub", publisher.text("acme.pub"));
        let trust = format!("[[trust]]\nsources = ['oci://{}']\nkeys = [{{ file = 'acme.pub' }}]\n", registry.name());
        project.write_config(&trust, &format!("mirrors = {{ '{0}' = ['{1}'] }}", registry.name(), mirror.name()));
        project
    };
    let mirror = Registry::mirror_of(&registry).await;
    let project = project_with(&mirror);
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let elsewhere = |project: &RegistryProject, mirror: &Registry| {
        let other = project_with(mirror);
        for name in ["mcp-host.toml", "mcp-host.lock"] {
            other.write(name, project.text(name));
        }
        other
    };
    let without_mirror = elsewhere(&project, &mirror);
    drop(mirror);
    without_mirror.run(["store", "fetch"]).await.success();
    without_mirror.run(["store", "verify"]).await.success();

    let mirror = Registry::mirror_of(&registry).await;
    let project = project_with(&mirror);
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let without_registry = elsewhere(&project, &mirror);
    drop(registry);
    without_registry.run(["store", "fetch"]).await.success();
    without_registry.run(["store", "verify"]).await.success();
}
