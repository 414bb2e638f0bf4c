//! The SDK of a language in a project: its package, with the contract, the license, and a list of these files with
//! their digests.

use std::path::Path;

use mcp_host_model::digest::Digest;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use toml::{Table, Value};

use super::{ArchiveError, File, below};
use crate::language::Language;

/// The folder of the SDK in a project.
pub(super) const SDK: &str = "sdk";
/// The list of the SDK's files, in that folder.
pub(super) const LIST: &str = "files.sha256";
/// The manifest of the SDK for Rust, below its folder.
const CARGO_MANIFEST: &str = "Cargo.toml";
/// The manifest in the archive from which the SDK inherits versions.
const CARGO_WORKSPACE: &str = "plugins/Cargo.toml";

/// Returns the files of the SDK, in `sdk/`, with their list.
pub(super) fn files(language: Language) -> Result<Vec<File>, ArchiveError> {
    let (package, contract) = match language {
        Language::Rust => ("sdk-guest/rust/", "sdk/wit/"),
        Language::Python => ("sdk-guest/python/", "sdk/src/mcp_host_provider/wit/"),
        Language::TypeScript | Language::JavaScript => ("sdk-guest/js/", "sdk/wit/"),
        Language::C => ("sdk-guest/c/", "sdk/wit/"),
        Language::Go => ("sdk-guest/go/", "sdk/wit/"),
    };
    let file =
        |folder: &str, path: &str, bytes: &[u8]| File { path: [folder, path].concat().into(), bytes: bytes.to_owned() };
    let mut files: Vec<_> = below("wit/").map(|(path, bytes)| file(contract, path, bytes)).collect();
    files.extend(below("LICENSE").map(|(_, bytes)| file("sdk/", "LICENSE", bytes)));
    for (path, bytes) in below(package) {
        let bytes = match (language, path) {
            (Language::Rust, CARGO_MANIFEST) => &cargo_manifest(bytes)?,
            (_, "package.json") => &npm_manifest(bytes)?,
            _ => bytes,
        };
        files.push(file("sdk/", path, bytes));
    }
    files.push(list(&files));
    Ok(files)
}

/// Returns the list of an SDK's files.
fn list(files: &[File]) -> File {
    let mut text =
        format!("# The SDK of mcp-host {}: `mcp-host new --update` replaces these files.\n", env!("CARGO_PKG_VERSION"));
    let mut lines: Vec<_> = files
        .iter()
        .filter_map(|file| Some((file.path.strip_prefix(SDK).ok()?, Digest::compute(&file.bytes))))
        .map(|(path, digest)| format!("{}  {}\n", digest.digits(), path.display()))
        .collect();
    lines.sort_unstable();
    text.extend(lines);
    File { path: Path::new(SDK).join(LIST), bytes: text.into_bytes() }
}

/// Returns the manifest with the values inherited from its workspace, and without parts that exist only in this
/// repository.
fn cargo_manifest(bytes: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let workspace = below(CARGO_WORKSPACE).next().map(|(_, bytes)| bytes).unwrap_or_default();
    let workspace = parse(CARGO_WORKSPACE, workspace)?;
    let mut manifest = parse("sdk-guest/rust/Cargo.toml", bytes)?;
    for unused in ["dev-dependencies", "lints"] {
        manifest.remove(unused);
    }
    let missing = |key: &str| ArchiveError::Manifest { path: CARGO_WORKSPACE, reason: format!("it has no `{key}`") };
    for section in ["package", "dependencies"] {
        let Some(table) = manifest.get_mut(section).and_then(Value::as_table_mut) else { continue };
        for (key, value) in table.iter_mut() {
            if value.get("workspace").and_then(Value::as_bool) == Some(true) {
                let inherited = workspace.get("workspace").and_then(|workspace| workspace.get(section)?.get(key));
                *value = inherit(inherited.ok_or_else(|| missing(key))?, value);
            }
        }
    }
    if let Some(package) = manifest.get_mut("package").and_then(Value::as_table_mut) {
        package.remove("workspace");
    }
    Ok(manifest.to_string().into_bytes())
}

/// Returns the inherited value with its additions: a dependency may have more features than in the workspace.
fn inherit(inherited: &Value, by: &Value) -> Value {
    let Some(added) = by.as_table().filter(|table| table.len() > 1) else { return inherited.clone() };
    let mut table = match inherited {
        Value::Table(table) => table.clone(),
        version => Table::from_iter([("version".to_owned(), version.clone())]),
    };
    for (key, value) in added.iter().filter(|(key, _)| *key != "workspace") {
        match (table.get_mut(key), value) {
            (Some(Value::Array(present)), Value::Array(more)) => present.extend(more.iter().cloned()),
            _ => drop(table.insert(key.clone(), value.clone())),
        }
    }
    Value::Table(table)
}

fn parse(path: &'static str, bytes: &[u8]) -> Result<Table, ArchiveError> {
    let text = String::from_utf8_lossy(bytes);
    text.parse().map_err(|error: toml::de::Error| ArchiveError::Manifest { path, reason: error.message().to_owned() })
}

/// The `package.json` of the SDK for JavaScript, without the tools of its own tests, which npm would install, too. The
/// order within `exports` matters, so its text is kept.
#[derive(Deserialize, Serialize)]
struct NpmManifest {
    name: Box<RawValue>,
    version: Box<RawValue>,
    description: Box<RawValue>,
    license: Box<RawValue>,
    r#type: Box<RawValue>,
    engines: Box<RawValue>,
    bin: Box<RawValue>,
    files: Box<RawValue>,
    exports: Box<RawValue>,
    dependencies: Box<RawValue>,
}

/// Returns the manifest without parts that exist only in this repository.
fn npm_manifest(bytes: &[u8]) -> Result<Vec<u8>, ArchiveError> {
    let fault = |error: serde_json::Error| ArchiveError::Manifest {
        path: "sdk-guest/js/package.json",
        reason: error.to_string(),
    };
    let manifest: NpmManifest = serde_json::from_slice(bytes).map_err(fault)?;
    serde_json::to_vec_pretty(&manifest).map_err(fault)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(language: Language, name: &str) -> String {
        let file = files(language).unwrap().into_iter().find(|file| file.path.ends_with(name)).unwrap();
        String::from_utf8(file.bytes).unwrap()
    }

    #[test]
    fn the_manifest_of_the_rust_sdk_inherits_nothing() {
        let text = manifest(Language::Rust, "sdk/Cargo.toml");
        assert!(!text.contains("workspace"), "{text}");
        let manifest: Table = text.parse().unwrap();
        assert_eq!(manifest["package"]["license"].as_str(), Some("Apache-2.0"));
        assert_eq!(manifest["dependencies"]["iri-string"]["features"][0].as_str(), Some("alloc"));
        assert!(manifest["dependencies"]["wit-bindgen"]["version"].is_str());
        assert!(manifest["features"].get("http").is_some());
    }

    #[test]
    fn the_npm_package_installs_only_what_a_build_needs() {
        let text = manifest(Language::JavaScript, "sdk/package.json");
        let manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
        let (_, all) = below("sdk-guest/js/package.json").next().unwrap();
        let mut all: serde_json::Map<_, _> = serde_json::from_slice(all).unwrap();
        assert!(all.remove("devDependencies").is_some() && all.remove("scripts").is_some());
        assert_eq!(manifest.as_object(), Some(&all));
        // The first matching condition is used.
        let [component, node] = ["fs.component.js", "fs.node.js"].map(|file| text.find(file).unwrap());
        assert!(component < node, "{text}");
    }
}
