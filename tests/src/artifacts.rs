//! Paths of what is tested: the binary, the components, the clients in other languages.

use std::path::{Path, PathBuf};

/// The environment variable with the path of another program to test or to measure, such as a release.
pub const PROGRAM_VARIABLE: &str = "MCP_HOST_PROGRAM";

/// Returns the path of the binary `mcp-host`: the path in [`PROGRAM_VARIABLE`], or the binary in the target directory
/// of this test's own executable.
///
/// # Panics
///
/// The binary does not exist.
pub fn host_binary() -> PathBuf {
    if let Some(program) = std::env::var_os(PROGRAM_VARIABLE) {
        return program.into();
    }
    let exe = std::env::current_exe().expect("a test knows its own executable");
    // `target/debug/deps/end_to_end-…`, or one folder up for a plain binary.
    let found = exe.ancestors().skip(1).take(2).map(|folder| folder.join("mcp-host")).find(|host| host.is_file());
    found.unwrap_or_else(|| panic!("no binary `mcp-host` beside {}: run `cargo xtask test`", exe.display()))
}

/// Returns the path of the program that the tests made of `examples/NAME.rs`. If there are several, made with other
/// features or flags, it is the newest.
///
/// # Panics
///
/// It has not been built.
pub(crate) fn example(name: &str) -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own executable");
    let folder = exe.ancestors().nth(2).expect("it lies in `target/debug/deps`").join("examples");
    // `embed-axum` by a build, `embed_axum-HASH` by the tests.
    let is_wanted = |file: &Path| {
        let (stem, prefix) = (file.file_name().unwrap_or_default().to_string_lossy(), name.replace('-', "_") + "-");
        stem == name || stem.strip_prefix(&prefix).is_some_and(|hash| hash.chars().all(|c| c.is_ascii_hexdigit()))
    };
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest =
        files.filter(|file| is_wanted(file)).max_by_key(|file| file.metadata().and_then(|file| file.modified()).ok());
    newest.unwrap_or_else(|| panic!("no example `{name}` in {}: run `cargo xtask test`", folder.display()))
}

/// Returns the path of a provider that ships: `target/plugins/NAME.wasm`.
///
/// # Panics
///
/// It has not been built.
pub fn component(name: &str) -> PathBuf {
    require_built(&format!("plugins/{name}.wasm"), "cargo xtask plugins")
}

/// Returns the path of a guest made for tests: `target/plugins/fixtures/NAME.wasm`.
///
/// # Panics
///
/// It has not been built.
pub fn fixture(name: &str) -> PathBuf {
    require_built(&format!("plugins/fixtures/{name}.wasm"), "cargo xtask plugins --fixtures")
}

/// Returns a path below `target/clients`, where `cargo xtask clients` installs the official clients in other languages.
///
/// # Panics
///
/// It has not been installed.
pub fn client_program(path: &str) -> PathBuf {
    require_built(&format!("clients/{path}"), "cargo xtask clients")
}

/// Returns a path below `target/clients` if it exists, for clients that `cargo xtask clients` installs only on request.
pub fn optional_client(path: &str) -> Option<PathBuf> {
    let file = target_dir().join("clients").join(path);
    file.exists().then_some(file)
}

/// Returns the path of the Node.js that is installed beside the conformance suite: programs of the tests need a newer
/// one than most machines have. Where there is none for the machine, it is the machine's own.
///
/// # Panics
///
/// The tools have not been installed.
pub fn node() -> PathBuf {
    let modules = client_program("tools/node_modules");
    let folders = std::fs::read_dir(modules).expect("packages are installed");
    let mut nodes = folders.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let node = nodes.find(|name| name.starts_with("node-linux-"));
    node.map_or_else(|| "node".into(), |node| client_program(&format!("tools/node_modules/{node}/bin/node")))
}

/// Returns a path below `target/debian`, where `cargo xtask debian` unpacks packages of Debian: `usr/bin/prometheus`.
///
/// # Panics
///
/// They have not been unpacked.
pub fn debian_file(path: &str) -> PathBuf {
    require_built(&format!("debian/{path}"), "cargo xtask debian")
}

/// The user's cache directory of the tests: the same for all, so that each component is compiled once.
pub(crate) fn user_cache() -> PathBuf {
    target_dir().join("test-cache")
}

/// The user's state directory of the tests.
pub(crate) fn user_state() -> PathBuf {
    target_dir().join("test-state")
}

/// The host's cache of compiled components in the cache directory, which is also what the config names.
pub(crate) fn compile_cache() -> PathBuf {
    user_cache().join("mcp-host")
}

/// The repository's root.
pub(crate) fn repo_root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in a folder of the repository")
}

fn target_dir() -> PathBuf {
    repo_root().join("target")
}

fn require_built(path: &str, by: &str) -> PathBuf {
    let file = target_dir().join(path);
    assert!(file.exists(), "no {}: run `cargo xtask test`, or `{by}` for this alone", file.display());
    file
}
