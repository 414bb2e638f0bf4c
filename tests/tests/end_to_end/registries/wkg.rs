//! The same components with `wkg`, the package client of the Bytecode Alliance.
//!
//! `cargo xtask clients --wkg` builds it, and the last test needs it. The others have an artifact as wkg 0.16 publishes
//! it, and what its client requires of an artifact: the crates `wasm-pkg-client` (`oci`) and `oci-wasm`.

use std::process::{Output, Stdio};

use mcp_host_tests::{Registry, RegistryProject, component, optional_client};
use serde_json::{Value, json};
use tokio::process::Command;

use super::tools::copy;
use super::{MANIFEST, digest, registry_with_hello};

const VERSION: &str = "org.opencontainers.image.version";
const TITLE: &str = "org.opencontainers.image.title";

/// Publishes the hello provider as wkg does, with these annotations of the manifest. Returns the digest of the
/// manifest.
async fn publish_like_wkg(
    registry: &Registry,
    project: &RegistryProject,
    version: &str,
    annotations: Option<Value>,
) -> String {
    let wasm = std::fs::read(component("hello")).unwrap();
    let config = json!({
        "created": "2026-03-01T12:00:00.123456789Z",
        "author": null,
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest(&wasm)],
        "component": {
            "exports": ["mcp-host:provider/resource-provider@0.1.1"],
            "imports": ["wasi:cli/environment@0.2.6"],
            "target": null,
        },
    });
    let config = config.to_string().into_bytes();
    let layer = json!({
        "mediaType": "application/wasm",
        "digest": digest(&wasm),
        "size": wasm.len(),
        "annotations": { TITLE: "hello.wasm" },
    });
    let mut manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": {
            "mediaType": "application/vnd.wasm.config.v0+json",
            "digest": digest(&config),
            "size": config.len(),
        },
        "layers": [layer],
    });
    if let Some(annotations) = annotations {
        manifest["annotations"] = annotations;
    }
    let manifest = manifest.to_string().into_bytes();
    let name = digest(&manifest);
    let entry = json!({
        "mediaType": MANIFEST,
        "digest": name,
        "size": manifest.len(),
        "annotations": { "org.opencontainers.image.ref.name": version },
    });
    for bytes in [wasm, config, manifest] {
        project.write(&format!("layout/blobs/{}", digest(&bytes).replace(':', "/")), bytes);
    }
    project.write("layout/oci-layout", r#"{"imageLayoutVersion": "1.0.0"}"#);
    project.write("layout/index.json", json!({ "schemaVersion": 2, "manifests": [entry] }).to_string());
    let from = format!("oci:{}:{version}", project.path("layout").display());
    copy(registry, project, &from, &format!("docker://{}/acme/hello:{version}", registry.name())).await;
    name
}

#[tokio::test]
async fn an_artifact_of_wkg_is_added_if_it_is_signed_afterwards() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let annotations = json!({ VERSION: "1.0.0", "org.opencontainers.image.description": "says hello" });
    let manifest = publish_like_wkg(&registry, &project, "1.0.0", Some(annotations)).await;
    let add = async || project.run(["add", "hello", &registry.reference("1")]).await;
    let unsigned = add().await;
    assert!(unsigned.code() == 1 && unsigned.stderr.contains("has no signature"), "{}", unsigned.stderr);

    // The signer refers to the manifest that is there.
    let signed = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    assert!(signed.text().contains(&manifest), "{}", signed.text());
    assert!(signed.stderr.contains("another manifest (by another program, "), "{}", signed.stderr);
    assert!(signed.stderr.contains("its manifest stays"), "{}", signed.stderr);
    let other = project.push(&component("notes"), "1.0.0", Some("acme.pem")).await;
    assert!(other.code() == 1 && other.stderr.contains("with another content"), "{}", other.stderr);
    let added = add().await.success();
    assert!(added.text().contains(&manifest), "{}", added.text());
    project.run(["check", "--strict"]).await.success();
    project.run(["store", "verify"]).await.success();
}

#[tokio::test]
async fn an_artifact_of_wkg_without_a_version_is_added_by_its_tag_and_not_signed_afterwards() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    publish_like_wkg(&registry, &project, "1.0.0", None).await;
    // Its signature would count for the tag of any version.
    let signed = project.push(&component("hello"), "1.0.0", Some("acme.pem")).await;
    assert!(signed.code() == 1 && signed.stderr.contains("which states no version"), "{}", signed.stderr);
    project.trust("unsigned = true");
    project.run(["add", "hello", &registry.reference("1.0.0")]).await.success();
}

#[tokio::test]
async fn what_is_published_is_what_wkg_requires() {
    let (registry, _project) = registry_with_hello().await;
    let (manifest, config) = registry.published("1.0.0");
    assert_eq!(manifest["mediaType"], MANIFEST);
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.wasm.config.v0+json");
    assert_eq!(manifest["annotations"][VERSION], "1.0.0");
    let layers = manifest["layers"].as_array().unwrap();
    let wasm = digest(&std::fs::read(component("hello")).unwrap());
    assert_eq!(
        (layers.len(), &layers[0]["mediaType"], &layers[0]["digest"]),
        (1, &json!("application/wasm"), &json!(wasm))
    );
    assert_eq!(layers[0]["annotations"][TITLE], "hello.wasm", "the file name for other clients");
    // The required members of its type `WasmConfig`.
    assert_eq!(config["created"], "1970-01-01T00:00:00Z");
    assert_eq!((&config["architecture"], &config["os"]), (&json!("wasm"), &json!("wasip2")));
    assert_eq!(config["layerDigests"], json!([wasm]));
    for list in ["exports", "imports"] {
        let names = config["component"][list].as_array().unwrap();
        assert!(!names.is_empty() && names.iter().all(Value::is_string), "{list}: {config}");
    }
}

#[tokio::test]
async fn wkg_gets_what_is_published_and_publishes_what_is_added() {
    let Some(program) = optional_client("wkg/bin/wkg") else { return };
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let name = registry.name();
    project.write("wkg.toml", format!("default_registry = \"{name}\"\n"));
    let wkg = async |arguments: &[&str]| -> Output {
        let mut command = Command::new(&program);
        command.args(arguments).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", project.path("")).env("SSL_CERT_FILE", project.path("ca.pem"));
        command.env("DOCKER_CONFIG", project.path("docker")).env("WKG_CONFIG_FILE", project.path("wkg.toml"));
        command.env("WKG_CACHE_DIR", project.path("wkg-cache")).current_dir(project.path("")).stdin(Stdio::null());
        let output = command.kill_on_drop(true).output().await.unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output
    };
    let hello = component("hello");
    let (bytes, file) = (std::fs::read(&hello).unwrap(), hello.display().to_string());

    project.push(&hello, "1.0.0", Some("acme.pem")).await.success();
    wkg(&["get", "acme:hello@1.0.0", "--output", "./got.wasm"]).await;
    assert_eq!(std::fs::read(project.path("got.wasm")).unwrap(), bytes);
    wkg(&["oci", "pull", &format!("{name}/acme/hello:1.0.0"), "--output", "./pulled.wasm"]).await;
    assert_eq!(std::fs::read(project.path("pulled.wasm")).unwrap(), bytes);

    // `wkg publish` requires a version in the WIT package of the component, which providers do not have.
    let annotation = format!("{VERSION}=1.0.0");
    wkg(&["oci", "push", &format!("{name}/pushed/hello:1.0.0"), &file, "--annotation", &annotation]).await;
    let reference = format!("oci://{name}/pushed/hello:1.0.0");
    let unsigned = project.run(["add", "pushed", &reference]).await;
    assert!(unsigned.stderr.contains("has no signature"), "{}", unsigned.stderr);
    let key = project.path("acme.pem");
    let sign = ["push".as_ref(), hello.as_os_str(), reference.as_ref(), "--sign".as_ref(), key.as_os_str()];
    project.run(sign).await.success();
    project.run(["add", "pushed", &reference]).await.success();
    project.run(["check", "--strict"]).await.success();
}
