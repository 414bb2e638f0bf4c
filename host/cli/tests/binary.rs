//! A smoke test of the binary. The tests of its commands are in the package `mcp-host-tests`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn the_binary_tells_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_mcp-host")).arg("--version").output().unwrap();
    let version = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && version.contains(env!("CARGO_PKG_VERSION")), "{version}");
}
