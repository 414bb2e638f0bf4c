//! Where the things under test are: the binary, the components, the clients of other languages.

use std::path::{Path, PathBuf};

/// The binary `mcp-host`, beside this test's own executable, wherever cargo puts them.
///
/// # Panics
///
/// It has not been built.
pub fn host_binary() -> PathBuf {
    let exe = std::env::current_exe().expect("a test knows its own executable");
    // `target/debug/deps/end_to_end-…`, or one folder up for a plain binary.
    let found = exe.ancestors().skip(1).take(2).map(|folder| folder.join("mcp-host")).find(|host| host.is_file());
    found.unwrap_or_else(|| panic!("no binary `mcp-host` beside {}: run `cargo xtask test`", exe.display()))
}

/// A provider that ships: `target/plugins/NAME.wasm`.
///
/// # Panics
///
/// It has not been built.
pub fn component(name: &str) -> PathBuf {
    require_built(&format!("plugins/{name}.wasm"), "cargo xtask plugins")
}

/// A guest that is made for tests: `target/plugins/fixtures/NAME.wasm`.
///
/// # Panics
///
/// It has not been built.
pub fn fixture(name: &str) -> PathBuf {
    require_built(&format!("plugins/fixtures/{name}.wasm"), "cargo xtask plugins --fixtures")
}

/// Something below `target/clients`, where `cargo xtask clients` installs the official clients of other languages.
///
/// # Panics
///
/// It has not been installed.
pub fn client_program(path: &str) -> PathBuf {
    require_built(&format!("clients/{path}"), "cargo xtask clients")
}

/// What stands for the user's cache directory: one place for all tests, so that each component is compiled once.
pub(crate) fn user_cache() -> PathBuf {
    target_dir().join("test-cache")
}

/// What stands for the user's state directory.
pub(crate) fn user_state() -> PathBuf {
    target_dir().join("test-state")
}

/// Where the host keeps compiled components in the cache directory, whether the config says so or not.
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
