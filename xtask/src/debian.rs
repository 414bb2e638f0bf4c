//! Debian packages with programs and documents for the tests. Most packages are only unpacked into `target/debian`; a
//! few are installed.
//!
//! | package | used by the tests of |
//! |---|---|
//! | `prometheus` with `promtool`, `prometheus-node-exporter` | the provider `prometheus`: a server, and an exporter that it scrapes |
//! | `debian-reference-ja`, `developers-reference-ja`, `manpages-ja` | the provider `notes`: documents in Japanese |
//! | `manpages-ja`, `manpages-ja-dev`, `manpages-dev`, `ripgrep` | the quality of search: texts with relevance judgments, and another engine |
//! | `zabbix-server-pgsql` | the provider `database`: a third-party schema of 173 tables with data |
//! | `docker-registry`; `skopeo` and `strace`, which are installed because they need libraries | components from registries: a registry, another client for it, and a trace of the connections of `serve` |
//! | `chromium`, installed because it needs many libraries | the console |
//! | `haproxy`, installed because it needs libraries | replicas: a load balancer |
//! | `postgresql`, installed because the server needs libraries, and a separate user if the tests run as root | the provider `database` |

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

use crate::progress::Progress;
use crate::toolchain::apt::{self, Release};
use crate::toolchain::unpack::unpack;
use crate::workspace::Workspace;

const PACKAGES: [&str; 10] = [
    "prometheus",
    "prometheus-node-exporter",
    "debian-reference-ja",
    "developers-reference-ja",
    "manpages-ja",
    "manpages-ja-dev",
    "manpages-dev",
    "ripgrep",
    "zabbix-server-pgsql",
    "docker-registry",
];

/// The directory of Debian's PostgreSQL programs, by version.
const POSTGRESQL: &str = "/usr/lib/postgresql";

/// Debian's programs that observe components from registries from outside.
const REGISTRY_TOOLS: [&str; 2] = ["/usr/bin/skopeo", "/usr/bin/strace"];

/// The path of Debian's load balancer.
const HAPROXY: &str = "/usr/sbin/haproxy";

/// The path of Debian's browser.
const CHROMIUM: &str = "/usr/bin/chromium";

/// Installs the load balancer if it is missing.
pub(crate) fn install_balancer(progress: &Progress) -> Result<()> {
    if Path::new(HAPROXY).is_file() {
        Ok(())
    } else {
        apt::install(&["haproxy"], "the balancer for replicas", progress)
    }
}

/// Unpacks the packages, and installs PostgreSQL, Chromium, HAProxy, skopeo and strace, if they are missing.
pub(crate) fn install(workspace: &Workspace, progress: &Progress) -> Result<()> {
    if !Path::new(POSTGRESQL).is_dir() {
        apt::install(&["postgresql"], "the server for the tests of databases", progress)?;
    }
    if !Path::new(CHROMIUM).is_file() {
        apt::install(&["chromium"], "the browser for the tests of the console", progress)?;
    }
    if !REGISTRY_TOOLS.iter().all(|tool| Path::new(tool).is_file()) {
        apt::install(&["skopeo", "strace"], "other programs for the tests of registries", progress)?;
    }
    install_balancer(progress)?;
    unpack_into(&workspace.target().join("debian"), &PACKAGES, "packages of Debian for the tests", progress)
}

/// Unpacks packages of the current Debian release into a directory, unless it already contains them.
pub(crate) fn unpack_into(installed: &Path, packages: &[&str], what: &str, progress: &Progress) -> Result<()> {
    let release = Release::current()?;
    // The file with the list of packages is written last, so it marks a complete directory.
    let list = installed.join(".packages");
    let expected = format!("{} {}", release.codename, packages.join(" "));
    if fs::read_to_string(&list).is_ok_and(|found| found == expected) {
        return Ok(());
    }
    let mut step = progress.step(format!("unpacking {what}"));
    let scratch = installed.with_extension("new");
    let unpacked = unpack(packages, &release, &release.codename, &scratch, &mut step)?;
    if installed.exists() {
        fs::remove_dir_all(installed).with_context(|| format!("cannot remove {}", installed.display()))?;
    }
    fs::rename(&unpacked, installed).with_context(|| format!("cannot make {}", installed.display()))?;
    fs::write(&list, expected).with_context(|| format!("cannot write {}", list.display()))?;
    fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
    step.done(&format!("unpacked {what}"));
    Ok(())
}
