//! The files of an installation below a prefix, and their tarball.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::programs::{self, Programs};
use super::{Packaging, archive, copy, recreate, write};
use crate::cargo;
use crate::workspace::Workspace;

/// The program.
const PROGRAM: &str = "bin/mcp-host";

/// The directory where the program searches for providers.
const PLUGINS: &str = "lib/mcp-host/plugins";

/// The directory of manual pages.
const MANUAL: &str = "share/man/man1";

/// The prefix of the program's path in the systemd units.
const PREFIX: &str = "/usr/";

/// The prefix for unpacking a tarball.
const TARBALL_PREFIX: &str = "/usr/local/";

/// Completion scripts by shell.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/mcp-host"),
    ("fish", "share/fish/vendor_completions.d/mcp-host.fish"),
    ("zsh", "share/zsh/site-functions/_mcp-host"),
];

/// Other files: their paths in the repository, and their paths below the prefix.
const FILES: [(&str, &str); 7] = [
    ("packaging/systemd/mcp-host.service", "lib/systemd/system/mcp-host.service"),
    ("packaging/systemd/mcp-host.socket", "lib/systemd/system/mcp-host.socket"),
    ("packaging/systemd/mcp-host.sysusers", "lib/sysusers.d/mcp-host.conf"),
    ("packaging/systemd/mcp-host.tmpfiles", "lib/tmpfiles.d/mcp-host.conf"),
    ("packaging/mcp-host.toml", "share/doc/mcp-host/mcp-host.toml"),
    ("README.md", "share/doc/mcp-host/README.md"),
    ("LICENSE", "share/doc/mcp-host/LICENSE"),
];

/// Returns the paths below the prefix: files, and the directories whose files vary.
#[cfg(test)]
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    let others = COMPLETIONS.iter().chain(&FILES).map(|(_, path)| *path);
    [PROGRAM, PLUGINS, MANUAL].into_iter().chain(others)
}

/// Collects all files of an installation in `target/package`. The metadata of the Debian package names this directory.
pub(super) fn stage(sources: &Workspace, programs: &Programs) -> Result<PathBuf> {
    let tree = sources.target().join("package");
    recreate(&tree)?;
    let host = tree.join(PROGRAM);
    copy(&programs.host, &host)?;
    programs::strip(&host)?;
    for (name, component) in &programs.providers {
        copy(component, &tree.join(PLUGINS).join(format!("{name}.wasm")))?;
    }
    cargo::capture(Command::new(&host).arg("man").arg(tree.join(MANUAL)))?;
    for (shell, file) in COMPLETIONS {
        write(&tree.join(file), cargo::capture(Command::new(&host).args(["completions", shell]))?.as_bytes())?;
    }
    for (from, to) in FILES {
        copy(&sources.root().join(from), &tree.join(to))?;
    }
    Ok(tree)
}

/// Copies the program and the providers to the given paths of a package. At these paths the program finds the
/// providers.
pub(super) fn copy_program(tree: &Path, package: &Path, program: &str, plugins: &str) -> Result<()> {
    copy(&tree.join(PROGRAM), &package.join(program))?;
    for provider in super::files(&tree.join(PLUGINS))? {
        copy(&tree.join(PLUGINS).join(&provider), &package.join(plugins).join(&provider))?;
    }
    Ok(())
}

/// Copies the manual pages to their directory below a prefix.
pub(super) fn copy_manual(tree: &Path, prefix: &Path) -> Result<()> {
    let pages = super::files(&tree.join(MANUAL))?;
    pages.iter().try_for_each(|page| copy(&tree.join(MANUAL).join(page), &prefix.join(MANUAL).join(page)))
}

/// Writes the tarball for `/usr/local`. Its unit starts the program there.
pub(super) fn archive(tree: &Path, packaging: &Packaging<'_>) -> Result<()> {
    let step = packaging.progress.step("writing the tarball");
    let name = packaging.version.tarball();
    let top = name.trim_end_matches(".tar.gz");
    let staged = packaging.sources.target().join("tarball");
    recreate(&staged)?;
    cargo::capture(Command::new("cp").args(["--recursive", "--preserve=mode"]).arg(tree).arg(staged.join(top)))?;
    let unit = staged.join(top).join("lib/systemd/system/mcp-host.service");
    let text = fs::read_to_string(&unit).with_context(|| format!("cannot read {}", unit.display()))?;
    let program = |prefix: &str| format!("ExecStart={prefix}{PROGRAM} ");
    ensure!(text.contains(&program(PREFIX)), "the unit does not start {PREFIX}{PROGRAM}");
    write(&unit, text.replace(&program(PREFIX), &program(TARBALL_PREFIX)).as_bytes())?;
    archive::create(&packaging.out.join(&name), &staged, &[top], packaging.version.epoch)?;
    step.done(&format!("wrote {name}"));
    Ok(())
}
