//! Components from registries: publishing, adding, serving without a network, updates and refusals.

mod directories;
mod interruptions;
mod keyless;
mod lies;
mod published;
mod refusals;
mod tools;
mod updates;
mod wkg;

use std::path::PathBuf;

use mcp_host_tests::{Folder, Registry, RegistryProject, component};
use serde_json::Value;
use wasm_encoder::{ComponentSection as _, CustomSection};

/// The type of an image manifest.
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Returns the SHA-256 digest of bytes, in the registries' notation.
fn digest(bytes: &[u8]) -> String {
    let hash = ring::digest::digest(&ring::digest::SHA256, bytes);
    hash.as_ref().iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Returns a registry that has the hello provider as version 1.0.0, and the project that has published and signed it.
async fn registry_with_hello() -> (Registry, RegistryProject) {
    let registry = Registry::start().await;
    let publisher = RegistryProject::new(&registry);
    publisher.push(&component("hello"), "1.0.0", Some("acme.pem")).await.success();
    (registry, publisher)
}

/// Returns the hello provider with these declared needs: a section at the top level takes precedence over sections of
/// core modules.
fn hello_that_asks_for(needs: &Value) -> (Folder, PathBuf) {
    let mut bytes = std::fs::read(component("hello")).unwrap();
    CustomSection { name: "mcp-host:needs/v1".into(), data: needs.to_string().into_bytes().into() }
        .append_to_component(&mut bytes);
    let folder = Folder::with_files::<&str, &str>([]);
    let file = folder.write("hello.wasm", bytes);
    (folder, file)
}
