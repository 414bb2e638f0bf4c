//! The Debian package and the tarball under a real systemd, in a container with a separate Debian system and without a
//! network.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cargo;
use crate::dist::{Version, recreate};
use crate::progress::Progress;
use crate::toolchain::apt::Release;

/// The script that the container runs, and the unit that starts it.
const SCRIPT: &str = include_str!("service.sh");
const UNIT: &str = "\
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/bin/bash /verify/service.sh
StandardOutput=append:/verify/log
StandardError=append:/verify/log
ExecStopPost=/bin/systemctl --no-block poweroff
[Install]
WantedBy=graphical.target
";

/// The last line of the script.
const VERIFIED: &str = "verified";

/// The packages in addition to a minimal system: the dependencies of the package, and the client.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,procps,ca-certificates,curl";

/// Installs, starts, reloads, restarts, upgrades and removes the package.
pub(in crate::dist) fn service(work: &Path, out: &Path, version: &Version, progress: &Progress) -> Result<()> {
    let base = debian(work, progress)?;
    let mut step = progress.step("verifying the service under systemd");
    let root = work.join("container");
    recreate(&root)?;
    cargo::capture(Command::new("cp").args(["--archive", "--reflink=auto"]).arg(base.join(".")).arg(&root))?;
    let verify = root.join("verify");
    recreate(&verify)?;
    fs::copy(out.join(version.debian_package()), verify.join("mcp-host.deb")).context("cannot copy the package")?;
    fs::copy(out.join(version.tarball()), verify.join("mcp-host.tar.gz")).context("cannot copy the tarball")?;
    fs::write(verify.join("service.sh"), SCRIPT)?;
    fs::write(root.join("etc/systemd/system/verify.service"), UNIT)?;
    let wants = "etc/systemd/system/graphical.target.wants";
    fs::create_dir_all(root.join(wants))?;
    cargo::capture(
        Command::new("ln").args(["--symbolic", "../verify.service"]).arg(root.join(wants).join("verify.service")),
    )?;

    step.at("systemd-nspawn");
    let mut container = Command::new("systemd-nspawn");
    container
        .args(["--quiet", "--boot", "--register=no", "--keep-unit", "--private-network", "--directory"])
        .arg(&root);
    // The container powers itself off at the end. The log shows whether the script was completed.
    let console = cargo::capture(&mut container);
    let log = fs::read_to_string(verify.join("log")).unwrap_or_default();
    fs::write(work.join("service.log"), &log)?;
    ensure!(
        log.lines().last() == Some(VERIFIED),
        "the service was not verified:\n{log}{}",
        console.err().map(|error| format!("\n{error:#}")).unwrap_or_default()
    );
    for line in log.lines().filter_map(|line| line.strip_prefix("== ")) {
        progress.print(&format!("  {line}"));
    }
    step.done("verified the service under systemd");
    Ok(())
}

/// Returns a Debian system of this machine's release, which is made once.
fn debian(work: &Path, progress: &Progress) -> Result<PathBuf> {
    let base = work.join("debian-root");
    if base.is_dir() {
        return Ok(base);
    }
    let step = progress.step("installing a Debian system for the container (debootstrap)");
    let release = Release::current()?;
    let new = work.join("debian-root.new");
    recreate(&new)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.args(["--variant=minbase", &format!("--include={PACKAGES}"), &release.codename]).arg(&new);
    cargo::capture(&mut debootstrap)?;
    fs::rename(&new, &base).with_context(|| format!("cannot make {}", base.display()))?;
    step.done("installed a Debian system for the container");
    Ok(base)
}
