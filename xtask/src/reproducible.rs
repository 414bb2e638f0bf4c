//! Programs whose bytes do not depend on the directories of this machine.
//!
//! Directories become part of a program in two ways:
//!
//! - The compiler writes the paths of sources into messages. The flags of this module replace the directories of the
//!   repository and of the registry's crates by names.
//! - Cargo hashes the path of each package into the names of its symbols: the path below the root of the workspace, or
//!   the absolute path of a package outside. The names determine the order of functions. So each package that an
//!   included provider is made of has a path below `plugins/`: the SDK has the link `plugins/sdk`. A test
//!   (`tests/tests/workspaces.rs`) keeps it so.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::workspace::Workspace;

/// Configures a `cargo build` of guests. The flags are in the config of cargo, because an environment variable is split
/// at blanks, which a path may contain. Variables with precedence over the config are removed.
pub(crate) fn configure_guests(cargo: &mut Command, workspace: &Workspace, target: &str) -> Result<()> {
    let flags = Value::from(flags(workspace, "--remap-path-prefix")?.to_vec());
    // A list in JSON is one in TOML.
    cargo
        .arg(format!("--config=target.{target}.rustflags={flags}"))
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok(())
}

/// Configures a `cargo build` of the host, for the compilers of Rust and C. `flag` is an additional flag for the Rust
/// compiler.
pub(crate) fn configure_host(cargo: &mut Command, workspace: &Workspace, flag: Option<&str>) -> Result<()> {
    let mut of_rust = flags(workspace, "--remap-path-prefix")?.to_vec();
    of_rust.extend(flag.map(str::to_owned));
    // This character separates the flags for Rust, because paths may contain blanks.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", of_rust.join("\x1f"));
    cargo.env("CFLAGS", flags(workspace, "-ffile-prefix-map")?.join(" "));
    Ok(())
}

/// Returns the flags of a compiler whose option is `option`.
fn flags(workspace: &Workspace, option: &str) -> Result<[String; 2]> {
    let registry = cargo_home()?.join("registry/src");
    let flag = |path: &Path, name: &str| format!("{option}={}=/{name}", path.display());
    // The compiler uses the last flag that matches: the registry may be in the repository.
    Ok([flag(workspace.root(), "mcp-host"), flag(&registry, "crates")])
}

fn cargo_home() -> Result<PathBuf> {
    let home = || env::home_dir().map(|home| home.join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home).context("there is neither CARGO_HOME nor a home")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_the_repository_is_replaced_even_with_blanks() {
        let mut cargo = Command::new("cargo");
        configure_guests(&mut cargo, &Workspace::at(Path::new("/a b/\"c\"")), "wasm32-wasip2").unwrap();
        let arguments: Vec<_> = cargo.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let expected = r#"--config=target.wasm32-wasip2.rustflags=["--remap-path-prefix=/a b/\"c\"=/mcp-host","#;
        assert!(arguments.iter().any(|argument| argument.starts_with(expected)), "{arguments:?}");
    }
}
