//! The installation of a tool on this system: the first of its installers that the system has, with a recent enough
//! version.

use std::path::Path;

use super::probe::{self, Answer};
use super::version::{self, Version};

/// The directory of the package lists of APT.
const APT_LISTS: &str = "/var/lib/apt/lists";

/// A way to install a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Installer {
    /// A package of Debian, Ubuntu and similar systems.
    Apt(&'static str),
    /// A formula of Homebrew.
    Brew(&'static str),
    /// A command of rustup.
    Rustup(&'static str),
    /// Another command, which requires a program.
    Command { needs: &'static str, command: &'static str },
    /// A download, with its address.
    Page(&'static str),
    /// This program, which is not in PATH.
    ThisProgram,
}

/// The package managers of this system.
#[derive(Clone, Copy, Debug)]
pub(super) struct System {
    apt: bool,
    brew: bool,
    rustup: bool,
    /// Whether packages are installed with `sudo`.
    sudo: bool,
    /// Whether APT has no package lists before `apt-get update`.
    without_lists: bool,
}

impl System {
    /// Determines the package managers of this system.
    pub(super) fn current() -> Self {
        let has = |program: &str| probe::find(program).is_some();
        Self {
            apt: has("apt-get") && has("apt-cache"),
            brew: has("brew"),
            rustup: has("rustup"),
            sudo: !rustix::process::geteuid().is_root(),
            without_lists: !has_package_lists(Path::new(APT_LISTS)),
        }
    }

    /// Returns the command of the first of these installers that this system has, or the download. Packages older than
    /// `oldest` are skipped.
    pub(super) async fn install(&self, installers: &[Installer], oldest: Option<Version>) -> String {
        for installer in installers {
            if let Some(command) = self.command(*installer, oldest).await {
                return command;
            }
        }
        String::new()
    }

    async fn command(&self, installer: Installer, oldest: Option<Version>) -> Option<String> {
        match installer {
            Installer::Apt(package) if self.apt && (self.without_lists || has_candidate(package, oldest).await) => {
                Some(self.apt_command(package))
            }
            Installer::Brew(formula) if self.brew => Some(format!("brew install {formula}")),
            Installer::Rustup(arguments) if self.rustup => Some(format!("rustup {arguments}")),
            Installer::Command { needs, command } => probe::find(needs).map(|_| command.to_owned()),
            Installer::Page(what) => Some(format!("install {what}")),
            Installer::ThisProgram => Some(match std::env::current_exe().ok().as_deref().and_then(Path::parent) {
                Some(dir) => format!("export PATH=\"{}:$PATH\"", dir.display()),
                None => "add the folder of `mcp-host` to PATH".to_owned(),
            }),
            _ => None,
        }
    }

    fn apt_command(&self, package: &str) -> String {
        let sudo = if self.sudo { "sudo " } else { "" };
        let update = if self.without_lists { format!("{sudo}apt-get update && ") } else { String::new() };
        format!("{update}{sudo}apt-get install {package}")
    }
}

/// Whether APT has the package in a recent enough version.
async fn has_candidate(package: &str, oldest: Option<Version>) -> bool {
    let Some(apt) = probe::find("apt-cache") else { return false };
    let Answer::Said(said) = probe::run(&apt, &["policy", package]).await else { return false };
    // The package `rustup` has another version than Rust.
    is_candidate(&said, oldest.filter(|_| package != "rustup"))
}

/// Reads the line `Candidate:` of `apt-cache policy`.
fn is_candidate(said: &str, oldest: Option<Version>) -> bool {
    let candidate = said.lines().find_map(|line| line.trim().strip_prefix("Candidate:")).map(str::trim);
    match (candidate, oldest) {
        (None | Some("(none)"), _) => false,
        (Some(_), None) => true,
        (Some(candidate), Some(oldest)) => version::find(candidate).is_some_and(|(_, found)| found >= oldest),
    }
}

fn has_package_lists(folder: &Path) -> bool {
    let files = folder.read_dir().into_iter().flatten().flatten();
    files.map(|file| file.file_name().to_string_lossy().into_owned()).any(|name| name.contains("_Packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_that_is_too_old_or_not_there_is_not_offered() {
        let policy = |candidate: &str| format!("golang-go:\n  Installed: (none)\n  Candidate: {candidate}\n");
        let oldest = Some(Version(1, 24));
        assert!(is_candidate(&policy("2:1.24~2"), oldest));
        for candidate in ["2:1.19~1", "(none)"] {
            assert!(!is_candidate(&policy(candidate), oldest), "{candidate}");
        }
        assert!(!is_candidate("", oldest));
        assert!(is_candidate(&policy("0.1"), None) && !is_candidate(&policy("(none)"), None));
    }

    #[tokio::test]
    async fn the_command_is_that_of_the_package_manager_of_the_system() {
        let none = System { apt: false, brew: false, rustup: false, sudo: false, without_lists: false };
        let installers = [
            Installer::Rustup("target add wasm32-wasip2"),
            Installer::Apt("python3-venv"),
            Installer::Brew("python"),
            Installer::Page("Python: https://www.python.org"),
        ];
        for (system, expected) in [
            (
                System { apt: true, sudo: true, without_lists: true, ..none },
                "sudo apt-get update && sudo apt-get install python3-venv",
            ),
            (System { brew: true, ..none }, "brew install python"),
            (System { rustup: true, ..none }, "rustup target add wasm32-wasip2"),
            (none, "install Python: https://www.python.org"),
        ] {
            assert_eq!(system.install(&installers, None).await, expected);
        }
    }

    #[test]
    fn a_system_whose_lists_were_removed_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!has_package_lists(dir.path()) && !has_package_lists(&dir.path().join("missing")));
        std::fs::write(dir.path().join("deb.example_dists_stable_main_binary-amd64_Packages.lz4"), "").unwrap();
        assert!(has_package_lists(dir.path()));
    }
}
