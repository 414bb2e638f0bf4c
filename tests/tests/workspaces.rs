//! The host and the guests are two cargo workspaces. A dependency of both has the same version in both.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use toml::{Table, Value};

fn manifest(path: &str) -> Table {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    std::fs::read_to_string(&file).unwrap().parse().unwrap()
}

fn table_at<'t>(manifest: &'t Table, path: &[&str]) -> &'t Table {
    path.iter().fold(manifest, |table, key| table[*key].as_table().unwrap())
}

/// Returns the version of a dependency; `None` for a path dependency.
fn version(dependency: &Value) -> Option<&str> {
    dependency.as_str().or_else(|| dependency.get("version").and_then(Value::as_str))
}

#[test]
fn both_workspaces_have_the_same_metadata() {
    let (host, guests) = (manifest("Cargo.toml"), manifest("plugins/Cargo.toml"));
    let of_host = table_at(&host, &["workspace", "package"]);
    // Only the host's crates have metadata for registries.
    for (key, value) in table_at(&guests, &["workspace", "package"]) {
        assert_eq!(of_host.get(key), Some(value), "{key}");
    }
    assert_eq!(host["workspace"]["resolver"], guests["workspace"]["resolver"]);
}

#[test]
fn the_crates_of_the_host_depend_on_each_other_in_this_version() {
    let host = manifest("Cargo.toml");
    let own = &host["workspace"]["package"]["version"];
    let dependencies = table_at(&host, &["workspace", "dependencies"]);
    let crates: Vec<_> = dependencies.iter().filter(|(_, dependency)| dependency.get("path").is_some()).collect();
    assert!(!crates.is_empty());
    for (name, dependency) in crates {
        assert_eq!(dependency.get("version"), Some(own), "{name}: a package has no paths, so it needs the version");
    }
}

/// The crate with the templates is packaged through links: one for each file in a directory that has a manifest.
#[test]
fn every_template_is_linked_to_for_the_package_of_its_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for directory in ["sdk-guest/templates", "sdk-guest/templates/rust"] {
        let names = |path: &Path| -> BTreeSet<String> {
            let entries = std::fs::read_dir(path).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            names.map(|name| name.trim_end_matches(".in").to_owned()).collect()
        };
        assert_eq!(names(&root.join(directory)), names(&root.join("host/devkit/embedded").join(directory)));
    }
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

/// Returns the TOML blocks of a page.
fn toml_blocks(page: &str) -> Vec<String> {
    let page = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(page)).unwrap();
    page.split("```toml\n").skip(1).map(|block| block.split("```").next().unwrap().to_owned()).collect()
}

/// Returns the complete manifest in the example's README, for a copy outside of the workspace.
fn standalone_manifest() -> String {
    let blocks = toml_blocks("examples/hello-rust/README.md");
    blocks.into_iter().find(|block| block.starts_with("[package]")).unwrap()
}

#[test]
fn the_standalone_manifest_of_the_example_has_the_values_of_the_workspace() {
    let standalone: Table = standalone_manifest().parse().unwrap();
    let (example, guests) = (manifest("examples/hello-rust/Cargo.toml"), manifest("plugins/Cargo.toml"));
    let (package, inherited) = (table_at(&standalone, &["package"]), table_at(&guests, &["workspace", "package"]));
    assert_eq!(package["name"], example["package"]["name"]);
    assert_eq!((&package["version"], &package["edition"]), (&inherited["version"], &inherited["edition"]));
    assert_eq!(standalone["lib"], example["lib"]);
    let dependencies = |manifest: &Table| table_at(manifest, &["dependencies"]).keys().cloned().collect::<Vec<_>>();
    assert_eq!(dependencies(&standalone), dependencies(&example));
    // The profile without the parts for single packages of the workspace.
    let mut profile = table_at(&guests, &["profile"]).clone();
    profile["release"].as_table_mut().unwrap().remove("package");
    let profile = toml::Value::Table(profile);
    assert_eq!(standalone["profile"], profile, "the release profile in the README");
    let docs =
        toml_blocks("docs/providers.md").into_iter().find(|block| block.starts_with("[profile.release]")).unwrap();
    assert_eq!(docs.parse::<Table>().unwrap()["profile"], profile, "the release profile in docs/providers.md");
}

#[test]
fn the_example_with_its_standalone_manifest_can_be_copied_out_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let sdk = root.join("sdk-guest/rust");
    let manifest = standalone_manifest().replace("../mcp-host/sdk-guest/rust", sdk.to_str().unwrap());
    std::fs::write(copy.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(copy.path().join("src")).unwrap();
    std::fs::copy(root.join("examples/hello-rust/src/lib.rs"), copy.path().join("src/lib.rs")).unwrap();
    // With the workspace's lock file and target, cargo needs only crates that were fetched to build the guests.
    std::fs::copy(root.join("plugins/Cargo.lock"), copy.path().join("Cargo.lock")).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--offline", "--filter-platform", "wasm32-wasip2", "--format-version", "1"]);
    let output = cargo.current_dir(&copy).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(metadata["workspace_root"], copy.path().canonicalize().unwrap().to_str().unwrap());
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

/// Cargo hashes the absolute path of a package outside of its workspace into the names of symbols, so a component would
/// have other bytes in another directory.
#[test]
fn providers_are_made_of_packages_inside_of_their_workspace() {
    let guests = manifest("plugins/Cargo.toml");
    let dependencies = table_at(&guests, &["workspace", "dependencies"]);
    let paths: Vec<_> = dependencies.values().filter_map(|dependency| dependency.get("path")?.as_str()).collect();
    assert!(paths.contains(&"sdk"), "the SDK has a link: {paths:?}");
    assert!(paths.iter().all(|path| !path.starts_with("..")), "{paths:?}");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    assert_eq!(std::fs::read_link(root.join("plugins/sdk")).unwrap(), Path::new("../sdk-guest/rust"));
}

/// Runs `cargo tree` and returns its lines.
fn tree(arguments: &[&str]) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--prefix", "none"])
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Features of dev-dependencies have no effect on `cargo build`, so a normal dependency must enable them.
#[test]
fn a_plain_build_at_the_root_has_the_features_of_the_binary() {
    let features =
        tree(&["--workspace", "--edges", "no-dev", "--invert", "mcp-resource-host", "--depth", "0", "--format", "{f}"])
            .join("\n");
    let features: Vec<_> = features.trim().split(',').collect();
    assert!(["keyvalue", "search", "sql"].iter().all(|feature| features.contains(feature)), "{features:?}");
}

/// Returns the features of each package of a build, for each way in which the package is built.
fn features(build: &[&str]) -> BTreeMap<String, BTreeSet<String>> {
    let mut features = BTreeMap::<_, BTreeSet<_>>::new();
    for line in tree(&[build, &["--format", "{p}|{f}"]].concat()) {
        let Some((package, of_package)) = line.split_once('|') else { continue };
        let of_package = of_package.trim_end_matches(" (*)").to_owned();
        features.entry(package.to_owned()).or_default().insert(of_package);
    }
    features
}

/// With other features, a `cargo test` after a `cargo xtask demo` would compile Wasmtime again.
#[test]
fn tests_are_built_on_the_dependencies_of_the_demo() {
    let of_tests = features(&["--workspace", "--edges", "normal,build,dev"]);
    let packages = ["--package", "mcp-resource-host-cli", "--package", "smoke-client"];
    for (package, of_demo) in features(&[&packages[..], &["--edges", "no-dev"]].concat()) {
        let missing: Vec<_> = of_tests[&package].difference(&of_demo).collect();
        assert!(
            missing.is_empty(),
            "{package} is built once more for tests, with {missing:?}: see tests/smoke-client/Cargo.toml"
        );
    }
}
