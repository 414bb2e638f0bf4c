//! Project templates for `mcp-host new`.
//!
//! A project has a template of `sdk-guest/templates/LANG`, the files of `sdk-guest/templates/common`, and in `sdk/` the
//! SDK of the language with the contract, so that it builds outside of this repository. All of these are embedded in
//! the program: `build.rs` archives them. [`update()`] replaces the SDK of a project with the SDK of this program.
//!
//! These placeholders in a template are replaced:
//!
//! | placeholder | text |
//! |---|---|
//! | `{{name}}` | the package name |
//! | `{{lang}}`, `{{language}}` | the language, on the command line and in prose |
//! | `{{component}}` | the path of the component |
//! | `{{source}}` | the path of the provider's source |
//! | `{{build}}`, `{{test}}` | the commands that build the component and run the unit test |
//! | `{{watch}}` | the sources, as a TOML list |
//! | `{{limits}}` | limits other than the defaults, as lines of TOML |

mod archive;
mod name;
mod sdk;
mod update;
mod write;

use std::path::PathBuf;

pub use self::archive::below;
pub use self::name::{NameError, PackageName};
pub use self::update::{Update, UpdateError, update};
pub use self::write::{WriteError, write};
use crate::language::Language;

/// A file of a project.
#[derive(Clone, Debug)]
pub struct File {
    /// The path within the project.
    pub path: PathBuf,
    /// The content.
    pub bytes: Vec<u8>,
}

/// A project that has not been written yet.
#[derive(Clone, Debug)]
pub struct Project {
    /// The language.
    pub language: Language,
    /// The package name.
    pub name: PackageName,
}

impl Project {
    /// Returns the command that builds the component, run in the project.
    pub fn build_command(&self) -> &'static str {
        build_command(self.language)
    }

    /// Returns the command that runs the unit test, after a build.
    pub fn test_command(&self) -> &'static str {
        test_command(self.language)
    }

    /// Returns the path of the component below the project.
    pub fn component(&self) -> String {
        match self.language {
            Language::Rust => format!("target/wasm32-wasip2/release/{}.wasm", self.name.as_str().replace('-', "_")),
            _ => format!("{}.wasm", self.name.as_str()),
        }
    }

    /// Returns the path of the provider's source below the project.
    pub fn source(&self) -> &'static str {
        match self.language {
            Language::Rust => "src/lib.rs",
            Language::Python => "app.py",
            Language::TypeScript => "src/app.ts",
            Language::JavaScript => "app.js",
            Language::C => "provider.c",
            Language::Go => "main.go",
        }
    }

    /// Returns the sources: directories and globs below the project. Changes elsewhere, such as in `data/`, start no
    /// build.
    pub(crate) fn watched(&self) -> &'static [&'static str] {
        match self.language {
            Language::Rust => &["Cargo.toml", "src", "sdk"],
            Language::Python => &["*.py", "requirements.txt", "sdk"],
            Language::TypeScript => &["src", "package.json", "tsconfig.json", "sdk"],
            Language::JavaScript => &["*.js", "package.json", "sdk"],
            Language::C => &["*.c", "*.h", "Makefile", "sdk"],
            Language::Go => &["*.go", "go.mod", "needs.json", "sdk"],
        }
    }

    /// Returns the limits other than the defaults: an interpreter uses most of the default memory in each call.
    fn limits(&self) -> &'static str {
        match self.language {
            Language::Python => {
                "# An instance begins with 30 MiB: seven calls at once.\nlimits = { memory = \"256MiB\" }\n"
            }
            _ => "",
        }
    }

    /// Returns all files.
    pub fn files(&self) -> Result<Vec<File>, ArchiveError> {
        let own = format!("sdk-guest/templates/{}/", self.language.as_str());
        let template = ["sdk-guest/templates/common/", &own].into_iter().flat_map(below);
        let mut files: Vec<_> =
            template.map(|(path, bytes)| File { path: path.into(), bytes: self.fill(bytes) }).collect();
        files.extend(sdk::files(self.language)?);
        Ok(files)
    }

    /// Replaces the placeholders of a text.
    fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = str::from_utf8(bytes) else { return bytes.to_owned() };
        let values = [
            ("{{name}}", self.name.as_str()),
            ("{{lang}}", self.language.as_str()),
            ("{{language}}", self.language.title()),
            ("{{component}}", &self.component()),
            ("{{source}}", self.source()),
            ("{{build}}", self.build_command()),
            ("{{test}}", self.test_command()),
            ("{{watch}}", &format!("{:?}", self.watched())),
            ("{{limits}}", self.limits()),
        ];
        values.iter().fold(text.to_owned(), |text, (placeholder, value)| text.replace(placeholder, value)).into_bytes()
    }
}

/// Returns the command that builds a project's component.
pub fn build_command(language: Language) -> &'static str {
    match language {
        Language::Rust => "cargo build --release --target wasm32-wasip2",
        Language::Python => "python3 build.py",
        Language::TypeScript | Language::JavaScript => "npm run build",
        Language::C => "make",
        Language::Go => "go generate",
    }
}

/// Returns the command that runs a project's unit test, after a build.
pub fn test_command(language: Language) -> &'static str {
    match language {
        Language::Rust => "cargo test",
        Language::Python => ".venv/bin/python -m unittest",
        Language::TypeScript | Language::JavaScript => "npm test",
        Language::C => "make test",
        Language::Go => "go test .",
    }
}

/// A manifest in the archive is unusable, because of a fault of this build.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveError {
    /// A cargo manifest is not valid TOML, or its workspace lacks an inherited value.
    #[error("the archive's `{path}`: {reason}; that is a fault of this build of mcp-host")]
    Manifest {
        /// The manifest's path.
        path: &'static str,
        /// The reason.
        reason: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project(language: Language) -> Project {
        Project { language, name: PackageName::new("My Notes").unwrap() }
    }

    #[test]
    fn every_language_has_a_template_with_its_sdk_and_the_contract() {
        for language in Language::ALL {
            let project = project(language);
            let files = project.files().unwrap();
            let has = |name: &str| files.iter().any(|file| file.path.ends_with(name));
            for name in [
                "README.md",
                "mcp-host.toml",
                "publish.sh",
                ".gitignore",
                "data/square.png",
                "worlds.wit",
                "deps/io.wit",
                project.source(),
            ] {
                assert!(has(name), "{language:?} has no {name}");
            }
            assert!(files.iter().all(|file| file.path.is_relative() && !file.path.ends_with(".pyc")));
            let mut paths: Vec<_> = files.iter().map(|file| &file.path).collect();
            paths.sort_unstable();
            paths.dedup();
            assert_eq!(paths.len(), files.len(), "a path twice");
        }
    }

    #[test]
    fn a_project_in_c_has_the_sources_of_a_preparation_and_of_functions() {
        let files = project(Language::C).files().unwrap();
        for name in ["sdk/prepare/mcp_prepare.c", "sdk/prepare/bindings/prepare.c", "sdk/src/mcp_functions.c"] {
            assert!(files.iter().any(|file| file.path.as_os_str() == name), "{name}");
        }
    }

    #[test]
    fn no_placeholder_is_left_and_binary_files_are_unchanged() {
        for language in Language::ALL {
            for file in project(language).files().unwrap().iter().filter(|file| !file.path.starts_with("sdk")) {
                match str::from_utf8(&file.bytes) {
                    Ok(text) => {
                        let left = text.split("{{").skip(1).filter_map(|behind| Some(behind.split_once("}}")?.0));
                        let left: Vec<_> = left.filter(|name| name.chars().all(|c| c.is_ascii_lowercase())).collect();
                        assert!(left.is_empty(), "{}: {left:?}", file.path.display());
                    }
                    Err(_) => assert!(file.bytes.starts_with(b"\x89PNG")),
                }
            }
        }
    }

    #[test]
    fn a_project_is_published_by_what_builds_it() {
        for language in Language::ALL {
            let project = project(language);
            let files = project.files().unwrap();
            let script = files.iter().find(|file| file.path.ends_with("publish.sh")).unwrap();
            let script = str::from_utf8(&script.bytes).unwrap();
            let order = [project.build_command(), "mcp-host test", "mcp-host push"];
            let lines: Vec<_> =
                script.lines().filter(|line| order.iter().any(|command| line.starts_with(command))).collect();
            assert_eq!(lines.len(), 3, "{language:?}: {script}");
            assert!(lines.iter().zip(order).all(|(line, command)| line.starts_with(command)), "{lines:?}");
            assert!(lines[2].contains(&project.component()), "{lines:?}");
        }
    }

    #[test]
    fn the_config_names_the_component_and_grants_the_data() {
        for language in Language::ALL {
            let project = project(language);
            let dir = tempfile::tempdir().unwrap();
            write(&project.files().unwrap(), dir.path()).unwrap();
            let component = dir.path().join(project.component());
            std::fs::create_dir_all(component.parent().unwrap()).unwrap();
            std::fs::write(component, "").unwrap();
            let config = mcp_host_config::Config::load(dir.path().join("mcp-host.toml")).unwrap();
            assert_eq!(config.plugins[0].mount.as_str(), "my-notes:///");
            assert_eq!(config.dev.unwrap().build.unwrap().as_str(), project.build_command());
        }
    }
}
