//! Keyless signatures and provenance, created by Sigstore's signer.

use mcp_host_tests::sigstore::{ISSUER, sign_keyless, signature, statement, verify_in_python};
use mcp_host_tests::{Registry, RegistryProject, component};
use serde_json::{Value, json};

const WORKFLOW: &str = "https://forge.example/acme/hello/.forge/release.yml@refs/tags/v1.0.0";
const STRANGER: &str = "https://forge.example/mallory/hello/.forge/release.yml@refs/tags/v1.0.0";

/// A `[[trust]]` entry with identities, and additional keys.
fn identities(more: &str) -> String {
    format!(
        "identities = [{{ issuer = '{ISSUER}', subject = 'https://forge.example/acme/**' }}]\nroot = 'root.json'\n{more}"
    )
}

/// Publishes a version without a signature, and returns the digest of its manifest.
async fn publish(project: &RegistryProject, version: &str) -> String {
    let published = project.push(&component("hello"), version, None).await.success().text();
    published.trim().split_once('@').expect("it prints a reference by digest").1.to_owned()
}

/// Adds a bundle to a published version.
async fn attach(project: &RegistryProject, registry: &Registry, version: &str, bundle: &Value) {
    let file = project.write("bundle.json", bundle.to_string());
    let reference = registry.reference(version);
    let hello = component("hello");
    let arguments = ["push".as_ref(), hello.as_os_str(), reference.as_ref(), "--bundle".as_ref(), file.as_os_str()];
    project.run(arguments).await.success();
}

fn provenance(manifest: &str, repository: &str) -> Value {
    let predicate = json!({
        "buildDefinition": {
            "buildType": "https://forge.example/build/v1",
            "externalParameters": { "workflow": { "repository": repository, "ref": "refs/tags/v1.0.0" } },
        },
        "runDetails": { "builder": { "id": "https://forge.example/runner" } },
    });
    statement(manifest, "https://slsa.dev/provenance/v1", predicate)
}

#[tokio::test]
async fn an_identity_is_trusted_by_its_certificate_and_both_verifiers_agree() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let manifest = publish(&project, "1.0.0").await;
    let statements = [(STRANGER, signature(&manifest)), (WORKFLOW, signature(&manifest))];
    let (bundles, root) = sign_keyless(&statements, json!({})).await;
    let root = project.write("root.json", root.to_string());
    project.trust(&identities(""));
    let add = async || project.run(["add", "hello", &registry.reference("1")]).await;
    let unsigned = add().await;
    assert!(unsigned.stderr.contains("has no signature"), "{}", unsigned.stderr);

    attach(&project, &registry, "1.0.0", &bundles[0]).await;
    let refused = add().await;
    assert!(refused.stderr.contains("signed by 0 of the keys and identities"), "{}", refused.stderr);
    assert!(
        refused.stderr.contains(STRANGER) && refused.stderr.contains("https://forge.example/acme/**"),
        "{}",
        refused.stderr
    );
    assert!(!project.path("mcp-host.lock").exists());

    attach(&project, &registry, "1.0.0", &bundles[1]).await;
    let added = add().await.success();
    assert!(added.text().contains(&format!("{WORKFLOW} ({ISSUER})")), "{}", added.text());
    let lock = project.text("mcp-host.lock");
    assert!(lock.contains(&format!("subject = \"{WORKFLOW}\"")), "{lock}");
    let stored = project.path("bundle.json");
    let payload = verify_in_python(&root, &stored, WORKFLOW).await.unwrap();
    assert!(payload.contains(manifest.strip_prefix("sha256:").unwrap()), "{payload}");
    assert!(verify_in_python(&root, &stored, STRANGER).await.is_err());

    drop(registry);
    project.run(["check", "--strict"]).await.success();
    project.run(["store", "verify"]).await.success();
    // Trust changes: locked components are still served, and the change is reported.
    project.write(
        "mcp-host.toml",
        project.text("mcp-host.toml").replace("forge.example/acme/**", "forge.example/other/**"),
    );
    let verified = project.run(["store", "verify"]).await;
    assert!(verified.code() == 1 && verified.text().contains("signed by 0"), "{}", verified.text());
}

#[tokio::test]
async fn the_release_of_another_version_is_by_the_same_signer_and_another_workflow_is_not() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (one, two, three) =
        (publish(&project, "1.0.0").await, publish(&project, "1.0.1").await, publish(&project, "1.0.2").await);
    let next = WORKFLOW.replace("v1.0.0", "v1.0.1");
    let other = WORKFLOW.replace("release.yml", "nightly.yml");
    let statements =
        [(WORKFLOW, signature(&one)), (next.as_str(), signature(&two)), (other.as_str(), signature(&three))];
    let (bundles, root) = sign_keyless(&statements, json!({})).await;
    project.write("root.json", root.to_string());
    project.trust(&identities(""));
    attach(&project, &registry, "1.0.0", &bundles[0]).await;
    attach(&project, &registry, "1.0.1", &bundles[1]).await;
    project.run(["add", "hello", &registry.reference("1.0.0")]).await.success();
    project.write("mcp-host.toml", project.text("mcp-host.toml").replace("hello:1.0.0", "hello:1.0"));
    attach(&project, &registry, "1.0.2", &bundles[2]).await;
    let refused = project.run(["lock"]).await;
    assert!(refused.code() == 3 && refused.stderr.contains("--agree signer"), "{}", refused.stderr);
    registry.remove_tag("1.0.2");
    project.run(["lock"]).await.success();
}

#[tokio::test]
async fn a_provenance_that_is_required_decides_and_one_that_disappears_has_to_be_agreed_to() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (manifest, next) = (publish(&project, "1.0.0").await, publish(&project, "1.0.1").await);
    let repository = "https://forge.example/acme/hello";
    let statements = [
        (WORKFLOW, signature(&manifest)),
        (WORKFLOW, provenance(&manifest, "https://forge.example/acme/elsewhere")),
        (STRANGER, provenance(&manifest, repository)),
        (WORKFLOW, provenance(&manifest, repository)),
        (WORKFLOW, signature(&next)),
    ];
    let (bundles, root) = sign_keyless(&statements, json!({})).await;
    project.write("root.json", root.to_string());
    let required = format!("provenance = {{ builder = 'https://forge.example/runner', source = '{repository}' }}");
    project.trust(&identities(&required));
    for bundle in &bundles[..3] {
        attach(&project, &registry, "1.0.0", bundle).await;
    }
    let add = async || project.run(["add", "hello", &registry.reference("1.0.0")]).await;
    let refused = add().await;
    assert!(refused.stderr.contains("has no provenance as its `[[trust]]` requires"), "{}", refused.stderr);
    assert!(refused.stderr.contains("from https://forge.example/acme/elsewhere"), "{}", refused.stderr);
    attach(&project, &registry, "1.0.0", &bundles[3]).await;
    let added = add().await.success();
    assert!(added.text().contains(&format!("{repository} by https://forge.example/runner")), "{}", added.text());
    let listed = project.run(["store", "list", "--json"]).await.success().json();
    assert_eq!(
        listed["components"][0]["provenance"],
        json!({ "builder": "https://forge.example/runner", "source": repository })
    );

    // The next version has no provenance. Where none is required, that would suffice, but it differs from the locked
    // version.
    attach(&project, &registry, "1.0.1", &bundles[4]).await;
    let config = project.text("mcp-host.toml").replace("hello:1.0.0", "hello:1.0");
    project.write("mcp-host.toml", &config);
    let refused = project.run(["lock"]).await;
    assert!(refused.code() == 1 && refused.stderr.contains("has no provenance"), "{}", refused.stderr);
    project.write("mcp-host.toml", config.replace(&required, ""));
    let refused = project.run(["lock"]).await;
    assert!(refused.code() == 3 && refused.stderr.contains("--agree provenance"), "{}", refused.stderr);
    project.run(["lock", "hello", "--agree", "provenance"]).await.success();
}

#[tokio::test]
async fn a_log_whose_clock_is_ahead_and_a_root_without_that_log_are_refused() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let manifest = publish(&project, "1.0.0").await;
    let statements = [(WORKFLOW, signature(&manifest))];
    let (ahead, root) = sign_keyless(&statements, json!({ "shift": 300 })).await;
    project.write("root.json", root.to_string());
    project.trust(&identities(""));
    attach(&project, &registry, "1.0.0", &ahead[0]).await;
    let add = async || project.run(["add", "hello", &registry.reference("1")]).await;
    let refused = add().await;
    assert!(refused.stderr.contains("in the future"), "{}", refused.stderr);
    // Another instance of Sigstore, and its root.
    let (_, other) = sign_keyless(&statements, json!({})).await;
    project.write("root.json", other.to_string());
    let refused = add().await;
    assert!(refused.stderr.contains("a keyless signature that is not valid"), "{}", refused.stderr);
    project.write("root.json", "{}");
    let invalid = add().await;
    assert!(
        invalid.code() == 1 && invalid.stderr.contains("the trusted root (`root` of `[[trust]]`) cannot be used"),
        "{}",
        invalid.stderr
    );
    let checked = project.run(["check"]).await;
    assert!(checked.code() == 2 && checked.stderr.contains("it has no `mediaType`"), "{}", checked.stderr);
    assert!(!project.path("mcp-host.lock").exists());
}
