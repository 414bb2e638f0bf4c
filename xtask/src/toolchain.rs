//! The toolchain for guests: a Rust toolchain with the standard library of `wasm32-wasip2`.
//!
//! Most machines need only `rustup target add` ([`rustup`]). If rustup cannot download, Debian's packages are used
//! ([`distribution`]): their compiler builds the standard library from its sources along with the guests. Each run
//! selects a toolchain again, which is cheap after the first time: rustup's toolchain if its target is installed, else
//! the result of an earlier fallback, else it tries to install rustup's and then Debian's. `MCP_HOST_GUEST_TOOLCHAIN`
//! forces one.

pub(crate) mod apt;
mod distribution;
mod rustup;
pub(crate) mod unpack;
pub(crate) mod wasi_libc;

use std::process::Command;
use std::{env, fmt};

use anyhow::{Result, anyhow, bail};

use self::distribution::Overlay;
use crate::progress::Progress;
use crate::workspace::Workspace;

/// The target of guests.
pub(crate) const TARGET: &str = "wasm32-wasip2";

/// Forces one toolchain: `rustup` or `distribution`.
const CHOICE_VARIABLE: &str = "MCP_HOST_GUEST_TOOLCHAIN";

/// A toolchain that can compile guests.
#[derive(Debug)]
pub(crate) enum Toolchain {
    /// Rustup's compiler, and its standard library for the target.
    Rustup,
    /// The distribution's compiler, which also builds the standard library.
    Distribution(Overlay),
}

impl Toolchain {
    /// Configures a `cargo build --target wasm32-wasip2` for this toolchain.
    pub(crate) fn configure(&self, cargo: &mut Command) -> Result<()> {
        match self {
            Self::Rustup => Ok(()),
            Self::Distribution(overlay) => overlay.configure(cargo),
        }
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rustup => "rustup's toolchain",
            Self::Distribution(_) => "the distribution's toolchain",
        })
    }
}

/// Returns a toolchain for guests after installing its missing parts.
///
/// # Errors
///
/// When no toolchain is available. The error has the reason for each toolchain, and the remedy.
pub(crate) fn ensure(workspace: &Workspace, progress: &Progress) -> Result<Toolchain> {
    match Choice::from_environment()? {
        Choice::Rustup => {
            rustup::ensure(workspace, progress)?;
            Ok(Toolchain::Rustup)
        }
        Choice::Distribution => Ok(Toolchain::Distribution(distribution::ensure(workspace, progress)?)),
        Choice::Either => ensure_any(workspace, progress),
    }
}

fn ensure_any(workspace: &Workspace, progress: &Progress) -> Result<Toolchain> {
    if rustup::is_installed(workspace)? {
        return Ok(Toolchain::Rustup);
    }
    if let Some(overlay) = distribution::find_installed(workspace) {
        return Ok(Toolchain::Distribution(overlay));
    }
    let Err(by_rustup) = rustup::ensure(workspace, progress) else { return Ok(Toolchain::Rustup) };
    progress.print(&format!("{by_rustup:#}\nfalling back to the distribution's packages"));
    distribution::ensure(workspace, progress).map(Toolchain::Distribution).map_err(|by_distribution| {
        anyhow!(
            "there is no toolchain to compile the providers for {TARGET} with, and two ways to one failed:\n\n\
             1. rustup: {by_rustup:#}\n\n\
             2. the distribution's packages: {by_distribution:#}\n\n\
             Do either what 2 says, or run `rustup target add {TARGET}` where there is a network; then try again."
        )
    })
}

/// The requested toolchain.
#[derive(Debug, PartialEq, Eq)]
enum Choice {
    Either,
    Rustup,
    Distribution,
}

impl Choice {
    fn from_environment() -> Result<Self> {
        Self::parse(&env::var_os(CHOICE_VARIABLE).unwrap_or_default().to_string_lossy())
    }

    fn parse(value: &str) -> Result<Self> {
        match value {
            "" => Ok(Self::Either),
            "rustup" => Ok(Self::Rustup),
            "distribution" => Ok(Self::Distribution),
            other => {
                bail!("{CHOICE_VARIABLE} expects `rustup` or `distribution`, found `{other}`; unset it to try both")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_toolchain_can_be_forced_and_no_other_word_is_taken() {
        assert_eq!(Choice::parse("").unwrap(), Choice::Either);
        assert_eq!(Choice::parse("rustup").unwrap(), Choice::Rustup);
        assert_eq!(Choice::parse("distribution").unwrap(), Choice::Distribution);
        let error = Choice::parse("debian").unwrap_err().to_string();
        assert!(error.contains("expects `rustup` or `distribution`, found `debian`"), "{error}");
    }
}
