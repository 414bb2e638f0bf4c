//! Builds what is measured, and describes the machine.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::available_parallelism;

use mcp_host_tests::PROGRAM_VARIABLE;

/// Builds the binary, in the profile of this program, and the components; a few seconds when everything is up to date.
/// A program in [`PROGRAM_VARIABLE`] is measured without a build.
pub(crate) fn build_all() {
    let profile = if cfg!(debug_assertions) { "dev" } else { "bench" };
    if std::env::var_os(PROGRAM_VARIABLE).is_none() {
        // Built for the whole workspace, so that features of dependencies, and thus their builds, are shared.
        cargo(&["build", "--profile", profile, "--workspace", "--bin", "mcp-host"]);
    }
    cargo(&["xtask", "plugins", "--fixtures"]);
}

fn cargo(arguments: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let ended = Command::new(cargo).args(arguments).current_dir(root()).status().expect("cargo starts");
    assert!(ended.success(), "`cargo {}` failed", arguments.join(" "));
}

/// The repository's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the repository")
}

/// The directory of cached fixtures.
pub(crate) fn cache_dir() -> PathBuf {
    root().join("target/bench")
}

/// This repository.
pub(crate) fn repository() -> PathBuf {
    root().to_owned()
}

/// The notes that ship as an example.
pub(crate) fn example_notes() -> PathBuf {
    root().join("examples/notes")
}

/// Describes the machine in one line.
pub(crate) fn machine_description() -> String {
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let processors = available_parallelism().map_or(1, usize::from);
    let (model, kernel) = (model.map_or("processor", |(_, name)| name), read("/proc/sys/kernel/osrelease"));
    format!("{processors} × {model}, {} {}", std::env::consts::OS, kernel.trim())
}
