//! Extensions of MCP: what no revision has, and a server can be told to offer.

use std::fmt;

use super::reader::{FromNode, Node, Schema};

/// An extension of MCP. Off, nothing of it shows on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    /// SEP-2093: `resources/metadata`, the children of one resource, what can be done with each, and contents with all that
    /// is known of them. It never became part of a revision.
    Sep2093,
    /// `resources/directory/read` of SEP-2640, which is about skills. There are no skills.
    Sep2640DirectoryRead,
}

impl Extension {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sep2093, Self::Sep2640DirectoryRead];

    /// Its name in the configuration.
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
