//! The platforms of a release. A run of `cargo xtask dist` makes the packages of one platform; packages that select
//! among platforms name all.

use anyhow::{Context, Result};

/// A platform, with its names for the compiler and for npm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Platform {
    /// The target of the compiler.
    pub(super) target: &'static str,
    /// npm's `os`.
    pub(super) os: &'static str,
    /// npm's `cpu`.
    pub(super) cpu: &'static str,
}

/// All platforms.
pub(super) const PLATFORMS: [Platform; 4] = [
    Platform { target: "x86_64-unknown-linux-gnu", os: "linux", cpu: "x64" },
    Platform { target: "aarch64-unknown-linux-gnu", os: "linux", cpu: "arm64" },
    Platform { target: "x86_64-apple-darwin", os: "darwin", cpu: "x64" },
    Platform { target: "aarch64-apple-darwin", os: "darwin", cpu: "arm64" },
];

impl Platform {
    /// Returns the platform of a target.
    pub(super) fn of(target: &str) -> Result<Self> {
        let found = PLATFORMS.into_iter().find(|platform| platform.target == target);
        found.with_context(|| {
            let targets: Vec<_> = PLATFORMS.iter().map(|platform| platform.target).collect();
            format!("there are no packages for {target}, only for {}", targets.join(", "))
        })
    }

    /// Returns the name in Node.js's form, such as `linux-x64`.
    pub(super) fn name(&self) -> String {
        format!("{}-{}", self.os, self.cpu)
    }

    /// Returns whether the platform's programs need glibc.
    pub(super) fn has_glibc(&self) -> bool {
        self.target.ends_with("-gnu")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_platform_is_named_as_node_names_it() {
        assert_eq!(Platform::of("x86_64-unknown-linux-gnu").unwrap().name(), "linux-x64");
        assert_eq!(Platform::of("aarch64-apple-darwin").unwrap().name(), "darwin-arm64");
        let error = Platform::of("riscv64gc-unknown-linux-gnu").unwrap_err().to_string();
        assert!(error.contains("only for x86_64-unknown-linux-gnu, "), "{error}");
    }
}
