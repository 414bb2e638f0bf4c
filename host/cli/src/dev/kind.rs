//! Recognizes the kind of a project, and its usual build command.
//!
//! | there is | command |
//! |---|---|
//! | `Cargo.toml` | `cargo build --target T --profile P`, for the component at `target/T/P/` |
//! | `package.json` with a script `build` | `npm run build`; `pnpm`, `yarn` or `bun` where their lock file is |
//! | `Makefile` | `make` |
//! | `pyproject.toml`, `go.mod` | none: these have no standard build command |

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use mcp_host_base::regular_file;

/// The maximum size of a `package.json`.
const MAX_PACKAGE_JSON: usize = 1 << 20;

/// The kind of a project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProjectKind {
    Cargo,
    Node,
    Make,
    Python,
    Go,
}

impl ProjectKind {
    /// The kind of the project in this directory.
    pub(super) fn of(dir: &Path) -> Option<Self> {
        let has = |name: &str| dir.join(name).is_file();
        let kinds = [
            (Self::Cargo, &["Cargo.toml"][..]),
            (Self::Node, &["package.json"]),
            (Self::Make, &["GNUmakefile", "makefile", "Makefile"]),
            (Self::Python, &["pyproject.toml", "requirements.txt", "app.py"]),
            (Self::Go, &["go.mod"]),
        ];
        kinds.into_iter().find(|(_, files)| files.iter().any(|file| has(file))).map(|(kind, _)| kind)
    }

    /// The build command, if this kind has a standard one. `components` are the files that the build may make.
    pub(super) fn build_command(self, dir: &Path, components: &BTreeSet<PathBuf>) -> Option<String> {
        match self {
            Self::Cargo => Some(cargo_build(components.iter().find_map(|file| cargo_target(file)))),
            Self::Node => has_build_script(dir).then(|| format!("{} run build", package_manager(dir))),
            Self::Make => Some("make".to_owned()),
            Self::Python | Self::Go => None,
        }
    }

    /// An example of a build command, for messages.
    pub(super) fn example_command(self) -> &'static str {
        match self {
            Self::Cargo => "cargo build --target wasm32-wasip2",
            Self::Node => "npm run build",
            Self::Make => "make",
            Self::Python => ".venv/bin/mcp-host-provider build app.py -o provider.wasm",
            Self::Go => {
                "GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -o provider.core.wasm . && mcp-host componentize provider.core.wasm"
            }
        }
    }

    /// An example path of a component, for messages.
    pub(super) fn example_component(self) -> &'static str {
        match self {
            Self::Cargo => "target/wasm32-wasip2/debug/provider.wasm",
            Self::Node => "dist/provider.wasm",
            Self::Make | Self::Python | Self::Go => "provider.wasm",
        }
    }
}

/// The target and the profile of a component below `target/`, as cargo writes it.
fn cargo_target(component: &Path) -> Option<(&str, &str)> {
    let profile = component.parent()?;
    let target = profile.parent()?;
    let is_target_dir = target.parent()?.file_name()? == "target";
    let (target, profile) = (target.file_name()?.to_str()?, profile.file_name()?.to_str()?);
    (is_target_dir && target.starts_with("wasm32-") && is_word(target) && is_word(profile)).then_some((target, profile))
}

/// Returns whether the shell reads the text as one word without quotes.
fn is_word(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

fn cargo_build(target: Option<(&str, &str)>) -> String {
    let (target, profile) = target.unwrap_or(("wasm32-wasip2", "debug"));
    match profile {
        "debug" => format!("cargo build --target {target}"),
        "release" => format!("cargo build --release --target {target}"),
        profile => format!("cargo build --profile {profile} --target {target}"),
    }
}

fn has_build_script(dir: &Path) -> bool {
    let text = regular_file::read(&dir.join("package.json"), MAX_PACKAGE_JSON).unwrap_or_default();
    let package: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    package.pointer("/scripts/build").is_some_and(serde_json::Value::is_string)
}

fn package_manager(dir: &Path) -> &'static str {
    let managers = [("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"), ("bun.lock", "bun"), ("bun.lockb", "bun")];
    managers.into_iter().find(|(lock, _)| dir.join(lock).is_file()).map_or("npm", |(_, manager)| manager)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// The command for a directory with these files and a component.
    fn command(files: &[(&str, &str)], component: &str) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let components = [dir.path().join(component)].into();
        ProjectKind::of(dir.path())?.build_command(dir.path(), &components)
    }

    #[test]
    fn cargo_builds_the_target_and_the_profile_that_the_component_is_of() {
        for (component, expected) in [
            ("target/wasm32-wasip2/debug/a.wasm", "cargo build --target wasm32-wasip2"),
            ("target/wasm32-wasip2/release/a.wasm", "cargo build --release --target wasm32-wasip2"),
            ("target/wasm32-wasip1/small/a.wasm", "cargo build --profile small --target wasm32-wasip1"),
            ("a.wasm", "cargo build --target wasm32-wasip2"),
            ("target/wasm32-wasip2/a b/a.wasm", "cargo build --target wasm32-wasip2"),
        ] {
            assert_eq!(command(&[("Cargo.toml", ""), ("Makefile", "")], component).unwrap(), expected);
        }
    }

    #[test]
    fn a_package_is_built_by_its_script_and_by_the_manager_that_locked_it() {
        let script = ("package.json", r#"{ "scripts": { "build": "jco componentize" } }"#);
        assert_eq!(command(&[script], "a.wasm").unwrap(), "npm run build");
        assert_eq!(command(&[script, ("pnpm-lock.yaml", "")], "a.wasm").unwrap(), "pnpm run build");
        assert_eq!(command(&[("package.json", "{}")], "a.wasm"), None);
        assert_eq!(command(&[("package.json", "{")], "a.wasm"), None);
    }

    #[test]
    fn where_no_command_is_standard_there_is_none() {
        assert_eq!(command(&[("makefile", "")], "a.wasm").unwrap(), "make");
        assert_eq!(command(&[("pyproject.toml", "")], "a.wasm"), None);
        assert_eq!(command(&[("go.mod", "")], "a.wasm"), None);
        assert_eq!(command(&[], "a.wasm"), None);
    }
}
