//! The descriptions in the packages, and the address of a release, which `repository` of the program's manifest
//! determines.
//!
//! | repository | release | name in the MCP registry |
//! |---|---|---|
//! | `https://github.com/ORG/REPO` | `…/releases/download/vVERSION/FILE` | `io.github.ORG/mcp-host` |
//! | `https://HOST/…` | the same | the parts of HOST, reversed: `org.example/mcp-host` |
//! | none | as for a repository at [`UNDECIDED`] | `example.mcp-host/mcp-host` |

use anyhow::{Context, Result};

use super::programs::PACKAGE;
use crate::cargo;
use crate::workspace::Workspace;

/// The name of the npm and PyPI packages, which is also the name of the crate. The program in them is `mcp-host`.
pub(super) const NAME: &str = "mcp-resource-host";

/// The description of the program, in at most 100 characters.
pub(super) const DESCRIPTION: &str = "Serves Model Context Protocol resources from sandboxed WebAssembly components";

/// The author.
pub(super) const AUTHOR: &str = "The maintainers of mcp-host";

/// Search keywords.
pub(super) const KEYWORDS: [&str; 5] = ["mcp", "model-context-protocol", "resources", "wasm", "webassembly"];

/// An address that does not exist (RFC 2606).
const UNDECIDED: &str = "https://mcp-host.example";

/// The address of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Publication {
    repository: Option<String>,
}

impl Publication {
    /// Reads `repository` from the manifest of the program.
    pub(super) fn of(sources: &Workspace) -> Result<Self> {
        let metadata = cargo::metadata(sources.cargo(sources.root()))?;
        let package = metadata.packages.iter().find(|package| package.name.as_str() == PACKAGE);
        let repository = package.with_context(|| format!("no package {PACKAGE}"))?.repository.clone();
        Ok(Self { repository })
    }

    /// Returns the address of the repository, if the manifest has one.
    pub(super) fn repository(&self) -> Option<&str> {
        self.repository.as_deref().map(|repository| repository.trim_end_matches('/'))
    }

    /// Returns the address of the project.
    pub(super) fn homepage(&self) -> &str {
        self.repository().unwrap_or(UNDECIDED)
    }

    /// Returns the address of a file of a release.
    pub(super) fn file(&self, version: &str, name: &str) -> String {
        format!("{}/releases/download/v{version}/{name}", self.homepage())
    }

    /// Returns the GitHub organization of the repository.
    pub(super) fn github_organization(&self) -> Option<&str> {
        self.repository()?.strip_prefix("https://github.com/")?.split('/').next()
    }

    /// Returns the name in the MCP registry.
    pub(super) fn server_name(&self) -> String {
        match self.github_organization() {
            Some(organization) => format!("io.github.{organization}/mcp-host"),
            None => {
                let address = self.homepage();
                let host = address.split_once("://").map_or(address, |(_, host)| host);
                let mut parts: Vec<_> = host.split(['/', ':']).next().unwrap_or(host).split('.').collect();
                parts.reverse();
                format!("{}/mcp-host", parts.join("."))
            }
        }
    }

    /// Returns the name of the image in GitHub's registry.
    pub(super) fn image(&self, version: &str) -> Option<String> {
        Some(format!("ghcr.io/{}/mcp-host:{version}", self.github_organization()?.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(repository: Option<&str>) -> Publication {
        Publication { repository: repository.map(str::to_owned) }
    }

    #[test]
    fn a_repository_at_github_names_release_registry_and_image() {
        let publication = at(Some("https://github.com/Ada/mcp-host/"));
        let file = publication.file("1.2.3", "a.rpm");
        assert_eq!(file, "https://github.com/Ada/mcp-host/releases/download/v1.2.3/a.rpm");
        assert_eq!(publication.server_name(), "io.github.Ada/mcp-host");
        assert_eq!(publication.image("1.2.3").unwrap(), "ghcr.io/ada/mcp-host:1.2.3");
    }

    #[test]
    fn another_host_is_reversed() {
        assert_eq!(at(Some("https://git.example.org:8443/ada/x")).server_name(), "org.example.git/mcp-host");
        assert_eq!(at(Some("https://git.example.org/ada/x")).image("1.2.3"), None);
    }

    #[test]
    fn what_is_undecided_leads_nowhere() {
        assert_eq!(at(None).server_name(), "example.mcp-host/mcp-host");
        assert!(at(None).file("1.2.3", "a.rpm").starts_with("https://mcp-host.example/"));
    }
}
