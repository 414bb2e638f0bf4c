//! The fallback without rustup's downloads: Debian's compiler builds the standard library from its sources.
//!
//! The toolchain combines four parts from different sources:
//!
//! | part | source |
//! |---|---|
//! | `rustc` and the library's sources, of the same version | Debian's packages `rustc-web` and `rust-web-src`, installed |
//! | the C library of the target | Debian's package `wasi-libc`, unpacked ([`wasi_libc`]) |
//! | the linkers `wasm-component-ld` and `rust-lld` | rustup's toolchain, which has them for every host |
//! | cargo | rustup's toolchain, with `-Zbuild-std` |
//!
//! A *sysroot overlay* combines the parts: a folder that contains links to Debian's sysroot, and the target's C
//! library. It is made once, in `target/guest-toolchain`. One rename puts it into place, so it is either complete or
//! missing.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};

use super::apt::Release;
use super::{TARGET, apt, rustup, wasi_libc};
use crate::cargo;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The path of Debian's compiler.
const RUSTC: &str = "/usr/bin/rustc";

/// The path of Debian's sysroot.
const RUSTLIB: &str = "/usr/lib/rustlib";

/// The packages with the compiler and with the sources of its standard library.
const PACKAGES: [&str; 2] = ["rustc-web", "rust-web-src"];

/// The linker that makes a component.
const LINKER: &str = "wasm-component-ld";

/// The minimum version of the compiler for the guests, as major and minor version.
const MIN_RUST_VERSION: &str = env!("CARGO_PKG_RUST_VERSION");

/// The toolchain of the fallback.
#[derive(Debug)]
pub(crate) struct Overlay {
    sysroot: PathBuf,
    linker_dir: PathBuf,
}

impl Overlay {
    /// Configures a `cargo build --target wasm32-wasip2` for this toolchain.
    pub(super) fn configure(&self, cargo: &mut Command) -> Result<()> {
        let linkers = [self.linker_dir.clone(), self.linker_dir.join("gcc-ld")];
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths(linkers.into_iter().chain(env::split_paths(&path)))
            .context("a folder of the toolchain has a `:` in its name, which PATH cannot have")?;
        let sysroot = toml_string(&format!("--sysroot={}", self.sysroot.display()));
        cargo
            .arg("-Zbuild-std=std,panic_abort")
            // The flag is in the config, because an environment variable is split at blanks, which a path may contain.
            // Variables with precedence over the config are removed.
            .arg(format!("--config=target.{TARGET}.rustflags=[{sysroot}]"))
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env("RUSTC", RUSTC)
            .env("RUSTC_BOOTSTRAP", "1")
            .env("PATH", path);
        Ok(())
    }
}

/// Returns the toolchain of an earlier run, if it is complete.
pub(super) fn find_installed(workspace: &Workspace) -> Option<Overlay> {
    let sysroot = sysroot(workspace);
    (sysroot.is_dir() && check_compiler().is_ok()).then_some(())?;
    Some(Overlay { sysroot, linker_dir: linker_dir(workspace).ok()? })
}

/// Assembles the toolchain after installing its missing parts.
pub(super) fn ensure(workspace: &Workspace, progress: &Progress) -> Result<Overlay> {
    if let Some(overlay) = find_installed(workspace) {
        return Ok(overlay);
    }
    let linkers = linker_dir(workspace)?;
    let release = Release::current()?;
    if let Err(missing) = check_compiler() {
        progress.print(&format!("the guest toolchain misses Debian's compiler: {missing:#}"));
        apt::install(&PACKAGES, "the compiler for the providers and the sources of its standard library", progress)?;
        check_compiler().with_context(|| format!("{} are installed, but are not enough", PACKAGES.join(" and ")))?;
    }

    let sysroot = sysroot(workspace);
    if !sysroot.is_dir() {
        let mut step = progress.step("unpacking the C library of the target (package wasi-libc, not installed)");
        let scratch = workspace.target().join("guest-toolchain/wasi-libc");
        let library = wasi_libc::unpack(&release, &scratch, &mut step)?;
        build(&library, &sysroot)?;
        fs::remove_dir_all(&scratch).with_context(|| format!("cannot remove {}", scratch.display()))?;
        step.done(&format!("made the sysroot of the target in {}", workspace.display(&sysroot)));
    }
    Ok(Overlay { sysroot, linker_dir: linkers })
}

fn sysroot(workspace: &Workspace) -> PathBuf {
    workspace.target().join("guest-toolchain/sysroot")
}

/// Checks that Debian's compiler and the sources of its library are installed and recent enough.
fn check_compiler() -> Result<()> {
    ensure!(Path::new(RUSTC).is_file(), "there is no {RUSTC}");
    let sources = Path::new(RUSTLIB).join("src/rust/library/std/Cargo.toml");
    ensure!(sources.is_file(), "there is no {}", sources.display());
    let said = cargo::capture(Command::new(RUSTC).arg("--version"))?;
    let found = minor_version(said.split_whitespace().nth(1).unwrap_or_default());
    match (found, minor_version(MIN_RUST_VERSION)) {
        (Some(found), Some(oldest)) if found >= oldest => Ok(()),
        _ => bail!("expected {RUSTC} of version {MIN_RUST_VERSION} or newer, found {}", said.trim()),
    }
}

/// Parses a version such as `1.96.0`, without the patch version.
fn minor_version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Returns the folder of the linkers.
fn linker_dir(workspace: &Workspace) -> Result<PathBuf> {
    let folder = rustup::tool_dir(workspace)?;
    ensure!(
        folder.join(LINKER).is_file(),
        "the linker {LINKER} is not in {}; it comes with rustup's toolchains, so install Rust by rustup",
        folder.display()
    );
    Ok(folder)
}

/// Builds the overlay in a temporary folder, and renames it.
fn build(library: &Path, sysroot: &Path) -> Result<()> {
    let aside = sysroot.with_extension("new");
    if aside.exists() {
        fs::remove_dir_all(&aside)?;
    }
    let rustlib = aside.join("lib/rustlib");
    let own = rustlib.join(TARGET).join("lib/self-contained");
    fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    for entry in fs::read_dir(RUSTLIB).with_context(|| format!("cannot read {RUSTLIB}"))?.flatten() {
        link(&entry.path(), &rustlib.join(entry.file_name()))?;
    }
    for file in fs::read_dir(library)?.flatten() {
        if file.path().is_file() {
            fs::copy(file.path(), own.join(file.file_name()))?;
        }
    }
    fs::rename(&aside, sysroot).with_context(|| format!("cannot put {} into place", sysroot.display()))
}

#[cfg(unix)]
fn link(to: &Path, at: &Path) -> Result<()> {
    std::os::unix::fs::symlink(to, at).with_context(|| format!("cannot link {} to {}", at.display(), to.display()))
}

#[cfg(not(unix))]
fn link(to: &Path, _at: &Path) -> Result<()> {
    bail!("{} is of a Debian system, and this is none", to.display())
}

/// Formats a TOML string: JSON's escapes are a subset of TOML's.
fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(minor_version("1.96.0"), Some((1, 96)));
        assert!(minor_version("1.100.0") > minor_version("1.96"));
        assert_eq!(minor_version("nightly"), None);
    }

    #[test]
    fn a_sysroot_with_blanks_in_its_path_reaches_the_compiler_whole() {
        let overlay = Overlay { sysroot: "/a b/\"c\"".into(), linker_dir: "/rust/bin".into() };
        let mut command = Command::new("cargo");
        overlay.configure(&mut command).unwrap();
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy()).collect();
        assert!(
            arguments.contains(&r#"--config=target.wasm32-wasip2.rustflags=["--sysroot=/a b/\"c\""]"#.into()),
            "{arguments:?}"
        );
    }

    #[test]
    fn the_linkers_come_first_in_the_path() {
        let overlay = Overlay { sysroot: "/sysroot".into(), linker_dir: "/rust/bin".into() };
        let mut command = Command::new("cargo");
        overlay.configure(&mut command).unwrap();
        let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).unwrap();
        let first: Vec<_> = env::split_paths(path).take(2).collect();
        assert_eq!(first, [PathBuf::from("/rust/bin"), "/rust/bin/gcc-ld".into()]);
    }
}
