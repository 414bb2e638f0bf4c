//! Commands that are killed, run concurrently, have no disk space, or no credentials: the config and the lock remain
//! unchanged.

use std::process::Stdio;

use mcp_host_tests::{
    CertificateAuthority, MockOrigin, RawStdio, Registry, RegistryProject, Reply, Revision, component,
    has_user_namespaces,
};
use serde_json::json;

use super::tools::traced;
use super::{hello_that_asks_for, registry_with_hello};

#[tokio::test]
async fn a_command_that_is_killed_at_any_step_leaves_everything_as_it_was() {
    let (registry, publisher) = registry_with_hello().await;
    let parts = registry.answers("1.0.0");
    let authority = CertificateAuthority::new();
    for (step, _) in parts.iter().enumerate() {
        let origin = MockOrigin::https(&authority).await;
        let name = format!("127.0.0.1:{}", origin.port());
        let project = RegistryProject::at(&name, &authority);
        project.write("acme.pub", publisher.text("acme.pub"));
        for (number, (path, reply)) in parts.iter().enumerate() {
            let reply = if number == step { Reply::silent() } else { reply.clone() };
            origin.serve(path, reply);
        }
        let before = project.text("mcp-host.toml");
        let mut command = project.command(["add", "hello", &format!("oci://{name}/acme/hello:1")]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        origin.wait_for_count(&parts[step].0, 1).await;
        child.kill().await.unwrap();
        assert_eq!(project.text("mcp-host.toml"), before);
        assert!(!project.path("mcp-host.lock").exists());
        let (path, reply) = &parts[step];
        origin.serve(path, reply.clone());
        project.run(["add", "hello", &format!("oci://{name}/acme/hello:1")]).await.success();
        project.run(["store", "verify"]).await.success();
    }
}

#[tokio::test]
async fn a_command_that_is_killed_before_any_rename_is_completed_by_the_next_one() {
    let (registry, publisher) = registry_with_hello().await;
    let add = ["add".to_owned(), "hello".to_owned(), registry.reference("1")];
    let mut killed = 0;
    loop {
        let project = RegistryProject::new(&registry);
        project.write("acme.pub", publisher.text("acme.pub"));
        let before = project.text("mcp-host.toml");
        let renames = "rename,renameat,renameat2";
        let kill = format!("inject={renames}:signal=KILL:when={}", killed + 1);
        let trace = format!("trace={renames}");
        let mut strace = traced(&project.command(&add), &project.path("trace"), &[&trace, &kill]);
        if strace.output().await.unwrap().status.success() {
            break;
        }
        killed += 1;
        assert!(killed < 50, "it ends at some time: {}", project.text("trace"));
        // The lock is replaced as a whole, and before the config.
        assert_eq!(project.text("mcp-host.toml"), before);
        let lock = project.path("mcp-host.lock");
        assert!(!lock.exists() || project.text("mcp-host.lock").matches("[[component]]").count() == 1);
        project.run(&add).await.success();
        project.run(["store", "verify"]).await.success();
        project.run(["lock", "--check"]).await.success();
    }
    assert!(killed >= 3, "content, lock and config are renamed: {killed}");
}

#[tokio::test]
async fn credentials_that_are_not_accepted_are_told_apart_from_none() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let config = project.text("docker/config.json");
    // `ada` with another password.
    let auths = json!({ "auths": { registry.name(): { "auth": "YWRhOndyb25n" } } });
    project.write("docker/config.json", auths.to_string());
    let refused = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await;
    assert!(refused.code() == 1 && refused.stderr.contains("does not accept the credentials"), "{}", refused.stderr);
    project.write("docker/config.json", config);
    project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
}

#[tokio::test]
async fn two_commands_do_not_change_a_lock_at_once() {
    let (registry, publisher) = registry_with_hello().await;
    let authority = CertificateAuthority::new();
    let origin = MockOrigin::https(&authority).await;
    let name = format!("127.0.0.1:{}", origin.port());
    let project = RegistryProject::at(&name, &authority);
    let tags = "/v2/acme/hello/tags/list?n=1000";
    origin.serve(tags, Reply::silent());
    let mut command = project.command(["add", "hello", &format!("oci://{name}/acme/hello:1")]);
    let mut first = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    origin.wait_for_count(tags, 1).await;
    let second = project.run(["lock"]).await;
    assert!(second.code() == 1 && second.stderr.contains("another command is changing"), "{}", second.stderr);
    let collected = project.run(["store", "gc"]).await;
    assert!(
        collected.code() == 1 && collected.stderr.contains("another command uses the store"),
        "{}",
        collected.stderr
    );
    first.kill().await.unwrap();
    project.run(["lock"]).await.success();
}

#[tokio::test]
async fn two_configs_with_one_store_add_at_once_and_neither_removes_what_the_other_needs() {
    let (registry, publisher) = registry_with_hello().await;
    let shared = publisher.path("shared").display().to_string();
    let with_store = || {
        let project = RegistryProject::new(&registry);
        project.write("acme.pub", publisher.text("acme.pub"));
        let config = project.text("mcp-host.toml").replace("store = 'store'", &format!("store = '{shared}'"));
        project.write("mcp-host.toml", config);
        project
    };
    let (one, other) = (with_store(), with_store());
    let reference = registry.reference("1");
    let add = ["add", "hello", &reference];
    let (first, second) = tokio::join!(one.run(add), other.run(add));
    first.success();
    second.success();
    one.run(["remove", "hello"]).await.success();
    one.run(["store", "gc"]).await.success();
    other.run(["store", "verify"]).await.success();
    other.run(["check", "--strict"]).await.success();
}

#[tokio::test]
async fn a_full_disk_is_said_to_be_full_and_leaves_nothing_behind() {
    if !has_user_namespaces() {
        return;
    }
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    project.push(&component("git"), "1.0.0", Some("acme.pem")).await.success();
    let store = project.path("store");
    std::fs::create_dir(&store).unwrap();
    let setup = format!("mount -t tmpfs -o size=64k,mode=700 tmpfs '{}'", store.display());
    let added = project.run_after(&setup, ["add", "git", &registry.reference("1")]).await;
    assert!(added.code() == 1 && added.stderr.contains("No space left"), "{}", added.stderr);
    assert!(!project.path("mcp-host.lock").exists() && !project.text("mcp-host.toml").contains("[[plugin]]"));
    project.run(["add", "git", &registry.reference("1")]).await.success();
}

#[tokio::test]
async fn a_credential_helper_that_fails_is_named_beside_what_the_registry_says() {
    let (registry, project) = registry_with_hello().await;
    let helpers = json!({ "credHelpers": { registry.name(): "of-nobody" } });
    project.write("docker/config.json", helpers.to_string());
    let added = project.run(["add", "hello", &registry.reference("1")]).await;
    assert_eq!(added.code(), 1);
    for expected in ["the stored credentials cannot be had", "without credentials", "answers 401"] {
        assert!(added.stderr.contains(expected), "{expected}: {}", added.stderr);
    }
    project.write("docker/config.json", "{}");
    let anonymous = project.run(["add", "hello", &registry.reference("1")]).await;
    assert!(anonymous.stderr.contains("`docker login`"), "{}", anonymous.stderr);
}

#[tokio::test]
async fn an_update_is_loaded_by_a_running_server_that_is_confined() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (_first, one) = hello_that_asks_for(&json!({}));
    let (_second, other) = hello_that_asks_for(&json!({ "config": { "names": { "type": "array" } } }));
    project.push(&one, "1.0.0", Some("acme.pem")).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let text = project.text("mcp-host.toml").replace("[server]\n", "[server]\nconfine = true\n");
    project.write("mcp-host.toml", text);
    let mut server = RawStdio::start_command(project.command(["serve", "--stdio"]), Revision::V_2025_11_25).await;
    assert_eq!(server.read("hello:///world").await.unwrap(), "Hello, world!");
    project.push(&other, "1.1.0", Some("acme.pem")).await.success();
    project.run(["update"]).await.success();
    let line = server.log_line("generation=2").await;
    assert!(line.contains("changed=\"hello\""), "{line}");
    assert_eq!(server.read("hello:///world").await.unwrap(), "Hello, world!");
    server.end().await;
}

#[tokio::test]
async fn the_included_providers_can_be_published_and_added() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    for name in ["config", "database", "drive", "files", "git", "http-cache", "notes", "prometheus", "results"] {
        let reference = format!("oci://{}/acme/{name}:0.1.0", registry.name());
        let file = component(name);
        let key = project.path("acme.pem");
        project
            .run(["push".as_ref(), file.as_os_str(), reference.as_ref(), "--sign".as_ref(), key.as_os_str()])
            .await
            .success();
        project.run(["add", name, &reference]).await.success();
    }
    project.run(["lock", "--check"]).await.success();
    let verified = project.run(["store", "verify", "--json"]).await.success().json();
    assert_eq!(verified, json!({ "components": 9, "problems": [] }));
}
