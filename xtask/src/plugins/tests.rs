use serde_json::{Value, json};

use super::*;

/// Returns the output of `cargo metadata` for a workspace with the given packages: name, and the table below
/// `[package.metadata]`.
fn workspace(packages: &[(&str, Value)]) -> Metadata {
    let id = |name: &str| format!("path+file:///repo/plugins/{name}#0.1.0");
    let described: Vec<_> = packages
        .iter()
        .map(|(name, metadata)| {
            json!({
                "name": name, "version": "0.1.0", "id": id(name), "dependencies": [], "targets": [], "features": {},
                "manifest_path": format!("/repo/plugins/{name}/Cargo.toml"), "metadata": metadata,
            })
        })
        .collect();
    let members: Vec<_> = packages.iter().map(|(name, _)| id(name)).collect();
    serde_json::from_value(json!({
        "packages": described, "workspace_members": members, "workspace_default_members": members, "resolve": null,
        "workspace_root": "/repo/plugins", "target_directory": "/repo/target/guests", "version": 1, "metadata": null,
    }))
    .unwrap()
}

fn files(providers: &[Provider]) -> Vec<String> {
    providers.iter().map(|provider| provider.file().display().to_string()).collect()
}

#[test]
fn packages_that_are_marked_are_providers_and_others_are_not() {
    let metadata = workspace(&[
        ("mcp-provider", Value::Null),
        ("notes-provider", json!({"mcp-host": {"plugin": "notes"}})),
        ("git-provider", json!({"mcp-host": {"plugin": "git"}, "docs": {"all-features": true}})),
    ]);
    assert_eq!(files(&discover(&metadata, false).unwrap()), ["git.wasm", "notes.wasm"]);
}

#[test]
fn fixtures_are_left_out_unless_asked_for() {
    let metadata = workspace(&[
        ("git-provider", json!({"mcp-host": {"plugin": "git"}})),
        ("guest-traps", json!({"mcp-host": {"fixture": "traps"}})),
    ]);
    assert_eq!(files(&discover(&metadata, false).unwrap()), ["git.wasm"]);
    assert_eq!(files(&discover(&metadata, true).unwrap()), ["fixtures/traps.wasm", "git.wasm"]);
}

#[test]
fn two_packages_with_one_name_are_refused_and_both_are_named() {
    let mark = json!({"mcp-host": {"plugin": "git"}});
    let error = discover(&workspace(&[("one", mark.clone()), ("other", mark)]), false).unwrap_err().to_string();
    assert_eq!(error, "both one and other would be target/plugins/git.wasm");
}

#[test]
fn a_name_that_could_leave_the_folder_is_refused() {
    let error = discover(&workspace(&[("evil", json!({"mcp-host": {"plugin": "../evil"}}))]), false).unwrap_err();
    assert!(error.to_string().contains(r#"found "../evil""#), "{error}");
}

#[test]
fn an_unknown_mark_is_refused_with_the_manifest_that_has_it() {
    let error = discover(&workspace(&[("odd", json!({"mcp-host": {"plugins": "odd"}}))]), false).unwrap_err();
    assert!(error.to_string().starts_with("/repo/plugins/odd/Cargo.toml: expected plugin"), "{error}");
}

#[test]
fn a_workspace_without_providers_is_an_error() {
    let error = discover(&workspace(&[("mcp-provider", Value::Null)]), true).unwrap_err();
    assert!(error.to_string().starts_with("no package of plugins/Cargo.toml"), "{error}");
}

#[test]
fn a_component_is_written_only_when_its_bytes_changed() {
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("built.wasm"), folder.path().join("plugins/git.wasm"));
    fs::write(&from, "one").unwrap();
    assert!(install(&from, &to).unwrap());
    assert!(!install(&from, &to).unwrap());
    fs::write(&from, "two").unwrap();
    assert!(install(&from, &to).unwrap());
    assert_eq!(fs::read_to_string(&to).unwrap(), "two");
    assert_eq!(fs::read_dir(folder.path().join("plugins")).unwrap().count(), 1, "nothing is left beside it");
}

#[test]
fn providers_are_selected_by_name() {
    let metadata = workspace(&[
        ("mcp-provider-git", json!({"mcp-host": {"plugin": "git"}})),
        ("mcp-provider-notes", json!({"mcp-host": {"plugin": "notes"}})),
    ]);
    let select = |names: &[&str]| {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        select(discover(&metadata, false).unwrap(), &names)
    };
    assert_eq!(files(&select(&[]).unwrap()), ["git.wasm", "notes.wasm"]);
    assert_eq!(files(&select(&["notes"]).unwrap()), ["notes.wasm"]);
    let error = select(&["note"]).unwrap_err().to_string();
    assert_eq!(error, "no provider is called `note`; there are git, notes");
}

#[test]
fn what_is_shipped_is_built_alone_whatever_is_built_beside_it() {
    let metadata = workspace(&[
        ("git-provider", json!({"mcp-host": {"plugin": "git"}})),
        ("guest-sizes", json!({"mcp-host": {"fixture": "sizes"}})),
        ("guest-traps", json!({"mcp-host": {"fixture": "traps"}})),
        ("notes-provider", json!({"mcp-host": {"plugin": "notes"}})),
    ]);
    let runs = |fixtures, names: &[&str]| -> Vec<Vec<String>> {
        let names: Vec<_> = names.iter().map(|&name| name.to_owned()).collect();
        let providers = select(discover(&metadata, fixtures).unwrap(), &names).unwrap();
        runs(&providers).iter().map(|run| run.iter().map(|&package| package.to_owned()).collect()).collect()
    };
    assert_eq!(runs(false, &["git"]), [["git-provider"]]);
    assert_eq!(runs(false, &[]), [["git-provider"], ["notes-provider"]]);
    let all = runs(true, &[]);
    assert!(all.contains(&vec!["git-provider".to_owned()]), "{all:?}");
    assert!(all.contains(&vec!["guest-sizes".to_owned(), "guest-traps".to_owned()]), "{all:?}");
    assert_eq!(all.len(), 3);
}
