//! Whole files: a valid file gives the expected config, and no invalid file causes a panic.

use std::fs;
use std::path::{Path, PathBuf};

use mcp_host_model::digest::Digest;

use super::audit::{AuditDestination, OnFull};
use super::diagnostics::RenderStyle;
use super::grants::{CredentialName, DirQuota, EnvName, Grants, GuestPath, Mode, SchemaName, SqlUrl};
use super::http::HttpAddress;
use super::instances::InstanceReuse;
use super::limits::Limits;
use super::log::{Log, LogFormat};
use super::*;

mod mutations;
mod values;

/// The environment for the configs in `tests/ui`.
fn environment() -> Environment {
    Environment::empty()
        .home("tests/ui/valid/home")
        .variable("MY_TOKEN", "from a variable")
        .variable("CURSOR_KEY", "00".repeat(31) + "ff")
}

/// The configs in a directory of `tests/ui`, in the order of their names.
fn configs(directory: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(Path::new("tests/ui").join(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "toml")).collect();
    files.sort();
    files
}
