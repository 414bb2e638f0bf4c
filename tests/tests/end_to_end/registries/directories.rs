//! A directory with an OCI image layout as a mirror, and bills of materials.

use std::path::Path;

use mcp_host_tests::{Registry, RegistryProject, component};
use serde_json::json;

const SBOM: &str = r#"{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": [{"name": "a"}, {"name": "b"}]}"#;

/// Unpacks an archive, as if from a disk that was carried to another place.
fn unpack(archive: &Path, directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    let output = std::process::Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn an_unpacked_archive_is_a_mirror_that_needs_no_registry() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let sbom = project.write("hello.cdx.json", SBOM);
    let (hello, key) = (component("hello"), project.path("acme.pem"));
    let reference = registry.reference("1.0.0");
    let published = [
        "push".as_ref(),
        hello.as_os_str(),
        reference.as_ref(),
        "--sign".as_ref(),
        key.as_os_str(),
        "--sbom".as_ref(),
        sbom.as_os_str(),
    ];
    let pushed = project.run(published).await.success();
    let warned = "it is published as version 1.0.0, and describes itself as 0.1.0";
    assert!(pushed.stderr.contains(warned), "{}", pushed.stderr);
    let added = project.run(["add", "hello", &registry.reference("1")]).await.success();
    assert!(added.text().contains("CycloneDX 1.6, 2 components, not verified"), "{}", added.text());
    let archive = project.path("all.tar");
    project.run(["store".as_ref(), "export".as_ref(), archive.as_os_str()]).await.success();
    let name = registry.name();

    let other = RegistryProject::new(&registry);
    drop(registry);
    other.write("acme.pub", project.text("acme.pub"));
    unpack(&archive, &other.path("usb"));
    let trust = format!("[[trust]]\nsources = ['oci://{name}']\nkeys = [{{ file = 'acme.pub' }}]\n");
    other.write_config(&trust, &format!("mirrors = {{ '{name}/acme' = ['layout:gone', 'layout:usb'] }}"));
    let source = format!("oci://{name}/acme/hello:1");
    let added = other.run(["add", "hello", &source]).await.success();
    assert!(added.text().contains("1.0.0") && added.text().contains("CycloneDX 1.6"), "{}", added.text());
    assert_eq!(other.text("mcp-host.lock"), project.text("mcp-host.lock"), "whatever the place was");
    other.run(["check", "--strict"]).await.success();
    let listed = other.run(["store", "list", "--json"]).await.success().json();
    let listed = &listed["components"][0];
    assert_eq!((&listed["version"], &listed["sboms"][0]["components"]), (&json!("1.0.0"), &json!(2)));

    // A missing artifact is requested from the registry, which is unreachable.
    let missing = other.run(["add", "other", &format!("oci://{name}/acme/other:1")]).await;
    assert!(missing.code() == 1 && missing.stderr.contains("cannot connect"), "{}", missing.stderr);
    assert!(missing.stderr.contains("no OCI image layout"), "{}", missing.stderr);

    // A blob that was changed on the disk does not match its digest.
    other.run(["remove", "hello"]).await.success();
    other.run(["store", "gc"]).await.success();
    let blobs = std::fs::read_dir(other.path("usb/blobs/sha256")).unwrap().map(|entry| entry.unwrap().path());
    let largest = blobs.max_by_key(|file| file.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&largest).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&largest, bytes).unwrap();
    let changed = other.run(["add", "hello", &source]).await;
    assert!(changed.code() == 1 && changed.stderr.contains("its content has the digest"), "{}", changed.stderr);
    assert!(!other.text("mcp-host.lock").contains("[[component]]"));
}

#[tokio::test]
async fn a_bill_of_materials_that_is_none_is_not_published_and_never_stops_anything() {
    let registry = Registry::start().await;
    let project = RegistryProject::new(&registry);
    let (hello, key) = (component("hello"), project.path("acme.pem"));
    let reference = registry.reference("1.0.0");
    let push = async |option: &str, text: &str| {
        let file = project.write("document.json", text);
        let arguments = [
            "push".as_ref(),
            hello.as_os_str(),
            reference.as_ref(),
            "--sign".as_ref(),
            key.as_os_str(),
            option.as_ref(),
            file.as_os_str(),
        ];
        project.run(arguments).await
    };
    for (option, text, expected) in [
        ("--sbom", "{}", "document.json cannot be attached: it is neither CycloneDX nor SPDX"),
        ("--sbom", &format!("{SBOM}{}", " ".repeat(1 << 20)), "it has more than 1048576 bytes"),
        ("--provenance", "{}", "it is no provenance of SLSA 1"),
        ("--bundle", "{}", "it is no signature bundle"),
    ] {
        let refused = push(option, text).await;
        assert!(refused.code() == 1 && refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let nothing = project.run(["add", "hello", &registry.reference("1")]).await;
    assert!(nothing.stderr.contains("there is no such repository"), "nothing was published: {}", nothing.stderr);
    let public = project.path("acme.pub");
    let wrong = project
        .run(["push".as_ref(), hello.as_os_str(), reference.as_ref(), "--sign".as_ref(), public.as_os_str()])
        .await;
    assert!(wrong.stderr.contains("acme.pub is a public key"), "{}", wrong.stderr);

    push("--sbom", SBOM).await.success();
    project.run(["add", "hello", &registry.reference("1")]).await.success();
    let stored = project.stored().len();
    // The bill of materials is shown without verification, and nothing depends on it.
    let listed = project.run(["store", "list"]).await.success();
    assert!(listed.text().contains("CycloneDX 1.6, 2 components, not verified"), "{}", listed.text());
    project.run(["store", "gc"]).await.success();
    assert_eq!(project.stored().len(), stored, "the lock names it");
    project.run(["store", "verify"]).await.success();
}
