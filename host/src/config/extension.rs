//! Extensions of MCP that are not part of any protocol revision: `extensions` of `[server]`.

use std::fmt;

use super::reader::{FromNode, Node, Schema};

/// An extension of MCP. While it is disabled, nothing of it is visible to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Extension {
    /// SEP-2093: `resources/metadata`, listing the children of one resource, capabilities per resource, and contents
    /// with complete metadata. It did not become part of a revision.
    Sep2093,
    /// `resources/directory/read` of SEP-2640, without its skills.
    Sep2640DirectoryRead,
}

impl Extension {
    /// All extensions.
    pub const ALL: [Self; 2] = [Self::Sep2093, Self::Sep2640DirectoryRead];

    /// Returns its name in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sep2093 => "sep-2093",
            Self::Sep2640DirectoryRead => "sep-2640-directory-read",
        }
    }
}

impl fmt::Display for Extension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromNode for Extension {
    const TYPE_NAME: &'static str = "an extension that this host has";

    fn example() -> String {
        "\"sep-2093\"".into()
    }

    fn schema() -> Schema {
        Schema::one_of_names(Self::ALL.map(Self::name))
    }

    fn from_node(node: &Node<'_>) -> Option<Self> {
        node.one_of(&Self::ALL.map(|extension| (extension.name(), extension)))
    }
}
