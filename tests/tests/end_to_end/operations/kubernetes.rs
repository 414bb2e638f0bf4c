//! `packaging/kubernetes`: the manifests are valid, and so is the config in them.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_tests::{client_program, run};
use tokio::process::Command;

fn manifests() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/kubernetes");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files.filter(|file| file.extension().is_some_and(|kind| kind == "yaml")).collect()
}

#[tokio::test]
async fn the_manifests_for_kubernetes_are_valid() {
    let mut command = Command::new(client_program("kubernetes/bin/kubernetes-validate"));
    let output = command.arg("--strict").args(manifests()).output().await.unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn the_config_in_them_names_only_keys_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = fs::read_to_string(manifests().iter().find(|file| file.ends_with("config.yaml")).unwrap()).unwrap();
    let (_, text) = manifest.split_once("mcp-host.toml: |\n").unwrap();
    let text: String = text.lines().map(|line| format!("{}\n", line.strip_prefix("    ").unwrap_or(line))).collect();
    let file = folder.path().join("mcp-host.toml");
    // The contents of the secrets are missing here, and the component exists only in the image.
    fs::write(&file, text).unwrap();
    let output = run(["check", "--config"].into_iter().map(String::from).chain([file.display().to_string()])).await;
    let unknown = output.stderr.lines().filter(|line| line.contains("unknown") || line.contains("no key"));
    assert_eq!(unknown.collect::<Vec<_>>(), Vec::<&str>::new(), "{}", output.stderr);
    assert!(output.stderr.contains("/run/secrets/mcp-host/"), "the secrets are read: {}", output.stderr);
}
