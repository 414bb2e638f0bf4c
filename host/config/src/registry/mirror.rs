//! A mirror: another place for the components of a source.
//!
//! | written | is |
//! |---|---|
//! | `mirror.example.net/acme` | a registry with a repository prefix, which replaces the prefix of the source |
//! | `layout:/media/usb` | a directory with an OCI image layout |
//!
//! A relative directory is relative to the config. A missing directory, such as a disk that is not plugged in, is
//! skipped, like a registry that does not answer.

use std::fmt;
use std::path::{Path, PathBuf};

use super::reference::Repository;
use crate::paths::directory_in_text;
use crate::reader::{FromNode, Node, Schema};

/// The prefix of the directory of a layout.
const LAYOUT: &str = "layout:";

/// Another place for the components of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mirror {
    /// A registry, and the replacement for the source's prefix.
    Registry(Repository),
    /// A directory.
    Layout(Layout),
}

/// A directory with an OCI image layout: `oci-layout`, `index.json` and `blobs/sha256/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout(PathBuf);

impl Layout {
    /// A layout in this directory, which need not exist.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self(directory.into())
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        &self.0
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{LAYOUT}{}", self.0.display())
    }
}

impl FromNode for Mirror {
    const TYPE_NAME: &'static str = "a mirror";

    fn example() -> String {
        "\"mirror.example.net/acme\"".into()
    }

    fn schema() -> Schema {
        Schema::pattern(r"^(layout:.+|[A-Za-z0-9.\[\]:-]*[A-Za-z0-9\]](/[a-z0-9._/-]*)?)$")
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        let written = node.string::<Self>()?;
        if let Some(directory) = written.strip_prefix(LAYOUT) {
            return directory_in_text(node, directory, "layout:/media/usb").map(|path| Self::Layout(Layout(path)));
        }
        match written.parse::<Repository>() {
            Ok(prefix) => Some(Self::Registry(prefix)),
            Err(error) => {
                node.reject(&error);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Environment};

    fn mirrors(list: &str) -> Result<Vec<Mirror>, String> {
        let text = format!(
            "registry.mirrors = {{ 'a.example/b' = [{list}] }}\n[[plugin]]\nname = 'p'\nmount = 'p:///'\ncomponent = 'oci://a.example/b:1'"
        );
        let environment = Environment::empty().keep_references();
        let config = Config::parse_in(&text, Path::new("/etc/mcp-host.toml"), &environment);
        let config = config.map_err(|error| error.to_string())?;
        Ok(config.registry.mirrors.into_values().next().unwrap())
    }

    #[test]
    fn a_directory_is_relative_to_the_config_and_need_not_be_there() {
        let layout = |path: &str| Mirror::Layout(Layout::new(path));
        assert_eq!(mirrors("'layout:/media/usb'"), Ok(vec![layout("/media/usb")]));
        assert_eq!(
            mirrors("'layout:usb', 'c.example/d'"),
            Ok(vec![layout("/etc/usb"), Mirror::Registry("c.example/d".parse().unwrap())])
        );
        assert!(mirrors("'layout:'").unwrap_err().contains("cannot be empty"));
        assert!(mirrors("'https://c.example'").unwrap_err().contains("without a scheme"));
    }
}
