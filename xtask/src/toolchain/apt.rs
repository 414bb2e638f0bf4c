//! Packages of a Debian system.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo;
use crate::progress::Progress;

/// A Debian system, as `/etc/os-release` describes it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Release {
    /// For example `12`; `None` on testing and unstable.
    pub(crate) version: Option<u32>,
    /// For example `bookworm`.
    pub(crate) codename: String,
}

impl Release {
    /// Detects the Debian release of this machine.
    ///
    /// # Errors
    ///
    /// When the system is not Debian, or its release is unknown.
    pub(crate) fn current() -> Result<Self> {
        let file = Path::new("/etc/os-release");
        let text = fs::read_to_string(file)
            .with_context(|| format!("this fallback knows Debian only, and {} cannot be read", file.display()))?;
        Self::parse(&text)
    }

    fn parse(os_release: &str) -> Result<Self> {
        let value = |key: &str| {
            os_release.lines().find_map(|line| {
                let (name, value) = line.split_once('=')?;
                (name == key).then(|| value.trim_matches(['"', '\'']))
            })
        };
        let id = value("ID").unwrap_or("nothing");
        if id != "debian" {
            bail!("this fallback knows Debian only, and this system calls itself `{id}` (ID in /etc/os-release)");
        }
        let codename = value("VERSION_CODENAME").context("/etc/os-release has no VERSION_CODENAME")?;
        Ok(Self { version: value("VERSION_ID").and_then(|id| id.parse().ok()), codename: codename.to_owned() })
    }
}

/// Installs packages, directly as root or else through sudo.
///
/// Packages are never removed to make room for others.
///
/// # Errors
///
/// When apt-get fails, or when root privileges are not available. The error then has the command to run as root.
pub(crate) fn install(packages: &[&str], why: &str, progress: &Progress) -> Result<()> {
    let root = become_root(packages, why, progress)?;
    let names = packages.join(", ");
    let mut step = progress.step(format!("installing the packages {names} ({why})"));
    step.at("apt-get update");
    cargo::capture(root.apt_get().arg("update")).with_context(|| format!("cannot install {names}"))?;
    step.at("apt-get install");
    cargo::capture(root.apt_get().args(["install", "--yes", "--no-install-recommends", "--no-remove"]).args(packages))
        .with_context(|| format!("cannot install {names}"))?;
    step.done(&format!("installed the packages {names}"));
    Ok(())
}

/// The way to get root privileges.
#[derive(Debug, Clone, Copy)]
enum Root {
    Already,
    Sudo,
}

impl Root {
    fn apt_get(self) -> Command {
        let mut command = match self {
            Self::Already => Command::new("env"),
            Self::Sudo => {
                let mut sudo = Command::new("sudo");
                sudo.args(["-n", "env"]);
                sudo
            }
        };
        command.args(["DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get", "-q"]);
        // Another apt-get may run at the same time.
        command.args(["-o", "DPkg::Lock::Timeout=600"]);
        command
    }
}

fn become_root(packages: &[&str], why: &str, progress: &Progress) -> Result<Root> {
    if cargo::capture(Command::new("id").arg("-u"))?.trim() == "0" {
        return Ok(Root::Already);
    }
    let typed = format!("apt-get install {}", packages.join(" "));
    let mut sudo = Command::new("sudo");
    let allowed = if progress.is_terminal() {
        progress.print(&format!("{why} needs `{typed}`, and that needs root: asking sudo"));
        // Prompts for the password on the terminal and caches it for the calls that follow.
        sudo.arg("-v").status().is_ok_and(|status| status.success())
    } else {
        sudo.args(["-n", "true"]).output().is_ok_and(|output| output.status.success())
    };
    if !allowed {
        bail!("{why} needs packages that only root can install, and sudo does not let this user; run as root: {typed}");
    }
    Ok(Root::Sudo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debian_release_is_known_by_its_codename_and_version() {
        let text =
            "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n";
        let release = Release::parse(text).unwrap();
        assert_eq!(release, Release { version: Some(12), codename: "bookworm".to_owned() });
    }

    #[test]
    fn testing_has_no_version() {
        let release = Release::parse("ID=debian\nVERSION_CODENAME=forky\n").unwrap();
        assert_eq!(release, Release { version: None, codename: "forky".to_owned() });
    }

    #[test]
    fn another_distribution_is_named_in_the_refusal() {
        let error = Release::parse("ID=fedora\nVERSION_ID=42\n").unwrap_err().to_string();
        assert!(error.contains("calls itself `fedora`"), "{error}");
    }
}
