//! From `push` to a served resource, without the registry.

use mcp_host_tests::{
    CertificateAuthority, MockOrigin, RawStdio, Registry, RegistryProject, Reply, ReservedPort, Revision, component,
    debian_file, host_binary, host_command,
};
use serde_json::{Value, json};

use super::registry_with_hello;

#[tokio::test]
async fn what_is_published_and_added_is_served_when_the_registry_is_gone() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let before = project.text("mcp-host.toml");
    let published = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    assert!(
        published.text().starts_with(&format!("oci://{}/acme/hello@sha256:", registry.name())),
        "{}",
        published.text()
    );
    let again = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    assert_eq!(again.text(), published.text(), "the same bytes are the same manifest");

    let added = project.run(["add", "hello", &registry.reference("1"), "--mount", "hello:///"]).await.success();
    for expected in ["1.0.0", "signed by", "sha256:", "env (imported; no need says what for)"] {
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
    assert_eq!(project.stored().len(), 4, "a manifest, a config, a component and a bundle");
    project.run(["store", "gc"]).await.success();
    assert_eq!(project.stored().len(), 0);
}

#[tokio::test]
async fn a_signature_is_found_by_the_referrers_api_too() {
    let (registry, publisher) = registry_with_hello().await;
    let authority = CertificateAuthority::new();
    let origin = MockOrigin::https(&authority).await;
    let name = format!("127.0.0.1:{}", origin.port());
    let project = RegistryProject::at(&name, &authority);
    project.write("acme.pub", publisher.text("acme.pub"));
    let tag = "/v2/acme/hello/manifests/sha256-";
    for (path, reply) in registry.answers("1.0.0") {
        // This registry has the API, and no tag with the index of referrers.
        match path.strip_prefix(tag) {
            Some(digits) => origin.serve_any_query(&format!("/v2/acme/hello/referrers/sha256:{digits}"), reply),
            None => origin.serve(&path, reply),
        }
    }
    let added = project.run(["add", "hello", &format!("oci://{name}/acme/hello:1")]).await.success();
    assert!(added.text().contains("signed by  sha256:"), "{}", added.text());
    assert!(origin.requests().iter().all(|request| !request.path.starts_with(tag)));
    project.run(["store", "verify"]).await.success();
}

#[tokio::test]
async fn a_registry_that_records_subjects_gets_no_tag_for_them() {
    let authority = CertificateAuthority::new();
    let origin = MockOrigin::https(&authority).await;
    let project = RegistryProject::at(&format!("127.0.0.1:{}", origin.port()), &authority);
    let path = |rest: &str| format!("/v2/acme/hello/{rest}");
    origin.serve(&path("blobs/uploads/"), Reply::status(202).header("Location", &path("upload")));
    origin.serve_any_query(&path("upload"), Reply::status(201));
    origin
        .serve_with(&path("manifests/1.0.0"), |request| Reply::status(if request.method == "PUT" { 201 } else { 404 }));
    let push = async || project.push(&component("hello"), "1.0.0", Some("acme.pem")).await;
    // The path of the referrer has its digest: the first attempt shows it, and the second one makes the same.
    let failed = push().await;
    assert_eq!(failed.code(), 1, "{}", failed.stderr);
    let referrer = origin.requests().pop().unwrap();
    assert!(referrer.method == "PUT" && referrer.path.starts_with(&path("manifests/sha256:")), "{referrer:?}");
    let manifest: Value = serde_json::from_slice(&referrer.body).unwrap();
    let subject = manifest["subject"]["digest"].as_str().unwrap();
    origin.serve(&referrer.path, Reply::status(201).header("OCI-Subject", subject));
    let published = push().await.success();
    assert!(published.text().contains(subject), "{}", published.text());
    let is_tag = |path: &str| path.contains("manifests/sha256-");
    assert!(origin.requests().iter().all(|request| !is_tag(&request.path)));
}

#[tokio::test]
async fn another_machine_fetches_what_is_locked() {
    let (registry, project) = registry_with_hello().await;
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
async fn a_machine_without_a_network_gets_an_archive() {
    let (registry, project) = registry_with_hello().await;
    project.run(["add", "hello", &registry.reference("1.0")]).await.success();
    let archive = project.path("all.tar");
    let arguments = |command: &str| ["store".into(), command.into(), archive.clone().into_os_string()];
    project.run(arguments("export")).await.success();
    let bytes = std::fs::read(&archive).unwrap();
    project.run(arguments("export")).await.success();
    assert_eq!(std::fs::read(&archive).unwrap(), bytes, "the same lock makes the same archive");

    let other = RegistryProject::new(&registry);
    drop(registry);
    other.write("mcp-host.toml", project.text("mcp-host.toml"));
    // The other project trusts another key.
    let refused = other.run(arguments("import")).await.success();
    assert!(
        refused.stderr.contains("was not locked: ") && refused.stderr.contains("signed by 0"),
        "{}",
        refused.stderr
    );
    assert_ne!(other.run(["check"]).await.code(), 0);
    other.write("acme.pub", project.text("acme.pub"));
    other.run(arguments("import")).await.success();
    other.run(["check", "--strict"]).await.success();
    other.run(["store", "verify"]).await.success();
    assert_eq!(other.text("mcp-host.lock"), project.text("mcp-host.lock"));
    other.run(["store", "gc"]).await.success();
    other.run(arguments("export")).await.success();
    assert_eq!(std::fs::read(&archive).unwrap(), bytes);

    std::fs::write(&archive, "no archive\n\u{1b}[2J".repeat(100)).unwrap();
    let failed = other.run(arguments("import")).await;
    let lines = failed.stderr.lines().count();
    assert!(failed.code() == 1 && failed.stderr.contains("the archive cannot be") && lines == 1, "{}", failed.stderr);
    let mut changed = bytes.clone();
    let at = changed.windows(4).position(|window| window == b"\0asm").unwrap();
    changed[at + 100] ^= 1;
    std::fs::write(&archive, changed).unwrap();
    let failed = other.run(arguments("import")).await;
    assert!(failed.code() == 1 && failed.stderr.contains("its content has the digest"), "{}", failed.stderr);
}

#[tokio::test]
async fn a_component_that_was_changed_in_the_store_is_not_served_and_is_fetched_again() {
    let (registry, project) = registry_with_hello().await;
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

/// `examples/registry/run.sh`: everything in one command.
#[tokio::test]
async fn the_example_runs_with_one_command() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let port = ReservedPort::new();
    let mut command = host_command();
    let variables = command.as_std().get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let variables: Vec<_> = variables.collect();
    command = tokio::process::Command::new(root.join("examples/registry/run.sh"));
    command.arg("--list").env_clear().env("PATH", std::env::var_os("PATH").unwrap()).envs(variables);
    command.env("MCP_HOST", host_binary()).env("REGISTRY", debian_file("usr/bin/docker-registry"));
    command.env("PLUGINS", component("hello").parent().unwrap()).env("PORT", port.address().port().to_string());
    let output = command.stdin(std::process::Stdio::null()).output().await.unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("hello:///world"), "{out}{err}");
    assert!(
        err.lines().any(|line| line.starts_with("+ wants ") && line.contains(" http")) && err.contains("verified"),
        "{err}"
    );
}

#[tokio::test]
async fn a_version_that_is_published_is_not_replaced() {
    let (_registry, project) = registry_with_hello().await;
    let other = project.push(&component("notes"), "1.0.0", Some("acme.pem")).await;
    assert!(other.code() == 1 && other.stderr.contains("publish a new version"), "{}", other.stderr);
    let range = project.push(&component("hello"), "1.0", None).await;
    let help = "`:1.0` is not a whole version: publish as `:1.0.0`";
    assert!(range.stderr.contains(help), "{}", range.stderr);
}
