//! The host and the guests are two cargo workspaces; a dependency that both name has the same version in both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use toml::{Table, Value};

fn manifest(path: &str) -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&file).unwrap().parse().unwrap()
}

fn table_at<'t>(manifest: &'t Table, path: &[&str]) -> &'t Table {
    path.iter().fold(manifest, |table, key| table[*key].as_table().unwrap())
}

/// Returns the version of a dependency; none for a path dependency.
fn version(dependency: &Value) -> Option<&str> {
    dependency.as_str().or_else(|| dependency.get("version").and_then(Value::as_str))
}

#[test]
fn both_workspaces_have_the_same_metadata() {
    let (host, guests) = (manifest("Cargo.toml"), manifest("plugins/Cargo.toml"));
    assert_eq!(table_at(&host, &["workspace", "package"]), table_at(&guests, &["workspace", "package"]));
    assert_eq!(host["workspace"]["resolver"], guests["workspace"]["resolver"]);
}

#[test]
fn both_workspaces_have_the_same_lints() {
    let (host, guests) = (manifest("Cargo.toml"), manifest("plugins/Cargo.toml"));
    assert_eq!(table_at(&host, &["workspace", "lints"]), table_at(&guests, &["workspace", "lints"]));
}

#[test]
fn a_dependency_that_both_workspaces_name_has_one_version() {
    let (host, guests) = (manifest("Cargo.toml"), manifest("plugins/Cargo.toml"));
    let of_host = table_at(&host, &["workspace", "dependencies"]);
    let of_guests = table_at(&guests, &["workspace", "dependencies"]);
    let shared: Vec<_> = of_host.keys().filter(|name| of_guests.contains_key(*name)).collect();
    assert!(!shared.is_empty());
    for name in shared {
        assert_eq!(version(&of_host[name]), version(&of_guests[name]), "{name}");
    }
}

#[test]
fn the_toolchain_is_the_oldest_that_the_workspaces_promise() {
    let toolchain = manifest("rust-toolchain.toml");
    let channel = toolchain["toolchain"]["channel"].as_str().unwrap();
    for path in ["Cargo.toml", "plugins/Cargo.toml"] {
        let manifest = manifest(path);
        let promised = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
        assert!(
            channel == promised || channel.starts_with(&format!("{promised}.")),
            "{path}: {promised} and {channel}"
        );
    }
}

#[test]
fn every_guest_is_a_member_of_the_guests_workspace() {
    let guests = manifest("plugins/Cargo.toml");
    let members = guests["workspace"]["members"].as_array().unwrap();
    for member in members.iter().filter_map(Value::as_str) {
        let package = manifest(&format!("plugins/{member}/Cargo.toml"));
        let own = package["package"]["version"].get("workspace").and_then(Value::as_bool);
        assert_eq!(own, Some(true), "{member} has the version of its workspace");
    }
}
